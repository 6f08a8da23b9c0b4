"""Expected crossings of a random layer above a known curve: the Kac-Rice formula.

Given the curve's image z(t) below a dense Gaussian layer, a pre-activation is a Gaussian process
in t, and the expected number of its crossings of a level is an integral over t. Summed in place of
the crossings themselves it has the same mean and a smaller variance (Rao-Blackwell).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def crossing_rate(
    z: jax.Array, dz: jax.Array, weight_scale: Any, bias_std: Any, level: Any = 0.0
) -> jax.Array:
    """Expected crossings of `level` by one unit of a Gaussian layer, per unit of the parameter.

    With ``u = (weight_scale z, bias_std)``, ``q = |u|^2``, ``m = u.u'/q`` and v the squared part of
    ``u'`` perpendicular to u, it is ``E|N(m level, v)| exp(-level^2 / 2q) / sqrt(2 pi q)`` (Rice's
    formula; for level 0 the speed of ``u/|u|`` on the unit sphere, over pi).

    Parameters
    ----------
    z, dz : points of the image below the layer and its derivative there, ``(m, fan_in)``.
    weight_scale : standard deviation of a weight, its division by ``sqrt(fan_in)`` included.
    bias_std : standard deviation of a bias; 0 without biases.
    level : the breakpoint.

    Returns
    -------
    ``(m,)``; 0 where ``u = 0``, where the unit does not move.

    Examples
    --------
    >>> z, dz = jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]])  # a great circle: angle / pi
    >>> float(jnp.round(crossing_rate(z, dz, 1.0, 0.0)[0] * np.pi, 5))
    1.0
    """
    dtype = z.dtype
    scale, bias = jnp.asarray(weight_scale, dtype), jnp.asarray(bias_std, dtype)
    u, du = scale * z, scale * dz
    q = jnp.sum(u * u, axis=1) + bias * bias
    alive = q != 0
    safe = jnp.where(alive, q, 1)
    m = jnp.sum(u * du, axis=1) / safe
    # The part of u' perpendicular to u, formed before it is squared: no cancellation.
    across = du - m[:, None] * u
    v = jnp.sum(across * across, axis=1) + (m * bias) ** 2
    moves = v > 0
    width = jnp.sqrt(jnp.where(moves, v, 1))
    level = jnp.asarray(level, dtype)
    centre = m * level
    ratio = centre / width
    folded = width * np.asarray(np.sqrt(2 / np.pi), dtype) * jnp.exp(-ratio * ratio / 2)
    folded = folded + centre * lax.erf(ratio * np.asarray(np.sqrt(0.5), dtype))
    folded = jnp.where(moves, folded, jnp.abs(centre))
    density = jnp.exp(-(level**2) / 2 / safe)
    density = density / jnp.sqrt(np.asarray(2 * np.pi, dtype) * safe)
    return jnp.where(alive, folded * density, 0)
