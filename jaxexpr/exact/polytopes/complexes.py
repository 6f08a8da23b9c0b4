"""Polyhedral complexes that are cut by one hyperplane after another, all cells at once.

A complex is its face lattice: vertices, edges, polygons, ... up to the cells, every face with the
list of its facets (its faces of one dimension less), each face stored once and shared by all that
contain it. Functions that are affine on every cell, one for each *column*, are given by their
values at the vertices. To cut along the zeros of a column, dimension by dimension:

* a face is crossed if it has a vertex with a positive and one with a negative value;
* a crossed face F becomes F+ and F-, separated by a new face F0 of one dimension less;
* F+ has the facets of F with a positive vertex (their + parts, where they are crossed) and F0;
* F0 has the new faces of the facets that are crossed, and the facets *of* facets of F on which
  the column is zero.

Only signs at vertices are used, so vertices where more than n facets meet, and hyperplanes through
vertices or whole faces, need no special case, no perturbation and no adjacency test. Since a vertex
is stored once, all cells around it agree on its sign.

**Coordinates are homogeneous**: ``(x, tau)`` stands for the point ``x / tau``, and ``(x, 0)`` for
the point at infinity in direction x. ``box`` returns a box; ``space`` all of R^n as n + 1
simplicial cones around the origin, whose other corners lie at infinity.
"""

from __future__ import annotations

import itertools

import numpy as np

from jaxexpr.exact.polytopes.face_lattice import (
    WORD,
    Array,
    FacesOfDimension,
    GrowableArray,
    pack_signs,
    segments,
)


class Inconsistent(ArithmeticError):
    """The signs at the vertices of a face are not those of an affine function."""


class Complex:
    """Cells of R^n with all their faces, and columns of values at the vertices.

    Attributes
    ----------
    faces : ``faces[k]`` are the faces of dimension k.
    points : homogeneous coordinates of the vertices, ``(v, n + 1)``.
    values : values of the columns at the vertices, ``(v, c)``; exactly 0 where within `tolerance`
        times `scale` of 0.
    scale : size of the terms of each value, ``(v, c)``.
    origin : the cell that contained each cell when the columns were set.
    """

    def __init__(self, points: Array, faces: list[list[list[int]]], tolerance: float) -> None:
        self.faces = [FacesOfDimension(len(points)), *(FacesOfDimension(f) for f in faces)]
        self.points, self.tolerance = GrowableArray(points), tolerance
        self.values = self.scale = GrowableArray(np.zeros((len(points), 0)))
        self.origin = GrowableArray(np.zeros(0, np.intp))

    @property
    def cells(self) -> FacesOfDimension:
        return self.faces[-1]

    def euler(self) -> int:
        """Euler characteristic: 1 for every subdivision of a box or of space."""
        return sum((-1) ** k * faces.size for k, faces in enumerate(self.faces))

    def set_columns(self, values: Array, scale: Array) -> None:
        """Replace the columns; `values` and `scale` are ``(v, c)``."""
        self.values, self.scale = GrowableArray(self._snapped(values, scale)), GrowableArray(scale)
        bottom = self.faces[0]
        bottom.positive = GrowableArray(pack_signs(self.values.rows > 0))
        bottom.negative = GrowableArray(pack_signs(self.values.rows < 0))
        for facets, faces in itertools.pairwise(self.faces):
            faces.compact()
            faces.collect_signs(facets)
        self.origin = GrowableArray(np.arange(self.cells.size))

    def _snapped(self, values: Array, scale: Array) -> Array:
        return np.where(np.abs(values) <= self.tolerance * scale, 0.0, values)

    def _vertices(self, column: int, ends: Array) -> Array:
        """Add the zero of a column on each edge; `ends` ``(m, 2)``."""
        value = self.values.rows[ends, column]
        # Two weights, each of full relative accuracy: their ends may be far or near.
        first, second = (value[:, [1, 0]] / (value[:, [1, 0]] - value)).T[:, :, None]
        for store in (self.points, self.scale, self.values):
            new = first * store.rows[ends[:, 0]] + second * store.rows[ends[:, 1]]
            if store is self.values:
                new = self._snapped(new, self.scale.rows[-len(new) :])
                new[:, column] = 0.0
            store.extend(new)
        vertices = self.faces[0]
        vertices.positive.extend(pack_signs(new > 0))
        vertices.negative.extend(pack_signs(new < 0))
        return vertices.reserve(len(ends))

    def cut(self, column: int) -> None:
        """Cut all cells along the zeros of a column.

        Raises
        ------
        Inconsistent
            if the signs of a face are not those of an affine function: values nearer to zero than
            their rounding errors.
        """
        word, bit = divmod(column, WORD)
        mask = np.uint64(1 << bit)
        split: list[tuple[FacesOfDimension, Array]] = []
        for k in range(1, len(self.faces)):
            faces_k, below = self.faces[k], self.faces[k - 1]
            crossed = np.flatnonzero(
                faces_k.positive.rows[:, word] & faces_k.negative.rows[:, word] & mask
            )
            if not crossed.size:
                continue
            owner, index = segments(faces_k.start.rows[crossed], faces_k.length.rows[crossed])
            facet = faces_k.facets.rows[index]
            # A crossed facet has become its own + part, and its other_half is the - part.
            other_half = below.other_half.rows[facet]
            cut = other_half >= 0
            above = (below.positive.rows[facet, word] & mask) != 0
            under = (below.negative.rows[facet, word] & mask) != 0
            if not np.all(above | under):
                raise Inconsistent(f"column {column}")
            if k == 1:
                zero = self._vertices(column, facet.reshape(-1, 2))
            else:
                new, beside = (owner[cut], below.zero.rows[facet[cut]]), above & ~cut
                flat = self._flat(k, facet[beside], word, mask)
                old = (owner[beside][flat[0]], flat[1])
                zero = below.reserve(crossed.size)
                consistent = below.assign_facets(zero, *_joined(new, old), self.faces[k - 2])
                if not consistent or (k == 2 and np.any(below.length.rows[zero] != 2)):
                    raise Inconsistent(f"column {column}")
            other, wall = faces_k.reserve(crossed.size), (np.arange(crossed.size), zero)
            lower = _joined((owner[under], facet[under]), (owner[cut], other_half[cut]), wall)
            faces_k.assign_facets(other, *lower, below)
            faces_k.assign_facets(crossed, *_joined((owner[above], facet[above]), wall), below)
            faces_k.other_half.rows[crossed], faces_k.zero.rows[crossed] = other, zero
            split.append((faces_k, crossed))
            if faces_k is self.cells:
                self.origin.extend(self.origin.rows[crossed])
        for faces_k, crossed in split:
            faces_k.other_half.rows[crossed] = -1

    def _flat(self, k: int, faces: Array, word: int, mask: np.uint64) -> tuple[Array, Array]:
        """Facets of faces of dimension k - 1 on which a column is zero, after their faces' indices.

        An existing facet F0 of a crossed face F lies in two facets of F, one on each side of the
        cut: among those of the + side it is found once.
        """
        holders, below = self.faces[k - 1], self.faces[k - 2]
        holder, index = segments(holders.start.rows[faces], holders.length.rows[faces])
        inner = holders.facets.rows[index]
        signs = below.positive.rows[inner, word] | below.negative.rows[inner, word]
        zero = (signs & mask) == 0
        return holder[zero], inner[zero]

    def centres(self) -> Array:
        """Return a point in the interior of each cell, homogeneous, ``(cells, n + 1)``."""
        centre = self.points.rows
        for faces in self.faces[1:]:
            faces.compact()
            centre = faces.means(centre)
        return centre


def _joined(*pairs: tuple[Array, Array]) -> tuple[Array, Array]:
    """Owners and facets, one list after the other."""
    owners, facets = zip(*pairs, strict=True)
    return np.concatenate(owners), np.concatenate(facets)


def box(low: Array, high: Array, tolerance: float) -> Complex:
    """The box ``low <= x <= high`` of R^n as a complex of one cell."""
    n = len(low)
    # A face fixes some coordinates at an end (0 or 1) and leaves the others free (2).
    faces = [f for f in itertools.product((0, 1, 2), repeat=n)]
    by_dimension = [[f for f in faces if f.count(2) == k] for k in range(n + 1)]
    number = [{f: i for i, f in enumerate(group)} for group in by_dimension]
    facets = [
        [
            [
                number[k - 1][(*f[:i], end, *f[i + 1 :])]
                for i in range(n)
                if f[i] == 2
                for end in (0, 1)
            ]
            for f in by_dimension[k]
        ]
        for k in range(1, n + 1)
    ]
    ends = np.stack([low, high])
    corners = np.array(by_dimension[0]).reshape(-1, n)
    points = np.take_along_axis(ends, corners, axis=0)
    return Complex(np.concatenate([points, np.ones((len(points), 1))], axis=1), facets, tolerance)


def space(n: int, tolerance: float) -> Complex:
    """All of R^n as n + 1 simplicial cones around the origin."""
    directions = np.concatenate([np.eye(n), -np.ones((1, n))])
    points = np.zeros((n + 2, n + 1))
    points[0, n], points[1:, :n] = 1.0, directions
    # Simplices: all sets of corners but those that hold all directions.
    simplices = [
        [s for s in itertools.combinations(range(n + 2), k + 1) if len({*s} - {0}) <= n]
        for k in range(n + 1)
    ]
    number = [{s: i for i, s in enumerate(group)} for group in simplices]
    facets = [
        [[number[k - 1][(*s[:i], *s[i + 1 :])] for i in range(k + 1)] for s in simplices[k]]
        for k in range(1, n + 1)
    ]
    return Complex(points, facets, tolerance)
