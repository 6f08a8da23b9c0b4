"""Count crossings of any levels by a layer's pre-activations, from the image below the layer.

On a piece of the image below, each pre-activation is affine or ``a cos t + b sin t + c``: whether
it crosses a level follows from its values at both ends and at its extremum. No rows are inserted,
which is all that the last layer needs if its crossings are only counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core import packed_bits
from jaxexpr._core.linalg import dot, norms, power_of_two
from jaxexpr._core.shapes import Array, Bool, Float, Int, UInt32
from jaxexpr.exact.along_curves.arcs import Arcs
from jaxexpr.exact.along_curves.lines import ROUNDINGS, Rows


class Counted(NamedTuple):
    """Crossings of each of m levels by the k units of a layer on a segment of a curve.

    Attributes
    ----------
    total : crossings of all units, ``(m,)``.
    first, last : whether each unit is above the level at the beginning and at the end, packed,
        ``(m, words)``.
    finite : whether no value overflowed.
    """

    total: Int[Array, "m"]
    first: UInt32[Array, "m words"]
    last: UInt32[Array, "m words"]
    finite: Bool[Array, ""]


class Parts(NamedTuple):
    """Values of k units on consecutive parts of pieces, on each of which they are monotone.

    Attributes
    ----------
    ends : values at both ends, and at the extremum of a piece between them, ``(p, k)`` each.
    slack : values up to this size count as 0, ``(p, k)`` for each of `ends`.
    weight : homogeneous weight at each of `ends`: 1, or 0 for a direction at infinity.
    real : number of pieces without padding.
    """

    ends: list[Float[Array, "p k"]]
    slack: list[Float[Array, "p k"]]
    weight: list[Float[Array, "#p 1"]]
    real: Int[Array, ""]


def parts_of(
    rows: Rows | Arcs,
    weights: Float[Array, "fan_in k"],
    biases: Float[Array, "k"],
    tallest: float = 0.0,
) -> Parts:
    """Pre-activations ``z @ weights + biases`` of an image z, at ends and extrema of pieces.

    tallest : largest absolute value of the levels that they are compared with.
    """
    dtype = biases.dtype
    eps = ROUNDINGS * np.finfo(dtype).eps
    unit = power_of_two(-rows.exponent, dtype)
    biases = biases * unit
    weight_norms, bias_sizes = norms(weights.T), jnp.abs(biases) + tallest * unit
    if not isinstance(rows, Arcs):
        h = dot(rows.z, weights) + rows.weight[:, None] * biases[None]
        image_norms = jnp.sqrt(jnp.sum(rows.z * rows.z, axis=1))
        slack = eps * (
            image_norms[:, None] * weight_norms[None] + rows.weight[:, None] * bias_sizes[None]
        )
        ones = rows.weight[:, None]
        return Parts([h[:-1], h[1:]], [slack[:-1], slack[1:]], [ones[:-1], ones[1:]], rows.pieces)
    a, b, c, slack = round_parts(rows, weights, biases, bias_sizes, eps)
    low, top, end, _ = turning(a, b, c, rows.t)
    one = jnp.ones((1, 1), dtype)
    return Parts([low, top, end], [slack] * 3, [one] * 3, rows.pieces)


def round_parts(
    arcs: Arcs,
    weights: Float[Array, "fan_in k"],
    biases: Float[Array, "k"],
    bias_sizes: Float[Array, "k"],
    eps: float | np.floating,
) -> tuple[Float[Array, "p k"], Float[Array, "p k"], Float[Array, "p k"], Float[Array, "p k"]]:
    """Coefficients ``a, b, c`` of the pre-activations on arcs, and their slack; ``(p, k)``."""
    pieces = arcs.coefficients.shape[0]
    flat = arcs.coefficients.reshape(3 * pieces, -1)
    h = dot(flat, weights).reshape(pieces, 3, -1)
    image_norms = jnp.sum(norms(flat).reshape(pieces, 3), axis=1)
    slack = eps * (image_norms[:, None] * norms(weights.T)[None] + bias_sizes[None])
    return h[:, 0], h[:, 1], h[:, 2] + biases[None], slack


def turning(
    a: Float[Array, "p k"],
    b: Float[Array, "p k"],
    c: Float[Array, "p k"],
    t: Float[Array, "p+1"],
) -> tuple[
    Float[Array, "p k"],
    Float[Array, "p k"],
    Float[Array, "p k"],
    tuple[Bool[Array, "p k"], Bool[Array, "p k"]],
]:
    """Values at the beginning, the extremum and the end of pieces between ``t``.

    Without an extremum the middle value is the value at the end. Also returns whether a piece rises
    at its beginning, and whether it has an extremum inside.
    """
    begin, end = ((jnp.cos(x)[:, None], jnp.sin(x)[:, None]) for x in (t[:-1], t[1:]))
    slope, later = (b * cos - a * sin for cos, sin in (begin, end))
    rising = slope > 0
    turns = (rising & (later < 0)) | (~rising & (later > 0))
    low, high = (a * cos + b * sin + c for cos, sin in (begin, end))
    radius = jnp.sqrt(a * a + b * b)
    top = c + jnp.where(rising, radius, -radius)
    return low, jnp.where(turns, top, high), high, (rising, turns)


class States(NamedTuple):
    """Which units are above a level on the parts of each piece, ``(p, k)``.

    Attributes
    ----------
    begins, stops : whether above at the beginning and at the end of the piece.
    crosses : for each part, whether it crosses the level inside.
    inner : whether the state changes between the two parts of the piece.
    """

    begins: Bool[Array, "p k"]
    stops: Bool[Array, "p k"]
    crosses: list[Bool[Array, "p k"]]
    inner: Bool[Array, "p k"]


def states_of(parts: Parts, level: Float[Array, ""] | float) -> States:
    """Compare with a level; a part that does not cross it is above it if one of its ends is."""
    ends = []
    for value, slack, weight in zip(parts.ends, parts.slack, parts.weight, strict=True):
        above = value - level * weight
        ends.append(jnp.where(jnp.abs(above) <= slack, 0, above))
    begins, stops, crosses = [], [], []
    for before, after in zip(ends, ends[1:], strict=False):
        strict = ((before > 0) & (after < 0)) | ((before < 0) & (after > 0))
        either = (before > 0) | (after > 0)
        begins.append(jnp.where(strict, before > 0, either))
        stops.append(jnp.where(strict, after > 0, either))
        crosses.append(strict)
    if len(crosses) == 1:
        return States(begins[0], stops[0], crosses, jnp.zeros_like(begins[0]))
    # A part of constant value takes the state of the other part.
    first_constant, second_constant = ends[0] == ends[1], ends[1] == ends[2]
    begins[0], stops[0] = (jnp.where(first_constant, begins[1], s) for s in (begins[0], stops[0]))
    begins[1], stops[1] = (jnp.where(second_constant, stops[0], s) for s in (begins[1], stops[1]))
    return States(begins[0], stops[1], crosses, stops[0] != begins[1])


def count_crossings(
    rows: Rows | Arcs,
    weights: Float[Array, "fan_in k"],
    biases: Float[Array, "k"],
    levels: Sequence[float],
) -> Counted:
    """Count the crossings of `levels` by a layer above the image `rows` (of lines or arcs)."""
    parts = parts_of(rows, weights, biases, max((abs(x) for x in levels), default=0.0))
    scale = power_of_two(-rows.exponent, biases.dtype)
    finite = jnp.all(jnp.stack([jnp.isfinite(jnp.max(jnp.abs(v))) for v in parts.ends]))
    pieces = parts.ends[0].shape[0]
    real = jnp.arange(pieces, dtype=jnp.int32) < parts.real
    joined = jnp.arange(1, pieces, dtype=jnp.int32) < parts.real
    totals, firsts, lasts = [], [], []
    for level in levels:
        states = states_of(parts, level * scale if level else 0.0)
        inside = sum(packed_bits.ones(packed_bits.pack(x)) for x in (*states.crosses, states.inner))
        between = packed_bits.pack(states.stops[:-1]) ^ packed_bits.pack(states.begins[1:])
        total = jnp.sum(jnp.where(real, inside, 0), dtype=jnp.int32)
        total += jnp.sum(jnp.where(joined, packed_bits.ones(between), 0), dtype=jnp.int32)
        totals.append(total)
        firsts.append(packed_bits.pack(states.begins[:1])[0])
        lasts.append(packed_bits.pack(lax.dynamic_slice_in_dim(states.stops, parts.real - 1, 1))[0])
    if not levels:
        none = jnp.zeros((0, 1), jnp.uint32)
        return Counted(jnp.zeros(0, jnp.int32), none, none, finite)
    return Counted(jnp.stack(totals), jnp.stack(firsts), jnp.stack(lasts), finite)
