"""Checkpoints of training: one file, replaced atomically."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxexpr._core.checks import is_key
from jaxexpr._core.files import load_checkpoint, reading_checkpoint, save_checkpoint
from jaxexpr.training.steps import State

Record = dict[str, np.ndarray]


class RunState(NamedTuple):
    """State of a training run.

    done : number of steps done.
    state : states of all networks.
    history : records so far.
    seconds : time spent so far, by activity.
    """

    done: int
    state: State
    history: tuple[Record, ...]
    seconds: dict[str, float]


def _plain_array(leaf: jax.Array) -> np.ndarray:
    """An array that NumPy can save: keys as words, types unknown to NumPy as their bits."""
    if is_key(leaf):
        return np.asarray(jax.random.key_data(leaf))
    array = np.asarray(leaf)
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def _like(leaf: jax.Array, array: np.ndarray) -> jax.Array:
    """Invert ``_plain_array``, for an array of the type of `leaf`."""
    if is_key(leaf):
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=jax.random.key_impl(leaf))
    return jax.numpy.asarray(array.view(leaf.dtype) if leaf.dtype.kind == "V" else array)


def save_run(path: Path, fingerprint: str, run: RunState) -> None:
    """Write the state of a run to `path`."""
    arrays: dict[str, Any] = {
        "fingerprint": fingerprint,
        "done": run.done,
        "records": len(run.history),
    }
    arrays |= {f"state.{i}": _plain_array(x) for i, x in enumerate(jax.tree.leaves(run.state))}
    arrays |= {f"seconds.{name}": value for name, value in run.seconds.items()}
    for i, record in enumerate(run.history):
        arrays |= {f"record.{i}.{name}": value for name, value in record.items()}
    save_checkpoint(path, arrays)


def load_run(path: Path, fingerprint: str, start: RunState) -> RunState:
    """Read the state of a run; `start` is the same run before its first step.

    Raises
    ------
    ValueError
        if the file is damaged or belongs to another run; the message names the file.
    """
    arrays = load_checkpoint(path)
    if str(arrays.get("fingerprint", fingerprint)) != fingerprint:
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to another run: give another path, or delete it"
        )
    with reading_checkpoint(path):
        records = [dict[str, Any]() for _ in range(int(arrays["records"]))]
        for name, array in arrays.items():
            if name.startswith("record."):
                _, i, field = name.split(".", 2)
                records[int(i)][field] = array
        leaves, tree = jax.tree.flatten(start.state)
        state = [_like(leaf, arrays[f"state.{i}"]) for i, leaf in enumerate(leaves)]
        done = int(arrays["done"])
        seconds = {name: float(arrays[f"seconds.{name}"]) for name in start.seconds}
    return RunState(done, jax.tree.unflatten(tree, state), tuple(records), seconds)
