"""Images of a curve in the layers of one network, and in two dimensions, for pictures."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.precision import precision
from jaxexpr._core.shapes import Float, Shaped
from jaxexpr.curves import Curve
from jaxexpr.layers import PlacedDense, PlacedPool
from jaxexpr.measurement.nodes import Nodes
from jaxexpr.measurement.plan import validate_network
from jaxexpr.networks import Network
from jaxexpr.params import Params


class Projection(NamedTuple):
    """Points in their own principal plane.

    Attributes
    ----------
    points : ``(n, 2)``, float64, about their mean.
    share : of the variance of all coordinates that the two keep, 0 to 1; 1 of points in a plane.
    """

    points: Float[np.ndarray, "n 2"]
    share: float


@explained
def project(points: ArrayLike) -> Projection:
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


@explained
def trajectory(
    params: Params,
    curve: Curve,
    *,
    activation: str | activations.Activation | None = None,
    net: Network | None = None,
    points: int = 1001,
) -> list[Shaped[np.ndarray, "{points} ..."]]:
    """Return the curve's image in every layer of one network, for pictures.

    Parameters
    ----------
    params, curve, activation, net : as for ``measure``.
    points : equally spaced in the curve's parameter, both ends among them.

    Returns
    -------
    The curve itself, ``(points,)`` and the shape of an input, then the pre-activations of each
    layer, ``(points, width)``; of a convolution ``(points, height, width, channels)``, and of a
    pool its values. NumPy arrays in the precision of `params`.

    Raises
    ------
    ValueError
        as ``measure``, and for an infinite line and fewer than two points.

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
    left = list(params)
    with precision(dtype):
        curve = curve.astype(dtype)
        z = curve.points(jnp.asarray(nodes.parameters(curve), dtype))
        images = [np.asarray(z)]
        z = z.reshape(nodes.count, -1)
        for op in ops:
            if isinstance(op, PlacedPool):
                h = z = op.pooled(z, op.winners(z))
            else:
                weights, biases = (jnp.asarray(x).astype(dtype) for x in left.pop(0))
                h = op.product(weights.reshape(op.fan_in, op.outputs))(z) + op.spread(biases)[None]
                z = phi(h)
            images.append(np.asarray(h).reshape(nodes.count, *op.shape))
    return images
