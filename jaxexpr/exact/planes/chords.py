"""Lines through cells, chords between their corners, and points on segments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxexpr.exact.planes.polygons import Array, Polygons

NEAR = 1024.0  # decisions up to this multiple of their tolerance count as close


class Lines(NamedTuple):
    """Lines on which units equal breakpoints; line ``level * units + unit``.

    Attributes
    ----------
    values : values of the units at the vertices, ``(v, units)``.
    levels : breakpoints, ``(T,)``.
    slack : rounding error of the values, ``(units,)``.
    """

    values: Array
    levels: Array
    slack: Array

    def of(self, line: Array) -> tuple[Array, Array]:
        """Index of the unit, and breakpoint, of each line."""
        level, unit = np.divmod(line, self.values.shape[1])
        return unit, self.levels[level]


class Between(NamedTuple):
    """Vertices on segments between others: ``(1 - part) low + part high``."""

    low: Array
    high: Array
    part: Array

    def rows(self, array: Array) -> Array:
        """Interpolate the rows of `array` at these vertices."""
        low = array[self.low]
        return low + self.part[:, None] * (array[self.high] - low)

    def values(self, array: Array, index: Array, column: Array) -> Array:
        """Interpolate one entry of `array` at each of the vertices `index`."""
        low = array[self.low[index], column]
        return low + self.part[index] * (array[self.high[index], column] - low)


class Chords(NamedTuple):
    """Chords, in order of their cells: each lies on a line, between two corners of its cell.

    Attributes
    ----------
    cell, line : indices of its cell and line.
    head, tail : its ends, as positions among the corners of the cell.
    """

    cell: Array
    line: Array
    head: Array
    tail: Array


class Distinct(NamedTuple):
    """Distinct points: the point of each entry, the best entry of each point, close decisions."""

    point: Array
    chosen: Array
    close: int


def distinct_crossings(segment: Array, part: Array, loose: Array) -> Distinct:
    """Find the distinct ones of points on segments.

    Parameters
    ----------
    segment, part : index of the segment, and position on it, sorted by segment, then position.
    loose : rounding error of each position. Neighbours nearer than the sum of their errors are one
        point, at the position of the most accurate entry.
    """
    index = np.arange(segment.size)
    if segment.size < 2:
        return Distinct(index, index, 0)
    gap, allowed = part[1:] - part[:-1], loose[1:] + loose[:-1]
    same = segment[1:] == segment[:-1]
    joined = same & (gap <= allowed)
    close = int(np.count_nonzero(same & (gap > allowed / 2) & (gap <= NEAR * allowed)))
    if not joined.any():
        return Distinct(index, index, close)
    new = np.concatenate([[True], ~joined])
    point = np.cumsum(new) - 1
    least = np.minimum.reduceat(loose, np.flatnonzero(new))
    best = np.flatnonzero(loose == least[point])[::-1]
    chosen = np.empty(least.size, np.int64)
    chosen[point[best]] = best
    return Distinct(point, chosen, close)


def directions(start: Array, end: Array) -> Array:
    """Unit vectors from `start` to `end`, ``(n, 2)``; 0 where these coincide."""
    step = end - start
    length = np.hypot(step[:, 0], step[:, 1])
    return step / np.where(length > 0, length, 1)[:, None]


def cross(a: Array, b: Array) -> Array:
    """Sine of the angle between unit vectors, without its sign."""
    return np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])


def chord_ends(cells: Polygons, chords: Chords) -> tuple[Array, Array]:
    """The vertices at the heads and the tails of chords."""
    begin = cells.starts[chords.cell]
    return cells.corners[begin + chords.head], cells.corners[begin + chords.tail]
