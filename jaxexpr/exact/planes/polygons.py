"""Polygons that share their corners: a partition of a region of the plane in flat arrays.

All cells together are four arrays, so operations act on all cells at once. A vertex shared by
several cells is stored once, so two cells are neighbours exactly if they share a pair of
consecutive vertices.
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
    sides : line of the side from each corner to the next, ``(m,)``; -1 for the outer boundary.
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
    """All edges, each once (an edge has one cell at the outer boundary, two inside).

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
    """Starts of consecutive groups of these sizes, and the total size."""
    starts = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def group_indices(starts: Array, which: Array) -> tuple[Array, Array]:
    """Indices of all entries in the chosen groups, and the start of each group among them."""
    begin = offsets(starts[which + 1] - starts[which])
    shift = np.repeat(starts[which] - begin[:-1], begin[1:] - begin[:-1])
    return np.arange(begin[-1]) + shift, begin


def edges(cells: Polygons) -> Edges:
    """Find all edges by matching the sides of neighbouring cells."""
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
    # Relative to one of its corners, the area of a small cell has little cancellation.
    origin = np.repeat(cells.points[cells.corners[cells.starts[:-1]]], cells.sizes, axis=0)
    x = cells.points[cells.corners] - origin
    y = x[following(cells)]
    return np.add.reduceat(x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0], cells.starts[:-1]) / 2


def centres(cells: Polygons) -> Array:
    """Mean of each cell's corners, a point inside it, ``(cells, 2)``."""
    sums = np.add.reduceat(cells.points[cells.corners], cells.starts[:-1], axis=0)
    return sums / cells.sizes[:, None]
