"""The exact method behind the probes: drawn networks along curves, with capacity that grows.

Inside a compiled function all arrays have fixed sizes, so a pass with ``method="exact"`` carries
the capacity it was compiled with. What a network requires is returned; the runner enlarges the
capacity and measures it again.
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

# The number of each probe, or level: value and exponent, each ``(depth,)``.
Found = dict[str | float, tuple[Float[Array, "depth"], Int[Array, "depth"]]]
Index = Int[Array, ""] | int


def measured(
    net: Network,
    key: Key[Array, ""],
    curve: Curve,
    sizes: Capacity,
    levels: tuple[float, ...] = (),
) -> tuple[Found, Int[Array, "depth"], Int[Array, "depth 2"]]:
    """Draw one network and measure a curve exactly.

    levels : others than the activation's breakpoints, whose crossings are counted too.

    Returns
    -------
    ``numbers`` of all exact probes; pieces on which the image below a layer does not move,
    ``(depth,)``; and new rows and rows that each layer required, ``(depth, 2)``.
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
    begun = spread(segments.begin(curve, 1, dtype), seed, net)

    def through(segment: segments.Segment) -> traverse.SegmentResult:
        observe = count_levels(levels)
        return traverse.through(segment, layers, net.activation, sizes.blocks, observe)

    if sizes.in_parts:
        results = traverse.in_parts(through, begun, sizes.blocks)
    else:
        results = traverse.over(through, begun, 1)
    totals, _ = traverse.total(results)
    counts = traverse.level_totals(results.extra) if levels else ()
    found = numbers(totals, jnp.sum(results.start), counts, levels)
    return found, totals.still, results.required.max(axis=0)


def drawing(
    seed: prng.Seed, fan_in: int, fan_out: int, dtype: jnp.dtype
) -> Callable[[tuple[Index, LayerSpec]], tuple[Array, Array]]:
    """Return what draws ``(W, b)`` of a layer from its number and its laws."""

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
) -> Found:
    """Return ``{probe: (value, exponent)}``, each ``(depth,)``; the number is value 2**exponent.

    NaN, length included, from the layer on in which values overflow.

    start : length of the curve itself.
    counts : crossings of the `levels`, ``(depth, m)``; their keys are the levels.
    """
    one = totals
    dtype = one.length.dtype
    plain = jnp.zeros_like(one.exponent)
    below = jnp.concatenate([jnp.reshape(start, (1,)), one.length[:-1]])
    shift = one.exponent - jnp.concatenate([plain[:1], one.exponent[:-1]])
    sound = jnp.isfinite(one.length)
    log = _log(one.length) + one.exponent.astype(dtype) * np.asarray(math.log(2), dtype)
    found: Found = {
        "length": (one.length, one.exponent),
        "log_length": (log, plain),
        "length_ratio": (_over(one.length, below) * power_of_two(shift, dtype), plain),
        "growth": (_over(one.growth, one.share), plain),
        "growth_squared": (_over(one.squared, one.share), plain),
        "log_growth": (_over(one.log, one.survives), plain),
        "transitions": (one.crossings.astype(dtype), plain),
        "pieces": (one.pieces.astype(dtype), plain),
        "patterns": (one.pieces.astype(dtype), plain),
        "network_transitions": (jnp.cumsum(one.crossings).astype(dtype), plain),
    }
    found |= {level: (counts[:, i].astype(dtype), plain) for i, level in enumerate(levels)}
    return {name: (jnp.where(sound, v, jnp.nan), e) for name, (v, e) in found.items()}


def _over(a: Float[Array, "depth"], b: Float[Array, "depth"]) -> Float[Array, "depth"]:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), jnp.nan)


def _log(a: Float[Array, "depth"]) -> Float[Array, "depth"]:
    return jnp.where(a > 0, jnp.log(jnp.where(a > 0, a, 1)), jnp.nan)
