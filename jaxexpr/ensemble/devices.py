"""Many networks at a time: how many side by side, on which devices, how many a call.

One compiled function computes any number of networks into a buffer of fixed size. Nothing here
changes a number beyond rounding.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec

from jaxexpr._core import checks
from jaxexpr._core.shapes import Array, Int, Key, UInt32
from jaxexpr._core.sweeps import over_sweep
from jaxexpr._core.transforms import spread
from jaxexpr.ensemble.tasks import Task, observations
from jaxexpr.measurement.observe import Observed
from jaxexpr.networks import Network

Made = TypeVar("Made")

_BUFFER_BYTES = 2**24
_CPU_BATCH_BYTES = 2**22
_MOST_NETWORKS = 8192
_STEP_SECONDS = 1.0
_KNOWN_SECONDS = 5.0  # of work, compilation left out, after which the pace is known


def default_memory() -> float:
    """Bytes for what is in flight: 1 GiB on CPU, half the device's memory elsewhere."""
    device = jax.local_devices()[0]
    stats = None if device.platform == "cpu" else device.memory_stats()
    return 0.5 * stats["bytes_limit"] if stats else 2.0**30


def layout(
    net: Network, data: object, task: Task, budget: float, batch: int | None
) -> tuple[int, int, int]:
    """Sweep axes to loop over, networks side by side, and networks a buffer holds."""
    one_cell = task.bytes(net, data)
    shape, loops = net.sweep_shape, 0
    while loops < len(shape) and one_cell * np.prod(shape[loops:]) > budget:
        loops += 1
    in_flight = one_cell * float(np.prod(shape[loops:]))
    if batch is None:
        # On CPU a batched product is slower than a plain one, and a loop over small networks is
        # slower than a batch: together they fit the caches (measured at widths 8 to 784). Exact
        # pieces are sought and sorted, which a batch makes slower at all sizes.
        cpu = jax.default_backend() == "cpu"
        most = min(budget, 0 if task.exact else _CPU_BATCH_BYTES) if cpu else budget
        batch = int(np.clip(most // in_flight, 1, 64 if cpu else 1024))
    batch = checks.integer("batch", batch)
    numbers = sum(int(np.prod(own)) for own in task.shapes(net, data).values())
    kept = 12 * max(numbers, 1) * int(np.prod(shape))
    buffer = int(np.clip(_BUFFER_BYTES // kept, 1, _MOST_NETWORKS))
    return loops, batch, max(buffer // batch, 1) * batch


@functools.partial(jax.jit, static_argnames=("task", "shape"))
def _many_networks(
    net: Network,
    data: object,
    key: Key[Array, ""],
    first: UInt32[Array, ""],
    count: Int[Array, ""],
    *,
    task: Task,
    shape: tuple[int, int, int],
) -> Observed:
    """Numbers of the networks ``first, ..., first + count - 1`` at the head of a fixed buffer.

    The count is traced, so chunks of any size are one compilation.
    """
    loops, batch, capacity = shape

    def one(index: UInt32[Array, ""]) -> Observed:
        own = jax.random.fold_in(key, index)

        def observe(net: Network) -> Observed:
            return observations(task.observe(net, own, data))

        return over_sweep(observe, loops=loops)(net)

    def together(index: UInt32[Array, ""]) -> Observed:
        numbers = index + jnp.arange(batch, dtype=jnp.uint32)
        if batch == 1:
            return jax.tree.map(lambda x: x[None], one(index))
        return jax.vmap(one)(numbers)

    like = jax.eval_shape(together, jnp.zeros((), jnp.uint32))
    empty = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), like)

    def body(state: tuple[Int[Array, ""], Observed]) -> tuple[Int[Array, ""], Observed]:
        done, buffer = state
        out = together(first + done.astype(jnp.uint32))
        put = functools.partial(lax.dynamic_update_slice_in_dim, start_index=done, axis=0)
        return spread((done + batch, jax.tree.map(put, buffer, out)), state)

    nothing = spread((jnp.zeros((), jnp.int32), empty), net, data, first, count)
    return lax.while_loop(lambda s: s[0] < count, body, nothing)[1]


@functools.lru_cache(maxsize=32)
def _on_all(
    devices: tuple[Any, ...], task: Task, shape: tuple[int, int, int]
) -> Callable[..., Observed]:
    """Return ``_many_networks`` split over devices: one range of numbers for each."""
    mesh = jax.make_mesh((len(devices),), ("nets",), axis_types=(AxisType.Auto,), devices=devices)
    split, whole = PartitionSpec("nets"), PartitionSpec()

    def share(
        net: Network,
        data: object,
        key: Key[Array, ""],
        first: UInt32[Array, "1"],
        count: Int[Array, "1"],
    ) -> Observed:
        return _many_networks(net, data, key, first[0], count[0], task=task, shape=shape)

    return jax.jit(
        jax.shard_map(
            share, mesh=mesh, in_specs=(whole, whole, whole, split, split), out_specs=split
        )
    )


def stepper(
    net: Network, data: object, key: Key[Array, ""], task: Task, shape: tuple[int, int, int]
) -> Callable[[int, int], Observed]:
    """Return ``step(first, count)``: the numbers of these networks, as NumPy arrays."""
    net = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), net.dtype), net)
    data = jax.tree.map(jnp.asarray, data)
    devices = jax.local_devices()
    many = functools.partial(_many_networks, task=task, shape=shape)
    capacity = shape[2]

    if len(devices) == 1:

        def step(first: int, count: int) -> Observed:
            out = jax.device_get(many(net, data, key, np.uint32(first), np.int32(count)))
            return jax.tree.map(lambda x: x[:count], out)

        return step

    sharded = _on_all(tuple(devices), task, shape)

    def step_on_all(first: int, count: int) -> Observed:
        each = -(-count // len(devices))
        starts = np.arange(len(devices)) * each
        counts = np.clip(count - starts, 0, each)
        firsts = (first + starts).astype(np.uint32)
        out = jax.device_get(sharded(net, data, key, firsts, counts.astype(np.int32)))
        kept = np.concatenate([d * capacity + np.arange(c) for d, c in enumerate(counts)])
        return jax.tree.map(lambda x: x[kept], out)

    return step_on_all


class Pace:
    """How many networks to ask for at a time: about a second's work, found by doing it.

    The first step after ``compiles`` says nothing of how long networks take.
    """

    def __init__(self, shape: tuple[int, int, int], chunk: int | None) -> None:
        devices = jax.local_device_count()
        self._chunk, self._count = chunk, shape[1] * devices
        self._most = shape[2] * devices
        self._timed, self._seconds = 0, 0.0
        self.compiles()

    def compiles(self) -> None:
        """Say that the next step is compiled first."""
        self._fresh = True

    def count(self) -> int:
        """How many networks to ask for."""
        # More than the buffers hold would overwrite what is in them.
        return min(self._count if self._chunk is None else self._chunk, self._most)

    def timed(self, work: Callable[[], Made], count: int) -> Made:
        """Do the work of so many networks."""
        began = time.monotonic()
        result = work()
        seconds = max(time.monotonic() - began, 1e-6)
        growth = np.clip(_STEP_SECONDS / seconds, 0.5, 8.0)
        self._count = int(np.clip(self._count * growth, 1, self._most))
        if not self._fresh:
            self._timed, self._seconds = self._timed + count, self._seconds + seconds
        self._fresh = False
        return result

    def seconds(self, networks: int) -> float:
        """How long so many networks take at the pace so far; 0 while it is not known."""
        known = self._seconds >= _KNOWN_SECONDS
        return networks * self._seconds / self._timed if known else 0.0
