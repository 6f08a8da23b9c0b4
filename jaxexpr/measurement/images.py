"""Images of a curve in the layers of one network, and their projection onto a plane, for plots."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.shapes import Float, Shaped
from jaxexpr._core.x64 import precision
from jaxexpr.curves import Curve
from jaxexpr.layers import PlacedDense, PlacedPool
from jaxexpr.measurement.nodes import Nodes
from jaxexpr.measurement.plan import validate_network
from jaxexpr.networks import Network
from jaxexpr.params import Params


class Projection(NamedTuple):
    """Points projected onto their first two principal axes.

    Attributes
    ----------
    points : ``(n, 2)``, float64, relative to their mean.
    share : fraction of the total variance that lies along these two axes, from 0 to 1; it is 1 for
        points in a plane.
    """

    points: Float[np.ndarray, "n 2"]
    share: float


@explained
def project(points: ArrayLike) -> Projection:
    """Project points onto the two directions of largest variance.

    Raghu et al. 2017 (figure 3) plot the image of a circle in each layer in this way.

    Parameters
    ----------
    points : ``(n, k)``, such as one layer's image from ``trajectory``; n >= 2 and k >= 2.

    Raises
    ------
    ValueError
        for an array of another shape, and for NaN or infinite entries.

    Examples
    --------
    >>> corners = np.array([[0.0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0]])
    >>> projection = project(corners)
    >>> projection.points.shape, round(projection.share, 12)
    ((4, 2), 1.0)
    """
    array = np.asarray(checks.numeric("points", points), np.float64)
    if array.ndim != 2 or min(array.shape) < 2:
        raise ValueError(
            f"points has shape {array.shape}: give (n, k), two or more points of two or more "
            "coordinates"
        )
    centred = array - array.mean(axis=0)
    _, singular_values, axes = np.linalg.svd(centred, full_matrices=False)
    total = float(np.sum(singular_values**2))
    share = float(np.sum(singular_values[:2] ** 2)) / total if total else 1.0
    return Projection(centred @ axes[:2].T, share)


@explained
def trajectory(
    params: Params,
    curve: Curve,
    *,
    activation: str | activations.Activation | None = None,
    net: Network | None = None,
    points: int = 1001,
) -> list[Shaped[np.ndarray, "{points} ..."]]:
    """Return the curve's image in every layer of one network, for plots.

    Parameters
    ----------
    params, curve, activation, net : as for ``measure``.
    points : number of points, equally spaced in the curve's parameter, both end points included.

    Returns
    -------
    The points of the curve itself, ``(points, *input_shape)``, then the pre-activations of each
    layer: ``(points, width)``, or ``(points, height, width, channels)`` for a convolution. For a
    pool its output is returned. NumPy arrays in the precision of `params`.

    Raises
    ------
    ValueError
        as ``measure``; for an infinite line, and for fewer than two points.

    Examples
    --------
    >>> import jax
    >>> from jaxexpr import MLP, curves, laws
    >>> params = MLP((2, 8, 4), laws.Gaussian(1.5), laws.Zero()).init(jax.random.key(0))
    >>> [h.shape for h in trajectory(params, curves.circle([1.0, 0], [0, 1.0]), points=5)]
    [(5, 2), (5, 8), (5, 4)]
    """
    params, curve, phi, dtype = validate_network(params, curve, activation, net)
    nodes = Nodes("grid", checks.integer("points", points, minimum=2))
    if curve.whole:
        raise ValueError("curve is an infinite line, which has no last point: give a segment")
    ops = [PlacedDense(*np.shape(w)) for w, _ in params] if net is None else net.ops
    remaining = list(params)
    with precision(dtype):
        curve = curve.astype(dtype)
        z = curve.points(jnp.asarray(nodes.parameters(curve), dtype))
        images = [np.asarray(z)]
        z = z.reshape(nodes.count, -1)
        for op in ops:
            if isinstance(op, PlacedPool):
                h = z = op.pooled(z, op.winners(z))
            else:
                weights, biases = (jnp.asarray(x).astype(dtype) for x in remaining.pop(0))
                h = op.product(weights.reshape(op.fan_in, op.outputs))(z) + op.spread(biases)[None]
                z = phi(h)
            images.append(np.asarray(h).reshape(nodes.count, *op.shape))
    return images
