"""Values along a segment that are linear, or constant, between its breakpoints.

The segment is ``x0 + t (x1 - x0)``, t in [0, 1]. Its rows are the breakpoints found so far; between
two of them every value is linear in t, so its numbers at the rows determine it. New rows are
inserted between old ones; a value computed earlier is interpolated when it is next read, so one
that is never read again costs nothing.

**Rounding.** Beside its numbers a value carries an estimate of their accumulated rounding error,
entry by entry: the errors of the terms of a sum are taken as independent (their squares add), and
a sum adds ``eps`` times the sum of the sizes of its terms. This follows the probabilistic analysis
of Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019: bounds that
hold in the worst case grow so fast with depth that narrow pieces would be dismissed as rounding.
Two numbers closer than ``ROUNDINGS`` such estimates are equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from jaxexpr.exact.functions.equations import Array, Equation, StateChanges

ROUNDINGS = 8
EPS = float(np.finfo(np.float64).eps)
BLOCK = 2**17  # numbers of a block: they fit in the cache


@dataclasses.dataclass(frozen=True)
class Linear:
    """Numbers that are linear in t between the rows of `version`.

    Attributes
    ----------
    values : at the rows, shape ``(rows,) + shape``, float64.
    error : estimated rounding error of an entry, the largest over the rows, shape ``shape``.
    version : version of the segment's rows.
    """

    values: Array
    error: Array
    version: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[1:]


@dataclasses.dataclass(frozen=True)
class Steps:
    """Numbers or booleans that are constant between the rows of `version`: ``(rows - 1,) + shape``.

    Values at the rows themselves are not recorded.
    """

    values: Array
    version: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[1:]


Value: TypeAlias = Linear | Steps | Array
Settled: TypeAlias = Linear | Array  # without jumps


class TooLarge(Exception):
    """A value on all rows would take more memory than allowed."""


class Segment:
    """The rows of a segment, and their history.

    Parameters
    ----------
    begin, end : t at its ends.
    memory : bytes that one value may take.

    Attributes
    ----------
    t : t of the rows, not decreasing; two rows may have equal floating-point numbers.
    changes : the nonlinear equations evaluated so far, with their state changes.
    """

    def __init__(self, begin: float, end: float, memory: float) -> None:
        self.t: Array = np.array([begin, end])
        self.changes: list[tuple[Equation, tuple[StateChanges, ...]]] = []
        self._memory, self._entries = memory, 0
        self._merges: list[tuple[Array, Array]] = []
        self._positions: dict[int, tuple[Array, Array]] = {}

    @property
    def version(self) -> int:
        return len(self._merges)

    def reserve(self, entries: int) -> None:
        """Set the number of entries in a row of the next values.

        Raises
        ------
        TooLarge
            now, or when rows are inserted, if a value would take more than the memory.
        ValueError
            if the memory does not hold two rows.
        """
        self._entries = entries
        if 16 * entries > self._memory:
            raise ValueError(
                f"memory={self._memory:.0f} bytes do not hold {entries} numbers at two points: "
                f"give at least {16 * entries}, and better 1000 times as much"
            )
        if 8 * self.t.size * entries > self._memory:
            raise TooLarge

    def insert(self, row: Array, part: Array) -> None:
        """Insert rows, each the fraction `part`, in (0, 1), of the way from `row` to the next.

        No two of them may agree in both.
        """
        left = np.concatenate([np.arange(self.t.size), row])
        part = np.concatenate([np.zeros(self.t.size), part])
        order = np.lexsort((part, left))
        left, part = left[order], part[order]
        right = self.t[np.minimum(left + 1, self.t.size - 1)]
        # The sum may round to beyond the next row.
        self.t = np.minimum(_between(self.t, left, part), right)
        self._merges.append((left, part))
        self._positions = {}
        self.reserve(self._entries)

    def _since(self, version: int) -> tuple[Array, Array]:
        """Positions of the current rows among those of `version`: left neighbour and fraction.

        Fractions are composed, not computed from t: a steep value has rows close together, and
        their t are not accurate enough to distinguish them.
        """
        if version not in self._positions:
            left, part = self._merges[version]
            for row, fraction in self._merges[version + 1 :]:
                right = np.minimum(row + 1, left.size - 1)
                end = np.where(left[right] == left[row], part[right], 1.0)
                part = part[row] + fraction * (end - part[row])
                left = left[row]
            self._positions[version] = left, part
        return self._positions[version]

    def rows(self, value: Linear, begin: int, end: int) -> Array:
        """Numbers of `value` on the current rows `begin` to `end` (exclusive), ``(r, entries)``."""
        flat = value.values.reshape(len(value.values), -1)
        if value.version == self.version:
            return flat[begin:end]
        left, part = self._since(value.version)
        return _between(flat, left[begin:end], part[begin:end])

    def spans(self, entries: int) -> Iterator[tuple[int, int]]:
        """Divide rows into blocks ``begin, end`` of few numbers; an end begins the next block."""
        last, step = self.t.size - 1, max(1, BLOCK // max(1, entries))
        for begin in range(0, last, step):
            yield begin, min(begin + step, last)

    def now(self, value: Value) -> Value:
        """Return `value` on the current rows."""
        if not isinstance(value, Linear | Steps) or value.version == self.version:
            return value
        if isinstance(value, Steps):
            left, _ = self._since(value.version)
            return Steps(value.values[left[:-1]], self.version)
        rows = np.empty((self.t.size, value.error.size))
        for begin, end in self.spans(value.error.size):
            rows[begin : end + 1] = self.rows(value, begin, end + 1)
        return Linear(rows.reshape((-1, *value.shape)), value.error, self.version)

    def linear(self, values: Array, variance: Array, size: Array) -> Linear:
        """A new value on the current rows.

        Parameters
        ----------
        values : numbers at the rows.
        variance : sum of squared errors of its terms.
        size : sum of the sizes of its terms, the largest over the rows.
        """
        return Linear(values, np.sqrt(variance + (EPS * size) ** 2), self.version)

    def joined(self, equation: Equation, starts: Array, ends: Array, error: Array) -> Linear:
        """A new value from its numbers at the start and at the end of each piece.

        Raises
        ------
        ValueError
            where the end of a piece and the start of the next differ by more than rounding.
        """
        jump = np.abs(ends[:-1] - starts[1:])
        bad = ~(jump <= 4 * ROUNDINGS * error)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            raise equation.refused(
                f"which jumps by {jump[index]:.3g} at t = {self.t[index[0] + 1]:.6g} and makes the "
                "function discontinuous"
            )
        return Linear(np.concatenate([starts[:1], ends]), error, self.version)

    def settled(self, equation: Equation, value: Value) -> Value:
        """Convert ``Steps`` that are constant to a constant; raise ValueError for others."""
        if not isinstance(value, Steps):
            return value
        # NaN is a constant too.
        same = (value.values == value.values[:1]) | (value.values != value.values)
        if not same.all():
            raise equation.refused(
                "which takes something that jumps where x crosses a boundary (a comparison, a "
                "sign), other than to choose between values that agree there"
            )
        return np.asarray(value.values[0])

    def crossed(self, equation: Equation, *changes: StateChanges) -> None:
        """Record how often the scalars of an equation changed their state."""
        self.changes.append((equation, changes))


def peak(values: Array) -> Array:
    """Largest size over the rows, from ``(rows,) + shape`` to ``shape``."""
    return np.maximum(values.max(axis=0), -values.min(axis=0))


def _between(values: Array, left: Array, part: Array) -> Array:
    result = values[left]
    new = np.flatnonzero(part)
    if new.size:
        start = result[new]
        share = part[new].reshape((-1,) + (1,) * (values.ndim - 1))
        result[new] = start + share * (values[left[new] + 1] - start)
    return result
