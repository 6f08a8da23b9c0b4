"""Cut cells along chords, all cells at once.

A chord joins two vertices of a cell's boundary. Whether two chords of a cell cross follows from the
order of their ends around it, without floating point. Floating-point numbers only determine where
on a chord the others cross it, and which of them cross it in the same point. So whatever the
rounding, the resulting cells are polygons that fit together, and chords that meet in one point,
share an end or coincide give no spurious cells.

In each round every cell with chords is cut along the chord that halves it best. A chord that
crosses it continues in both halves; every other one lies in one half. A cell with c chords takes
about log c rounds, and the cost of a round is proportional to the corners of the cells that it
cuts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxexpr.exact.planes.chords import (
    Between,
    Chords,
    Lines,
    chord_ends,
    cross,
    directions,
    distinct_crossings,
)
from jaxexpr.exact.planes.polygons import Array, Polygons, group_indices, offsets


class Carved(NamedTuple):
    """Cells after the cut, and new vertices.

    Attributes
    ----------
    cells : the cells, whose corners are old vertices and, after them, those of `inner`.
    inner : the new vertices, on segments between old ones.
    sine : sine of the angle at which the lines cross in each new vertex.
    vertex, line : pairs of a new vertex and a line through it, besides the line it is placed on.
    close : number of decisions that rounding may have changed.
    """

    cells: Polygons
    inner: Between
    sine: Array
    vertex: Array
    line: Array
    close: int


class _Ring(NamedTuple):
    """Cells without their points."""

    corners: Array
    starts: Array
    sides: Array


class _Crossing(NamedTuple):
    """The chords `entry` that cross the cutters of their cells, and the crossing points.

    Attributes
    ----------
    entry : indices into the chords, in order of cell and along the cutter.
    point : the new vertex of each, counted from 0.
    owner, rank : the cell of each new vertex, and its rank along the cutter.
    part, sine : its position along the (whole) cutter, and the sine of the angle of the crossing.
    close : number of decisions that rounding may have changed.
    """

    entry: Array
    point: Array
    owner: Array
    rank: Array
    part: Array
    sine: Array
    close: int


class _Whole(NamedTuple):
    """Chords before they were cut into parts: line, vertices at the ends, direction."""

    line: Array
    head: Array
    tail: Array
    along: Array


def carve(
    cells: Polygons,
    chords: Chords,
    lines: Lines,
    outer: Between,
    name: int,
    see: Callable[[int], None],
) -> Carved:
    """Cut cells along all their chords.

    Parameters
    ----------
    cells : a partition whose edges are crossed by lines only in vertices; `points` are those of
        `outer`.
    chords : at most one for each line in a cell.
    lines : the lines, with values at the vertices that `outer` refers to.
    outer : the vertices of the cells.
    name : entry in ``sides`` of line 0; line i has ``name + i``.
    see : called after each round with the number of cells.
    """
    head, tail = chord_ends(cells, chords)
    whole = _Whole(chords.line, head, tail, directions(cells.points[head], cells.points[tail]))
    waiting = np.zeros(cells.size, bool)
    waiting[chords.cell] = True
    done = [_taken(cells, ~waiting)]
    ring = _taken(cells, waiting)
    cell, chord = (np.cumsum(waiting) - 1)[chords.cell], np.arange(chords.cell.size)
    parts = Chords(cell, chord, chords.head, chords.tail)
    crossings: list[_Crossing] = []
    passing, total, close = [(chord[:0], chord[:0])], len(cells.points), 0
    cutters = [chord[:0]]
    while parts.cell.size:
        one_round = _Round(ring, parts)
        crossing = one_round.crossings(whole, lines, outer)
        ring, finished, left = one_round.halves(crossing, total, name + whole.line)
        passing.append((total + crossing.point, whole.line[parts.line[crossing.entry]]))
        cutters.append(one_round.cutter[crossing.owner])
        total += crossing.owner.size
        close += crossing.close
        crossings.append(crossing)
        done.append(finished)
        parts = left
        see(sum(d.starts.size - 1 for d in (*done, ring)))
    cutter = np.concatenate(cutters)
    part, sine = (
        np.concatenate([np.zeros(0), *(getattr(c, field) for c in crossings)])
        for field in ("part", "sine")
    )
    sizes = np.concatenate([d.starts[1:] - d.starts[:-1] for d in done])
    corners, sides = (np.concatenate([d[i] for d in done]) for i in (0, 2))
    vertex, line = (np.concatenate(column) for column in zip(*passing, strict=True))
    return Carved(
        Polygons(cells.points, corners, offsets(sizes), sides),
        Between(whole.head[cutter], whole.tail[cutter], part),
        sine,
        vertex,
        line,
        close,
    )


def _taken(cells: Polygons, which: Array) -> _Ring:
    index, starts = group_indices(cells.starts, np.flatnonzero(which))
    return _Ring(cells.corners[index], starts, cells.sides[index])


class _Round:
    """One cut of every cell that has chords.

    Corners and ends of chords are counted from the cutter's head on: up to `length` they belong to
    the first half, from there on to the second; 0 and `length`, the cutter's ends, to both.
    `parts` are parts of chords: their `line` is the index of the whole chord.
    """

    def __init__(self, ring: _Ring, parts: Chords) -> None:
        self.ring, self.parts = ring, parts
        self.size = ring.starts[1:] - ring.starts[:-1]
        cell, chord, head, tail = parts
        around = self.size[cell]
        span = tail - head
        span += around * (span < 0)
        # Of chords that halve a cell equally well the first is taken, so that a side on several
        # coinciding lines is attributed to the first of them.
        total = cell.size
        score = np.minimum(span, around - span) * total + np.arange(total)[::-1]
        first = np.flatnonzero(np.concatenate([[True], cell[1:] != cell[:-1]]))
        best = total - 1 - np.maximum.reduceat(score, first) % total
        self.cutter, self.start, self.length = chord[best], head[best], span[best]
        self.middle = self.length[cell]
        self.around = around
        a = head - self.start[cell]
        a += around * (a < 0)
        b = a + span
        b -= around * (b >= around)
        self.a, self.b = a, b
        self.a_first, self.a_second = (a > 0) & (a < self.middle), a > self.middle
        b_first, b_second = (b > 0) & (b < self.middle), b > self.middle
        self.crossed = (self.a_first & b_second) | (self.a_second & b_first)
        # A chord in neither half that is not crossed has the same ends as the cutter.
        self.first = (self.a_first | b_first) & ~self.crossed
        self.second = (self.a_second | b_second) & ~self.crossed

    def crossings(self, whole: _Whole, lines: Lines, outer: Between) -> _Crossing:
        """Crossing points of chords on the cutters."""
        entry = np.flatnonzero(self.crossed)
        cell, chord = self.parts.cell[entry], self.parts.line[entry]
        cutter = self.cutter[cell]
        unit, level = lines.of(whole.line[chord])
        near = outer.values(lines.values, whole.head[cutter], unit) - level
        far = outer.values(lines.values, whole.tail[cutter], unit) - level
        opposite = near * far < 0  # as the order of the ends implies; otherwise it is rounding
        change = np.where(opposite, near - far, 1)
        part = np.where(opposite, near / change, 0.5)
        loose = np.where(opposite, lines.slack[unit] / np.abs(change), 0)
        order = np.lexsort((part, cell))
        entry, cell, part = entry[order], cell[order], part[order]
        point, chosen, close = distinct_crossings(cell, part, loose[order])
        owner = cell[chosen]
        rank = np.arange(owner.size) - offsets(np.bincount(owner, minlength=self.size.size))[owner]
        sine = cross(whole.along[self.cutter[owner]], whole.along[chord[order][chosen]])
        close += int(np.count_nonzero(~opposite))
        return _Crossing(entry, point, owner, rank, part[chosen], sine, close)

    def halves(self, crossing: _Crossing, total: int, names: Array) -> tuple[_Ring, _Ring, Chords]:
        """Cut; return the halves that have chords left, those that have none, and the chords.

        The indices of new vertices start at `total`; `names` has the ``sides`` entry of each whole
        chord.
        """
        size, start, length, parts = self.size, self.start, self.length, self.parts
        entry, point, owner, rank = crossing[:4]
        count = np.bincount(owner, minlength=size.size)
        has_chords = np.zeros((size.size, 2), bool)
        has_chords[parts.cell[self.first], 0] = has_chords[parts.cell[self.second], 1] = True
        has_chords[parts.cell[entry]] = True
        order = np.argsort(~has_chords.ravel(), kind="stable")
        number = np.empty(order.size, np.int64)
        number[order] = np.arange(order.size)
        child = number.reshape(-1, 2)
        sizes = np.stack([length, size - length], axis=1) + (1 + count)[:, None]
        starts = offsets(sizes.ravel()[order])
        one, two = starts[child[:, 0]], starts[child[:, 1]]

        # Corners, counted from the cutter's head; the cutter's tail is in both halves, as is its
        # head, which ends the second.
        cell = np.repeat(np.arange(size.size), size)
        position = np.arange(self.ring.corners.size) - (self.ring.starts[:-1] + start)[cell]
        position += size[cell] * (position < 0)
        corners, sides = np.empty((2, starts[-1]), np.int64)
        for half, to in ((position <= length[cell], one), (position >= length[cell], two - length)):
            index = (to[cell] + position)[half]
            corners[index], sides[index] = self.ring.corners[half], self.ring.sides[half]
        name, last = names[self.cutter], two + size - length
        corners[last] = corners[one]
        sides[one + length] = sides[last] = name
        for index in ((one + length + count)[owner] - rank, last[owner] + 1 + rank):
            corners[index], sides[index] = total + np.arange(owner.size), name[owner]

        # Chords in the positions of the halves. A crossed one goes from its own end in either half
        # to the new vertex: back along the first half, forth along the second.
        cells, rank = parts.cell[entry], rank[point]
        back, forth = (length + count)[cells] - rank, (size - length + 1)[cells] + rank
        ahead = self.a_first[entry]
        a_second, b_second = (
            x - self.middle + self.around * (x < self.middle) for x in (self.a, self.b)
        )
        i, j = np.flatnonzero(self.first), np.flatnonzero(self.second)
        x = entry
        left = [
            Chords(child[parts.cell[i], 0], parts.line[i], self.a[i], self.b[i]),
            Chords(child[parts.cell[j], 1], parts.line[j], a_second[j], b_second[j]),
            Chords(
                child[cells, 0],
                parts.line[x],
                np.where(ahead, self.a[x], back),
                np.where(ahead, back, self.b[x]),
            ),
            Chords(
                child[cells, 1],
                parts.line[x],
                np.where(ahead, forth, a_second[x]),
                np.where(ahead, b_second[x], forth),
            ),
        ]
        joined = [np.concatenate(columns) for columns in zip(*left, strict=True)]
        by_cell = np.argsort(joined[0], kind="stable")
        unfinished = int(np.count_nonzero(has_chords))
        border = starts[unfinished]
        return (
            _Ring(corners[:border], starts[: unfinished + 1], sides[:border]),
            _Ring(corners[border:], starts[unfinished:] - border, sides[border:]),
            Chords(*(column[by_cell] for column in joined)),
        )
