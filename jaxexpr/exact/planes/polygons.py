"""Polygons that share their corners: a partition of a region of the plane in flat arrays.

All cells together are four arrays, whatever their number, so that everything done to them is done
to all at once. A vertex that several cells share is one entry, so two cells are neighbours exactly
where they run along the same pair of vertices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Array = np.ndarray


class Polygons(NamedTuple):
    """Cells of a partition.

    Attributes
    ----------
    points : vertices, ``(v, 2)``.
    corners : vertices of the cells, one cell after the other, each counter-clockwise, ``(m,)``.
    starts : where each cell begins in `corners`, and its length: ``(cells + 1,)``.
    sides : what made the side from each corner to the next, ``(m,)``; -1 for the outer boundary.
    """

    points: Array
    corners: Array
    starts: Array
    sides: Array

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.starts.size - 1

    @property
    def sizes(self) -> Array:
        """Number of corners of each cell."""
        return self.starts[1:] - self.starts[:-1]


class Edges(NamedTuple):
    """Each side once, however many cells it has (one at the outer boundary, two inside).

    Attributes
    ----------
    low, high : its two vertices, ``(e,)``, ``low < high``.
    of_corner : edge that begins at each corner, ``(m,)``.
    corners : the corners at which it begins, ``(e, 2)``; -1 where there is no second cell.
    """

    low: Array
    high: Array
    of_corner: Array
    corners: Array


def square(half_width: float) -> Polygons:
    """The square ``|a|, |b| <= half_width`` as the only cell."""
    corners = half_width * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    return Polygons(corners, np.arange(4), np.array([0, 4]), np.full(4, -1))


def following(cells: Polygons) -> Array:
    """The next corner of the same cell, for each corner."""
    after = np.arange(1, cells.corners.size + 1)
    after[cells.starts[1:] - 1] = cells.starts[:-1]
    return after


def owners(cells: Polygons) -> Array:
    """The cell of each corner."""
    return np.repeat(np.arange(cells.size), cells.sizes)


def offsets(sizes: Array) -> Array:
    """Where runs of these lengths begin when they are laid end to end, and the whole length."""
    starts = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def runs(starts: Array, which: Array) -> tuple[Array, Array]:
    """Positions of the chosen runs, laid end to end, and where each now begins."""
    begin = offsets(starts[which + 1] - starts[which])
    shift = np.repeat(starts[which] - begin[:-1], begin[1:] - begin[:-1])
    return np.arange(begin[-1]) + shift, begin


def edges(cells: Polygons) -> Edges:
    """Match the sides of neighbouring cells."""
    total = len(cells.points)
    a, b = cells.corners, cells.corners[following(cells)]
    key = np.minimum(a, b) * total + np.maximum(a, b)
    order = np.argsort(key, kind="stable")
    key = key[order]
    new = np.ones(key.size, bool)
    np.not_equal(key[1:], key[:-1], out=new[1:])
    number = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    corners = np.full((first.size, 2), -1)
    corners[:, 0] = order[first]
    corners[number[~new], 1] = order[~new]
    of_corner = np.empty(key.size, np.int64)
    of_corner[order] = number
    low, high = np.divmod(key[first], total)
    return Edges(low, high, of_corner, corners)


def areas(cells: Polygons) -> Array:
    """Area of each cell, ``(cells,)``."""
    # Measured from a corner of its own, a small cell's area has few cancelled digits.
    origin = np.repeat(cells.points[cells.corners[cells.starts[:-1]]], cells.sizes, axis=0)
    x = cells.points[cells.corners] - origin
    y = x[following(cells)]
    return np.add.reduceat(x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0], cells.starts[:-1]) / 2


def centres(cells: Polygons) -> Array:
    """Mean of each cell's corners, a point inside it, ``(cells, 2)``."""
    sums = np.add.reduceat(cells.points[cells.corners], cells.starts[:-1], axis=0)
    return sums / cells.sizes[:, None]
