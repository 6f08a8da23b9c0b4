"""Networks at a moment of their training, and at its end with their history."""

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
from jaxexpr._core.precision import precision
from jaxexpr._core.spellings import ATTRIBUTES
from jaxexpr.networks import Network
from jaxexpr.params import Params
from jaxexpr.training import parallel
from jaxexpr.training.examples import as_examples
from jaxexpr.training.models import Classifier, hidden

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """Networks at one moment of their training: what a tracker is given.

    Attributes
    ----------
    net : what they were drawn from.
    step, epoch : how far they are.
    count : number of networks E: all of the sweep, one cell after the other.
    graph, values : of their Flax models, for ``nnx.merge``; every array has a leading axis E.
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

        Layers alone: with a normalisation the network is more than they, see ``model``.
        """
        return jax.tree.map(lambda x: x[index], self.networks)

    @functools.cached_property
    def networks(self) -> Params:
        """``(W, b)`` of each hidden layer of all networks, NumPy float64, leading axis E.

        Layers alone, as in ``network``.
        """
        return jax.tree.map(lambda x: np.asarray(x, np.float64), self.params)

    def model(self, index: int) -> Classifier:
        """The Flax model of one network, for inference."""
        own = jax.tree.map(lambda x: x[index], self.values)
        model: Classifier = nnx.merge(self.graph, *own, copy=True)
        model.eval()
        return model


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Trained networks, and their history.

    Arrays over networks have shape ``sweep + (networks,)``.

    Attributes
    ----------
    net : what they were drawn from.
    shape : ``sweep + (networks,)``.
    steps, epochs : of the records, ``(records,)``; the first is before training.
    history : name to ``(records, *shape, ...)``, NumPy: ``loss`` and ``train_accuracy`` (means over
        the examples seen since the record before, on the labels that the network was given; NaN at
        the first), ``test_accuracy``, and what the trackers found.
    seconds : spent on ``first_step`` of each start, which compiles; on all other ``training``; on
        ``first_look``, the record before it, which compiles what tests and trackers run; on
        ``testing`` and ``tracking`` at all other records.
    last : the networks at the end; of a run that was interrupted, as they were then: ``last.step``.
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
            f"{name} {np.nanmean(found[-1]):.4g}"
            for name, found in self.history.items()
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

        Layers alone: with a normalisation the network is more than they, see ``model``.
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
        change : a pure function of one network's hidden ``(W, b)``, applied before: noise on a
            layer, pruning.
        args : a number or a tuple of them, passed on to `change` after the layers; other ones
            compile nothing anew.
        per_network_args : an array ``sweep + (networks,) + (...)`` or a tuple of them: each
            network's own entry is passed on after `args`. A seed, for example.

        Returns
        -------
        ``sweep + (networks,)``.
        """
        found = as_examples("examples", examples, self.net)
        args = args if isinstance(args, tuple) else (args,)
        each = [
            np.asarray(x)
            for x in (
                per_network_args if isinstance(per_network_args, tuple) else (per_network_args,)
            )
        ]
        for i, array in enumerate(each):
            if array.shape[: len(self.shape)] != self.shape:
                raise ValueError(
                    f"per_network_args[{i}] has shape {array.shape} and networks have "
                    f"{self.shape}: give an entry for each network"
                )
        flat = tuple(x.reshape(-1, *x.shape[len(self.shape) :]) for x in each)
        with precision(self.net.dtype):
            shares = parallel.accuracies(
                self.last.graph, self.last.values, found.images, found.labels, change, args, flat
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
            name: ((*axes, *(f"{name}_{i}" for i in range(found.ndim - len(axes)))), found)
            for name, found in self.history.items()
        }
        places = {"step": ("record", self.steps), "epoch": ("record", self.epochs)}
        return xr.Dataset(variables, {**(coords or {}), **places})

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
