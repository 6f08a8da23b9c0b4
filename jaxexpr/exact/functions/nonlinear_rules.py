"""Piecewise linear steps: maxima, minima, absolute values, comparisons and choices.

Each rule inserts rows where its scalars change their state, and returns values that are linear, or
constant, between the rows. Its arguments may belong to an earlier version of the rows.

**States.** ``max(a, b)``, ``min``, ``abs`` and ``clamp`` compare a value h with a level; the state
is whether h > level, as everywhere in the package. States at single points (a comparison for
equality that holds at one t only) are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxexpr.exact.functions.equations import Array, Equation, StateChanges
from jaxexpr.exact.functions.indexing_rules import RULES as MOVES
from jaxexpr.exact.functions.linear_rules import Rule, per_row, real
from jaxexpr.exact.functions.values import (
    EPS,
    ROUNDINGS,
    Linear,
    Segment,
    Settled,
    Steps,
    Value,
    peak,
)


def rounding_error(value: Settled) -> Array:
    """Rounding error of a value, or of a constant in a sum."""
    return value.error if isinstance(value, Linear) else EPS * np.abs(real(value))


class Gap:
    """Difference of two values, entry by entry; 0 where it is within rounding of 0.

    Attributes
    ----------
    above, below : values or constants (infinite ones too), of one shape, or scalars.
    shape : shape of the difference.
    slack : rounding error below which a difference counts as 0, flat.
    """

    def __init__(
        self, segment: Segment, equation: Equation, above: Settled, below: Settled
    ) -> None:
        self.segment, self.above, self.below = segment, above, below
        self.shape = equation.shapes[0]
        errors = []
        for term in (above, below):
            endless = not isinstance(term, Linear) and np.isinf(real(term))
            errors.append(np.where(endless, 0.0, rounding_error(term)))
        slack = np.broadcast_to(ROUNDINGS * np.hypot(*errors), self.shape)
        if not np.isfinite(slack).all():
            raise equation.refused("where the numbers are NaN or infinite")
        self.slack = slack.ravel()

    def rows(self, begin: int, end: int) -> Array:
        """The difference on the current rows from `begin` to before `end`: ``(r, entries)``."""
        terms = [rows_of(self.segment, term, begin, end) for term in (self.above, self.below)]
        d = terms[0] - terms[1]
        return np.where(np.abs(d) <= self.slack, 0.0, d)

    def cut(self) -> None:
        """Insert a row where any entry changes its sign.

        An entry changes its sign on a piece if it is strictly negative at one end and strictly
        positive at the other. It shares the row of the previous crossing if it is 0 there within
        rounding.
        """
        again = True
        while again:
            crossings = []
            for begin, end in self.segment.spans(self.slack.size):
                d = self.rows(begin, end + 1)
                above, below = d > 0, d < 0
                row, entry = np.nonzero((above[:-1] & below[1:]) | (below[:-1] & above[1:]))
                if row.size:
                    ends = d[row, entry], d[row + 1, entry]
                    crossings.append((row + begin, *ends, self.slack[entry]))
            again = bool(crossings) and insert(
                self.segment, *(np.concatenate(x) for x in zip(*crossings, strict=True))
            )

    def pieces(self) -> Iterator[tuple[slice, Array]]:
        """Blocks of pieces, and the sign of each entry inside each piece."""
        for begin, end in self.segment.spans(self.slack.size):
            d = self.rows(begin, end + 1)
            yield slice(begin, end), np.sign(np.where(d[:-1] != 0, d[:-1], d[1:]))


def rows_of(segment: Segment, value: Settled, begin: int, end: int) -> Array:
    """Rows of a value, or the one row of a constant, flat."""
    if isinstance(value, Linear):
        return segment.rows(value, begin, end)
    return real(value).reshape(1, -1)


def insert(segment: Segment, row: Array, left: Array, right: Array, slack: Array) -> bool:
    """Insert rows where differences of opposite signs vanish; return whether some share a row.

    Parameters
    ----------
    row : index of the piece of each difference.
    left, right : the difference at the ends of the piece.
    slack : rounding error below which a difference counts as 0.
    """
    part = left / (left - right)
    order = np.lexsort((part, row))
    row, part, left, right, slack = (x[order] for x in (row, part, left, right, slack))
    at_previous = left[1:] + part[:-1] * (right[1:] - left[1:])
    near = (np.abs(at_previous) <= slack[1:]) | (part[1:] == part[:-1])
    # In a chain of near crossings the last may be far from the first, which alone gets a row. The
    # caller searches again where rows are shared.
    keep = np.concatenate([[True], (row[1:] != row[:-1]) | ~near])
    segment.insert(row[keep], part[keep])
    return not keep.all()


def _bent(
    segment: Segment, equation: Equation, gap: Gap, positive: Settled, otherwise: Settled
) -> tuple[Linear, StateChanges]:
    """The value `positive` where the gap is positive, else `otherwise`; and its state changes."""
    gap.cut()
    values = np.empty((segment.t.size, gap.slack.size))
    changes = StateChanges()
    for begin, end in segment.spans(gap.slack.size):
        d = gap.rows(begin, end + 1)
        up = d > 0
        first = rows_of(segment, positive, begin, end + 1)
        values[begin : end + 1] = np.where(up, first, rows_of(segment, otherwise, begin, end + 1))
        changes.see(up[:-1] | up[1:])
    error = np.maximum(rounding_error(positive), rounding_error(otherwise))
    shape = gap.shape
    values = values.reshape((-1, *shape))
    return Linear(values, np.broadcast_to(error, shape), segment.version), changes


def _larger(
    segment: Segment, equation: Equation, a: Settled, b: Settled
) -> tuple[Linear, StateChanges]:
    if not isinstance(a, Linear):
        a, b = b, a  # the state is that of the value, whatever the order of the arguments
    return _bent(segment, equation, Gap(segment, equation, a, b), a, b)


def _smaller(
    segment: Segment, equation: Equation, a: Settled, b: Settled
) -> tuple[Linear, StateChanges]:
    if not isinstance(a, Linear):
        a, b = b, a
    return _bent(segment, equation, Gap(segment, equation, a, b), b, a)


def _maximum(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    bend = _larger if equation.name == "max" else _smaller
    value, changes = bend(segment, equation, *arguments)
    segment.crossed(equation, changes)
    return [value]


def _clamped(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    low, value, high = arguments
    changes = []
    for bend, level in ((_larger, low), (_smaller, high)):
        if isinstance(value, Linear) or isinstance(level, Linear):
            value, crossed = bend(segment, equation, value, level)
            changes.append(crossed)
        else:  # the level is `low`: value and low are constants, high is not
            value = np.maximum(real(value), real(level))
    segment.crossed(equation, *changes)
    return [value]


def _absolute(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    (value,) = arguments
    opposite = Linear(-value.values, value.error, value.version)
    gap = Gap(segment, equation, value, np.zeros(()))
    result, changes = _bent(segment, equation, gap, value, opposite)
    segment.crossed(equation, changes)
    return [result]


COMPARISONS = {
    "gt": lambda sign: sign > 0,
    "ge": lambda sign: sign >= 0,
    "lt": lambda sign: sign < 0,
    "le": lambda sign: sign <= 0,
    "eq": lambda sign: sign == 0,
    "ne": lambda sign: sign != 0,
    "sign": lambda sign: sign,
}


def _compared(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    first, second = (*arguments, np.zeros(()))[:2]  # a sign compares with 0
    gap = Gap(segment, equation, first, second)
    if equation.name not in ("eq", "ne"):  # the same on both sides of a crossing
        gap.cut()
    steps = np.empty((segment.t.size - 1, gap.slack.size), equation.dtypes[0])
    changes = StateChanges()
    for pieces, sign in gap.pieces():
        steps[pieces] = COMPARISONS[equation.name](sign)
        changes.see(steps[pieces])
    segment.crossed(equation, changes)
    return [Steps(steps.reshape((-1, *gap.shape)), segment.version)]


def _finite(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    return [np.ones(equation.shapes[0], bool)]


def _selected(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    """Choose between values by an index that is constant on every piece."""
    selector, *cases = arguments
    if not any(isinstance(x, Steps) for x in arguments):
        return list(MOVES["select_n"](segment, equation, arguments))
    shape, pieces = equation.shapes[0], segment.t.size - 1
    index = selector.values if isinstance(selector, Steps) else np.asarray(selector)[None]
    index = per_row(index, len(shape)).astype(np.int64)
    starts, ends = np.zeros((pieces, *shape)), np.zeros((pieces, *shape))
    error = np.zeros(shape)
    for number, case in enumerate(cases):
        if isinstance(case, Linear):
            first, last, slack = case.values[:-1], case.values[1:], case.error
        else:
            rows = real(case.values) if isinstance(case, Steps) else real(case)[None]
            first, last, slack = rows, rows, EPS * peak(rows)
        chosen = index == number
        starts, ends = np.where(chosen, first, starts), np.where(chosen, last, ends)
        error = np.maximum(error, np.where(chosen.any(axis=0), slack, 0.0))
    return [segment.joined(equation, starts, ends, error)]


RULES: dict[str, Rule] = {
    "max": _maximum,
    "min": _maximum,
    "clamp": _clamped,
    "abs": _absolute,
    "is_finite": _finite,
    "select_n": _selected,
} | dict.fromkeys(COMPARISONS, _compared)
