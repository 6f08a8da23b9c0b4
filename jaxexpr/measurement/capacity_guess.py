"""How many pieces to expect: sizes of arrays, of which no number depends.

The one file of the estimators that asks ``theory``.
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

POINTS = 16  # of a segment at which crossings are guessed
SPREAD = 0.08  # margin of the guess, for each layer below
ROW_ARRAYS = 8  # arrays of the size of a segment's image that are alive at a time
MARGIN = 1.3  # of the capacity guessed for the mean of many arcs, the fullest of which must fit


def weight_bytes(net: Network) -> float:
    """Memory for the weights of all layers."""
    weights = sum(a * b for a, b in zip(net.widths, net.widths[1:], strict=False))
    return float(np.dtype(net.dtype).itemsize * weights)


def initial_capacity(net: Network, curve: Curve, *, counted: bool = False) -> Capacity:
    """The capacity to begin with; `counted` if nothing but crossings is asked for."""
    cut = []
    depth = net.depth - (counted and net.depth > 1)
    for run in net.runs():
        # Every block is a compilation; a long run in one block has the capacity of its last layer.
        most = max(-(-net.depth // capacity.MAX_BLOCKS), 1 if counted else 2)
        end = min(run.first + run.layers, depth)
        cut += [(low, min(most, end - low)) for low in range(run.first, end, most)]
    levels = len(net.activation.breakpoints or ())
    count = segments.count(curve)
    with jax.ensure_compile_time_eval():  # numbers that are known, though the caller traces
        shares = _shares(net, curve, count)
    blocks = capacity.guess(cut, net.widths[1:], levels, count, shares)
    return Capacity(blocks, row_bytes(net, 1 if curve.kind in segments.STRAIGHT else 3), count)


def row_bytes(net: Network, numbers: int) -> float:
    """Memory for one row of one segment, which holds so many `numbers` for each unit."""
    return float(np.dtype(net.dtype).itemsize * ROW_ARRAYS * numbers * max(net.widths))


def _shares(net: Network, curve: Curve, count: int) -> list[float] | None:
    """How often a unit of each layer crosses its breakpoints on one segment, about.

    As if weights and biases were Gaussian, and from layer to layer as distances grow in wide
    layers, but for homogeneous activations, which scale breakpoints too. ``None`` where that is not
    known: infinite lines, sweeps, and arrays that a caller's transformation traces.
    """
    spec = net.layer(0)
    leaves = (*jax.tree.leaves(net), *curve.arrays)
    if curve.whole or net.sweep_shape or any(checks.is_traced(x) for x in leaves):
        return None
    low, high = curve.domain
    t = jnp.asarray(np.linspace(low, high, POINTS * count + 1))
    points = np.asarray(curve.astype(t.dtype).points(t), np.float64)
    w, b = (float(np.asarray(law.std)) for law in (spec.weights, spec.biases))
    u = np.concatenate([points * w / math.sqrt(net.widths[0]), np.full((len(t), 1), b)], axis=1)
    size = np.linalg.norm(u, axis=1)
    if not (size > 0).all():
        return None
    u = u / size[:, None]
    angle = 2 * np.arcsin(np.minimum(np.linalg.norm(np.diff(u, axis=0), axis=1) / 2, 1))
    total = np.zeros_like(angle)
    for level in net.activation.breakpoints or ():
        # Turning on the sphere, and moving away from it.
        tail = np.array([math.erf(abs(level) / (math.sqrt(2) * s)) for s in size])
        middle = (size[1:] + size[:-1]) / 2
        total += angle / math.pi * np.exp(-((level / middle) ** 2) / 2) + np.abs(np.diff(tail)) / 2
    share = float(total.reshape(count, POINTS).sum(axis=1).max())
    # Networks differ the more the deeper they are, and the fullest must fit.
    spread = spreading(net, float(np.mean(points**2)))
    return [share * more * (1 + SPREAD * i) for i, more in enumerate(spread)]


def spreading(net: Network, moment: float, first: int = 0) -> list[float]:
    """How much more often the units of each layer cross a level than those of layer `first`, about.

    moment : ``|x|^2 / n_in`` of the input.
    """
    if net.activation.homogeneous:
        return [1.0] * (net.depth - first)
    growth = mean_field_growth(net, moment)
    growth = growth * np.sqrt(np.divide(net.widths[:-1], net.widths[1:]))
    return [1.0, *np.cumprod(np.maximum(growth[first:-1], 1.0))]


def shares_moving(net: Network, layer: int, moment: float) -> list[float]:
    """How often a unit crosses its breakpoints on a quarter turn of the weights of `layer`, about.

    Of that layer and of each above it.
    """
    here = moment
    for below in range(layer + 1):
        w, b = (float(np.asarray(law.std)) for law in net.layer(below))
        moving = w**2 * here
        q = moving + b**2
        here = float(length_map(q, 1.0, 0.0, net.activation))
    size = max(q, 1e-30)
    rate = sum(math.exp(-(c**2) / (2 * size)) for c in net.activation.breakpoints or ())
    share = MARGIN * rate * math.sqrt(moving / size) / 2
    return [share * more for more in spreading(net, moment, layer)]


def enlarged(
    sizes: Capacity, required: Int[np.ndarray, "*networks depth 2"], net: Network, budget: float
) -> Capacity | None:
    """More capacity for what was required, ``(..., depth, 2)``; ``None`` if there was enough."""
    if not sizes.overflowed(required).any():
        return None
    worst = required.reshape(-1, *required.shape[-2:]).max(axis=0)
    worst = worst[: sum(block.layers for block in sizes.blocks)]
    if sizes.in_parts:  # it overflowed at one point, however short the part
        return sizes._replace(blocks=capacity.raised(sizes.blocks, worst))
    return in_memory(sizes._replace(blocks=capacity.grown(sizes.blocks, worst)), net, budget)


def in_memory(sizes: Capacity, net: Network, budget: float) -> Capacity:
    """The capacity; or that for parts of the curve, where the memory holds no more."""
    if sizes.in_parts or sizes.bytes <= budget:
        return sizes
    held = weight_bytes(net)
    cut = sizes._replace(in_parts=True, held_bytes=held if 2 * held <= budget else 0.0)
    rows = max(int((budget - cut.held_bytes) / cut.row_bytes), capacity.MIN_ROWS)
    return cut._replace(blocks=capacity.shortened(cut.blocks, rows))
