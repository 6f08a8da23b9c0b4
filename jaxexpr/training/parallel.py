"""Many networks at once: in one operation, or one after the other, on all devices.

On accelerators one operation for all networks is fastest. On CPU it is a loop over networks, in a
thread for each core: one network's state stays in that core's cache, small products have no
threads to wait for, and convolutions with own kernels for each network, which are slow there,
are not needed (``benchmarks/training.py``).
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
    """Return how networks are trained side by side, checked."""
    if batching is not None:
        return checks.one_of("batching", batching, BATCHINGS)
    return "map" if jax.default_backend() == "cpu" else "vmap"


class Advance:
    """Steps of all networks, in shares that stay apart between the calls.

    The networks are split over the devices where their number can be divided by that of the
    devices; on one CPU, a loop over them is split over its cores.
    """

    def __init__(self, plan: StepSpec, held: PerNetwork, batching: str) -> None:
        self.count = len(held.train_layer)
        devices = tuple(jax.local_devices())
        if self.count % len(devices):
            devices = devices[:1]
        self._advance = _advancing(plan, batching, devices)
        looped = len(devices) == 1 and batching == "map" and devices[0].platform == "cpu"
        self._threads = threads.cores() if looped else 1
        self._held = threads.shares(held, self._threads)

    def apart(self, state: State) -> list[State]:
        """Return the shares of a state of all networks."""
        return threads.shares(state, self._threads)

    def joined(self, states: list[State]) -> State:
        """Return the state of all networks."""
        state: State = threads.joined(states, self.count)
        return state

    def __call__(self, states: list[State], *told: Any) -> list[State]:
        """Do steps; `told` are images, labels, number of the epoch, first and last step."""
        both = list(zip(self._held, states, strict=True))
        return threads.each_on_a_core(lambda own: self._advance(*own, *told), both)


@functools.lru_cache(maxsize=16)
def _advancing(plan: StepSpec, batching: str, devices: tuple[Any, ...]) -> Callable[..., State]:
    def advance(
        held: PerNetwork,
        state: State,
        images: jax.Array,
        labels: jax.Array,
        number: jax.Array,
        first: jax.Array,
        last: jax.Array,
    ) -> State:
        def one(held: PerNetwork, state: State) -> State:
            return epoch(plan, held, state, images, labels, number, first, last)

        if batching == "vmap":
            return jax.vmap(one)(held, state)
        return lax.map(lambda own: one(*own), (held, state))

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
    plan: StepSpec, held: PerNetwork, params: nnx.State, rest: nnx.State, images: jax.Array
) -> nnx.State:
    """Return `rest` of all networks as ``calibrated`` gives it; one network after the other."""

    def one(network: tuple[PerNetwork, nnx.State, nnx.State]) -> nnx.State:
        own, params, rest = network
        return calibrated(plan, own, params, rest, images)

    return lax.map(one, (held, params, rest))


def accuracies(
    graph: nnx.GraphDef,
    values: tuple[nnx.State, nnx.State],
    images: ArrayLike,
    labels: ArrayLike,
    change: Callable[..., Params] | None = None,
    numbers: tuple[Any, ...] = (),
    own: tuple[Any, ...] = (),
) -> jax.Array:
    """Share of examples that each network gets right, ``(E,)``; one network after the other.

    change : ``change(params, *numbers, *own)`` of the hidden layers, before; `own` lead with E.
    """
    kind = jax.tree.leaves(values[0])[0].dtype
    shown = jnp.asarray(images, kind), jnp.asarray(labels)
    return _accuracies(graph, values, *shown, change, numbers, own)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _accuracies(
    graph: nnx.GraphDef,
    values: tuple[nnx.State, nnx.State],
    images: jax.Array,
    labels: jax.Array,
    change: Callable[..., Params] | None,
    numbers: tuple[Any, ...],
    own: tuple[Any, ...],
) -> jax.Array:
    def one(network: tuple[tuple[nnx.State, nnx.State], tuple[Any, ...]]) -> jax.Array:
        (params, rest), given = network
        if change is not None:
            params = with_hidden(params, change(hidden(params), *numbers, *given))
        return tested(graph, params, rest, images, labels)

    return lax.map(one, (values, own))
