"""A run of training on disk: one file, replaced in one step, from which it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxexpr._core.checks import is_key
from jaxexpr._core.files import DAMAGE, write_atomically
from jaxexpr.training.steps import State

Record = dict[str, np.ndarray]


class RunState(NamedTuple):
    """How far a run is.

    done : steps.
    state : of all networks.
    history : records so far.
    seconds : spent so far, by what on.
    """

    done: int
    state: State
    history: tuple[Record, ...]
    seconds: dict[str, float]


class WrongRun(Exception):
    """A file of another run."""


def _plain_array(leaf: jax.Array) -> np.ndarray:
    """An array as it can be kept: keys as words, types that NumPy does not know as bits."""
    if is_key(leaf):
        return np.asarray(jax.random.key_data(leaf))
    array = np.asarray(leaf)
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def _like(leaf: jax.Array, array: np.ndarray) -> jax.Array:
    """The inverse of ``_plain_array``, for an array like `leaf`."""
    if is_key(leaf):
        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=jax.random.key_impl(leaf))
    return jax.numpy.asarray(array.view(leaf.dtype) if leaf.dtype.kind == "V" else array)


def save_run(path: Path, fingerprint: str, place: RunState) -> None:
    """Write a run to `path`."""
    arrays: dict[str, Any] = {
        "fingerprint": fingerprint,
        "done": place.done,
        "records": len(place.history),
    }
    arrays |= {f"state.{i}": _plain_array(x) for i, x in enumerate(jax.tree.leaves(place.state))}
    arrays |= {f"seconds.{name}": value for name, value in place.seconds.items()}
    for i, record in enumerate(place.history):
        arrays |= {f"record.{i}.{name}": value for name, value in record.items()}

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def load_run(path: Path, fingerprint: str, start: RunState) -> RunState:
    """Read a run back; `start` is the same run before its first step.

    Raises
    ------
    ValueError
        naming the file if it is damaged or belongs to another run.
    """
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = dict(file)
        if str(arrays["fingerprint"]) != fingerprint:
            raise WrongRun
        records = [dict[str, Any]() for _ in range(int(arrays["records"]))]
        for name, array in arrays.items():
            if name.startswith("record."):
                _, i, own = name.split(".", 2)
                records[int(i)][own] = array
        leaves, tree = jax.tree.flatten(start.state)
        state = [_like(leaf, arrays[f"state.{i}"]) for i, leaf in enumerate(leaves)]
        done = int(arrays["done"])
        seconds = {name: float(arrays[f"seconds.{name}"]) for name in start.seconds}
    except WrongRun:
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to another run: give another path, or delete it"
        ) from None
    except DAMAGE as error:
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be read ({error}): delete it to start anew"
        ) from error
    return RunState(done, jax.tree.unflatten(tree, state), tuple(records), seconds)
