"""Cut cells along chords, all cells at once.

A chord joins two vertices of a cell's boundary. Whether two chords of a cell cross is read off the
order of their ends around it: no number enters. Numbers only say where on a chord the others cross
it, and which of them do so in one point. So whatever the rounding, the cells that come out are
polygons that fit together, and chords that meet in one point, share an end or coincide make no
cells that are not there.

In each round every cell with chords is cut along the one that halves it best. A chord that is
crossed goes on in both halves; all others stay in one of them. A cell with c chords is done in
about log c rounds, and what a round costs is in proportion to the corners of the cells it cuts.
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
from jaxexpr.exact.planes.polygons import Array, Polygons, offsets, runs


class Carved(NamedTuple):
    """What has become of the cells.

    Attributes
    ----------
    cells : the cells, whose corners are old vertices and, after them, those of `inner`.
    inner : the new vertices, on segments between old ones.
    sine : of the angle at which the lines cross in each of them.
    vertex, line : the lines that pass through the new vertices, besides those that they are on.
    close : decisions that rounding might have turned.
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
    """The chords `entry` that the cutters of their cells cross, and where.

    Attributes
    ----------
    entry : indices into the chords, in order of cell and along the cutter.
    point : the new vertex of each, counted from 0.
    owner, rank : the cell of each new vertex, and its number on the cutter.
    part, sine : how far along the (whole) cutter it is, and at what angle they cross.
    close : decisions that rounding might have turned.
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
    cells : a partition, whose edges no line crosses but in a vertex; `points` are those of `outer`.
    chords : at most one for each line in a cell.
    lines : the lines, with values at the vertices that `outer` refers to.
    outer : the vertices of the cells.
    name : what the sides say that line 0 makes; line i makes ``name + i``.
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
    found: list[_Crossing] = []
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
        found.append(crossing)
        done.append(finished)
        parts = left
        see(sum(d.starts.size - 1 for d in (*done, ring)))
    on = np.concatenate(cutters)
    part, sine = (
        np.concatenate([np.zeros(0), *(getattr(c, what) for c in found)])
        for what in ("part", "sine")
    )
    sizes = np.concatenate([d.starts[1:] - d.starts[:-1] for d in done])
    corners, sides = (np.concatenate([d[i] for d in done]) for i in (0, 2))
    vertex, line = (np.concatenate(found) for found in zip(*passing, strict=True))
    return Carved(
        Polygons(cells.points, corners, offsets(sizes), sides),
        Between(whole.head[on], whole.tail[on], part),
        sine,
        vertex,
        line,
        close,
    )


def _taken(cells: Polygons, which: Array) -> _Ring:
    index, starts = runs(cells.starts, np.flatnonzero(which))
    return _Ring(cells.corners[index], starts, cells.sides[index])


class _Round:
    """One cut of every cell that has chords.

    Corners and ends of chords are counted from the cutter's head on: up to `length` they belong to
    the first half, from there on to the second; 0 and `length`, the cutter's ends, to both.
    `parts` are parts of chords: their `line` is the number of the whole chord.
    """

    def __init__(self, ring: _Ring, parts: Chords) -> None:
        self.ring, self.parts = ring, parts
        self.size = ring.starts[1:] - ring.starts[:-1]
        cell, chord, head, tail = parts
        around = self.size[cell]
        span = tail - head
        span += around * (span < 0)
        # Of chords that halve a cell equally well the first is taken, so that where lines coincide
        # the first of them is the one that is named.
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
        # What is in neither half and not crossed either has the cutter's own ends.
        self.first = (self.a_first | b_first) & ~self.crossed
        self.second = (self.a_second | b_second) & ~self.crossed

    def crossings(self, whole: _Whole, lines: Lines, outer: Between) -> _Crossing:
        """Where on the cutters the chords cross them."""
        entry = np.flatnonzero(self.crossed)
        cell, chord = self.parts.cell[entry], self.parts.line[entry]
        cutter = self.cutter[cell]
        unit, level = lines.of(whole.line[chord])
        near = outer.values(lines.values, whole.head[cutter], unit) - level
        far = outer.values(lines.values, whole.tail[cutter], unit) - level
        opposite = near * far < 0  # as the order of the ends says; where not, rounding rules
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

        The new vertices are numbered from `total`; `names` says what a whole chord's sides are.
        """
        size, start, length, parts = self.size, self.start, self.length, self.parts
        entry, point, owner, rank = crossing[:4]
        count = np.bincount(owner, minlength=size.size)
        has = np.zeros((size.size, 2), bool)
        has[parts.cell[self.first], 0] = has[parts.cell[self.second], 1] = True
        has[parts.cell[entry]] = True
        order = np.argsort(~has.ravel(), kind="stable")
        number = np.empty(order.size, np.int64)
        number[order] = np.arange(order.size)
        child = number.reshape(-1, 2)
        sizes = np.stack([length, size - length], axis=1) + (1 + count)[:, None]
        starts = offsets(sizes.ravel()[order])
        one, two = starts[child[:, 0]], starts[child[:, 1]]

        # Corners, counted from the cutter's head; the cutter's tail is in both halves, as is its
        # head, which ends the second.
        cell = np.repeat(np.arange(size.size), size)
        place = np.arange(self.ring.corners.size) - (self.ring.starts[:-1] + start)[cell]
        place += size[cell] * (place < 0)
        corners, sides = np.empty((2, starts[-1]), np.int64)
        for half, to in ((place <= length[cell], one), (place >= length[cell], two - length)):
            at = (to[cell] + place)[half]
            corners[at], sides[at] = self.ring.corners[half], self.ring.sides[half]
        name, last = names[self.cutter], two + size - length
        corners[last] = corners[one]
        sides[one + length] = sides[last] = name
        for at in ((one + length + count)[owner] - rank, last[owner] + 1 + rank):
            corners[at], sides[at] = total + np.arange(owner.size), name[owner]

        # Chords in the positions of the halves. A crossed one goes from its own end in either half
        # to the new vertex: back along the first half, forth along the second.
        own, rank = parts.cell[entry], rank[point]
        back, forth = (length + count)[own] - rank, (size - length + 1)[own] + rank
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
                child[own, 0],
                parts.line[x],
                np.where(ahead, self.a[x], back),
                np.where(ahead, back, self.b[x]),
            ),
            Chords(
                child[own, 1],
                parts.line[x],
                np.where(ahead, forth, a_second[x]),
                np.where(ahead, b_second[x], forth),
            ),
        ]
        joined = [np.concatenate(columns) for columns in zip(*left, strict=True)]
        by_cell = np.argsort(joined[0], kind="stable")
        busy = int(np.count_nonzero(has))
        border = starts[busy]
        return (
            _Ring(corners[:border], starts[: busy + 1], sides[:border]),
            _Ring(corners[border:], starts[busy:] - border, sides[border:]),
            Chords(*(column[by_cell] for column in joined)),
        )
