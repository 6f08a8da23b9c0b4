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


def on_cores(function: Callable[[Any], Any], own: Any, *, threads: int | None = None) -> Any:
    """Call a compiled `function` for a share of the entries at a time, and join what it returns.

    The last share is filled up with the last entry, which is computed again and dropped: all
    shares are one compilation.

    Parameters
    ----------
    own : arrays with the entries as leading axis.
    function : from such arrays to others; the result for an entry depends on that entry alone.
    threads : how many; by default one for each core on CPU, and one elsewhere.
    """
    count = len(jax.tree.leaves(own)[0])
    if threads is None:
        threads = cores() if jax.default_backend() == "cpu" else 1
    threads, double = min(threads, count), double_enabled()
    if threads <= 1:
        return function(own)
    share = -(-count // threads)

    def some(first: int) -> Any:
        places = np.minimum(np.arange(first, first + share), count - 1)
        with jax.enable_x64(double):  # a thread does not inherit it
            return jax.block_until_ready(function(jax.tree.map(lambda x: x[places], own)))

    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(some, range(0, count, share)))
    return jax.tree.map(lambda *x: jnp.concatenate(x)[:count], *parts)
