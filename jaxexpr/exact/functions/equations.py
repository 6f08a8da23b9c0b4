"""The steps of a function, and what the nonlinear ones did along a segment."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclasses.dataclass(frozen=True)
class Crossing:
    """What one nonlinear equation did along the segment.

    Attributes
    ----------
    primitive : its name in JAX.
    place : where it stands: source file, line and function, and the module's path if it has one.
    count : how often one of its scalars changed its state, over all of them.
    """

    primitive: str
    place: str
    count: int


class StateChanges:
    """Counts how often states change from piece to piece, seen a span of pieces at a time.

    A state is a number or a boolean, or a set (booleans along the middle axis); two sets differ
    if they have no member in common.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: Array | None = None
        self.last: Array | None = None

    def see(self, states: Array) -> None:
        """Go on with further pieces, ``(pieces, entries)`` or ``(pieces, members, entries)``."""
        if self.first is None or self.last is None:
            self.first = states[:1].copy()
        else:
            states = np.concatenate([self.last, states])
        self.last = states[-1:].copy()
        self.count += _different(states[:-1], states[1:])

    def across(self, following: StateChanges) -> int:
        """How many states change between the last piece here and the first one there."""
        assert self.last is not None and following.first is not None
        return _different(self.last, following.first)


def _different(before: Array, after: Array) -> int:
    changed = before != after if before.ndim == 2 else ~(before & after).any(axis=1)
    return int(changed.sum())


class Equation(NamedTuple):
    """One step of a function.

    Attributes
    ----------
    primitive, params : of JAX.
    shapes, dtypes : of its outputs.
    place : where it stands, for messages.
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
        """The error that says why this equation cannot be followed."""
        place = f" at {self.place}" if self.place else ""
        return ValueError(
            f"fn holds {self.name}{place}, {reason}: give a function made of affine and "
            "continuous piecewise linear steps"
        )
