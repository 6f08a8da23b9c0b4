"""Independent pieces of work in a thread for each core of a CPU.

A loop over networks inside one program runs on one core; small products gain nothing from XLA's own
threads. So a share of the networks goes to each core.
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

from jaxexpr._core.precision import double_enabled

Share = TypeVar("Share")  # arrays with the entries as leading axis
Made = TypeVar("Made")

SPAN_SECONDS = 0.25  # of work, between two of which a thread can be stopped
PATIENCE = 1.0  # seconds that threads are waited for after Ctrl-C


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def shares(own: Share, threads: int | None = None) -> list[Share]:
    """Split arrays along their leading axis, into equal shares.

    The last share is filled up with the last entry, which is computed again and dropped: all
    shares are one compilation.

    Parameters
    ----------
    own : arrays with the entries as leading axis.
    threads : how many shares at most; by default one for each core on CPU, and one elsewhere.
    """
    count = len(jax.tree.leaves(own)[0])
    if threads is None:
        threads = cores() if jax.default_backend() == "cpu" else 1
    share = -(-count // min(threads, count))
    if share == count:
        return [own]
    firsts = range(0, count, share)
    places = [np.minimum(np.arange(first, first + share), count - 1) for first in firsts]
    return [jax.tree.map(lambda x, at=at: x[at], own) for at in places]


def joined(parts: list[Made], count: int) -> Made:
    """Undo ``shares`` of `count` entries."""
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *x: jnp.concatenate(x)[:count], *parts)


def each_on_a_core(function: Callable[[Share], Made], parts: list[Share]) -> list[Made]:
    """Call a compiled `function` for each share, side by side."""
    if len(parts) == 1:
        return [function(parts[0])]
    double = double_enabled()

    def one(part: Share) -> Made:
        with jax.enable_x64(double):  # a thread does not inherit it
            return jax.block_until_ready(function(part))

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(one, parts))


def in_spans(
    work: Callable[[int, int], Made], total: int, most: int, see: Callable[[int], object]
) -> list[tuple[int, int, Made]]:
    """Do pieces of work 0, ..., `total` - 1 side by side, in spans that Ctrl-C can end.

    A span is one call of compiled code, which nothing stops. Spans are short, and after Ctrl-C none
    begins.

    Parameters
    ----------
    work : ``work(first, count)`` does that many pieces from `first` on.
    most : pieces in one call.
    see : called, by the thread that called us, with the number of pieces done.

    Returns
    -------
    ``(first, count, what work returned)`` of each span, in no order.
    """
    threads = min(cores() if jax.default_backend() == "cpu" else 1, total)
    double = double_enabled()
    made: list[tuple[int, int, Made]] = []
    begun, done, size = 0, 0, 1

    def one(first: int, count: int) -> tuple[float, tuple[int, int, Made]]:
        began = time.monotonic()
        with jax.enable_x64(double):  # a thread does not inherit it
            out = jax.block_until_ready(work(first, count))
        return time.monotonic() - began, (first, count, out)

    def following() -> tuple[int, int]:
        nonlocal begun
        first, count = begun, min(size, most, -(-(total - begun) // threads))
        begun += count
        return first, count

    def finished(seconds: float, span: tuple[int, int, Made]) -> None:
        nonlocal done, size
        growth = float(np.clip(SPAN_SECONDS / max(seconds, 1e-6), 0.5, 8.0))
        size = max(int(span[1] * growth), 1)
        done += span[1]
        made.append(span)
        see(done)

    if threads == 1:
        while begun < total:
            finished(*one(*following()))
        return made
    pool = ThreadPoolExecutor(threads)
    running: set[Future[Any]] = set()
    try:
        while done < total:
            while begun < total and len(running) < threads:
                running.add(pool.submit(one, *following()))
            ready, running = wait(running, 1.0, FIRST_COMPLETED)
            for span in ready:
                finished(*span.result())
    except BaseException:
        busy = wait(running, PATIENCE).not_done
        pool.shutdown(wait=not busy)  # what is being compiled takes longer, and ends by itself
        raise
    pool.shutdown()
    return made


def on_cores(function: Callable[[Share], Made], own: Share) -> Made:
    """Call a compiled `function` for a share of the entries on each core, and join what it returns.

    Parameters
    ----------
    own : arrays with the entries as leading axis.
    function : from such arrays to others; the result for an entry depends on that entry alone.
    """
    count = len(jax.tree.leaves(own)[0])
    return joined(each_on_a_core(function, shares(own)), count)
