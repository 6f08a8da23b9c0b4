"""The exact method behind the probes: drawn networks through stretches, with room that grows.

Inside a compiled function all arrays have fixed sizes, so a pass with ``method="exact"`` carries
the room it was compiled with. A network that needs more says so; the runner gives more room and
measures it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr import prng
from jaxexpr._core import checks
from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.transforms import spread
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity as rooms
from jaxexpr.exact.along_curves import segments, traverse
from jaxexpr.exact.along_curves.solve import counting
from jaxexpr.networks import LayerSpec, Network
from jaxexpr.theory.mean_field import mean_field_growth

POINTS = 16  # of a stretch at which crossings are guessed
SPREAD = 0.08  # margin of the guess, for each layer below
ROW_ARRAYS = 8  # arrays of the size of a stretch's image that are alive at a time
LEAST_ROWS = 64  # of a part of a curve


class Room(NamedTuple):
    """Room for what is found along a curve, or along a part of it.

    Attributes
    ----------
    plan : of all layers; or of all but the last, whose crossings alone are then counted.
    stretches : of the curve, which are side by side unless it is cut.
    numbers : that a row holds for each unit: 1 on straight stretches, 3 on arcs.
    cut : whether the curve is gone through in parts, each as long as the room allows.
    held : whether weights are drawn once for all parts.
    """

    plan: tuple[rooms.Block, ...]
    stretches: int = 1
    numbers: int = 1
    cut: bool = False
    held: bool = False

    def row_bytes(self, net: Network) -> float:
        """Memory for one row of one network, in each of the stretches that are side by side."""
        beside = 1 if self.cut else self.stretches
        numbers = ROW_ARRAYS * self.numbers * beside * max(net.widths)
        return float(np.dtype(net.dtype).itemsize * numbers)

    def bytes(self, net: Network) -> float:
        """Memory for one network."""
        held = weight_bytes(net) if self.held else 0.0
        return self.row_bytes(net) * self.plan[-1].size + held


def weight_bytes(net: Network) -> float:
    """Memory for the weights of all layers."""
    weights = sum(a * b for a, b in zip(net.widths, net.widths[1:], strict=False))
    return float(np.dtype(net.dtype).itemsize * weights)


def first_room(net: Network, curve: Curve, *, counted: bool = False) -> Room:
    """Room to begin with; `counted` if nothing but crossings is asked for."""
    cut = []
    depth = net.depth - (counted and net.depth > 1)
    for run in net.runs():
        # Every block is a compilation; a long run in one block has the room of its last layer.
        most = max(-(-net.depth // rooms.MOST_BLOCKS), 1 if counted else 2)
        end = min(run.first + run.layers, depth)
        cut += [(low, min(most, end - low)) for low in range(run.first, end, most)]
    levels = len(net.activation.breakpoints or ())
    own = segments.count(curve)
    with jax.ensure_compile_time_eval():  # numbers that are known, though the caller traces
        shares = _shares(net, curve, own)
    plan = rooms.guess(cut, net.widths[1:], levels, own, shares)
    return Room(plan, own, 1 if curve.kind in segments.STRAIGHT else 3)


def _shares(net: Network, curve: Curve, stretches: int) -> list[float] | None:
    """How often a unit of each layer crosses its breakpoints on one stretch, about.

    As if weights and biases were Gaussian, and from layer to layer as distances grow in wide
    layers, but for homogeneous activations, which scale breakpoints too. ``None`` where that is not
    known: infinite lines, sweeps, and arrays that a caller's transformation traces.
    """
    spec = net.layer(0)
    leaves = (*jax.tree.leaves(net), *curve.arrays)
    if curve.whole or net.sweep_shape or any(checks.is_traced(x) for x in leaves):
        return None
    low, high = curve.domain
    t = jnp.asarray(np.linspace(low, high, POINTS * stretches + 1))
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
    share = float(total.reshape(stretches, POINTS).sum(axis=1).max())
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


def more_room(room: Room, needed: np.ndarray, net: Network, budget: float) -> Room | None:
    """Room for what was ``needed``, ``(..., depth, 2)``; ``None`` if there was enough."""
    needed = needed[..., : sum(block.layers for block in room.plan), :]
    if not rooms.lacks(room.plan, needed).any():
        return None
    worst = needed.reshape(-1, *needed.shape[-2:]).max(axis=0)
    if room.cut:  # it lacked room at one point, however short the part
        return room._replace(plan=rooms.raised(room.plan, worst))
    return within(room._replace(plan=rooms.grown(room.plan, worst)), net, budget)


def within(room: Room, net: Network, budget: float) -> Room:
    """The room; or that for parts of the curve, where the memory holds no more."""
    if room.cut or room.bytes(net) <= budget:
        return room
    held = weight_bytes(net)
    cut = room._replace(cut=True, held=2 * held <= budget)
    left = budget - held if cut.held else budget
    rows = max(int(left / cut.row_bytes(net)), LEAST_ROWS)
    return cut._replace(plan=rooms.shortened(room.plan, rows))


def measured(
    net: Network, key: jax.Array, curve: Curve, room: Room, beside: tuple[float, ...] = ()
) -> tuple[dict[Any, tuple[Any, Any]], jax.Array, jax.Array]:
    """Draw one network and measure a curve exactly.

    beside : other levels than the activation's, whose crossings are counted too.

    Returns
    -------
    ``numbers`` of all exact probes; pieces on which the image below a layer does not move,
    ``(depth,)``; and the room that was needed, ``(depth, 2)``.
    """
    dtype = jnp.dtype(net.dtype)
    seed = prng.seed(key)
    layers = []
    spans = [range(block.first, block.first + block.layers) for block in room.plan]
    if spans[-1].stop < net.depth:
        spans.append(range(spans[-1].stop, net.depth))
    for indices in spans:
        sizes = net.widths[indices[0]], net.widths[indices[0] + 1]
        specs = jax.tree.map(lambda *x: jnp.stack(x), *(net.layer(i) for i in indices))
        slices: Any = (jnp.asarray(indices, jnp.int32), specs)
        draw: Any = drawing(seed, *sizes, dtype)
        if room.held:
            slices, draw = lax.map(draw, slices), lambda pair: pair
        layers.append((slices, draw))
    begun = spread(segments.begin(curve, 1, dtype), seed, net)

    def through(stretch: Any) -> traverse.Said:
        return traverse.through(stretch, layers, net.activation, room.plan, counting(beside))

    if room.cut:
        said = traverse.in_parts(through, begun, room.plan)
    else:
        said = traverse.over(through, begun, 1)
    totals, _ = traverse.total(said)
    counts = traverse.level_totals(said.extra) if beside else ()
    found = numbers(totals, jnp.sum(said.start), counts, beside)
    return found, totals.still, said.needed.max(axis=0)


def drawing(
    seed: prng.Seed, fan_in: int, fan_out: int, dtype: Any
) -> Callable[[tuple[Any, LayerSpec]], tuple[jax.Array, jax.Array]]:
    """Return what draws ``(W, b)`` of a layer from its number and its laws."""

    def draw(item: tuple[Any, LayerSpec]) -> tuple[jax.Array, jax.Array]:
        index, spec = item
        unit = spec.draw_unit(seed, index, fan_in, fan_out, dtype)
        biases = spec.draw_biases(seed, index, fan_out, dtype)
        return spec.weight_scale(fan_in, dtype) * unit, biases

    return draw


def numbers(
    totals: traverse.Totals, start: Any, counts: Any = (), beside: tuple[float, ...] = ()
) -> dict[Any, tuple[Any, Any]]:
    """Return ``{probe: (value, exponent)}``, each ``(depth,)``; the number is value 2**exponent.

    NaN, length included, from the layer on in which values overflow.

    start : length of the curve itself.
    counts : crossings of the levels `beside`, ``(depth, m)``; their keys are the levels.
    """
    one = totals
    dtype = one.length.dtype
    plain = jnp.zeros_like(one.exponent)
    below = jnp.concatenate([jnp.reshape(start, (1,)), one.length[:-1]])
    shift = one.exponent - jnp.concatenate([plain[:1], one.exponent[:-1]])
    sound = jnp.isfinite(one.length)
    log = _log(one.length) + one.exponent.astype(dtype) * np.asarray(math.log(2), dtype)
    found: dict[Any, tuple[Any, Any]] = {
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
    found |= {level: (counts[:, i].astype(dtype), plain) for i, level in enumerate(beside)}
    return {name: (jnp.where(sound, v, jnp.nan), e) for name, (v, e) in found.items()}


def _over(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), jnp.nan)


def _log(a: jax.Array) -> jax.Array:
    return jnp.where(a > 0, jnp.log(jnp.where(a > 0, a, 1)), jnp.nan)
