"""Divide a box or all of R^n into activation regions, layer by layer.

On a cell of the first l layers every unit of the next one is affine, so its values at the vertices
of all cells come from one matrix product, and it cuts the cells that it crosses along its zeros
(``complexes``). The cost is proportional to the number of resulting cells and faces.

**Decisions.** A pre-activation that differs from a breakpoint by less than ``4096 eps`` times the
size of its terms is set to the breakpoint exactly; sizes are propagated through the layers as
independent errors are (their squares add). A region narrower than that, about 1e-12 of its
coordinates, may be lost; in return zero biases, repeated, parallel and dependent units, rows of
zeros and folding networks are counted correctly. If a cell then has signs that no affine function
has, the computation is repeated with a finer threshold; if all thresholds fail, ValueError is
raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxexpr.activations import Activation
from jaxexpr.exact.piecewise_linear import PiecewiseLinear
from jaxexpr.exact.polytopes import complexes
from jaxexpr.exact.polytopes.face_lattice import Array, unpack

EPS = float(np.finfo(np.float64).eps)
ROUNDINGS = (4096, 128, 16)
LIMIT = 2_000_000


def partition(
    layers: list[tuple[Array, Array]],
    phi: Activation,
    corners: tuple[Array, Array] | None,
    limit: int = LIMIT,
    see: Callable[[int, int], None] = lambda done, cells: None,
) -> Partition:
    """Divide a box (None: all of R^n) by all layers, with the coarsest threshold that succeeds.

    see : called with the numbers of hyperplanes done and of cells so far.
    """
    for roundings in ROUNDINGS:
        divided = Partition(len(layers[0][0]), corners, roundings * EPS, limit, see)
        try:
            for weights, biases in layers:
                divided.through(weights, biases, phi)
        except complexes.Inconsistent as error:
            failed = error
        else:
            return divided
    raise ValueError(
        f"params make boundaries at {failed} that float64 cannot tell apart: change the parameters "
        "a little, or make them exactly degenerate"
    )


class Divided(NamedTuple):
    """Cells after one layer: the cell of the layers below that contains each, and its states.

    States have a bit for each breakpoint of each unit, set where the pre-activation is above it.
    """

    origin: Array
    states: Array
    units: int
    per_unit: int


class Partition:
    """A box or all of R^n, divided layer by layer.

    Attributes
    ----------
    complex : all cells so far.
    layers : ``Divided`` of each layer.
    """

    def __init__(
        self,
        n: int,
        corners: tuple[Array, Array] | None,
        tolerance: float,
        limit: int,
        see: Callable[[int, int], None],
    ) -> None:
        if corners is None:
            self.complex = complexes.space(n, tolerance)
        else:
            self.complex = complexes.box(*corners, tolerance)
        self.layers: list[Divided] = []
        self._values = self.complex.points.rows[:, :n]
        self._scale, self._limit = np.abs(self._values), limit
        self._see, self._done = see, 0

    def through(self, weights: Array, biases: Array, phi: Activation) -> None:
        """Divide by the next layer; raises Inconsistent naming layer and unit."""
        if self.layers:
            self._advance(phi)
        piecewise = PiecewiseLinear(phi, broken=True)
        units, per_unit = len(biases), len(piecewise.levels)
        tau = self.complex.points.rows[:, -1:]
        fixed = tau * np.maximum(np.abs(biases), np.max(np.abs(piecewise.levels)))
        unit = max(self._scale.max(), fixed.max()) or 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._values @ weights + tau * biases
            # Rounding errors of the terms are independent: their squares add.
            scale = unit * np.sqrt((self._scale / unit) ** 2 @ weights**2 + (fixed / unit) ** 2)
        if not (np.isfinite(scale).all() and np.isfinite(values).all()):
            raise ValueError(
                f"params give numbers in layer {len(self.layers) + 1} that float64 cannot hold: "
                "rescale its weights"
            )
        beyond = (values[:, :, None] - tau[:, :, None] * piecewise.levels).reshape(len(values), -1)
        self.complex.set_columns(beyond, np.repeat(scale, per_unit, axis=1))
        name = f"layer {len(self.layers) + 1}"
        for column in range(beyond.shape[1] if phi.breakpoints else 0):
            try:
                self.complex.cut(column)
            except complexes.Inconsistent:
                raise complexes.Inconsistent(f"{name}, unit {column // per_unit}") from None
            self._done += 1
            self._see(self._done, self.complex.cells.size)
            if self.complex.cells.size > self._limit:
                raise ValueError(
                    f"limit={self._limit} regions are exceeded in {name}: take a smaller box or a "
                    "smaller network, or a higher limit if memory allows"
                )
        if self.complex.euler() != 1:
            raise complexes.Inconsistent(name)
        states = self.complex.cells.positive.rows
        if not phi.breakpoints:
            states = np.zeros_like(states)
        self.layers.append(Divided(self.complex.origin.rows, states, units, per_unit))

    def _advance(self, phi: Activation) -> None:
        """Apply the activation to the values at the vertices."""
        piecewise, tau = PiecewiseLinear(phi, broken=True), self.complex.points.rows[:, -1:]
        per_unit = len(piecewise.levels)
        beyond = self.complex.values.rows.reshape(len(tau), -1, per_unit)
        self._values, piece = piecewise.value(beyond, tau)
        # At a breakpoint the error may be multiplied by the slope of either side.
        steep = np.abs(piecewise.slopes)
        steep = np.maximum(steep[piece], steep[np.sum(beyond >= 0, axis=2)])
        scale = steep * self.complex.scale.rows[:, ::per_unit]
        self._scale = np.maximum(np.abs(self._values), scale)

    def regions(self) -> tuple[Array, Array]:
        """Number of distinct patterns of the first d layers; index of the pattern of each cell."""
        counts, region = [], np.zeros(len(self.layers[0].origin), np.intp)
        for layer in self.layers:
            keys = np.column_stack([region[layer.origin], layer.states.view(np.int64)])
            region = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
            counts.append(int(region.max()) + 1)
        return np.array(counts, np.int64), region

    def patterns(self) -> list[Array]:
        """Linear piece of each unit in every cell, for each layer ``(cells, width)``, uint8."""
        patterns: list[Array] = []
        cell = np.arange(self.complex.cells.size)
        for layer in reversed(self.layers):
            bits = unpack(layer.states[cell], layer.units * layer.per_unit)
            bits = bits.reshape(len(cell), layer.units, layer.per_unit)
            patterns.append(np.asarray(np.sum(bits, axis=2, dtype=np.uint8)))
            cell = layer.origin[cell]
        return patterns[::-1]
