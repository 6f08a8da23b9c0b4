"""Images of curves in two dimensions, for pictures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained


class Projection(NamedTuple):
    """Points in their own principal plane.

    Attributes
    ----------
    points : ``(n, 2)``, float64, about their mean.
    share : of the variance of all coordinates that the two keep, 0 to 1; 1 of points in a plane.
    """

    points: np.ndarray
    share: float


@explained
def project(points: Any) -> Projection:
    """Project points on the two directions of largest variance.

    Raghu et al. 2017 show a circle's image so, layer by layer (figure 3).

    Parameters
    ----------
    points : ``(n, k)``, such as one layer's image from ``trajectory``; at least two, k >= 2.

    Raises
    ------
    ValueError
        for points of another shape, NaN or infinite ones.

    Examples
    --------
    >>> corners = np.array([[0.0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0]])
    >>> found = project(corners)
    >>> found.points.shape, round(found.share, 12)
    ((4, 2), 1.0)
    """
    found = np.asarray(checks.numeric("points", points), np.float64)
    if found.ndim != 2 or min(found.shape) < 2:
        raise ValueError(
            f"points has shape {found.shape}: give (n, k), two or more points of two or more "
            "coordinates"
        )
    centred = found - found.mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
    everything = float(np.sum(sizes**2))
    share = float(np.sum(sizes[:2] ** 2)) / everything if everything else 1.0
    return Projection(centred @ axes[:2].T, share)
