"""Probes of lengths, of their growth in a layer, and of norms and angles."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr._core.linalg import norms
from jaxexpr.probes.base import FINE_TANGENT_POINTS, GRID_POINTS, TANGENT_POINTS, Layer, Probe


def _mean_where(values: jax.Array, shares: np.ndarray, keep: jax.Array) -> jax.Array:
    """Mean of `values` uniform in the curve's parameter over what is kept; NaN if nothing is."""
    weights = jnp.where(keep, np.asarray(shares, values.dtype), 0)
    total = jnp.sum(weights)
    mean = jnp.sum(jnp.where(keep, values, 0) * weights) / jnp.where(total > 0, total, 1)
    return jnp.where(total > 0, mean, jnp.nan)


def _ratios(layer: Layer) -> tuple[jax.Array, jax.Array]:
    alive = layer.segments_before > 0
    return layer.segments / jnp.where(alive, layer.segments_before, 1), alive


def _growth(layer: Layer) -> jax.Array:
    ratios, alive = _ratios(layer)
    return _mean_where(ratios, layer.shares, alive)


def _growth_squared(layer: Layer) -> jax.Array:
    ratios, alive = _ratios(layer)
    return _mean_where(ratios * ratios, layer.shares, alive)


def _log_growth(layer: Layer) -> jax.Array:
    ratios, alive = _ratios(layer)
    survives = alive & (layer.segments > 0)
    return _mean_where(jnp.log(jnp.where(survives, ratios, 1)), layer.shares, survives)


def _length(layer: Layer) -> jax.Array:
    return jnp.sum(layer.segments)


def _log_length(layer: Layer) -> jax.Array:
    length = jnp.sum(layer.segments)
    return jnp.where(length > 0, jnp.log(jnp.where(length > 0, length, 1)), jnp.nan)


def _length_ratio(layer: Layer) -> jax.Array:
    before = jnp.sum(layer.segments_before)
    return jnp.where(
        before > 0, jnp.sum(layer.segments) / jnp.where(before > 0, before, 1), jnp.nan
    )


def _norm(layer: Layer) -> jax.Array:
    return jnp.mean(norms(layer.z))


def _angle(layer: Layer) -> jax.Array:
    first, last = layer.z[0], layer.z[-1]
    lengths = norms(jnp.stack([first, last]))
    alive = jnp.all(lengths > 0)
    a = first / jnp.where(alive, lengths[0], 1)
    b = last / jnp.where(alive, lengths[1], 1)
    # Twice the half angle: accurate for near and for opposite directions alike.
    half = jnp.arctan2(*norms(jnp.stack([a - b, a + b])))
    return jnp.where(alive, 2 * half, jnp.nan)


def _left_out(layer: Layer) -> jax.Array:
    return jnp.sum((layer.segments_before == 0).astype(layer.z.dtype))


_BOTH, _ALL = ("tangent", "grid"), ("tangent", "grid", "exact")
_COARSE, _FINE = (TANGENT_POINTS, GRID_POINTS, 0), (FINE_TANGENT_POINTS, GRID_POINTS, 0)

growth = Probe("growth", _growth, 0, "segments", _ALL, _COARSE)
growth_squared = Probe("growth_squared", _growth_squared, 0, "segments", _ALL, _COARSE)
log_growth = Probe("log_growth", _log_growth, 0, "segments", _ALL, _COARSE)
length = Probe("length", _length, 1, "segments", _ALL, _COARSE)
log_length = Probe("log_length", _log_length, 1, "segments", _ALL, _FINE, log=True)
length_ratio = Probe("length_ratio", _length_ratio, 0, "segments", _ALL, _FINE)
norm = Probe("norm", _norm, 1, "points", _BOTH, _COARSE)
angle = Probe("angle", _angle, 0, "points", ("grid",), (GRID_POINTS,))
left_out = Probe("left_out", _left_out, 0, "segments", _BOTH, _COARSE, counts=True)
