"""Independent computations in one thread for each core of a CPU.

A loop over networks inside one compiled program runs on one core, and small products gain nothing
from XLA's own threads. Each core therefore computes a share of the networks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr._core.x64 import double_enabled

Share = TypeVar("Share")  # arrays with the networks as leading axis
Result = TypeVar("Result")

SPAN_SECONDS = 0.25  # intended duration of a span; Ctrl-C can stop a thread between spans
PATIENCE = 1.0  # seconds to wait for running threads after Ctrl-C


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def shares(arrays: Share, threads: int | None = None) -> list[Share]:
    """Split arrays along their leading axis, into equal shares.

    The last share is padded with copies of the last entry, whose results ``joined`` drops. All
    shares thus have one shape and need one compilation.

    Parameters
    ----------
    arrays : pytree of arrays with one leading axis in common.
    threads : largest number of shares; by default one for each core on CPU, and one elsewhere.
    """
    count = len(jax.tree.leaves(arrays)[0])
    if threads is None:
        threads = cores() if jax.default_backend() == "cpu" else 1
    share = -(-count // min(threads, count))
    if share == count:
        return [arrays]
    firsts = range(0, count, share)
    indices = [np.minimum(np.arange(first, first + share), count - 1) for first in firsts]
    return [jax.tree.map(lambda x, rows=rows: x[rows], arrays) for rows in indices]


def joined(parts: list[Result], count: int) -> Result:
    """Join the results for shares of `count` entries; undoes ``shares``."""
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *x: jnp.concatenate(x)[:count], *parts)


def each_on_a_core(function: Callable[[Share], Result], parts: list[Share]) -> list[Result]:
    """Call a compiled `function` for each share, in parallel threads."""
    if len(parts) == 1:
        return [function(parts[0])]
    double = double_enabled()

    def compute(part: Share) -> Result:
        with jax.enable_x64(double):  # a thread does not inherit it
            return jax.block_until_ready(function(part))

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(compute, parts))


def in_spans(
    work: Callable[[int, int], Result], total: int, most: int, report: Callable[[int], object]
) -> list[tuple[int, int, Result]]:
    """Compute items 0, ..., `total` - 1 in parallel threads, in spans that Ctrl-C can end.

    A span is one call of compiled code, which cannot be interrupted. Spans are short, and after
    Ctrl-C no new one starts.

    Parameters
    ----------
    work : ``work(first, count)`` computes `count` items from item `first` on.
    most : largest number of items in one call.
    report : called in the calling thread with the number of items done.

    Returns
    -------
    ``(first, count, result of work)`` of each span, in no particular order.
    """
    threads = min(cores() if jax.default_backend() == "cpu" else 1, total)
    double = double_enabled()
    results: list[tuple[int, int, Result]] = []
    started, done, size = 0, 0, 1

    def run_span(first: int, count: int) -> tuple[float, tuple[int, int, Result]]:
        start_time = time.monotonic()
        with jax.enable_x64(double):  # a thread does not inherit it
            out = jax.block_until_ready(work(first, count))
        return time.monotonic() - start_time, (first, count, out)

    def next_span() -> tuple[int, int]:
        nonlocal started
        first, count = started, min(size, most, -(-(total - started) // threads))
        started += count
        return first, count

    def record(seconds: float, span: tuple[int, int, Result]) -> None:
        nonlocal done, size
        growth = float(np.clip(SPAN_SECONDS / max(seconds, 1e-6), 0.5, 8.0))
        size = max(int(span[1] * growth), 1)
        done += span[1]
        results.append(span)
        report(done)

    if threads == 1:
        while started < total:
            record(*run_span(*next_span()))
        return results
    pool = ThreadPoolExecutor(threads)
    running: set[Future[Any]] = set()
    try:
        while done < total:
            while started < total and len(running) < threads:
                running.add(pool.submit(run_span, *next_span()))
            ready, running = wait(running, 1.0, FIRST_COMPLETED)
            for span in ready:
                record(*span.result())
    except BaseException:
        busy = wait(running, PATIENCE).not_done
        pool.shutdown(wait=not busy)  # a compilation may take longer; it ends by itself
        raise
    pool.shutdown()
    return results


def on_cores(function: Callable[[Share], Result], arrays: Share) -> Result:
    """Call a compiled `function` for a share of the entries on each core, and join the results.

    Parameters
    ----------
    function : maps such arrays to others; the result for an entry depends on that entry alone.
    arrays : pytree of arrays with one leading axis in common.
    """
    count = len(jax.tree.leaves(arrays)[0])
    return joined(each_on_a_core(function, shares(arrays)), count)
