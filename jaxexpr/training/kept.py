"""A run of training on disk: one file, replaced in one step, from which it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxexpr.checkpoint import DAMAGE, write_atomically
from jaxexpr.training.steps import State

Record = dict[str, np.ndarray]


class Place(NamedTuple):
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


def save(path: Path, digest: str, place: Place) -> None:
    """Write a run to `path`."""
    arrays: dict[str, Any] = {"mark": digest, "done": place.done, "records": len(place.history)}
    arrays |= {f"state.{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(place.state))}
    arrays |= {f"seconds.{name}": value for name, value in place.seconds.items()}
    for i, record in enumerate(place.history):
        arrays |= {f"record.{i}.{name}": value for name, value in record.items()}

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def load(path: Path, digest: str, start: Place) -> Place:
    """Read a run back; `start` is the same run before its first step.

    Raises ValueError naming the file if it is damaged or belongs to another run.
    """
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = dict(file)
        found = str(arrays["mark"])
        records = [dict[str, Any]() for _ in range(int(arrays["records"]))]
        for name, array in arrays.items():
            if name.startswith("record."):
                _, i, own = name.split(".", 2)
                records[int(i)][own] = array
        leaves, tree = jax.tree.flatten(start.state)
        state = [jax.numpy.asarray(arrays[f"state.{i}"]) for i in range(len(leaves))]
        done = int(arrays["done"])
        seconds = {name: float(arrays[f"seconds.{name}"]) for name in start.seconds}
    except DAMAGE as error:
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be read ({error}): delete it to start anew"
        ) from error
    if found != digest:
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to another run: give another path, or delete it"
        )
    return Place(done, jax.tree.unflatten(tree, state), tuple(records), seconds)
