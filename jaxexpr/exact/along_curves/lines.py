"""Exact pieces along straight lines: a network on the breakpoints of a line.

Between two breakpoints a piecewise linear network is affine in the line's parameter, so its values
at the breakpoints are all there is to know. A layer is one product on them; where a unit changes
sign between two of them, the crossing is found by interpolation and becomes a row itself.

**Infinite lines.** Rows are homogeneous: ``weight = 1`` for a point, 0 for a direction, so that the
ends at infinity are rows like the others.

**Decisions.** A pre-activation within ``8 eps (|z| |w_j| + |b_j|)`` of a breakpoint, more than the
rounding of its product, is set to the breakpoint exactly. A unit crosses a piece where it is
strictly below at one end and strictly above at the other; crossings that coincide within rounding
are one row, at which all the units concerned stand exactly on their breakpoints. So parallel and
repeated units, rows of zeros, zero biases and folding networks need no perturbation.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core import bits, checks
from jaxexpr._core.linalg import dot, norms, power_of_two
from jaxexpr._core.shapes import Array, Bool, Float, Int, UInt32
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves import crossing_rows

ROUNDINGS = 8


class Rows(NamedTuple):
    """The image of a line at its breakpoints, in order.

    Attributes
    ----------
    t : parameters, ``(p,)``; the direction of the parameter where `weight` is 0.
    weight : 1 for a point, 0 for a direction at infinity, ``(p,)``.
    z : values in units of ``2**exponent``, ``(p, k)``; directions where `weight` is 0.
    speed : length of the image per unit of t, on the piece that begins at each row, ``(p,)``.
    made : lowest layer with a unit that changes its state at this row, ``(p,)``;
        ``crossings.NEVER`` at the ends.
    real : rows that are real; the others repeat the last real one.
    exponent : of the units of z and speed.
    """

    t: Float[Array, "p"]
    weight: Float[Array, "p"]
    z: Float[Array, "p k"]
    speed: Float[Array, "p"]
    made: Int[Array, "p"]
    real: Int[Array, ""]
    exponent: Int[Array, ""]

    @property
    def pieces(self) -> Int[Array, ""]:
        """Number of pieces."""
        return self.real - 1


class LayerResult(NamedTuple):
    """What one layer did to the line.

    Attributes
    ----------
    rows : breakpoints below and including this layer.
    speed_before : as ``rows.speed``, of the image below this layer, in the units of `exponent`.
    changes : state changes of this layer's units.
    required : new rows, and rows in all, that the layer required; more than there was a place for
        means that some are missing and that everything from here on is void.
    sound : whether no value overflowed the precision.
    """

    rows: Rows
    speed_before: Float[Array, "p"]
    exponent: Int[Array, ""]
    changes: crossing_rows.Changes
    required: Int[Array, "2"]
    sound: Bool[Array, ""]


def start(t: Float[Array, "p"], weight: Float[Array, "p"], z: Float[Array, "p k"]) -> Rows:
    """Rows of a segment of the line itself: its two ends, points or directions."""
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
    """Send rows through one layer.

    Parameters
    ----------
    weights, biases : ``(fan_in, k)`` and ``(k,)``.
    index : number of the layer, 0 the first.
    new, size : most crossings in this layer, and most rows in all above it.
    """
    dtype, total, units = rows.z.dtype, rows.t.shape[0], biases.shape[0]
    levels = np.asarray(activation.breakpoints, dtype)
    eps = ROUNDINGS * np.finfo(dtype).eps
    shift = power_of_two(-rows.exponent, dtype)
    biases = biases * shift
    columns = norms(weights.T)
    tallest = jnp.abs(biases) + (np.abs(levels).max() if levels.size else 0)

    def tolerance(tall: Float[Array, "p"], weight: Float[Array, "p"]) -> Float[Array, "p k"]:
        return eps * (tall[:, None] * columns[None] + weight[:, None] * tallest[None])

    def snapped(
        h: Float[Array, "p k"],
        weight: Float[Array, "p"],
        slack: Float[Array, "p k"],
        unit: Float[Array, "p"],
    ) -> Float[Array, "p k"]:
        """Values in units of `unit`; those on a breakpoint exactly there."""
        scaled = h * (1 / unit)[:, None]
        for level in levels:
            on = jnp.abs(h - level * weight[:, None]) <= slack
            scaled = jnp.where(on, (level * (weight / unit))[:, None], scaled)
        return scaled

    def beyond(h: Float[Array, "p k"], weight: Float[Array, "p"]) -> UInt32[Array, "p words"]:
        return bits.pack_all([h > x * weight[:, None] for x in levels], h.shape[0])

    h = dot(rows.z, weights) + rows.weight[:, None] * biases[None]
    tall = jnp.sqrt(jnp.sum(rows.z * rows.z, axis=1))
    slack = tolerance(tall, rows.weight)
    sound = jnp.isfinite(jnp.max(jnp.maximum(jnp.abs(h), slack)))
    h = snapped(h, rows.weight, slack, jnp.ones_like(rows.weight))
    above = beyond(h, rows.weight)
    below = bits.pack_all([h < x * rows.weight[:, None] for x in levels], total)
    strict = (above[:-1] & below[1:]) | (below[:-1] & above[1:])
    found = crossing_rows.find(strict, new)

    # Where each crossing stands on its piece; crossings in order; those that coincide are one.
    wide = bits.word_count(units) * bits.WORD
    unit, level = found.unit % wide, (jnp.asarray(levels)[found.unit // wide] if levels.size else 0)
    left = h[found.row, unit] - level * rows.weight[found.row]
    right = h[found.row + 1, unit] - level * rows.weight[found.row + 1]
    real = jnp.arange(new, dtype=jnp.int32) < found.total
    part = left / jnp.where(real, left - right, 1)
    loose = jnp.maximum(slack[found.row, unit], slack[found.row + 1, unit])
    row = jnp.where(real, found.row, total)
    row, part, left, right, loose = lax.sort((row, part, left, right, loose), num_keys=2)
    previous = jnp.concatenate([jnp.zeros(1, part.dtype), part[:-1]])
    same = jnp.concatenate([jnp.zeros(1, bool), row[1:] == row[:-1]])
    keep = (row < total) & ~(same & (jnp.abs(left + previous * (right - left)) <= loose))
    join = crossing_rows.merge(row, keep, total, rows.real, size)
    old = join.slot < 0
    after = jnp.where(old, join.left, jnp.minimum(join.left + 1, total - 1))
    part = jnp.where(old, 0, part[join.slot])

    def interpolated(array: Float[Array, "p *k"]) -> Float[Array, "q *k"]:
        a, b = array[join.left], array[after]
        return a + part.reshape(-1, *(1,) * (array.ndim - 1)) * (b - a)

    t, weight, h = interpolated(rows.t), interpolated(rows.weight), interpolated(h)
    slack = tolerance(jnp.maximum(tall[join.left], tall[after]), rows.weight[join.left])
    slack = jnp.maximum(slack, tolerance(jnp.zeros_like(weight), rows.weight[after]))
    point = weight > 0
    unit = jnp.where(point, weight, 1)
    # Compared before the division, which would magnify the rounding of points far out.
    # A branch that is always taken keeps the values in memory: fused into what packs their signs,
    # XLA would interpolate bit by bit.
    always = index >= 0 if checks.is_traced(index) else rows.real > 0
    h = lax.cond(always, snapped, lambda h, *_: h, h, weight, slack, unit)
    t, weight = t / unit, point.astype(dtype)
    z = _line_image(h, point, activation)
    above = beyond(h, weight)

    # The state on the piece that begins at each row: no unit is above at one end and below at the
    # other any more.
    state = above[:-1] | above[1:]
    made = jnp.where(old, rows.made[join.left], crossing_rows.NEVER)
    count = jnp.minimum(join.real, size)
    changed = crossing_rows.changes(state, count - 1, made[:-1], index)
    made = jnp.concatenate([changed.made, made[-1:]])
    exponent = rows.exponent
    if activation.homogeneous:
        z, moved = _rescaled(z)
        exponent = jnp.where(jnp.any(z != 0), exponent + moved, 0)
    out = Rows(t, weight, z, _speed(t, weight, z, count), made, count, exponent)
    required = jnp.stack([found.total, join.real])
    return LayerResult(out, rows.speed[join.left], rows.exponent, changed, required, sound)


def _line_image(
    h: Float[Array, "p k"], point: Bool[Array, "p"], activation: Activation
) -> Float[Array, "p k"]:
    """The activation at points; what it does in the long run at directions."""
    slopes = activation.slopes or (1.0,)
    far = jnp.where(h > 0, slopes[-1] * h, slopes[0] * h)
    return jnp.where(point[:, None], activation(h), far)


def _rescaled(z: Float[Array, "p k"]) -> tuple[Float[Array, "p k"], Int[Array, ""]]:
    largest = jnp.max(jnp.abs(z))
    moved = jnp.where(largest > 0, jnp.frexp(largest)[1], 0).astype(jnp.int32)
    return z * power_of_two(-moved, z.dtype), moved


def pieces(
    layer: LayerResult,
) -> tuple[Float[Array, "p 1"], Float[Array, "p 1"], Float[Array, "p 1"], Float[Array, "p"]]:
    """Return shares, speeds below and above, each ``(p, 1)``, and lengths above ``(p,)``.

    A piece's share is its extent in the parameter, 0 of a padded piece and of one without end.
    """
    rows = layer.rows
    finite = rows.weight[1:] * rows.weight[:-1] > 0
    real = finite & (jnp.arange(rows.t.shape[0] - 1, dtype=jnp.int32) < rows.pieces)
    share = jnp.where(real, rows.t[1:] - rows.t[:-1], 0)
    below, above = layer.speed_before[:-1], rows.speed[:-1]
    return share[:, None], below[:, None], above[:, None], above * share


def length(rows: Rows) -> Float[Array, ""]:
    """Length of the image of the finite part."""
    share = jnp.where(rows.speed[:-1] > 0, rows.t[1:] - rows.t[:-1], 0)
    return jnp.sum(share * rows.speed[:-1])
