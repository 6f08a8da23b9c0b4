"""How networks are laid out on devices: batch, buffer, calls.

One compiled function computes any number of networks into a buffer of fixed size. The layout
changes numbers by rounding only.
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

Result = TypeVar("Result")

_BUFFER_BYTES = 2**24
_CPU_BATCH_BYTES = 2**22
_MOST_NETWORKS = 8192
_STEP_SECONDS = 1.0
_KNOWN_SECONDS = 5.0  # computing time, without compilation, after which the pace is known


def default_memory() -> float:
    """Default memory in bytes: 1 GiB on CPU, half of the device's memory elsewhere."""
    device = jax.local_devices()[0]
    stats = None if device.platform == "cpu" else device.memory_stats()
    return 0.5 * stats["bytes_limit"] if stats else 2.0**30


def layout(
    net: Network, data: object, task: Task, budget: float, batch: int | None
) -> tuple[int, int, int]:
    """Number of sweep axes to loop over, batch size, and number of networks in a buffer."""
    one_cell = task.bytes(net, data)
    shape, loops = net.sweep_shape, 0
    while loops < len(shape) and one_cell * np.prod(shape[loops:]) > budget:
        loops += 1
    one_network = one_cell * float(np.prod(shape[loops:]))
    if batch is None:
        # On CPU a batched product is slower than a single one, but small networks that fit into the
        # caches together are faster in a batch (measured at widths 8 to 784). The exact method
        # searches and sorts, which is slower in a batch at all sizes.
        cpu = jax.default_backend() == "cpu"
        batch_bytes = min(budget, 0 if task.exact else _CPU_BATCH_BYTES) if cpu else budget
        batch = int(np.clip(batch_bytes // one_network, 1, 64 if cpu else 1024))
    batch = checks.integer("batch", batch)
    numbers = sum(int(np.prod(entries)) for entries in task.shapes(net, data).values())
    result_bytes = 12 * max(numbers, 1) * int(np.prod(shape))
    buffer = int(np.clip(_BUFFER_BYTES // result_bytes, 1, _MOST_NETWORKS))
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
    """Results of networks ``first, ..., first + count - 1``, at the start of a fixed-size buffer.

    The count is traced, so that all counts share one compilation.

    shape : loops over sweep axes, batch size and buffer size, from ``layout``.
    """
    loops, batch, buffer_size = shape

    def one(index: UInt32[Array, ""]) -> Observed:
        network_key = jax.random.fold_in(key, index)

        def observe(net: Network) -> Observed:
            return observations(task.observe(net, network_key, data))

        return over_sweep(observe, loops=loops)(net)

    def one_batch(index: UInt32[Array, ""]) -> Observed:
        numbers = index + jnp.arange(batch, dtype=jnp.uint32)
        if batch == 1:
            return jax.tree.map(lambda x: x[None], one(index))
        return jax.vmap(one)(numbers)

    shapes = jax.eval_shape(one_batch, jnp.zeros((), jnp.uint32))
    empty = jax.tree.map(lambda x: jnp.zeros((buffer_size, *x.shape[1:]), x.dtype), shapes)

    def body(state: tuple[Int[Array, ""], Observed]) -> tuple[Int[Array, ""], Observed]:
        done, buffer = state
        results = one_batch(first + done.astype(jnp.uint32))
        put = functools.partial(lax.dynamic_update_slice_in_dim, start_index=done, axis=0)
        return spread((done + batch, jax.tree.map(put, buffer, results)), state)

    start = spread((jnp.zeros((), jnp.int32), empty), net, data, first, count)
    return lax.while_loop(lambda s: s[0] < count, body, start)[1]


@functools.lru_cache(maxsize=32)
def _on_all(
    devices: tuple[Any, ...], task: Task, shape: tuple[int, int, int]
) -> Callable[..., Observed]:
    """Return ``_many_networks`` split over devices: one range of networks for each."""
    mesh = jax.make_mesh((len(devices),), ("nets",), axis_types=(AxisType.Auto,), devices=devices)
    split, replicated = PartitionSpec("nets"), PartitionSpec()

    def on_one_device(
        net: Network,
        data: object,
        key: Key[Array, ""],
        first: UInt32[Array, "1"],
        count: Int[Array, "1"],
    ) -> Observed:
        return _many_networks(net, data, key, first[0], count[0], task=task, shape=shape)

    return jax.jit(
        jax.shard_map(
            on_one_device,
            mesh=mesh,
            in_specs=(replicated, replicated, replicated, split, split),
            out_specs=split,
        )
    )


def stepper(
    net: Network, data: object, key: Key[Array, ""], task: Task, shape: tuple[int, int, int]
) -> Callable[[int, int], Observed]:
    """Return ``step(first, count)``: results of networks `first` and following, as NumPy arrays."""
    net = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), net.dtype), net)
    data = jax.tree.map(jnp.asarray, data)
    devices = jax.local_devices()
    compute = functools.partial(_many_networks, task=task, shape=shape)
    buffer_size = shape[2]

    if len(devices) == 1:

        def step(first: int, count: int) -> Observed:
            results = jax.device_get(compute(net, data, key, np.uint32(first), np.int32(count)))
            return jax.tree.map(lambda x: x[:count], results)

        return step

    sharded = _on_all(tuple(devices), task, shape)

    def step_on_all(first: int, count: int) -> Observed:
        per_device = -(-count // len(devices))
        starts = np.arange(len(devices)) * per_device
        counts = np.clip(count - starts, 0, per_device)
        firsts = (first + starts).astype(np.uint32)
        results = jax.device_get(sharded(net, data, key, firsts, counts.astype(np.int32)))
        filled = np.concatenate([d * buffer_size + np.arange(c) for d, c in enumerate(counts)])
        return jax.tree.map(lambda x: x[filled], results)

    return step_on_all


class Pace:
    """How many networks to compute in one call: about one second of work, by measured times.

    The time of the first call after ``compiles`` includes compilation and is not counted.
    """

    def __init__(self, shape: tuple[int, int, int], chunk: int | None) -> None:
        devices = jax.local_device_count()
        self._chunk, self._count = chunk, shape[1] * devices
        self._buffer_size = shape[2] * devices
        self._timed_networks, self._seconds = 0, 0.0
        self.compiles()

    def compiles(self) -> None:
        """Note that the next call compiles first."""
        self._compiling = True

    def count(self) -> int:
        """How many networks to compute in the next call; at most what the buffers hold."""
        return min(self._count if self._chunk is None else self._chunk, self._buffer_size)

    def timed(self, work: Callable[[], Result], count: int) -> Result:
        """Call `work`, which computes `count` networks, and adapt the size of the next call."""
        started = time.monotonic()
        result = work()
        seconds = max(time.monotonic() - started, 1e-6)
        growth = np.clip(_STEP_SECONDS / seconds, 0.5, 8.0)
        self._count = int(np.clip(self._count * growth, 1, self._buffer_size))
        if not self._compiling:
            self._timed_networks += count
            self._seconds += seconds
        self._compiling = False
        return result

    def seconds(self, networks: int) -> float:
        """Seconds that so many networks take at the measured pace; 0 while it is unknown."""
        known = self._seconds >= _KNOWN_SECONDS
        return networks * self._seconds / self._timed_networks if known else 0.0
