"""Where a linear read-out of a network changes its sign along an arc, and the labellings it makes.

On a piece of an arc a read-out is ``a cos t + b sin t + c``, so its sign changes are known in
closed form. The labels of s points that move along arcs of one parameter are a walk on the s-cube;
its vertices are counted by the bits of two words.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core.bits import distinct
from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.shapes import Array, Bool, Float, Int, UInt32
from jaxexpr.exact.along_curves.arcs import Arcs
from jaxexpr.exact.along_curves.level_crossings import Parts, round_parts, states_of, turning
from jaxexpr.exact.along_curves.lines import ROUNDINGS

BITS = 31  # labels in a word
MOST_POINTS = 2 * BITS


class SignChanges(NamedTuple):
    """Sign changes of r read-outs on an arc.

    Attributes
    ----------
    times : increasing, ``(r, capacity)``; inf behind the last.
    first, last : whether the read-out is positive at the beginning and at the end, ``(r,)``.
    total : how many there are, ``(r,)``; more than `capacity` means that some are missing.
    """

    times: Float[Array, "r capacity"]
    first: Bool[Array, "r"]
    last: Bool[Array, "r"]
    total: Int[Array, "r"]


def sign_changes(
    arcs: Arcs, weights: Float[Array, "k r"], biases: Float[Array, "r"], capacity: int
) -> SignChanges:
    """Return where the read-outs ``z @ weights + biases`` of an image z change their signs.

    weights, biases : ``(k, r)`` and ``(r,)``. Values within rounding of 0 are 0; a read-out that is
        0 on a whole piece is not positive there, one that touches 0 does not change.
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
    across = jnp.sqrt(jnp.maximum((radius - c) * (radius + c), 0))
    angle, phase = jnp.arctan2(across, -c), jnp.arctan2(b, a)
    times, roots = [], []
    for half, strict in enumerate(states.crosses):
        up = rising ^ turns if half else rising
        root = phase + jnp.where(up, -angle, angle)
        turn = 2 * math.pi
        root = jnp.clip(root - turn * jnp.round((root - (low + high) / 2) / turn), low, high)
        times.append(jnp.where(strict & real, root, jnp.inf))
        roots.append(root)
    # At an extremum that rounding cannot tell from 0.
    times.append(jnp.where(states.inner & real, roots[0], jnp.inf))
    begins, stops = states.begins, states.stops
    joint = jnp.concatenate([stops[:-1] != begins[1:], jnp.zeros((1, units), bool)])
    joint = joint & (jnp.arange(1, pieces + 1, dtype=jnp.int32) < arcs.real)[:, None]
    times.append(jnp.where(joint, high, jnp.inf))
    every = jnp.sort(jnp.concatenate(times).T, axis=1)
    total = jnp.sum(jnp.isfinite(every), axis=1, dtype=jnp.int32)
    kept = every[:, :capacity]
    if kept.shape[1] < capacity:
        kept = jnp.pad(kept, ((0, 0), (0, capacity - kept.shape[1])), constant_values=jnp.inf)
    return SignChanges(kept, begins[0], stops[arcs.real - 1], total)


def point_bits(points: int) -> UInt32[np.ndarray, "{points} 2"]:
    """The bit of each point in two words, ``(points, 2)``, uint32."""
    number = np.arange(points)
    one = np.uint32(1) << (number % BITS).astype(np.uint32)
    return np.where((number // BITS)[:, None] == np.arange(2)[None], one[:, None], np.uint32(0))


def labellings(times: Float[Array, "s n"], first: Bool[Array, "s"]) -> Int[Array, ""]:
    """Count the labellings that s points pass through.

    Parameters
    ----------
    times : at which each point's label flips, ``(s, n)``; inf where there is no more.
    first : labels at the beginning, ``(s,)``.
    """
    points, each = times.shape
    bits = jnp.asarray(point_bits(points))
    flat = jnp.broadcast_to(bits[:, None], (points, each, 2)).reshape(-1, 2)
    start = jnp.sum(jnp.where(first[:, None], bits, 0), axis=0, dtype=jnp.uint32)
    t, low, high = lax.sort((times.reshape(-1), flat[:, 0], flat[:, 1]), num_keys=1)
    walk = jnp.stack([low, high], axis=1)
    walk = lax.associative_scan(jnp.bitwise_xor, jnp.concatenate([start[None], walk]))
    # Labels that flip at the same time, within rounding, flip together: those of x and 3 x do.
    later = jnp.concatenate([t, jnp.full((1,), jnp.inf, t.dtype)])
    here = jnp.concatenate([jnp.full((1,), -jnp.inf, t.dtype), t])
    near = 2 * np.finfo(t.dtype).eps * jnp.maximum(jnp.abs(t), 1)
    apart = later - here > jnp.concatenate([jnp.zeros(1, t.dtype), near])
    return distinct(walk, apart & (here < jnp.inf))
