"""Which grid would have been needed: exact counts held against finer and finer grids."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.shapes import Float, Int
from jaxexpr.curves import Curve
from jaxexpr.measurement.single import measure
from jaxexpr.params import Params

FIRST = 129


class GridNeeded(NamedTuple):
    """What ``grid_needed`` found, layer by layer, each ``(depth,)``.

    Attributes
    ----------
    points : least number of points, out of 129, 257, 513, ..., from which on no finer grid that was
        tried misses more than was allowed; 0 where the finest one still does.
    missed : share of the transitions that the finest grid misses.
    transitions : the exact number.
    finest : points of the finest grid.
    """

    points: Int[np.ndarray, "depth"]
    missed: Float[np.ndarray, "depth"]
    transitions: Float[np.ndarray, "depth"]
    finest: int


@explained
def grid_needed(
    params: Params,
    curve: Curve,
    *,
    activation: str | activations.Activation = "relu",
    rtol: float = 0.01,
    max_points: int = 2**17 + 1,
) -> GridNeeded:
    """Find how fine a grid must be to see the transitions of each layer of a network.

    Parameters
    ----------
    params, curve, activation : as for ``measure``; in float32 very fine grids count rounding.
    rtol : share of the transitions that may be missed.
    max_points : of the finest grid that is tried.

    Raises
    ------
    ValueError
        as ``measure``, for a smooth activation, and for `rtol` that is not above 0.

    Examples
    --------
    >>> from jaxexpr import curves
    >>> W, b = np.array([[1.0, -1.0]]), np.array([-0.25, 0.75])
    >>> grid_needed(((W, b),), curves.line([0.0], [1.0])).points.tolist()
    [129]
    """
    rtol = checks.positive("rtol", rtol)
    most = checks.integer("max_points", max_points, minimum=FIRST)
    options: dict[str, Any] = {"activation": activation, "probes": "transitions"}
    exact = measure(params, curve, method="exact", **options)["transitions"]
    points, needed = FIRST, np.zeros(exact.shape, int)
    while True:
        found = measure(params, curve, method="grid", points=points, **options)["transitions"]
        missed = np.abs(found - exact) / np.maximum(exact, 1)
        needed = np.where(missed > rtol, 0, np.where(needed == 0, points, needed))
        if needed.all() or 2 * points - 1 > most:
            return GridNeeded(needed, missed, exact, points)
        points = 2 * points - 1
