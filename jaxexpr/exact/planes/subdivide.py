"""Cut polygons along the level sets of functions that are affine on each of them.

The functions are one layer's pre-activations: continuous, affine on every cell, given by their
values at the vertices. A *line* is the set where one unit equals one breakpoint.

1. Every edge is split where lines cross it, once for both its cells, which share the new vertex.
2. In each cell a line with vertices strictly on both sides becomes a chord between two
   vertices of the cell's boundary.
3. The cells are cut along their chords (``split_cells``).

**Decisions.** A value that differs from a level by less than its rounding error is set to the level
exactly (at a vertex where lines cross at a small angle the error is divided by the sine of the
angle, since that is the error of the vertex). A line crosses an edge only where it is strictly
below at one end and strictly above at the other. Two crossings of one segment that are nearer to
each other than their rounding errors (the error over the change along the segment) are one vertex,
at which both units equal their levels exactly. So lines that coincide, meet in one point, contain
an edge or a vertex are recognised as such, without a perturbation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxexpr.exact.planes.chords import (
    NEAR,
    Between,
    Chords,
    Distinct,
    Lines,
    chord_ends,
    cross,
    directions,
    distinct_crossings,
)
from jaxexpr.exact.planes.polygons import (
    Array,
    Edges,
    Polygons,
    edges,
    following,
    group_indices,
    offsets,
    owners,
)
from jaxexpr.exact.planes.split_cells import carve

WORD = 8
LEAST_SINE = 2.0**-20


class NewVertices(NamedTuple):
    """New vertices of a cut, for interpolating values from the old vertices to all.

    Attributes
    ----------
    on_lines : (vertex, line) of old vertices that lie on lines.
    outer, met : new vertices on old edges, between old vertices, and the lines that cross there.
    inner, passing : new vertices inside old cells, between earlier ones, and the lines that cross
        there (besides the line that they are placed on).
    """

    on_lines: tuple[Array, Array]
    outer: Between
    met: tuple[Array, Array]
    inner: Between
    passing: tuple[Array, Array]

    def rows(self, array: Array) -> Array:
        """Interpolate values affine along edges and inside cells, ``(old, n)`` to ``(all, n)``."""
        return self._extended(array, lambda grown, pairs: None)

    def values(self, values: Array, levels: Array) -> Array:
        """Interpolate the layer's values; exactly the level at vertices on a line."""
        units = values.shape[1]

        def settle(extended: Array, pairs: tuple[Array, Array]) -> None:
            vertex, line = pairs
            level, unit = np.divmod(line, units)
            extended[vertex, unit] = levels[level]

        return self._extended(values, settle)

    def _extended(
        self, array: Array, settle: Callable[[Array, tuple[Array, Array]], None]
    ) -> Array:
        count, more = len(array), len(array) + self.outer.low.size
        extended = np.empty((more + self.inner.low.size, array.shape[1]))
        extended[:count] = array
        settle(extended, self.on_lines)
        extended[count:more] = self.outer.rows(extended)
        settle(extended, self.met)
        # Interpolation between two vertices at a level gives the level.
        extended[more:] = self.inner.rows(extended)
        settle(extended, self.passing)
        return extended


class Cut(NamedTuple):
    """Cells after all cuts of one layer.

    Attributes
    ----------
    cells : the new cells; the old vertices are the first ones.
    blur : for each vertex, one over the sine of the angle at which its lines cross.
    new_vertices : positions of the new vertices.
    close : number of decisions that rounding may have changed.
    """

    cells: Polygons
    blur: Array
    new_vertices: NewVertices
    close: int


def cut(cells: Polygons, blur: Array, lines: Lines, name: int, see: Callable[[int], None]) -> Cut:
    """Cut `cells` along all lines of one layer.

    Parameters
    ----------
    cells : a partition.
    blur : blur of its vertices, ``(v,)``, see ``Cut``.
    lines : values of the units at the vertices, levels and errors. Values within their error of a
        level are set to it, in place.
    name : entry in ``sides`` of line 0; line i has ``name + i``.
    see : called after each round with the number of cells.
    """
    on_lines, close = _settle(lines, blur)
    sides = edges(cells)
    edge, line, points, part = _along_edges(sides, lines)
    new_edge, old = edge[points.chosen], len(cells.points)
    outer = Between(sides.low[new_edge], sides.high[new_edge], part)
    fine, position, edge_positions = _split(cells, sides, new_edge)
    fine = fine._replace(points=np.concatenate([cells.points, outer.rows(cells.points)]))

    # Each line enters and leaves a cell at new vertices on edges, or at old corners.
    owner, entry_position = owners(cells), edge_positions[points.point]
    real = entry_position >= 0
    corner, on = _at_corners(cells, lines, *on_lines)
    chords, odd = _paired(
        np.concatenate([owner[corner], owner[sides.corners[edge]][real]]),
        np.concatenate([on, np.stack([line, line], axis=1)[real]]),
        np.concatenate([position[corner], entry_position[real]]),
        fine.starts,
        lines,
    )
    carved = carve(fine, chords, lines, _with_old(outer, old), name, see)
    new_vertices = NewVertices(
        on_lines, outer, (old + points.point, line), carved.inner, (carved.vertex, carved.line)
    )
    sine = _sines(fine, chords, cells.points[outer.low], cells.points[outer.high])
    sine = np.maximum(np.concatenate([sine, carved.sine]), LEAST_SINE)
    return Cut(
        carved.cells._replace(points=new_vertices.rows(cells.points)),
        np.concatenate([blur, 1 / sine]),
        new_vertices,
        close + points.close + odd + carved.close,
    )


def _with_old(outer: Between, old: int) -> Between:
    """New vertices with the old ones before them."""
    index = np.arange(old)
    return Between(
        np.concatenate([index, outer.low]),
        np.concatenate([index, outer.high]),
        np.concatenate([np.zeros(old), outer.part]),
    )


def _settle(lines: Lines, blur: Array) -> tuple[tuple[Array, Array], int]:
    """Set values within rounding error of a level to it; return their (vertex, line)."""
    values, levels, slack = lines
    units, close = values.shape[1], 0
    vertices, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    screen = NEAR * blur.max() * slack
    for i, level in enumerate(levels):
        distance = np.abs(values - level if level else values)
        vertex, unit = np.divmod(np.flatnonzero(distance <= screen), units)
        distance, allowed = distance[vertex, unit], slack[unit] * blur[vertex]
        on = distance <= allowed
        close += int(np.count_nonzero((distance > allowed / 2) & (distance <= NEAR * allowed)))
        values[vertex[on], unit[on]] = level
        vertices.append(vertex[on])
        numbers.append(unit[on] + i * units)
    return (np.concatenate(vertices), np.concatenate(numbers)), close


def _chord_crossings(lines: Lines, sides: Edges) -> tuple[Array, Array]:
    """All (edge, line) with the edge's ends strictly on different sides of the line."""
    units = lines.values.shape[1]
    width = -(-units // WORD)
    edge, number = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for i, level in enumerate(lines.levels):
        above = np.packbits(lines.values > level, axis=1)
        below = np.packbits(lines.values < level, axis=1)
        both = above[sides.low] & below[sides.high]
        both |= below[sides.low] & above[sides.high]
        some = np.flatnonzero(both)
        row, bit = np.nonzero(np.unpackbits(both.ravel()[some, None], axis=1))
        crossed, word = np.divmod(some[row], width)
        edge.append(crossed)
        number.append(word * WORD + bit + i * units)
    return np.concatenate(edge), np.concatenate(number)


def _along_edges(sides: Edges, lines: Lines) -> tuple[Array, Array, Distinct, Array]:
    """All (edge, line) in order along the edges, their points, and the positions of these."""
    edge, line = _chord_crossings(lines, sides)
    unit, level = lines.of(line)
    low = lines.values[sides.low[edge], unit]
    change = lines.values[sides.high[edge], unit] - low
    part, loose = (level - low) / change, lines.slack[unit] / np.abs(change)
    order = np.lexsort((part, edge))
    edge, line, part = edge[order], line[order], part[order]
    points = distinct_crossings(edge, part, loose[order])
    return edge, line, points, part[points.chosen]


def _split(cells: Polygons, sides: Edges, at: Array) -> tuple[Polygons, Array, Array]:
    """Put a new vertex on edge ``at[i]`` for each i, sorted along each edge from low to high.

    Returns the cells without the new points, the new position of each old corner, and the
    positions ``(i, 2)`` of each new vertex in the cells of its edge (-1 where there is none).
    """
    inserted = np.bincount(at, minlength=sides.low.size)
    position = offsets(1 + inserted[sides.of_corner])
    corners = np.empty(position[-1], np.int64)
    corners[position[:-1]] = cells.corners
    rank = np.arange(at.size) - offsets(inserted)[at]
    begins = sides.corners[at]
    forward = cells.corners[begins] == sides.low[at][:, None]
    step = np.where(forward, rank[:, None], (inserted[at] - 1 - rank)[:, None])
    positions = np.where(begins >= 0, position[begins] + 1 + step, -1)
    new = len(cells.points) + np.arange(at.size)
    for side in range(2):
        real = positions[:, side] >= 0
        corners[positions[real, side]] = new[real]
    labels = np.repeat(cells.sides, position[1:] - position[:-1])
    return Polygons(cells.points, corners, position[cells.starts], labels), position, positions


def _at_corners(cells: Polygons, lines: Lines, vertex: Array, line: Array) -> tuple[Array, Array]:
    """Corners on a line at which the boundary of the cell passes from one side of it to the other.

    Takes pairs (vertex, line) with the vertex on the line; returns (corner, line). Where several
    consecutive corners lie on a line the first of them counts.
    """
    values = lines.values
    if vertex.size:
        both = [(values > at).any(axis=0) & (values < at).any(axis=0) for at in lines.levels]
        through = np.concatenate(both)[line]
        vertex, line = vertex[through], line[through]
    if not vertex.size:
        return vertex, line
    after = following(cells)
    before = np.empty_like(after)
    before[after] = np.arange(after.size)

    def side(corner: Array, line: Array) -> Array:
        unit, level = lines.of(line)
        return np.sign(values[cells.corners[corner], unit] - level)

    order = np.argsort(cells.corners, kind="stable")
    begin = offsets(np.bincount(cells.corners, minlength=len(cells.points)))
    index, begin = group_indices(begin, vertex)
    corner, line = order[index], np.repeat(line, begin[1:] - begin[:-1])
    left = side(before[corner], line)
    corner, line, left = corner[left != 0], line[left != 0], left[left != 0]
    last = after[corner]
    right = side(last, line)
    while (right == 0).any():  # once for each of the consecutive corners on one line
        still = np.flatnonzero(right == 0)
        last[still] = after[last[still]]
        right[still] = side(last[still], line[still])
    through = left * right < 0
    return corner[through], line[through]


def _paired(
    cell: Array, line: Array, position: Array, starts: Array, lines: Lines
) -> tuple[Chords, int]:
    """Chords between the corners where lines enter and leave cells, and the number of odd cases.

    A line enters as often as it leaves; more than once only where values are not affine to within
    their error. Then the first two corners are joined.
    """
    total = lines.values.shape[1] * lines.levels.size
    key = cell * total + line
    order = np.lexsort((position, key))
    key, position = key[order], position[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])[: key.size])
    times = np.diff(first, append=key.size)
    odd = int(np.count_nonzero(times != 2))
    first = first[times >= 2]
    cell, line = np.divmod(key[first], total)
    head, tail = (position[first + i] - starts[cell] for i in (0, 1))
    return Chords(cell, line, head, tail), odd


def _sines(fine: Polygons, chords: Chords, low: Array, high: Array) -> Array:
    """Sine of the angle between an edge and the chords that end on it, for each new vertex."""
    count = len(fine.points) - len(low)
    head, tail = chord_ends(fine, chords)
    along, edge = directions(fine.points[head], fine.points[tail]), directions(low, high)
    sine = np.zeros(len(low))
    for end in (head, tail):
        new = end >= count
        index = end[new] - count
        np.maximum.at(sine, index, cross(along[new], edge[index]))
    return sine
