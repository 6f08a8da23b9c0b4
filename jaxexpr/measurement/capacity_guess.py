"""Initial guesses of the number of pieces: they set the sizes of arrays and affect no result.

This is the only file of the estimators that imports ``theory``.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.shapes import Int
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity, segments
from jaxexpr.exact.along_curves.capacity import Capacity
from jaxexpr.networks import Network
from jaxexpr.theory.mean_field import length_map, mean_field_growth

POINTS = 16  # points of each segment at which the rate of crossings is evaluated
SPREAD = 0.08  # relative margin of the guess, for each layer below
ROW_ARRAYS = 8  # arrays of the size of a segment's image that are alive at the same time
MARGIN = 1.3  # factor on the guess for the mean arc: the arc with the most crossings must fit


def weight_bytes(net: Network) -> float:
    """Memory for the weights of all layers, in bytes."""
    weights = sum(a * b for a, b in zip(net.widths, net.widths[1:], strict=False))
    return float(np.dtype(net.dtype).itemsize * weights)


def initial_capacity(net: Network, curve: Curve, *, counted: bool = False) -> Capacity:
    """Return the capacity of the first attempt.

    counted : whether all probes only count crossings.
    """
    spans = []
    depth = net.depth - (counted and net.depth > 1)
    for run in net.runs():
        # Each block is compiled separately, and its layers share the capacity of the last one.
        max_layers = max(-(-net.depth // capacity.MAX_BLOCKS), 1 if counted else 2)
        stop = min(run.first + run.layers, depth)
        starts = range(run.first, stop, max_layers)
        spans += [(first, min(max_layers, stop - first)) for first in starts]
    breakpoint_count = len(net.activation.breakpoints or ())
    segment_count = segments.count(curve)
    with jax.ensure_compile_time_eval():  # concrete values, even inside a caller's trace
        shares = _shares(net, curve, segment_count)
    blocks = capacity.guess(spans, net.widths[1:], breakpoint_count, segment_count, shares)
    numbers = 1 if curve.kind in segments.STRAIGHT else 3
    return Capacity(blocks, row_bytes(net, numbers), segment_count)


def row_bytes(net: Network, numbers: int) -> float:
    """Memory for one row of one segment, in bytes, with `numbers` values for each unit."""
    return float(np.dtype(net.dtype).itemsize * ROW_ARRAYS * numbers * max(net.widths))


def _shares(net: Network, curve: Curve, count: int) -> list[float] | None:
    """Approximate crossings of breakpoints per unit on one segment, for each layer.

    Weights and biases are treated as Gaussian. From layer to layer the number grows as distances
    do in wide layers; for homogeneous activations it stays constant, because breakpoints scale
    with the image. ``None`` where it is unknown: infinite lines, sweeps, and arrays traced by a
    caller's transformation.
    """
    spec = net.layer(0)
    leaves = (*jax.tree.leaves(net), *curve.arrays)
    if curve.whole or net.sweep_shape or any(checks.is_traced(x) for x in leaves):
        return None
    low, high = curve.domain
    t = jnp.asarray(np.linspace(low, high, POINTS * count + 1))
    points = np.asarray(curve.astype(t.dtype).points(t), np.float64)
    w, b = (float(np.asarray(law.std)) for law in (spec.weights, spec.biases))
    scaled = points * w / math.sqrt(net.widths[0])
    augmented = np.concatenate([scaled, np.full((len(t), 1), b)], axis=1)
    norms = np.linalg.norm(augmented, axis=1)
    if not (norms > 0).all():
        return None
    augmented = augmented / norms[:, None]
    angle = 2 * np.arcsin(np.minimum(np.linalg.norm(np.diff(augmented, axis=0), axis=1) / 2, 1))
    crossings = np.zeros_like(angle)
    for level in net.activation.breakpoints or ():
        # Crossings by the rotation of (x, bias), and by the change of its norm.
        below_level = np.array([math.erf(abs(level) / (math.sqrt(2) * s)) for s in norms])
        mean_norms = (norms[1:] + norms[:-1]) / 2
        by_rotation = angle / math.pi * np.exp(-((level / mean_norms) ** 2) / 2)
        crossings += by_rotation + np.abs(np.diff(below_level)) / 2
    per_unit = float(crossings.reshape(count, POINTS).sum(axis=1).max())
    # Networks vary more the deeper they are, and the one with the most crossings must fit.
    factors = relative_rates(net, float(np.mean(points**2)))
    return [per_unit * factor * (1 + SPREAD * i) for i, factor in enumerate(factors)]


def relative_rates(net: Network, moment: float, first: int = 0) -> list[float]:
    """Approximate rates at which units cross a level, relative to the layer with index `first`.

    One factor for that layer and each layer above it.

    moment : ``|x|^2 / n_in`` of the input.
    """
    if net.activation.homogeneous:
        return [1.0] * (net.depth - first)
    growth = mean_field_growth(net, moment)
    growth = growth * np.sqrt(np.divide(net.widths[:-1], net.widths[1:]))
    return [1.0, *np.cumprod(np.maximum(growth[first:-1], 1.0))]


def shares_moving(net: Network, layer: int, moment: float) -> list[float]:
    """Approximate crossings of breakpoints per unit on a quarter turn of the weights of a layer.

    One number for that layer and each layer above it.

    layer : index of the layer, from 0.
    moment : ``|x|^2 / n_in`` of the input.
    """
    second_moment = moment
    for index in range(layer + 1):
        w, b = (float(np.asarray(law.std)) for law in net.layer(index))
        from_weights = w**2 * second_moment
        q = from_weights + b**2
        second_moment = float(length_map(q, 1.0, 0.0, net.activation))
    variance = max(q, 1e-30)
    rate = sum(math.exp(-(c**2) / (2 * variance)) for c in net.activation.breakpoints or ())
    per_unit = MARGIN * rate * math.sqrt(from_weights / variance) / 2
    return [per_unit * factor for factor in relative_rates(net, moment, layer)]


def enlarged(
    sizes: Capacity, required: Int[np.ndarray, "*networks depth 2"], net: Network, budget: float
) -> Capacity | None:
    """Return a capacity that holds what was required; ``None`` if `sizes` already does.

    required : new rows and rows of each layer, ``(..., depth, 2)``.
    """
    if not sizes.overflowed(required).any():
        return None
    largest = required.reshape(-1, *required.shape[-2:]).max(axis=0)
    largest = largest[: sum(block.layers for block in sizes.blocks)]
    if sizes.in_parts:  # a single point overflowed: shorter parts would too
        return sizes._replace(blocks=capacity.raised(sizes.blocks, largest))
    return in_memory(sizes._replace(blocks=capacity.grown(sizes.blocks, largest)), net, budget)


def in_memory(sizes: Capacity, net: Network, budget: float) -> Capacity:
    """Return `sizes`, or a capacity for parts of the curve where they exceed `budget` bytes."""
    if sizes.in_parts or sizes.bytes <= budget:
        return sizes
    weights = weight_bytes(net)
    partial = sizes._replace(in_parts=True, held_bytes=weights if 2 * weights <= budget else 0.0)
    rows = max(int((budget - partial.held_bytes) / partial.row_bytes), capacity.MIN_ROWS)
    return partial._replace(blocks=capacity.shortened(partial.blocks, rows))
