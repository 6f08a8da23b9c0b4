"""Independent pieces of work in a thread for each core of a CPU.

A loop over networks inside one program runs on one core; small products gain nothing from XLA's own
threads. So a share of the networks goes to each core.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr.networks import double_enabled


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def shares(own: Any, threads: int | None = None) -> list[Any]:
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


def joined(parts: list[Any], count: int) -> Any:
    """Undo ``shares`` of `count` entries."""
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *x: jnp.concatenate(x)[:count], *parts)


def each_on_a_core(function: Callable[[Any], Any], parts: list[Any]) -> list[Any]:
    """Call a compiled `function` for each share, side by side."""
    if len(parts) == 1:
        return [function(parts[0])]
    double = double_enabled()

    def one(part: Any) -> Any:
        with jax.enable_x64(double):  # a thread does not inherit it
            return jax.block_until_ready(function(part))

    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(one, parts))


def on_cores(function: Callable[[Any], Any], own: Any) -> Any:
    """Call a compiled `function` for a share of the entries on each core, and join what it returns.

    Parameters
    ----------
    own : arrays with the entries as leading axis.
    function : from such arrays to others; the result for an entry depends on that entry alone.
    """
    count = len(jax.tree.leaves(own)[0])
    return joined(each_on_a_core(function, shares(own)), count)
