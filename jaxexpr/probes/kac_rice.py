"""Expected crossings of a random layer above a known curve: the Kac-Rice formula.

Given the curve's image z(t) below a dense Gaussian layer, a pre-activation is a Gaussian process
in t, and the expected number of its crossings of a level is an integral over t. Averaged instead of
the number of crossings it has the same mean and a smaller variance (Rao-Blackwell).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jaxexpr._core.calls import explained
from jaxexpr._core.linalg import power_of_two
from jaxexpr.probes.base import FINE_TANGENT_POINTS, Layer, Probe
from jaxexpr.probes.crossing_counts import crossings

PATCH_ENTRIES = 2**21  # numbers in the patches of a convolution that are computed at once


def crossing_rate(
    z: jax.Array,
    dz: jax.Array,
    weight_scale: ArrayLike,
    bias_std: ArrayLike,
    level: ArrayLike = 0.0,
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


def _expected(layer: Layer, levels: Sequence[float]) -> jax.Array:
    spec, dtype = layer.spec, layer.z.dtype
    assert layer.dz_before is not None
    if spec is None:  # a pool, of which nothing is drawn
        return jnp.full((), jnp.nan, dtype)
    # Biases and levels in the units of the points.
    unit = power_of_two(-layer.points_exponent, dtype)
    bias = jnp.asarray(spec.biases.std, dtype) * unit
    scale = spec.weight_scale(layer.op.fan_in, dtype)

    def rate_at(node: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Expected crossings by one output at all places, per unit of the parameter."""
        z, dz = (layer.op.patches(x[None])[0] for x in node)
        rates = [crossing_rate(z, dz, scale, bias, x * unit if x else 0.0) for x in levels]
        return jnp.sum(jnp.stack(rates)) if rates else jnp.zeros((), dtype)

    pairs = (layer.z_before, layer.dz_before)
    # Patches of an image are many times its size: few nodes at a time.
    entries = layer.op.units // layer.op.outputs * layer.op.fan_in
    together = int(np.clip(PATCH_ENTRIES // entries, 1, layer.z.shape[0]))
    rate = lax.map(rate_at, pairs, batch_size=together)
    units = power_of_two(layer.tangents_exponent - layer.points_exponent, dtype)
    shares = np.asarray(layer.shares * layer.span * layer.op.outputs, dtype)
    return jnp.sum(rate * shares) * units


def _expected_transitions(layer: Layer) -> jax.Array:
    return _expected(layer, layer.activation.breakpoints or ())


@dataclasses.dataclass(frozen=True)
class _ExpectedCrossings:
    levels: tuple[float, ...]

    def __call__(self, layer: Layer) -> jax.Array:
        return _expected(layer, self.levels)


@explained
def expected_crossings(*levels: float, name: str | None = None) -> Probe:
    """A probe of the expected crossings of these levels by a layer, given the layers below.

    The Kac-Rice formula for dense Gaussian weights and Gaussian biases: it has the mean of
    ``crossings``, a smaller variance, and needs no fine grid; also for smooth activations.

    Raises
    ------
    ValueError
        as for ``crossings``.

    Examples
    --------
    >>> expected_crossings(0.0).name
    'expected_crossings(0)'
    """
    counted = crossings(*levels)
    return Probe(
        f"expected_{counted.name}" if name is None else name,
        _ExpectedCrossings(counted.levels),
        nodes=("tangent",),
        points=(FINE_TANGENT_POINTS,),
        gaussian=True,
    )


expected_transitions = Probe(
    "expected_transitions",
    _expected_transitions,
    nodes=("tangent",),
    points=(FINE_TANGENT_POINTS,),
    gaussian=True,
)
