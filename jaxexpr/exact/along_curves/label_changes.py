"""Sign changes of linear readouts along an arc, and the labellings that they give.

On a piece of an arc a readout is ``a cos t + b sin t + c``, so that its sign changes are known in
closed form. The labels of s points along arcs with a common parameter are a walk on the vertices of
the s-cube. Vertices are stored as the bits of two words, and the different ones are counted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.packed_bits import distinct
from jaxexpr._core.shapes import Array, Bool, Float, Int, UInt32
from jaxexpr.exact.along_curves.arcs import Arcs
from jaxexpr.exact.along_curves.level_crossings import Parts, round_parts, states_of, turning
from jaxexpr.exact.along_curves.lines import ROUNDINGS

BITS = 31  # number of labels in one word
MOST_POINTS = 2 * BITS


class SignChanges(NamedTuple):
    """Sign changes of r readouts on an arc.

    Attributes
    ----------
    times : times of sign changes, increasing, ``(r, capacity)``; padded with inf.
    first, last : whether the readout is positive at the beginning and at the end, ``(r,)``.
    total : number of sign changes, ``(r,)``; if it exceeds `capacity`, some are missing in `times`.
    """

    times: Float[Array, "r capacity"]
    first: Bool[Array, "r"]
    last: Bool[Array, "r"]
    total: Int[Array, "r"]


def sign_changes(
    arcs: Arcs, weights: Float[Array, "k r"], biases: Float[Array, "r"], capacity: int
) -> SignChanges:
    """Return where the readouts ``z @ weights + biases`` of an image z change their signs.

    Values within rounding of 0 are taken as 0. A readout that is 0 on a whole piece is not positive
    there, and a readout that touches 0 does not change its sign.

    Parameters
    ----------
    arcs : the image z.
    weights, biases : ``(k, r)`` and ``(r,)``.
    capacity : largest number of sign changes of one readout that are returned.
    """
    dtype, units = arcs.coefficients.dtype, biases.shape[0]
    pieces = arcs.coefficients.shape[0]
    eps = ROUNDINGS * np.finfo(dtype).eps
    biases = biases * power_of_two(-arcs.exponent, dtype)
    a, b, c, slack = round_parts(arcs, weights, biases, jnp.abs(biases), eps)
    *ends, (rising, turns) = turning(a, b, c, arcs.t)
    one = jnp.ones((1, 1), dtype)
    states = states_of(Parts(ends, [slack] * 3, [one] * 3, arcs.real), 0.0)
    low, high = arcs.t[:-1, None], arcs.t[1:, None]
    real = (jnp.arange(pieces, dtype=jnp.int32) < arcs.real)[:, None]

    # c + r cos(t - phase) = 0, on the rising or on the falling side.
    radius = jnp.sqrt(a * a + b * b)
    slope_at_root = jnp.sqrt(jnp.maximum((radius - c) * (radius + c), 0))
    angle, phase = jnp.arctan2(slope_at_root, -c), jnp.arctan2(b, a)
    times, roots = [], []
    for half, strict in enumerate(states.crosses):
        up = rising ^ turns if half else rising
        root = phase + jnp.where(up, -angle, angle)
        full_turn = 2 * math.pi
        root = jnp.clip(
            root - full_turn * jnp.round((root - (low + high) / 2) / full_turn), low, high
        )
        times.append(jnp.where(strict & real, root, jnp.inf))
        roots.append(root)
    # At an extremum that is 0 within rounding.
    times.append(jnp.where(states.inner & real, roots[0], jnp.inf))
    begins, stops = states.begins, states.stops
    joint = jnp.concatenate([stops[:-1] != begins[1:], jnp.zeros((1, units), bool)])
    joint = joint & (jnp.arange(1, pieces + 1, dtype=jnp.int32) < arcs.real)[:, None]
    times.append(jnp.where(joint, high, jnp.inf))
    all_times = jnp.sort(jnp.concatenate(times).T, axis=1)
    total = jnp.sum(jnp.isfinite(all_times), axis=1, dtype=jnp.int32)
    kept = all_times[:, :capacity]
    if kept.shape[1] < capacity:
        kept = jnp.pad(kept, ((0, 0), (0, capacity - kept.shape[1])), constant_values=jnp.inf)
    return SignChanges(kept, begins[0], stops[arcs.real - 1], total)


def point_bits(points: int) -> UInt32[np.ndarray, "{points} 2"]:
    """The bit of each point in two words, ``(points, 2)``, uint32."""
    number = np.arange(points)
    one = np.uint32(1) << (number % BITS).astype(np.uint32)
    return np.where((number // BITS)[:, None] == np.arange(2)[None], one[:, None], np.uint32(0))


def labellings(times: Float[Array, "s n"], first: Bool[Array, "s"]) -> Int[Array, ""]:
    """Count the different labellings of s points along their arcs.

    Parameters
    ----------
    times : times at which the label of each point flips, ``(s, n)``, padded with inf.
    first : labels at the beginning, ``(s,)``.
    """
    points, flips = times.shape
    bits = jnp.asarray(point_bits(points))
    flip_bits = jnp.broadcast_to(bits[:, None], (points, flips, 2)).reshape(-1, 2)
    start = jnp.sum(jnp.where(first[:, None], bits, 0), axis=0, dtype=jnp.uint32)
    t, low, high = lax.sort((times.reshape(-1), flip_bits[:, 0], flip_bits[:, 1]), num_keys=1)
    walk = jnp.stack([low, high], axis=1)
    walk = lax.associative_scan(jnp.bitwise_xor, jnp.concatenate([start[None], walk]))
    # Flips at the same time, within rounding, are one step: for example those of x and of 3 x.
    next_t = jnp.concatenate([t, jnp.full((1,), jnp.inf, t.dtype)])
    this_t = jnp.concatenate([jnp.full((1,), -jnp.inf, t.dtype), t])
    rounding = 2 * np.finfo(t.dtype).eps * jnp.maximum(jnp.abs(t), 1)
    apart = next_t - this_t > jnp.concatenate([jnp.zeros(1, t.dtype), rounding])
    return distinct(walk, apart & (this_t < jnp.inf))
