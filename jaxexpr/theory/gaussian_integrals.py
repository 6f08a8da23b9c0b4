"""Means of an activation under Gaussian pre-activations, for ``mean_field``.

``h = sqrt(q) N(0, 1)``; two of them have correlation c. Piecewise linear activations are sums of
ReLUs at their breakpoints, and so are their conditional means given the other pre-activation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr.activations import Activation

Array = np.ndarray
REACH, NODES = 9.0, 1201
CORNER = (-8.0, -2.0, 0.0, 2.0, 8.0)  # spreads around a breakpoint


def mean_square(phi: Activation, q: Array) -> Array:
    """``E phi(h)^2``."""
    if phi.homogeneous:
        return _gains(phi)[0] * q / 2
    if phi.name == "erf":
        return 2 / np.pi * np.arcsin(2 * q / (1 + 2 * q))
    return _mean(lambda h: _value(phi, h) ** 2, phi, q)


def slope_square(phi: Activation, q: Array) -> Array:
    """``E phi'(h)^2``."""
    if phi.homogeneous:
        return np.full(np.shape(q), _gains(phi)[0] / 2)
    if phi.name == "erf":
        return 4 / np.pi / np.sqrt(1 + 4 * q)
    if phi.piecewise_linear:
        return _piecewise_slope_square(phi, q)
    return _mean(lambda h: _slope(phi, h) ** 2, phi, q)


def bend_square(phi: Activation, q: Array) -> Array:
    """``E phi''(h)^2`` of a smooth activation."""
    if phi.name == "erf":
        return 16 / np.pi * q / (1 + 4 * q) ** 1.5
    bend = jax.vmap(jax.grad(phi.derivative))
    with jax.enable_x64(True):
        return _mean(lambda h: np.asarray(bend(jnp.asarray(h))) ** 2, phi, q)


def product(phi: Activation, q1: Array, q2: Array, c: Array) -> Array:
    """``E phi(h1) phi(h2)``."""
    if phi.homogeneous:
        same, mixed = _gains(phi)
        return np.sqrt(q1 * q2) * (same * _arc_cosine(c) - mixed * _arc_cosine(-c))
    if phi.name == "erf":
        return 2 / np.pi * np.arcsin(2 * c * np.sqrt(q1 * q2 / ((1 + 2 * q1) * (1 + 2 * q2))))
    q1, q2, c = np.broadcast_arrays(q1, q2, c)
    means = [
        _product_mean(phi, *map(float, row)) for row in zip(q1.flat, q2.flat, c.flat, strict=True)
    ]
    return np.array(means, np.float64).reshape(q1.shape)


def _gains(phi: Activation) -> tuple[float, float]:
    """``s+^2 + s-^2`` and ``2 s+ s-`` of ``s+ max(h, 0) - s- max(-h, 0)``."""
    slopes = phi.slopes or (1.0,)
    low, high = float(slopes[0]), float(slopes[-1])
    return low**2 + high**2, 2 * low * high


def _arc_cosine(c: Array) -> Array:
    """``E max(x, 0) max(y, 0)`` of standard normals (Cho & Saul 2009)."""
    angle = np.arccos(np.clip(c, -1, 1))
    return (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)


def _value(phi: Activation, h: Array) -> Array:
    with jax.enable_x64(True):
        return np.asarray(phi.function(jnp.asarray(h, jnp.float64)))


def _slope(phi: Activation, h: Array) -> Array:
    with jax.enable_x64(True):
        return np.asarray(phi.derivative(jnp.asarray(h, jnp.float64)))


@functools.cache
def _legendre(count: int) -> tuple[Array, Array]:
    x, w = np.polynomial.legendre.leggauss(count)
    return np.asarray(x), np.asarray(w)


def _nodes(phi: Activation, scale: float, more: Iterable[float] = ()) -> tuple[Array, Array]:
    """Nodes of a standard normal and their weights, split where ``scale x`` is a breakpoint.

    more : further points at which the integral is split.
    """
    levels = [c / scale for c in phi.breakpoints or () if scale > 0]
    inner = {x for x in (*levels, *more) if abs(x) < REACH}
    edges = np.array([-REACH, *sorted(inner), REACH])
    x, w = _legendre(NODES if len(edges) == 2 else 101)
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    nodes, weight = (middle + half * x).ravel(), (half * w).ravel()
    return nodes, weight * np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)


def _mean(function: Callable[[Array], Array], phi: Activation, q: Array) -> Array:
    q = np.asarray(q, np.float64)
    means = []
    for variance in q.flat:
        x, w = _nodes(phi, math.sqrt(variance))
        means.append(float(w @ function(math.sqrt(variance) * x)))
    return np.array(means, np.float64).reshape(q.shape)


def _piecewise_slope_square(phi: Activation, q: Array) -> Array:
    from scipy.special import ndtr

    slopes = np.asarray(phi.slopes, np.float64)
    root = np.sqrt(q)
    total = np.full(np.shape(q), slopes[0] ** 2)
    for level, left, right in zip(phi.breakpoints or (), slopes, slopes[1:], strict=False):
        with np.errstate(divide="ignore"):
            beyond = np.where(root > 0, ndtr(-level / np.where(root > 0, root, 1)), level < 0)
        total = total + (right**2 - left**2) * beyond
    return np.asarray(total)


def _product_mean(phi: Activation, q1: float, q2: float, c: float) -> float:
    along, spread = math.sqrt(q2) * c, math.sqrt(max(q2 * (1 - c * c), 0.0))
    # The conditional mean bends within a few standard deviations of each corner.
    bends = [(b + k * spread) / along for b in phi.breakpoints or () if along for k in CORNER]
    x, w = _nodes(phi, math.sqrt(q1), bends)
    mean = along * x
    return float(w @ (_value(phi, math.sqrt(q1) * x) * _given(phi, mean, spread)))


def _given(phi: Activation, mean: Array, spread: float) -> Array:
    """``E phi(N(mean, spread^2))``."""
    if spread == 0:
        return _value(phi, mean)
    if phi.breakpoints is None:
        y, w = _legendre(401)
        y, w = REACH * y, REACH * w * np.exp(-((REACH * y) ** 2) / 2) / math.sqrt(2 * math.pi)
        return np.asarray(_value(phi, mean[:, None] + spread * y[None]) @ w)
    from scipy.special import ndtr

    slopes = np.asarray(phi.slopes, np.float64)
    first = phi.breakpoints[0] if phi.breakpoints else 0.0
    total = float(_value(phi, np.asarray(first))) + slopes[0] * (mean - first)
    for level, left, right in zip(phi.breakpoints, slopes, slopes[1:], strict=False):
        z = (mean - level) / spread
        positive = spread * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) + (mean - level) * ndtr(z)
        total = total + (right - left) * positive
    return np.asarray(total)
