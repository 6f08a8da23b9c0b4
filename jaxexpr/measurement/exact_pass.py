"""Exact passes: values of the probes of one drawn network along a curve, without discretisation.

Inside a compiled function all arrays have fixed sizes, so a pass with ``method="exact"`` carries
the capacity it is compiled with. It also returns the sizes that the network required; if they
exceed the capacity, the runner enlarges it and measures the network again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr import prng
from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.shapes import Array, Float, Int, Key
from jaxexpr._core.transforms import spread
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import segments, traverse
from jaxexpr.exact.along_curves.capacity import Capacity
from jaxexpr.exact.along_curves.solve import count_levels
from jaxexpr.networks import LayerSpec, Network

# From the name of a probe, or a level, to its value and exponent, each ``(depth,)``.
Values = dict[str | float, tuple[Float[Array, "depth"], Int[Array, "depth"]]]
Index = Int[Array, ""] | int


def measured(
    net: Network,
    key: Key[Array, ""],
    curve: Curve,
    sizes: Capacity,
    levels: tuple[float, ...] = (),
) -> tuple[Values, Int[Array, "depth"], Int[Array, "depth 2"]]:
    """Draw one network and measure a curve exactly.

    levels : levels besides the activation's breakpoints whose crossings are counted.

    Returns
    -------
    the values of all exact probes, from ``numbers``; the number of pieces on which the image below
    each layer does not move, ``(depth,)``; and the new rows and rows that each layer required,
    ``(depth, 2)``.
    """
    dtype = jnp.dtype(net.dtype)
    seed = prng.seed(key)
    layers = []
    spans = [range(block.first, block.first + block.layers) for block in sizes.blocks]
    if spans[-1].stop < net.depth:
        spans.append(range(spans[-1].stop, net.depth))
    for indices in spans:
        shape = net.widths[indices[0]], net.widths[indices[0] + 1]
        specs = jax.tree.map(lambda *x: jnp.stack(x), *(net.layer(i) for i in indices))
        slices: Any = (jnp.asarray(indices, jnp.int32), specs)
        draw: Any = drawing(seed, *shape, dtype)
        if sizes.held_bytes:
            slices, draw = lax.map(draw, slices), lambda pair: pair
        layers.append((slices, draw))
    whole_segments = spread(segments.begin(curve, 1, dtype), seed, net)

    def segment_result(segment: segments.Segment) -> traverse.SegmentResult:
        observe = count_levels(levels)
        return traverse.through(segment, layers, net.activation, sizes.blocks, observe)

    if sizes.in_parts:
        results = traverse.in_parts(segment_result, whole_segments, sizes.blocks)
    else:
        results = traverse.over(segment_result, whole_segments, 1)
    totals, _ = traverse.total(results)
    counts = traverse.level_totals(results.extra) if levels else ()
    values = numbers(totals, jnp.sum(results.start), counts, levels)
    return values, totals.still, results.required.max(axis=0)


def drawing(
    seed: prng.Seed, fan_in: int, fan_out: int, dtype: jnp.dtype
) -> Callable[[tuple[Index, LayerSpec]], tuple[Array, Array]]:
    """Return a function that draws ``(W, b)`` of a layer from its index, from 0, and its laws."""

    def draw(
        item: tuple[Index, LayerSpec],
    ) -> tuple[Float[Array, "fan_in fan_out"], Float[Array, "fan_out"]]:
        index, spec = item
        unit = spec.draw_unit(seed, index, fan_in, fan_out, dtype)
        biases = spec.draw_biases(seed, index, fan_out, dtype)
        return spec.weight_scale(fan_in, dtype) * unit, biases

    return draw


def numbers(
    totals: traverse.Totals,
    start: Float[Array, ""],
    counts: Any = (),
    levels: tuple[float, ...] = (),
) -> Values:
    """Return ``{probe: (value, exponent)}``, each ``(depth,)``; the number is value * 2**exponent.

    All values are NaN from the first layer on in which a number overflows.

    start : length of the curve itself.
    counts : crossings of the `levels`, ``(depth, m)``; each level is a key of the result.
    """
    dtype = totals.length.dtype
    zeros = jnp.zeros_like(totals.exponent)
    length_below = jnp.concatenate([jnp.reshape(start, (1,)), totals.length[:-1]])
    shift = totals.exponent - jnp.concatenate([zeros[:1], totals.exponent[:-1]])
    finite = jnp.isfinite(totals.length)
    log_2 = np.asarray(math.log(2), dtype)
    log = _log_or_nan(totals.length) + totals.exponent.astype(dtype) * log_2
    values: Values = {
        "length": (totals.length, totals.exponent),
        "log_length": (log, zeros),
        "length_ratio": (_ratio(totals.length, length_below) * power_of_two(shift, dtype), zeros),
        "growth": (_ratio(totals.growth, totals.share), zeros),
        "growth_squared": (_ratio(totals.squared, totals.share), zeros),
        "log_growth": (_ratio(totals.log, totals.survives), zeros),
        "transitions": (totals.crossings.astype(dtype), zeros),
        "pieces": (totals.pieces.astype(dtype), zeros),
        "patterns": (totals.pieces.astype(dtype), zeros),
        "network_transitions": (jnp.cumsum(totals.crossings).astype(dtype), zeros),
    }
    values |= {level: (counts[:, i].astype(dtype), zeros) for i, level in enumerate(levels)}
    return {name: (jnp.where(finite, v, jnp.nan), e) for name, (v, e) in values.items()}


def _ratio(a: Float[Array, "depth"], b: Float[Array, "depth"]) -> Float[Array, "depth"]:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), jnp.nan)


def _log_or_nan(a: Float[Array, "depth"]) -> Float[Array, "depth"]:
    return jnp.where(a > 0, jnp.log(jnp.where(a > 0, a, 1)), jnp.nan)
