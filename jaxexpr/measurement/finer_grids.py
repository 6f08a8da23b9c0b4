"""How fine a grid must be: exact counts compared with finer and finer grids."""

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

COARSEST = 129  # points of the first grid


class GridNeeded(NamedTuple):
    """Result of ``grid_needed``; arrays have one entry for each layer, ``(depth,)``.

    Attributes
    ----------
    points : smallest number of points, out of 129, 257, 513, ..., such that this grid and all
        finer ones that were tried miss at most `rtol` of the transitions; 0 where even the finest
        grid misses more.
    missed : fraction of the transitions that the finest grid misses.
    transitions : the exact number of transitions.
    finest : number of points of the finest grid that was tried.
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
    """Find how many grid points are needed to count the transitions of each layer.

    Parameters
    ----------
    params, curve, activation : as for ``measure``; in float32, rounding adds
        transitions on very fine grids.
    rtol : fraction of the transitions that may be missed.
    max_points : largest number of points of a grid that is tried.

    Raises
    ------
    ValueError
        as ``measure``; for a smooth activation, for `rtol` that is not positive, and for
        `max_points` below 129.

    Examples
    --------
    >>> from jaxexpr import curves
    >>> W, b = np.array([[1.0, -1.0]]), np.array([-0.25, 0.75])
    >>> grid_needed(((W, b),), curves.line([0.0], [1.0])).points.tolist()
    [129]
    """
    rtol = checks.positive("rtol", rtol)
    max_points = checks.integer("max_points", max_points, minimum=COARSEST)
    options: dict[str, Any] = {"activation": activation, "probes": "transitions"}
    exact = measure(params, curve, method="exact", **options)["transitions"]
    points, needed = COARSEST, np.zeros(exact.shape, int)
    while True:
        counted = measure(params, curve, method="grid", points=points, **options)["transitions"]
        missed = np.abs(counted - exact) / np.maximum(exact, 1)
        needed = np.where(missed > rtol, 0, np.where(needed == 0, points, needed))
        if needed.all() or 2 * points - 1 > max_points:
            return GridNeeded(needed, missed, exact, points)
        points = 2 * points - 1
