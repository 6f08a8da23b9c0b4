"""Tasks: what the runner measures in each of many networks."""

from __future__ import annotations

import abc
import types
from collections.abc import Mapping
from typing import Any, Self

import jax
import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.shapes import Array, Key
from jaxexpr.measurement.observe import Observation, Observed
from jaxexpr.networks import Network


class Task(abc.ABC):
    """What to measure in each of many random networks; ``run_task`` runs it.

    Subclass it as a frozen dataclass and write ``observe``. Its fields are static in
    compiled code, so they must be hashable; arrays are given to ``run_task`` as `data`. The
    other methods have defaults that suit most tasks.

    Examples
    --------
    The share of units that are dead on a set of points, layer by layer:

    >>> import dataclasses
    >>> import jax.numpy as jnp
    >>> import jaxexpr
    >>> @dataclasses.dataclass(frozen=True)
    ... class DeadUnits(jaxexpr.Task):
    ...     def observe(self, net, key, data):
    ...         z, shares = data, []
    ...         for weights, biases in net.init(key):
    ...             z = net.activation(z @ weights + biases[None])
    ...             shares.append(jnp.mean((z == 0).all(axis=0), dtype=z.dtype))
    ...         return {"dead": jnp.stack(shares)}
    >>> net = jaxexpr.MLP((2, 16, 16), jaxexpr.laws.Gaussian(1.5), jaxexpr.laws.Zero())
    >>> points = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> run = jaxexpr.run_task(DeadUnits(), net, points, key=jax.random.key(0), draws=400)
    >>> bool(abs(run["dead"].mean[0] - 0.25) < 4 * run["dead"].sem[0])  # two random signs
    True
    """

    @abc.abstractmethod
    def observe(self, net: Any, key: Key[Array, ""], data: Any) -> Mapping[str, Any] | Observed:
        """Draw one network from its key and measure it: a pure function that JAX can trace.

        Parameters
        ----------
        net : the network of one cell of a sweep: its laws hold scalars.
        key : key of this network, ``fold_in(key, number)``; ``net.init(key)`` draws the network.
        data : as given to ``run_task``.

        Returns
        -------
        ``{name: array}``, real numbers of any shape; mean and error are computed entry by entry.
        Printed results call the last axis layers. NaN marks a number that this network does not
        have (``n`` counts the others), an infinite one a failure. To return more than values, use
        ``Observation`` and ``Observed``.
        """

    def shapes(self, net: Network, data: Any) -> dict[str, tuple[int, ...]]:
        """Shape of every number of one network; by default from tracing ``observe``."""
        cell = jax.tree.map(lambda leaf: np.zeros((), net.dtype), net)
        shapes: dict[str, tuple[int, ...]] = {}  # in the task's order, while JAX sorts names

        def trace(*arguments: Any) -> None:
            numbers = observations(self.observe(*arguments)).numbers
            shapes.update(
                (name, observation.number.value.shape) for name, observation in numbers.items()
            )

        jax.eval_shape(trace, cell, jax.random.key(0), data)
        return shapes

    def method_of(self, name: str) -> tuple[str, int]:
        """Method and number of points, as the ``Estimate`` of this name shows them."""
        return type(self).__name__, 0

    def bytes(self, net: Network, data: Any) -> float:
        """Memory of one network in one cell of a sweep; by default three times its parameters."""
        params = jax.tree.leaves(jax.eval_shape(net.init, jax.random.key(0)))
        cells = max(int(np.prod(net.sweep_shape)), 1)
        outputs = sum(int(np.prod(shape)) for shape in self.shapes(net, data).values())
        size = np.dtype(net.dtype).itemsize
        return float(size * (3 * sum(p.size for p in params) / cells + outputs))

    @property
    def fingerprint_parts(self) -> object:
        """All that determines the task's numbers, for the fingerprint: its fields and its code."""
        classes = type(self).__mro__[: type(self).__mro__.index(Task)]
        code = [f for c in classes for f in vars(c).values() if isinstance(f, types.FunctionType)]
        return self, code

    @property
    def exact(self) -> bool:
        """Whether the task uses the exact method; on CPU its batches have one network."""
        return False

    def refined(self) -> Self | None:
        """The task with twice the points; ``None`` if it has no discretisation error."""
        return None

    def fit_memory(self, net: Network, budget: float) -> Self:
        """The task with smaller arrays if one network would not fit into `budget` bytes."""
        return self

    def with_more_capacity(self, required: Any, net: Network, budget: float) -> Self | None:
        """The task with larger arrays; ``None`` if the arrays were large enough.

        required : array sizes that the networks of one call require, along the first axis.
        """
        return None


def observations(observed: Mapping[str, Any] | Observed) -> Observed:
    """Convert what ``Task.observe`` returned, so that every number is an ``Observation``.

    Raises
    ------
    ValueError
        if it is not a non-empty mapping from strings to real numbers or arrays.
    """
    if isinstance(observed, Observed):
        return observed
    if not isinstance(observed, Mapping) or not observed:
        raise ValueError(f"observe returns {checks.shown(observed)}: return {{name: array}}")
    for name, value in observed.items():
        if not isinstance(name, str):
            raise ValueError(f"observe returns the name {checks.shown(name)}: give a text")
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if not isinstance(value, Observation | int | float) and kind not in tuple("biufV"):
            raise ValueError(
                f"observe returns {name}={checks.shown(value)}: give a real number, or an array of "
                "them"
            )
    return Observed(
        {
            name: value if isinstance(value, Observation) else Observation.of(value)
            for name, value in observed.items()
        }
    )
