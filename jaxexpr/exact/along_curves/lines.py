"""Exact pieces along straight lines.

Between two breakpoints a piecewise linear network is affine in the line's parameter, so its values
at the breakpoints determine it. A layer is one product with these values. Where a unit crosses a
breakpoint of the activation between two of them, the crossing is computed by interpolation and
inserted as a row.

**Infinite lines.** Rows are in homogeneous coordinates: ``weight = 1`` for a point and 0 for a
direction, so that the ends at infinity are rows like the others.

**Rounding.** A pre-activation within ``8 eps (|z| |w_j| + |b_j|)`` of a breakpoint is set to the
breakpoint exactly; this exceeds the rounding error of the product. A unit crosses a piece if it is
strictly below the breakpoint at one end and strictly above it at the other. Crossings that coincide
within rounding become one row, at which all units concerned are exactly at their breakpoints.
Parallel and repeated units, rows of zeros, zero biases and folding networks therefore need no
perturbation.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core import checks, packed_bits
from jaxexpr._core.linalg import dot, norms, power_of_two
from jaxexpr._core.shapes import Array, Bool, Float, Int, UInt32
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves import crossing_rows

ROUNDINGS = 8  # slack of comparisons, in units of eps times the size of the terms


class Rows(NamedTuple):
    """The image of a line in a layer, at its breakpoints in order.

    Attributes
    ----------
    t : parameters, ``(p,)``; the direction of the parameter where `weight` is 0.
    weight : 1 for a point, 0 for a direction at infinity, ``(p,)``.
    z : values in units of ``2**exponent``, ``(p, k)``; directions where `weight` is 0.
    speed : length of the image per unit of t, on the piece that begins at each row, ``(p,)``.
    lowest_layer : index of the lowest layer in which a unit changes its state at this row,
        ``(p,)``; ``crossing_rows.NEVER`` at the ends.
    real : number of rows; the remaining ones are padding and repeat the last row.
    exponent : binary exponent of the units of z and speed.
    """

    t: Float[Array, "p"]
    weight: Float[Array, "p"]
    z: Float[Array, "p k"]
    speed: Float[Array, "p"]
    lowest_layer: Int[Array, "p"]
    real: Int[Array, ""]
    exponent: Int[Array, ""]

    @property
    def pieces(self) -> Int[Array, ""]:
        """Number of pieces."""
        return self.real - 1


class LayerResult(NamedTuple):
    """Result of one layer.

    Attributes
    ----------
    rows : breakpoints below and including this layer.
    speed_before : as ``rows.speed``, of the image below this layer, in units of ``2**exponent``.
    exponent : of the image below this layer.
    changes : state changes of this layer's units.
    required : numbers of new rows and of all rows that the layer requires; if they exceed the
        capacity, rows are missing, and the results of this layer and all above are invalid.
    finite : whether all values are finite.
    """

    rows: Rows
    speed_before: Float[Array, "p"]
    exponent: Int[Array, ""]
    changes: crossing_rows.Changes
    required: Int[Array, "2"]
    finite: Bool[Array, ""]


def start(t: Float[Array, "p"], weight: Float[Array, "p"], z: Float[Array, "p k"]) -> Rows:
    """Rows of a segment of the line itself: its two ends, which are points or directions."""
    count = jnp.asarray(t.shape[0], jnp.int32)
    never = jnp.full(t.shape, crossing_rows.NEVER, jnp.int32)
    zero = jnp.zeros((), jnp.int32)
    return Rows(t, weight, z, _speed(t, weight, z, count), never, count, zero)


def _speed(
    t: Float[Array, "p"],
    weight: Float[Array, "p"],
    z: Float[Array, "p k"],
    count: Int[Array, ""],
) -> Float[Array, "p"]:
    steps = t[1:] - t[:-1]
    finite = (weight[1:] * weight[:-1] > 0) & (steps > 0)
    finite = finite & (jnp.arange(t.shape[0] - 1, dtype=jnp.int32) < count - 1)
    speed = norms(z[1:] - z[:-1]) / jnp.where(finite, steps, 1)
    return jnp.concatenate([jnp.where(finite, speed, 0), jnp.zeros(1, t.dtype)])


def advance(
    rows: Rows,
    weights: Float[Array, "fan_in k"],
    biases: Float[Array, "k"],
    activation: Activation,
    *,
    index: Int[Array, ""] | int,
    new: int,
    size: int,
) -> LayerResult:
    """Compute the image in the next layer.

    Parameters
    ----------
    weights, biases : ``(fan_in, k)`` and ``(k,)``.
    index : index of the layer, from 0.
    new, size : largest number of crossings in this layer, and of rows above it.
    """
    dtype, total, units = rows.z.dtype, rows.t.shape[0], biases.shape[0]
    levels = np.asarray(activation.breakpoints, dtype)
    eps = ROUNDINGS * np.finfo(dtype).eps
    shift = power_of_two(-rows.exponent, dtype)
    biases = biases * shift
    weight_norms = norms(weights.T)
    bias_sizes = jnp.abs(biases) + (np.abs(levels).max() if levels.size else 0)

    def tolerance(image_norms: Float[Array, "p"], weight: Float[Array, "p"]) -> Float[Array, "p k"]:
        return eps * (
            image_norms[:, None] * weight_norms[None] + weight[:, None] * bias_sizes[None]
        )

    def snapped(
        h: Float[Array, "p k"],
        weight: Float[Array, "p"],
        slack: Float[Array, "p k"],
        unit: Float[Array, "p"],
    ) -> Float[Array, "p k"]:
        """Values divided by `unit`; values within rounding of a breakpoint are set to it."""
        scaled = h * (1 / unit)[:, None]
        for level in levels:
            at_level = jnp.abs(h - level * weight[:, None]) <= slack
            scaled = jnp.where(at_level, (level * (weight / unit))[:, None], scaled)
        return scaled

    def beyond(h: Float[Array, "p k"], weight: Float[Array, "p"]) -> UInt32[Array, "p words"]:
        return packed_bits.pack_all([h > x * weight[:, None] for x in levels], h.shape[0])

    h = dot(rows.z, weights) + rows.weight[:, None] * biases[None]
    image_norms = jnp.sqrt(jnp.sum(rows.z * rows.z, axis=1))
    slack = tolerance(image_norms, rows.weight)
    finite = jnp.isfinite(jnp.max(jnp.maximum(jnp.abs(h), slack)))
    h = snapped(h, rows.weight, slack, jnp.ones_like(rows.weight))
    above = beyond(h, rows.weight)
    below = packed_bits.pack_all([h < x * rows.weight[:, None] for x in levels], total)
    strict = (above[:-1] & below[1:]) | (below[:-1] & above[1:])
    crossings = crossing_rows.find(strict, new)

    # Position of each crossing on its piece, in order; coinciding crossings become one.
    packed_units = packed_bits.word_count(units) * packed_bits.WORD
    unit = crossings.unit % packed_units
    level = jnp.asarray(levels)[crossings.unit // packed_units] if levels.size else 0
    left = h[crossings.row, unit] - level * rows.weight[crossings.row]
    right = h[crossings.row + 1, unit] - level * rows.weight[crossings.row + 1]
    real = jnp.arange(new, dtype=jnp.int32) < crossings.total
    part = left / jnp.where(real, left - right, 1)
    crossing_slack = jnp.maximum(slack[crossings.row, unit], slack[crossings.row + 1, unit])
    row = jnp.where(real, crossings.row, total)
    row, part, left, right, crossing_slack = lax.sort(
        (row, part, left, right, crossing_slack), num_keys=2
    )
    previous = jnp.concatenate([jnp.zeros(1, part.dtype), part[:-1]])
    same = jnp.concatenate([jnp.zeros(1, bool), row[1:] == row[:-1]])
    keep = (row < total) & ~(same & (jnp.abs(left + previous * (right - left)) <= crossing_slack))
    join = crossing_rows.merge(row, keep, total, rows.real, size)
    old = join.slot < 0
    after = jnp.where(old, join.left, jnp.minimum(join.left + 1, total - 1))
    part = jnp.where(old, 0, part[join.slot])

    def interpolated(array: Float[Array, "p *k"]) -> Float[Array, "q *k"]:
        a, b = array[join.left], array[after]
        return a + part.reshape(-1, *(1,) * (array.ndim - 1)) * (b - a)

    t, weight, h = interpolated(rows.t), interpolated(rows.weight), interpolated(h)
    slack = tolerance(
        jnp.maximum(image_norms[join.left], image_norms[after]), rows.weight[join.left]
    )
    slack = jnp.maximum(slack, tolerance(jnp.zeros_like(weight), rows.weight[after]))
    point = weight > 0
    unit = jnp.where(point, weight, 1)
    # Values are compared before the division, which would magnify the rounding error of points far
    # out. The branch below is always taken and keeps the values in memory: XLA would otherwise fuse
    # the interpolation into the packing of signs and repeat it for every bit.
    always = index >= 0 if checks.is_traced(index) else rows.real > 0
    h = lax.cond(always, snapped, lambda h, *_: h, h, weight, slack, unit)
    t, weight = t / unit, point.astype(dtype)
    z = _line_image(h, point, activation)
    above = beyond(h, weight)

    # The state on the piece that begins at each row: no unit is above at one end and below at the
    # other any more.
    state = above[:-1] | above[1:]
    lowest_layer = jnp.where(old, rows.lowest_layer[join.left], crossing_rows.NEVER)
    count = jnp.minimum(join.real, size)
    changed = crossing_rows.changes(state, count - 1, lowest_layer[:-1], index)
    lowest_layer = jnp.concatenate([changed.lowest_layer, lowest_layer[-1:]])
    exponent = rows.exponent
    if activation.homogeneous:
        z, rescaling = _rescaled(z)
        exponent = jnp.where(jnp.any(z != 0), exponent + rescaling, 0)
    out = Rows(t, weight, z, _speed(t, weight, z, count), lowest_layer, count, exponent)
    required = jnp.stack([crossings.total, join.real])
    return LayerResult(out, rows.speed[join.left], rows.exponent, changed, required, finite)


def _line_image(
    h: Float[Array, "p k"], point: Bool[Array, "p"], activation: Activation
) -> Float[Array, "p k"]:
    """The activation at points; its asymptotic slopes at directions."""
    slopes = activation.slopes or (1.0,)
    asymptotic = jnp.where(h > 0, slopes[-1] * h, slopes[0] * h)
    return jnp.where(point[:, None], activation(h), asymptotic)


def _rescaled(z: Float[Array, "p k"]) -> tuple[Float[Array, "p k"], Int[Array, ""]]:
    largest = jnp.max(jnp.abs(z))
    shift = jnp.where(largest > 0, jnp.frexp(largest)[1], 0).astype(jnp.int32)
    return z * power_of_two(-shift, z.dtype), shift


def pieces(
    layer: LayerResult,
) -> tuple[Float[Array, "p 1"], Float[Array, "p 1"], Float[Array, "p 1"], Float[Array, "p"]]:
    """Return shares, speeds below and above, each ``(p, 1)``, and lengths above ``(p,)``.

    The share of a piece is its extent in the parameter; 0 for padding and infinite pieces.
    """
    rows = layer.rows
    finite = rows.weight[1:] * rows.weight[:-1] > 0
    real = finite & (jnp.arange(rows.t.shape[0] - 1, dtype=jnp.int32) < rows.pieces)
    share = jnp.where(real, rows.t[1:] - rows.t[:-1], 0)
    below, above = layer.speed_before[:-1], rows.speed[:-1]
    return share[:, None], below[:, None], above[:, None], above * share


def length(rows: Rows) -> Float[Array, ""]:
    """Length of the image of the finite pieces."""
    share = jnp.where(rows.speed[:-1] > 0, rows.t[1:] - rows.t[:-1], 0)
    return jnp.sum(share * rows.speed[:-1])
