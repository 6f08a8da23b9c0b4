"""Networks during training, and trained networks with their history."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from flax import nnx
from numpy.typing import ArrayLike

from jaxexpr._core.calls import elsewhere
from jaxexpr._core.spellings import ATTRIBUTES
from jaxexpr._core.x64 import precision
from jaxexpr.networks import Network
from jaxexpr.params import Params
from jaxexpr.training import parallel
from jaxexpr.training.examples import as_examples
from jaxexpr.training.models import Classifier, hidden

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """Networks at one step of their training: the argument of a tracker.

    Attributes
    ----------
    net : random network that they were drawn from.
    step, epoch : training steps and epochs done.
    count : number of networks E: those of all sweep cells, one cell after the other.
    graph, values : graph and state of their Flax models, for ``nnx.merge``; every array has a
        leading axis E.
    """

    net: Network
    step: int
    epoch: float
    count: int
    graph: nnx.GraphDef
    values: tuple[nnx.State, nnx.State]

    def __repr__(self) -> str:
        return f"Snapshot(step={self.step}, epoch={self.epoch:g}, {self.count} of {self.net})"

    @property
    def params(self) -> Params:
        """``(W, b)`` of each hidden layer with weights, JAX arrays with a leading axis E."""
        return hidden(self.values[0])

    def network(self, index: int) -> Params:
        """``(W, b)`` of each hidden layer of one network, NumPy float64: for exact counts.

        Normalisation between the layers is not included, see ``model``.
        """
        return jax.tree.map(lambda x: x[index], self.networks)

    @functools.cached_property
    def networks(self) -> Params:
        """``(W, b)`` of each hidden layer of all networks, NumPy float64, leading axis E.

        Normalisation between the layers is not included.
        """
        return jax.tree.map(lambda x: np.asarray(x, np.float64), self.params)

    def model(self, index: int) -> Classifier:
        """The Flax model of one network, for inference."""
        state = jax.tree.map(lambda x: x[index], self.values)
        model: Classifier = nnx.merge(self.graph, *state, copy=True)
        model.eval()
        return model


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Trained networks, and their history.

    Arrays over networks have shape ``sweep + (networks,)``.

    Attributes
    ----------
    net : random network that they were drawn from.
    shape : ``sweep + (networks,)``.
    steps, epochs : step and epoch of each record, ``(records,)``; the first is before training.
    history : name to ``(records, *shape, ...)``, NumPy: ``loss`` and ``train_accuracy`` (means over
        the examples seen since the previous record, with the labels used in training; NaN at the
        first), ``test_accuracy``, and the values of the trackers.
    seconds : time of ``first_step``, the first call after each start, which compiles; of all other
        ``training``; of ``first_look``, the record before training, which compiles tests and
        trackers; of ``testing`` and ``tracking`` at all other records.
    last : the networks at the end of training, or at the step of an interruption, ``last.step``.
    """

    net: Network
    shape: tuple[int, ...]
    steps: np.ndarray
    epochs: np.ndarray
    history: dict[str, np.ndarray]
    seconds: dict[str, float]
    last: Snapshot

    def __repr__(self) -> str:
        ends = [
            f"{name} {np.nanmean(values[-1]):.4g}"
            for name, values in self.history.items()
            if name in ("loss", "train_accuracy", "test_accuracy")
        ]
        others = [name for name in self.history if not name.endswith(("loss", "_accuracy"))]
        recorded = f"; also recorded: {', '.join(others)}" if others else ""
        return (
            f"Fit: networks {self.shape} of {self.net}, {int(self.steps[-1])} steps, "
            f"{len(self.steps)} records\n  at the end {', '.join(ends)}{recorded}"
        )

    def params(self, *index: int) -> Params:
        """``(W, b)`` of each hidden layer of one trained network, NumPy in its precision.

        Normalisation between the layers is not included, see ``model``.
        ``fit.params(0)``, or ``fit.params(2, 0)`` for the first network of a sweep's third cell.
        """
        return jax.tree.map(lambda x: np.asarray(x[self._flat(index)]), self.last.params)

    def model(self, *index: int) -> Classifier:
        """The Flax model of one trained network, for inference."""
        return self.last.model(self._flat(index))

    def accuracy(
        self,
        examples: tuple[ArrayLike, ArrayLike],
        *,
        change: Callable[..., Params] | None = None,
        args: ArrayLike | tuple[Any, ...] = (),
        per_network_args: ArrayLike | tuple[ArrayLike, ...] = (),
    ) -> np.ndarray:
        """Share of `examples` that each trained network classifies as their labels say.

        Parameters
        ----------
        examples : ``(images, labels)``.
        change : a pure function of one network's hidden ``(W, b)``, applied before the test, such
            as noise on a layer or pruning.
        args : a number or a tuple of them, passed to `change` after the layers; other values do not
            cause a recompilation.
        per_network_args : an array ``sweep + (networks,) + (...)`` or a tuple of them: the entry of
            each network is passed after `args`. A seed, for example.

        Returns
        -------
        ``sweep + (networks,)``.

        Raises
        ------
        ValueError
            if `examples` do not fit the network, or an array in `per_network_args` has another
            leading shape.
        """
        checked = as_examples("examples", examples, self.net)
        args = args if isinstance(args, tuple) else (args,)
        network_args = [
            np.asarray(x)
            for x in (
                per_network_args if isinstance(per_network_args, tuple) else (per_network_args,)
            )
        ]
        for i, array in enumerate(network_args):
            if array.shape[: len(self.shape)] != self.shape:
                raise ValueError(
                    f"per_network_args[{i}] has shape {array.shape} and networks have "
                    f"{self.shape}: give an entry for each network"
                )
        flat = tuple(x.reshape(-1, *x.shape[len(self.shape) :]) for x in network_args)
        with precision(self.net.dtype):
            shares = parallel.accuracies(
                self.last.graph,
                self.last.values,
                checked.images,
                checked.labels,
                change,
                args,
                flat,
            )
        return np.asarray(shares).reshape(self.shape)

    def dataset(
        self, dims: Sequence[str] = (), coords: Mapping[str, Any] | None = None
    ) -> xr.Dataset:
        """Label the history: an xarray dataset, for ``jaxexpr.results``.

        Parameters
        ----------
        dims : names of the sweep axes, in order.
        coords : values along them.

        Returns
        -------
        Each item of the history with dimensions ``("record", *dims, "network", ...)``; an axis that
        a tracker adds is called ``NAME_0``, ``NAME_1``. Coordinates ``step`` and ``epoch``.

        Raises
        ------
        ValueError
            if `dims` does not name every sweep axis.
        """
        import xarray as xr

        if len(dims) != len(self.shape) - 1:
            raise ValueError(
                f"dims={tuple(dims)} names {len(dims)} sweep axes and there are "
                f"{len(self.shape) - 1}: name each axis of the sweep"
            )
        axes = ("record", *dims, "network")
        variables = {
            name: ((*axes, *(f"{name}_{i}" for i in range(values.ndim - len(axes)))), values)
            for name, values in self.history.items()
        }
        record_coords = {"step": ("record", self.steps), "epoch": ("record", self.epochs)}
        return xr.Dataset(variables, {**(coords or {}), **record_coords})

    if not TYPE_CHECKING:
        __getattr__ = elsewhere("Fit", ATTRIBUTES["Fit"])

    def _flat(self, index: tuple[int, ...]) -> int:
        if len(index) != len(self.shape):
            raise ValueError(
                f"index={index} and networks have shape {self.shape}: give a number for each axis"
            )
        try:
            return int(np.ravel_multi_index(index, self.shape))
        except ValueError:
            raise ValueError(f"index={index} is outside the shape {self.shape}") from None
