"""Many networks at once: batched in each operation, or one after the other, on all devices.

On accelerators one operation for all networks is fastest. On CPU it is a loop over networks, in a
thread for each core: one network's state stays in that core's cache, small products need no thread
synchronisation, and batched convolutions, which are slow there, are avoided
(``benchmarks/training.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import AxisType, PartitionSpec
from jax.typing import ArrayLike

from jaxexpr._core import checks, threads
from jaxexpr.params import Params
from jaxexpr.training.models import hidden, with_hidden
from jaxexpr.training.steps import PerNetwork, State, StepSpec, calibrated, epoch, tested

BATCHINGS = ("vmap", "map")


def chosen_batching(batching: str | None) -> str:
    """Return the checked way of batching networks; the default depends on the backend."""
    if batching is not None:
        return checks.one_of("batching", batching, BATCHINGS)
    return "map" if jax.default_backend() == "cpu" else "vmap"


class Advance:
    """Training steps of all networks, whose states stay split between the calls.

    The networks are split over the devices if their number is divisible by that of the devices; on
    one CPU, a loop over them is split over its cores.
    """

    def __init__(self, spec: StepSpec, per_network: PerNetwork, batching: str) -> None:
        self.count = len(per_network.train_layer)
        devices = tuple(jax.local_devices())
        if self.count % len(devices):
            devices = devices[:1]
        self._advance = _advancing(spec, batching, devices)
        looped = len(devices) == 1 and batching == "map" and devices[0].platform == "cpu"
        self._threads = threads.cores() if looped else 1
        self._per_network = threads.shares(per_network, self._threads)

    def apart(self, state: State) -> list[State]:
        """Split the state of all networks into shares."""
        return threads.shares(state, self._threads)

    def joined(self, states: list[State]) -> State:
        """Join the shares to the state of all networks."""
        state: State = threads.joined(states, self.count)
        return state

    def __call__(self, states: list[State], *arguments: Any) -> list[State]:
        """Do steps; `arguments` are images, labels, index of the epoch, first and last step."""
        pairs = list(zip(self._per_network, states, strict=True))
        return threads.each_on_a_core(lambda pair: self._advance(*pair, *arguments), pairs)


@functools.lru_cache(maxsize=16)
def _advancing(spec: StepSpec, batching: str, devices: tuple[Any, ...]) -> Callable[..., State]:
    def advance(
        per_network: PerNetwork,
        state: State,
        images: jax.Array,
        labels: jax.Array,
        number: jax.Array,
        first: jax.Array,
        last: jax.Array,
    ) -> State:
        def one(per_network: PerNetwork, state: State) -> State:
            return epoch(spec, per_network, state, images, labels, number, first, last)

        if batching == "vmap":
            return jax.vmap(one)(per_network, state)
        return lax.map(lambda pair: one(*pair), (per_network, state))

    if len(devices) == 1:
        return jax.jit(advance)
    mesh = jax.make_mesh((len(devices),), ("nets",), axis_types=(AxisType.Auto,), devices=devices)
    split, whole = PartitionSpec("nets"), PartitionSpec()
    shared = jax.shard_map(
        advance,
        mesh=mesh,
        in_specs=(split, split, whole, whole, whole, whole, whole),
        out_specs=split,
        check_vma=False,
    )
    return jax.jit(shared)


@functools.partial(jax.jit, static_argnums=0)
def calibrations(
    spec: StepSpec, per_network: PerNetwork, params: nnx.State, rest: nnx.State, images: jax.Array
) -> nnx.State:
    """Apply ``calibrated`` to all networks, one after the other; returns their `rest`."""

    def one(network: tuple[PerNetwork, nnx.State, nnx.State]) -> nnx.State:
        constants, params, rest = network
        return calibrated(spec, constants, params, rest, images)

    return lax.map(one, (per_network, params, rest))


def accuracies(
    graph: nnx.GraphDef,
    values: tuple[nnx.State, nnx.State],
    images: ArrayLike,
    labels: ArrayLike,
    change: Callable[..., Params] | None = None,
    shared: tuple[Any, ...] = (),
    per_network: tuple[Any, ...] = (),
) -> jax.Array:
    """Accuracy of each network on the examples, ``(E,)``; one network after the other.

    change : ``change(params, *shared, *per_network)``, applied to the hidden layers before; arrays
        in `per_network` have a leading axis E.
    """
    dtype = jax.tree.leaves(values[0])[0].dtype
    examples = jnp.asarray(images, dtype), jnp.asarray(labels)
    return _accuracies(graph, values, *examples, change, shared, per_network)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _accuracies(
    graph: nnx.GraphDef,
    values: tuple[nnx.State, nnx.State],
    images: jax.Array,
    labels: jax.Array,
    change: Callable[..., Params] | None,
    shared: tuple[Any, ...],
    per_network: tuple[Any, ...],
) -> jax.Array:
    def one(network: tuple[tuple[nnx.State, nnx.State], tuple[Any, ...]]) -> jax.Array:
        (params, rest), arguments = network
        if change is not None:
            params = with_hidden(params, change(hidden(params), *shared, *arguments))
        return tested(graph, params, rest, images, labels)

    return lax.map(one, (values, per_network))
