"""Curves cut into segments: straight ones, rays, and arcs of at most a quarter turn."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxexpr._core.shapes import Array, Float
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves.arcs import LONGEST

Segment = tuple[Float[Array, "..."], ...]  # as in ``begin``: three arrays if straight, else two

STRAIGHT, ROUND = ("line", "polyline"), ("arc", "circle", "ellipse", "semicircles")


def count(curve: Curve) -> int:
    """Return the number of segments of ``begin(curve, 1, ...)``."""
    if curve.kind == "line":
        return 2 if curve.whole else 1
    if curve.kind == "polyline":
        return int(np.shape(curve.arrays[0])[0]) - 1
    if curve.kind == "semicircles":
        return 2 * int(np.shape(curve.arrays[2])[0])
    return round((curve.domain[1] - curve.domain[0]) / LONGEST)


def begin(curve: Curve, splits: int, dtype: DTypeLike) -> Segment:
    """Cut a curve into its segments, and each of these into `splits` segments.

    Returns
    -------
    Arrays with a leading axis of s segments. For straight curves t ``(s, 2)``, weight ``(s, 2)``,
    points ``(s, 2, n)``; for round ones t ``(s, 2)`` in radians and coefficients ``(s, 3, n)``.
    """
    low, high = curve.domain
    arrays = [
        jnp.asarray(a).astype(dtype).reshape(*_lead(curve, i), -1)
        for i, a in enumerate(curve.arrays)
    ]
    if curve.kind == "line" and curve.whole:
        # From a direction at infinity over points spread along the line to the other direction.
        inner = np.tan(np.pi * (np.arange(1, 2 * splits) / (2 * splits) - 0.5))
        inner[splits - 1] = 0
        t = jnp.asarray([-1.0, *inner, 1.0], dtype)
        weight = jnp.asarray([0.0, *np.ones(2 * splits - 1), 0.0], dtype)
        x0, x1 = arrays
        return (
            _pairs(t),
            _pairs(weight),
            _pairs(weight[:, None] * x0[None] + t[:, None] * (x1 - x0)[None]),
        )
    if curve.kind in STRAIGHT:
        vertices = jnp.stack(arrays) if curve.kind == "line" else arrays[0]
        sides = vertices.shape[0] - 1
        shares = jnp.asarray(np.linspace(0.0, 1.0, splits + 1), dtype)[None, :, None]
        points = (1 - shares) * vertices[:-1, None] + shares * vertices[1:, None]
        ends = jnp.stack([points[:, :-1], points[:, 1:]], axis=2).reshape(sides * splits, 2, -1)
        t = jnp.asarray(np.linspace(low, high, sides * splits + 1), dtype)
        return _pairs(t), jnp.ones((sides * splits, 2), dtype), ends
    if curve.kind == "semicircles":
        x0, chord, normals = arrays
        planes = normals.shape[0]
        radius = jnp.sqrt(jnp.sum(chord * chord)) / (2 * planes)
        index = np.arange(planes)
        sign = jnp.asarray(np.where(index % 2 == 0, 1.0, -1.0), dtype)[:, None]
        centre = x0[None] + jnp.asarray((index + 0.5) / planes, dtype)[:, None] * chord[None]
        cosine = -sign * (chord / (2 * planes))[None]
        coefficients = jnp.stack([cosine, sign * radius * normals, centre], axis=1)
        angles = jnp.asarray(np.linspace(0.0, math.pi * planes, 2 * splits * planes + 1), dtype)
        return _pairs(angles), jnp.repeat(coefficients, 2 * splits, axis=0)
    a, b, *centres = arrays
    coefficients = jnp.stack([a, b, centres[0] if centres else jnp.zeros_like(a)])
    number = splits * count(curve)
    angles = jnp.asarray(np.linspace(low, high, number + 1), dtype)
    return _pairs(angles), jnp.broadcast_to(coefficients[None], (number, *coefficients.shape))


def between(segment: Segment, low: Float[Array, ""], high: Float[Array, ""]) -> Segment:
    """Return the part of one segment of ``begin`` between two shares of it, 0 to 1.

    An infinite segment is divided in homogeneous coordinates: half of it ends where both end points
    have equal weights.
    """

    def at(array: Float[Array, "2 *n"], share: Float[Array, ""]) -> Float[Array, "*n"]:
        return (1 - share) * array[0] + share * array[1]

    t = jnp.stack([at(segment[0], low), at(segment[0], high)])
    if len(segment) == 2:
        return t, segment[1]
    weight, points = (jnp.stack([at(x, low), at(x, high)]) for x in segment[1:])
    unit = jnp.where(weight > 0, weight, 1)
    return t / unit, (weight > 0).astype(weight.dtype), points / unit[:, None]


def _lead(curve: Curve, index: int) -> tuple[int, ...]:
    """Leading axis of an array of the curve if it holds several points, else ``()``."""
    several = (curve.kind, index) in (("polyline", 0), ("semicircles", 2))
    return (np.shape(curve.arrays[index])[0],) if several else ()


def _pairs(array: Float[Array, "ends *n"]) -> Float[Array, "ends-1 2 *n"]:
    return jnp.stack([array[:-1], array[1:]], axis=1)
