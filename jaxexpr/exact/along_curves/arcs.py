"""Exact pieces along circular and elliptic arcs.

Between two breakpoints every pre-activation is ``a cos t + b sin t + c``. A layer is one product
with these coefficients. Where a unit crosses a breakpoint of its activation is known in closed
form. Whether it crosses at all follows from its values at both ends and at its extremum, so that
units without crossings need no inverse trigonometric functions. Lengths are computed from the Gram
matrix of the coefficients.

Rounding is treated as in ``lines``: a value within ``8 eps`` times its scale of a breakpoint is set
to the breakpoint, and crossings that coincide within rounding become one. An arc that touches a
boundary from one side does not cross it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core import packed_bits
from jaxexpr._core.linalg import dot, norms, power_of_two
from jaxexpr._core.shapes import Array, Bool, Float, Int
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves import crossing_rows
from jaxexpr.exact.along_curves.lines import ROUNDINGS

LONGEST = math.pi / 2  # longest segment of a curve: on longer ones two crossings could be missed
NODES, SHARES = (x.astype(np.float64) for x in np.polynomial.legendre.leggauss(16))


class Arcs(NamedTuple):
    """The image of an arc in a layer, piece by piece.

    Attributes
    ----------
    t : breakpoints in radians, ``(p + 1,)``; piece i goes from ``t[i]`` to ``t[i + 1]``.
    coefficients : of (cos, sin, 1) on each piece, ``(p, 3, k)``, in units of ``2**exponent``.
    lowest_layer : index of the lowest layer in which a unit changes its state where the piece
        begins, ``(p,)``; ``crossing_rows.NEVER`` for the first piece.
    real : number of pieces; the remaining rows are padding of zero extent.
    exponent : binary exponent of the units.
    """

    t: Float[Array, "p+1"]
    coefficients: Float[Array, "p 3 k"]
    lowest_layer: Int[Array, "p"]
    real: Int[Array, ""]
    exponent: Int[Array, ""]

    @property
    def pieces(self) -> Int[Array, ""]:
        """Number of pieces."""
        return self.real


class LayerResult(NamedTuple):
    """Result of one layer, as ``lines.LayerResult``; ``before`` is the image below the layer."""

    rows: Arcs
    before: Arcs
    changes: crossing_rows.Changes
    required: Int[Array, "2"]
    finite: Bool[Array, ""]

    @property
    def exponent(self) -> Int[Array, ""]:
        """Binary exponent of the units of the image below the layer."""
        return self.before.exponent


def start(t: Float[Array, "2"], coefficients: Float[Array, "3 n"]) -> Arcs:
    """The curve itself on one segment, from ``t[0]`` to ``t[1]``, not longer than ``LONGEST``.

    coefficients : of (cos, sin, 1), ``(3, n)``.
    """
    one, zero = jnp.ones((), jnp.int32), jnp.zeros((), jnp.int32)
    never = jnp.full((1,), crossing_rows.NEVER, jnp.int32)
    return Arcs(t, coefficients[None], never, one, zero)


def _values(coefficients: Float[Array, "p 3 k"], t: Float[Array, "p"]) -> Float[Array, "p k"]:
    """Values ``(p, k)`` of each piece at one t per piece."""
    c, s = jnp.cos(t)[:, None], jnp.sin(t)[:, None]
    return coefficients[:, 0] * c + coefficients[:, 1] * s + coefficients[:, 2]


def _slopes(coefficients: Float[Array, "p 3 k"], t: Float[Array, "p"]) -> Float[Array, "p k"]:
    c, s = jnp.cos(t)[:, None], jnp.sin(t)[:, None]
    return coefficients[:, 1] * c - coefficients[:, 0] * s


def advance(
    arcs: Arcs,
    weights: Float[Array, "fan_in k"],
    biases: Float[Array, "k"],
    activation: Activation,
    *,
    index: Int[Array, ""] | int,
    new: int,
    size: int,
) -> LayerResult:
    """Send an arc through one layer; parameters as for ``lines.advance``."""
    dtype, units = arcs.coefficients.dtype, biases.shape[0]
    pieces = arcs.coefficients.shape[0]
    levels = np.asarray(activation.breakpoints, dtype)
    eps = ROUNDINGS * np.finfo(dtype).eps
    biases = biases * power_of_two(-arcs.exponent, dtype)

    flat = dot(arcs.coefficients.reshape(3 * pieces, -1), weights).reshape(pieces, 3, units)
    h = jnp.concatenate([flat[:, :2], flat[:, 2:] + biases[None, None]], axis=1)
    image_norms = jnp.sum(
        norms(arcs.coefficients.reshape(3 * pieces, -1)).reshape(pieces, 3), axis=1
    )
    bias_sizes = jnp.abs(biases) + (np.abs(levels).max() if levels.size else 0)
    slack = eps * (image_norms[:, None] * norms(weights.T)[None] + bias_sizes[None])

    finite = jnp.isfinite(jnp.max(jnp.abs(h))) & jnp.isfinite(jnp.max(slack))

    # One value at each breakpoint, used on both sides of it.
    low, high = arcs.t[:-1], arcs.t[1:]
    first = _values(h, low)
    last = jnp.concatenate([first[1:], _values(h[-1:], high[-1:])])
    # The next row may be padding, which repeats the end of the last real piece.
    rising = _slopes(h, low) > 0
    turns = (rising & (_slopes(h, high) < 0)) | (~rising & (_slopes(h, high) > 0))
    radius = jnp.sqrt(h[:, 0] ** 2 + h[:, 1] ** 2)
    top = h[:, 2] + jnp.where(rising, radius, -radius)
    middle = jnp.where(turns, top, last)
    crosses = []
    for level in levels:
        ends = [jnp.where(jnp.abs(v - level) <= slack, level, v) for v in (first, middle, last)]
        for before, after in ((ends[0], ends[1]), (ends[1], ends[2])):
            strict = ((before > level) & (after < level)) | ((before < level) & (after > level))
            crosses.append(strict)
    crossings = crossing_rows.find(packed_bits.pack_all(crosses, pieces), new)

    # Closed form: c + r cos(t - phase) = level, on the rising or the falling side.
    packed_units = packed_bits.word_count(units) * packed_bits.WORD
    unit, half = crossings.unit % packed_units, (crossings.unit // packed_units) % 2
    level = jnp.asarray(levels)[crossings.unit // (2 * packed_units)] if levels.size else 0
    real = jnp.arange(new, dtype=jnp.int32) < crossings.total
    a, b, c = (h[crossings.row, i, unit] for i in range(3))
    r, offset = radius[crossings.row, unit], level - c
    slope_at_root = jnp.sqrt(jnp.maximum((r - offset) * (r + offset), 0))  # |slope| there
    up = rising[crossings.row, unit] ^ ((half == 1) & turns[crossings.row, unit])
    angle = jnp.arctan2(slope_at_root, offset)
    root = jnp.arctan2(b, a) + jnp.where(up, -angle, angle)
    begin, end = low[crossings.row], high[crossings.row]
    full_turn = 2 * math.pi
    centre = (begin + end) / 2
    root = jnp.clip(root - full_turn * jnp.round((root - centre) / full_turn), begin, end)
    root_slack = slack[crossings.row, unit] / jnp.where(slope_at_root > 0, slope_at_root, 1)
    root_slack = jnp.maximum(root_slack, eps * jnp.maximum(jnp.abs(begin), jnp.abs(end)))
    row = jnp.where(real, crossings.row, pieces)
    row, root, root_slack = lax.sort((row, root, root_slack), num_keys=2)
    previous, previous_slack = (jnp.concatenate([x[:1] - 1, x[:-1]]) for x in (root, root_slack))
    same = jnp.concatenate([jnp.zeros(1, bool), row[1:] == row[:-1]])
    keep = (row < pieces) & ~(same & (root - previous <= root_slack + previous_slack))
    join = crossing_rows.merge(row, keep, pieces, arcs.real, size)
    old = join.slot < 0
    end_of_all = arcs.t[arcs.real]
    inside = jnp.arange(size, dtype=jnp.int32) < join.real
    t = jnp.where(inside, jnp.where(old, low[join.left], root[join.slot]), end_of_all)
    t = jnp.concatenate([t, end_of_all[None]])

    # Now no unit crosses a level inside a piece, and of three values per piece the one furthest
    # from the level determines the state. The branch below is always taken and keeps the values
    # in memory: XLA would otherwise fuse them with the packing of signs and compute them once more
    # for every bit.
    always = weights[0, 0] <= np.inf

    def stored(*values: Float[Array, "q ..."]) -> tuple[Float[Array, "q ..."], ...]:
        return tuple(lax.cond(always, lambda *x: x, lambda *x: tuple(-y for y in x), *values))

    h, slack = stored(h[join.left], slack[join.left])
    values = [_values(h, p) for p in (t[:-1], (t[:-1] + t[1:]) / 2, t[1:])]
    highest, lowest = stored(
        jnp.maximum(jnp.maximum(values[0], values[1]), values[2]),
        jnp.minimum(jnp.minimum(values[0], values[1]), values[2]),
    )
    states = [(highest + lowest > 2 * level) & (highest - level > slack) for level in levels]
    z = _arc_image(h, states, activation)

    state = packed_bits.pack_all(states, size)
    lowest_layer = jnp.where(old, arcs.lowest_layer[join.left], crossing_rows.NEVER)
    count = jnp.minimum(join.real, size)
    changed = crossing_rows.changes(state, count, lowest_layer, index)
    exponent = arcs.exponent
    if activation.homogeneous:
        largest = jnp.max(jnp.abs(z))
        moved = jnp.where(largest > 0, jnp.frexp(largest)[1], 0).astype(jnp.int32)
        z = z * power_of_two(-moved, dtype)
        exponent = jnp.where(largest > 0, exponent + moved, 0)
    image = Arcs(t, z, changed.lowest_layer, count, exponent)
    below = Arcs(t, arcs.coefficients[join.left], changed.lowest_layer, count, arcs.exponent)
    return LayerResult(image, below, changed, jnp.stack([crossings.total, join.real]), finite)


def _arc_image(
    h: Float[Array, "p 3 k"], states: list[Bool[Array, "p k"]], activation: Activation
) -> Float[Array, "p 3 k"]:
    """Coefficients after the activation, from the state of each unit on each piece."""
    slopes = activation.slopes or (1.0,)
    dtype = h.dtype
    slope = jnp.full(h[:, 0].shape, np.asarray(slopes[0], dtype))
    with jax.ensure_compile_time_eval():
        origin = float(activation(jnp.zeros((), dtype)))
    intercept = jnp.full(h[:, 0].shape, np.asarray(_intercepts(activation, origin)[0], dtype))
    affine_parts = zip(states, slopes[1:], _intercepts(activation, origin)[1:], strict=True)
    for above, steeper, shift in affine_parts:
        slope = jnp.where(above, np.asarray(steeper, dtype), slope)
        intercept = jnp.where(above, np.asarray(shift, dtype), intercept)
    z = h * slope[:, None]
    return jnp.concatenate([z[:, :2], z[:, 2:] + intercept[:, None]], axis=1)


def _intercepts(activation: Activation, origin: float) -> list[float]:
    """``f(h) = slope h + intercept`` between the breakpoints."""
    slopes, levels = activation.slopes or (1.0,), activation.breakpoints or ()
    intercepts = [0.0]
    for level, left, right in zip(levels, slopes, slopes[1:], strict=False):
        intercepts.append(intercepts[-1] + (left - right) * level)
    # All of them shift together: f(0) is known.
    origin_piece = sum(level < 0 for level in levels)
    return [value - intercepts[origin_piece] + origin for value in intercepts]


def gram(
    coefficients: Float[Array, "p 3 k"],
) -> tuple[Float[Array, "p"], Float[Array, "p"], Float[Array, "p"]]:
    """``|a|^2, |b|^2, a.b`` of each piece, ``(p,)`` each."""
    a, b = coefficients[:, 0], coefficients[:, 1]
    one = jnp.ones((a.shape[1], 1), a.dtype)
    return dot(a * a, one)[:, 0], dot(b * b, one)[:, 0], dot(a * b, one)[:, 0]


def speeds(coefficients: Float[Array, "p 3 k"], t: Float[Array, "p m"]) -> Float[Array, "p m"]:
    """Length of the derivative of each piece at t ``(p, m)``."""
    aa, bb, ab = (x[:, None] for x in gram(coefficients))
    c, s = jnp.cos(t), jnp.sin(t)
    return jnp.sqrt(jnp.maximum(aa * s * s + bb * c * c - 2 * ab * s * c, 0))


def nodes(t: Float[Array, "ends"]) -> tuple[Float[Array, "ends-1 16"], Float[Array, "ends-1 16"]]:
    """Gauss-Legendre nodes and weights of each piece, ``(p, 16)`` each."""
    dtype = t.dtype
    half = (t[1:] - t[:-1])[:, None] / 2
    centre = (t[1:] + t[:-1])[:, None] / 2
    return centre + half * np.asarray(NODES, dtype)[None], half * np.asarray(SHARES, dtype)[None]


def arc_lengths(coefficients: Float[Array, "p 3 k"], t: Float[Array, "p+1"]) -> Float[Array, "p"]:
    """Length of the image of each piece, ``(p,)``.

    The squared speed is ``m^2 + q^2 sin^2 u``, with u measured from the minimum. The integral of
    ``sqrt(m^2 + q^2 u^2)`` is elementary. The difference of the two is smooth even where the image
    turns back on itself (m = 0), and 16 nodes on either side of u = 0 suffice.
    """
    dtype = coefficients.dtype
    aa, bb, ab = gram(coefficients)
    spread = jnp.hypot((aa - bb) / 2, ab)
    squared = jnp.maximum(2 * spread, 0)
    least = jnp.maximum((aa + bb) / 2 - spread, 0)
    # speed^2 = (aa + bb)/2 - (aa - bb)/2 cos 2t - ab sin 2t
    minimum = jnp.arctan2(ab, (aa - bb) / 2) / 2
    low, high = t[:-1] - minimum, t[1:] - minimum
    turns = math.pi * jnp.round((low + high) / (2 * math.pi))
    low, high = low - turns, high - turns
    middle = jnp.clip(jnp.zeros_like(low), low, high)
    total = _elementary(high, least, squared) - _elementary(low, least, squared)
    x, share = np.asarray(NODES, dtype)[None], np.asarray(SHARES, dtype)[None]
    for begin, end in ((low, middle), (middle, high)):
        half, centre = ((end - begin) / 2)[:, None], ((end + begin) / 2)[:, None]
        u = centre + half * x
        exact = jnp.sqrt(least[:, None] + squared[:, None] * jnp.sin(u) ** 2)
        simple = jnp.sqrt(least[:, None] + squared[:, None] * u * u)
        root_sum = exact + simple
        difference = (
            squared[:, None] * (jnp.sin(u) ** 2 - u * u) / jnp.where(root_sum > 0, root_sum, 1)
        )
        total = total + jnp.sum(jnp.where(root_sum > 0, difference, 0) * half * share, axis=1)
    return jnp.maximum(total, 0)


def _elementary(
    u: Float[Array, "p"], least: Float[Array, "p"], squared: Float[Array, "p"]
) -> Float[Array, "p"]:
    """Integral from 0 to u of ``sqrt(least + squared v^2)``."""
    root = jnp.sqrt(least + squared * u * u)
    scaled = jnp.sqrt(squared / jnp.where(least > 0, least, 1)) * u
    small = jnp.abs(scaled) < 1e-4
    safe = jnp.where(small, 1, scaled)
    ratio = jnp.where(small, 1 - scaled * scaled / 6, jnp.arcsinh(safe) / safe)
    return u * (root + jnp.sqrt(least) * ratio) / 2


def pieces(
    layer: LayerResult,
) -> tuple[Float[Array, "p 16"], Float[Array, "p 16"], Float[Array, "p 16"], Float[Array, "p"]]:
    """Return shares, speeds below and above, each ``(p, 16)``, and lengths above ``(p,)``.

    Speeds are those at the Gauss-Legendre nodes of each piece; shares are the weights of the nodes.
    """
    arcs = layer.rows
    t, share = nodes(arcs.t)
    below, above = speeds(layer.before.coefficients, t), speeds(arcs.coefficients, t)
    return share, below, above, arc_lengths(arcs.coefficients, arcs.t)


def length(arcs: Arcs) -> Float[Array, ""]:
    """Length of the image."""
    return jnp.sum(arc_lengths(arcs.coefficients, arcs.t))
