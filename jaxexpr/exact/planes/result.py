"""Regions of a plane: polygons, neighbours, lengths, areas, patterns."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr.activations import Activation
from jaxexpr.exact.piecewise_linear import PiecewiseLinear
from jaxexpr.exact.planes import polygons
from jaxexpr.exact.planes.forward import ForwardLayer
from jaxexpr.exact.planes.polygons import Array, Polygons
from jaxexpr.exact.planes.subdivide import NewVertices


class Adjacency(NamedTuple):
    """Pairs of cells with a common edge; an entry for each edge.

    Attributes
    ----------
    cells : the two cells, the lower number first, ``(n, 2)``.
    vertices : the ends of the edge, ``(n, 2)``.
    layer : number of the layer whose boundary separates them, counted from 1.
    unit, level : index of the unit in that layer, and of its breakpoint; the first of boundaries
        that coincide.
    length : length of the edge in input space.
    """

    cells: Array
    vertices: Array
    layer: Array
    unit: Array
    level: Array
    length: Array


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Plane:
    """The activation regions of a network on a square in a plane.

    Points of the square are ``(a, b)``; they stand for ``origin + a u + b v``.

    Attributes
    ----------
    counts : activation regions of the first d layers, ``(depth,)``, int64.
    cells : the regions of the whole network in flat arrays: ``points`` ``(v, 2)``, vertices in
        (a, b); ``corners`` ``(m,)``, the vertices of one region after the other, each
        counter-clockwise; ``starts`` ``(count + 1,)``, where each region begins in it.
    close : number of decisions that rounding may have changed: values and crossings that counted as
        equal by a small margin, or as distinct though within 1024 times their error.
    origin, u, v, half_width : the square.
    params, activation : the network, in NumPy float64.
    layers, growth : the layers as they were computed, and the new vertices of each.
    """

    counts: Array
    cells: Polygons
    close: int
    origin: Array
    u: Array
    v: Array
    half_width: float
    params: tuple[tuple[Array, Array], ...]
    activation: Activation
    layers: tuple[ForwardLayer, ...]
    growth: tuple[NewVertices, ...]

    def __repr__(self) -> str:
        depth, close = self.counts.size, f", close={self.close}" if self.close else ""
        return f"Plane(count={self.count}, depth={depth}, half_width={self.half_width:g}{close})"

    @property
    def count(self) -> int:
        """Activation regions of the whole network."""
        return int(self.counts[-1])

    @functools.cached_property
    def polygons(self) -> list[Array]:
        """Each region as its corners in (a, b), ``(m, 2)``, counter-clockwise."""
        corners, starts = self.cells.points[self.cells.corners], self.cells.starts.tolist()
        return [corners[i:j] for i, j in zip(starts, starts[1:], strict=False)]

    @functools.cached_property
    def areas(self) -> Array:
        """Area of each region in (a, b), ``(count,)``; in input space `area_scale` times that."""
        return polygons.areas(self.cells)

    @property
    def area_scale(self) -> float:
        """Area in input space of ``0 <= a, b <= 1``."""
        return float(abs(np.linalg.det(self._shape)))

    @property
    def _shape(self) -> Array:
        """A matrix R with ``|R (a, b)| = |a u + b v|``."""
        return np.asarray(np.linalg.qr(np.stack([self.u, self.v], axis=1), mode="r"))

    @functools.cached_property
    def centres(self) -> Array:
        """A point inside each region, in (a, b): the mean of its corners, ``(count, 2)``."""
        return polygons.centres(self.cells)

    @functools.cached_property
    def adjacency(self) -> Adjacency:
        """Pairs of neighbouring regions, and the boundaries between them."""
        sides = polygons.edges(self.cells)
        inner = sides.corners[:, 1] >= 0
        corners = sides.corners[inner]
        pairs = np.sort(polygons.owners(self.cells)[corners], axis=1)
        ends = np.stack([sides.low[inner], sides.high[inner]], axis=1)
        layer, unit, level = self.boundary(self.cells.sides[corners[:, 0]])
        return Adjacency(pairs, ends, layer, unit, level, self._lengths(ends))

    def boundary(self, side: Array) -> tuple[Array, Array, Array]:
        """Layer (from 1), unit and breakpoint (from 0) of sides with entry `side` >= 0."""
        widths = np.array([len(b) for _, b in self.params])
        first = polygons.offsets(widths * len(self.activation.breakpoints or ()))
        layer = np.searchsorted(first, side, side="right")
        level, unit = np.divmod(side - first[layer - 1], widths[layer - 1])
        return layer, unit, level

    def _lengths(self, ends: Array) -> Array:
        step = self.cells.points[ends[:, 1]] - self.cells.points[ends[:, 0]]
        return np.linalg.norm(step @ self._shape.T, axis=1)

    @functools.cached_property
    def perimeters(self) -> Array:
        """Length in input space of the boundaries that each layer adds, ``(depth,)``.

        Boundaries that coincide count once, in the lowest layer; sides of the square do not count.
        """
        adjacency = self.adjacency
        return np.bincount(
            adjacency.layer - 1, weights=adjacency.length, minlength=self.counts.size
        )

    @functools.cached_property
    def perimeters_ab(self) -> Array:
        """As `perimeters`, with lengths in the (a, b) plane."""
        adjacency = self.adjacency
        step = np.diff(self.cells.points[adjacency.vertices], axis=1)[:, 0]
        length = np.hypot(step[:, 0], step[:, 1])
        return np.bincount(adjacency.layer - 1, weights=length, minlength=self.counts.size)

    @property
    def crossings(self) -> int:
        """Number of points strictly inside the square where boundaries cross; each counts once."""
        rim = self.cells.sides < 0
        outer = np.unique(
            np.concatenate(
                [self.cells.corners[rim], self.cells.corners[polygons.following(self.cells)[rim]]]
            )
        )
        return len(self.cells.points) - outer.size

    def inputs(self, ab: ArrayLike) -> Array:
        """Points of input space ``(..., n_in)`` of points ``(..., 2)`` of the square."""
        ab = np.asarray(ab, np.float64)
        return self.origin + ab[..., :1] * self.u + ab[..., 1:] * self.v

    def coordinates(self, x: ArrayLike) -> Array:
        """(a, b) of the point of the plane nearest to each x: ``(..., n_in)`` to ``(..., 2)``."""
        basis = np.stack([self.u, self.v])
        return (np.asarray(x, np.float64) - self.origin) @ np.linalg.pinv(basis)

    @functools.cached_property
    def patterns(self) -> tuple[Array, ...]:
        """Activation patterns: for each layer, the linear piece of every unit in each region.

        ``(count, width)``, int8: the number of breakpoints below the pre-activation; for ReLU 1 if
        the unit is active. No two regions agree in all layers. A breakpoint that a pre-activation
        equals in a whole region is not below it.
        """
        piecewise, patterns = PiecewiseLinear(self.activation), []
        z = self.inputs(polygons.square(self.half_width).points)
        for index, (layer, new_vertices) in enumerate(zip(self.layers, self.growth, strict=True)):
            h = new_vertices.values(z @ layer.weights + layer.biases, piecewise.levels)
            z = piecewise.image(h)
            for later in self.growth[index + 1 :]:
                h = later.rows(h)
            piece = np.zeros((self.count, h.shape[1]), np.int8)
            for level in piecewise.levels:  # above it at one corner implies above it inside
                corners = np.packbits(h > level, axis=1)[self.cells.corners]
                some = np.bitwise_or.reduceat(corners, self.cells.starts[:-1], axis=0)
                piece += np.unpackbits(some, axis=1, count=h.shape[1]).view(np.int8)
            patterns.append(piece)
        return tuple(patterns)
