"""Equations of a function's jaxpr, and the state changes of nonlinear ones along a segment."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclasses.dataclass(frozen=True)
class Crossing:
    """State changes of one nonlinear equation along the segment.

    Attributes
    ----------
    primitive : name of the JAX primitive.
    place : source file, line and function, and the path of the module if it has one.
    count : number of state changes, summed over its scalars.
    """

    primitive: str
    place: str
    count: int


class StateChanges:
    """Counts state changes between neighbouring pieces, given one block of pieces after another.

    A state is a number or a boolean, or a set (booleans along the middle axis); two sets differ
    if they have no member in common.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: Array | None = None
        self.last: Array | None = None

    def see(self, states: Array) -> None:
        """Add the next pieces, ``(pieces, entries)`` or ``(pieces, members, entries)``."""
        if self.first is None or self.last is None:
            self.first = states[:1].copy()
        else:
            states = np.concatenate([self.last, states])
        self.last = states[-1:].copy()
        self.count += _different(states[:-1], states[1:])

    def across(self, following: StateChanges) -> int:
        """Number of states that differ between the last piece and the first one of `following`."""
        assert self.last is not None and following.first is not None
        return _different(self.last, following.first)


def _different(before: Array, after: Array) -> int:
    changed = before != after if before.ndim == 2 else ~(before & after).any(axis=1)
    return int(changed.sum())


class Equation(NamedTuple):
    """One equation of a jaxpr.

    Attributes
    ----------
    primitive, params : JAX primitive and its parameters.
    shapes, dtypes : shapes and types of its outputs.
    place : source location, for messages.
    """

    primitive: Any
    params: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    place: str

    @property
    def name(self) -> str:
        return str(self.primitive.name)

    def refused(self, reason: str) -> ValueError:
        """Return the error for an equation that is not supported, with the reason."""
        place = f" at {self.place}" if self.place else ""
        return ValueError(
            f"fn holds {self.name}{place}, {reason}: give a function made of affine and "
            "continuous piecewise linear steps"
        )
