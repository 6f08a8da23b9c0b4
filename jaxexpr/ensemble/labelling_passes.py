"""The weights of one layer on a great circle: one network, one moving layer at a time.

The task behind ``dichotomies``. At a fixed point the pre-activations of the moving layer are
``a cos t + b sin t + c``; above it the network is sent along these arcs exactly, or on a grid.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr import laws, prng
from jaxexpr._core import bits
from jaxexpr._core.linalg import dot
from jaxexpr._core.shapes import Array, Float, Int, Key, UInt32
from jaxexpr.ensemble.tasks import Task
from jaxexpr.exact.along_curves import capacity, label_changes, segments, traverse
from jaxexpr.exact.along_curves.arcs import Arcs
from jaxexpr.exact.along_curves.capacity import Block, Capacity
from jaxexpr.measurement.capacity_guess import row_bytes, shares_moving, weight_bytes
from jaxexpr.measurement.exact_pass import drawing
from jaxexpr.measurement.observe import Observation, Observed
from jaxexpr.networks import MLP, Network

Inputs = Float[Array, "s n_in"] | Float[np.ndarray, "s n_in"]

NAMES = ("dichotomies", "flips")
MOVING = 2  # kind of the draw that the moving weights turn to
QUARTER = math.pi / 2
_ROWS_CPU, _ROWS = 2**12, 2**17  # of a product on a grid: what caches, or an accelerator, like


class LabelCapacity(NamedTuple):
    """Sizes of arrays for the exact sweep of one layer.

    Attributes
    ----------
    sizes : of the layers from the moving one on, which comes first, as if its weights were the
        identity above the arcs that its pre-activations are; without the last layer, of which
        nothing but the read-outs is needed. A segment is a quarter turn.
    flips : most flips of one label on a segment, block by block; then of the last layer.
    """

    sizes: Capacity
    flips: tuple[int, ...]

    def with_sizes(self, sizes: Capacity) -> LabelCapacity:
        """The same with other sizes; fewer flips where segments are shorter."""
        times = round(math.log2(sizes.splits / self.sizes.splits))
        return LabelCapacity(sizes, tuple(_scaled_flips(f, 0.6, times) for f in self.flips))


def _scaled_flips(flips: int, factor: float, times: int) -> int:
    for _ in range(times):
        flips = capacity.bucket(factor * flips)
    return flips


def initial_label_capacity(
    net: MLP, layer: int, moment: float | None, quarters: int
) -> LabelCapacity:
    """The capacity to begin with, for the layer that moves and all above it.

    moment : mean square of the inputs' entries; ``None`` if it is not known, or the laws are not.
    """
    widths = (net.widths[layer + 1], *net.widths[layer + 1 :])
    kinds: list[Any] = ["identity"]
    for above in range(layer + 1, net.depth - 1):
        shape = net.widths[above], net.widths[above + 1]
        kinds.append((shape, jax.tree.structure(net.layer(above))))
    cut = capacity.blocks(kinds, math.inf)
    shares = None if moment is None or net.sweep_shape else shares_moving(net, layer, moment)
    blocks = capacity.guess(cut, widths[1:], len(net.activation.breakpoints or ()), 4, shares)
    return LabelCapacity(Capacity(blocks, row_bytes(net, 3), quarters), _flips(blocks, widths))


def _flips(blocks: tuple[Block, ...], widths: Sequence[int]) -> tuple[int, ...]:
    """Most flips of one unit where all units of a layer make `new` new rows."""
    found = []
    for block in blocks:
        mean = block.new / min(widths[block.first + 1 : block.first + 1 + block.layers])
        found.append(capacity.bucket(2 * mean + 4 * math.sqrt(mean) + 6))
    last = blocks[-1].first + blocks[-1].layers
    return (*found, 2 * found[-1]) if last < len(widths) - 1 else tuple(found)


def _enlarged(
    own: LabelCapacity,
    required: Int[np.ndarray, "*networks layers 3"],
    net: Network,
    layer: int,
    budget: float,
) -> LabelCapacity:
    """More capacity for what was required, ``(..., layers, 3)``: new rows, rows, flips."""
    worst = required.reshape(-1, *required.shape[-2:]).max(axis=0)
    spans = [slice(block.first, block.first + block.layers) for block in own.sizes.blocks]
    inside, larger, times = worst[: spans[-1].stop, :2], own, 0
    if own.sizes.overflowed(inside):
        widths = (net.widths[layer + 1], *net.widths[layer + 1 :])
        larger = own.with_sizes(own.sizes.grown(inside, budget))
        times = round(math.log2(larger.sizes.splits / own.sizes.splits))
        flips = _flips(larger.sizes.blocks, widths)
        larger = larger._replace(flips=tuple(map(max, larger.flips, flips)))
    if len(own.flips) > len(spans):
        spans.append(slice(spans[-1].stop, None))
    # A segment that overflowed has seen too few flips.
    more = [
        capacity.bucket(1.25 * 0.6**times * worst[span, 2].max())
        if worst[span, 2].max() > held
        else 0
        for span, held in zip(spans, own.flips, strict=True)
    ]
    return larger._replace(flips=tuple(map(max, larger.flips, more)))


@dataclasses.dataclass(frozen=True)
class Sweep(Task):
    """The weights of one layer move, at fixed inputs.

    Attributes
    ----------
    layers : which of them, one at a time; several : whether they have an axis in the result.
    readouts : units of each layer that are read out.
    quarters : quarter turns of the path.
    points : of the grid; 0 : exact, with `capacities`, one for each layer.
    """

    layers: tuple[int, ...]
    several: bool
    readouts: int
    quarters: int
    inputs: int
    points: int
    capacities: tuple[LabelCapacity, ...]

    def shapes(self, net: Network, data: Inputs) -> dict[str, tuple[int, ...]]:
        shape = (len(self.layers), net.depth) if self.several else (net.depth,)
        return dict.fromkeys(NAMES, shape)

    def method_of(self, name: str) -> tuple[str, int]:
        if self.points:
            return "grid", self.points
        splits = max(own.sizes.splits for own in self.capacities)
        return "exact" + (f" in {splits} parts" if splits > 1 else ""), 0

    @property
    def fingerprint_parts(self) -> object:
        return dataclasses.replace(self, capacities=())

    @property
    def exact(self) -> bool:
        return not self.points

    def bytes(self, net: Network, data: Inputs) -> float:
        size, widest = np.dtype(net.dtype).itemsize, max(net.widths)
        held = weight_bytes(net)
        if self.points:
            codes = 12 * self.points * self.readouts * net.depth  # two words, and half of them
            rows = 4 * size * self.inputs * self._together() * widest
            return held + rows + codes + 48 * self.points
        return held + max(own.sizes.bytes for own in self.capacities)

    def refined(self) -> Sweep | None:
        return dataclasses.replace(self, points=2 * self.points - 1) if self.points else None

    def with_more_capacity(
        self,
        required: tuple[Int[np.ndarray, "*networks _ 3"], ...],
        net: Network,
        budget: float,
    ) -> Sweep | None:
        if not self.capacities:
            return None
        larger = tuple(
            _enlarged(own, np.asarray(needs), net, layer, budget)
            for own, needs, layer in zip(self.capacities, required, self.layers, strict=True)
        )
        return None if larger == self.capacities else dataclasses.replace(self, capacities=larger)

    def fit_memory(self, net: Network, budget: float) -> Sweep:
        fitting = tuple(own.with_sizes(own.sizes.fitted(budget)) for own in self.capacities)
        return dataclasses.replace(self, capacities=fitting)

    def _together(self) -> int:
        """Points of the grid that are side by side."""
        most = _ROWS_CPU if jax.default_backend() == "cpu" else _ROWS
        return int(np.clip(most // self.inputs, 1, self.points))

    def observe(self, net: Network, key: Key[Array, ""], data: Float[Array, "s n_in"]) -> Observed:
        dtype = jnp.dtype(net.dtype)
        seed = prng.seed(key)
        params, below = [], [data]
        for i, (fan_in, width) in enumerate(zip(net.widths, net.widths[1:], strict=False)):
            params.append(drawing(seed, fan_in, width, dtype)((i, net.layer(i))))
            if i < max(self.layers):
                below.append(net.activation(dot(below[i], params[i][0]) + params[i][1][None]))
        counts, required = [], []
        for index, layer in enumerate(self.layers):
            weights, biases = params[layer]
            spec = net.layer(layer)
            turned = prng.words(prng.child(seed, layer, MOVING), weights.shape)
            other = spec.weight_scale(weights.shape[0], dtype) * laws.unit_of(
                spec.weights, turned, dtype
            )
            ends = dot(below[layer], weights), dot(below[layer], other)
            if self.points:
                found = self._on_grid(net, ends, biases, params[layer + 1 :])
            else:
                own = self.capacities[index]
                found, needs = self._exactly(net, seed, ends, biases, layer, own)
                required.append(needs)
            counts.append([jnp.pad(x, (layer, 0), constant_values=jnp.nan) for x in found])
        stacked = [jnp.stack(x) if self.several else x[0] for x in zip(*counts, strict=True)]
        pairs = zip(NAMES, stacked[::2], stacked[1::2], strict=True)
        numbers = {
            name: Observation.of(value)._replace(coarser=coarser - value)
            for name, value, coarser in pairs
        }
        return Observed(numbers, tuple(required))

    def _on_grid(
        self,
        net: Network,
        ends: tuple[Float[Array, "s k"], Float[Array, "s k"]],
        biases: Float[Array, "k"],
        above: list[tuple[Array, Array]],
    ) -> list[Float[Array, "layers"]]:
        """Dichotomies, the same on half the grid, flips, the same; each ``(layers,)``."""
        dtype, together = biases.dtype, self._together()
        bits = jnp.asarray(label_changes.point_bits(self.inputs))
        t = jnp.asarray(np.linspace(0, self.quarters * QUARTER, self.points), dtype)
        t = jnp.pad(t, (0, -self.points % together), mode="edge").reshape(-1, together)

        def some(t: Float[Array, "together"]) -> UInt32[Array, "layers together readouts 2"]:
            cos, sin = jnp.cos(t)[:, None, None], jnp.sin(t)[:, None, None]
            h = cos * ends[0][None] + sin * ends[1][None] + biases[None, None]
            codes = [self._codes(h, bits)]
            for weights, offset in above:
                z = net.activation(h).reshape(-1, h.shape[-1])
                h = (dot(z, weights) + offset[None]).reshape(together, self.inputs, -1)
                codes.append(self._codes(h, bits))
            return jnp.stack(codes)  # (layers, together, readouts, 2)

        codes = jnp.moveaxis(lax.map(some, t), 0, 1)
        codes = codes.reshape(codes.shape[0], -1, *codes.shape[3:])[:, : self.points]
        codes = jnp.swapaxes(codes, 1, 2)  # (layers, readouts, points, 2)
        half = codes[:, :, ::2]
        if self.points % 2 == 0:
            half = jnp.concatenate([half, codes[:, :, -1:]], axis=2)
        found = []
        for count in (_different_codes, _changes):
            for rows in (codes, half):
                each = lax.map(count, rows.reshape(-1, *rows.shape[2:])).reshape(rows.shape[:2])
                number = jnp.mean(each.astype(dtype), axis=1)
                known = rows is codes or self.points >= 3
                found.append(number if known else jnp.full_like(number, jnp.nan))
        return found

    def _codes(
        self, h: Float[Array, "together s k"], bits: UInt32[Array, "s 2"]
    ) -> UInt32[Array, "together readouts 2"]:
        """Labels of all inputs in two words, ``(together, readouts, 2)``."""
        positive = h[:, :, : self.readouts, None] > 0
        return jnp.sum(jnp.where(positive, bits[None, :, None], 0), axis=1, dtype=jnp.uint32)

    def _exactly(
        self,
        net: Network,
        seed: prng.Seed,
        ends: tuple[Float[Array, "s k"], Float[Array, "s k"]],
        biases: Float[Array, "k"],
        layer: int,
        own: LabelCapacity,
    ) -> tuple[list[Float[Array, "layers"]], Int[Array, "layers 3"]]:
        """As ``_on_grid``, without error; and what each layer required, ``(layers, 3)``."""
        dtype, width = biases.dtype, biases.shape[0]
        one = jnp.eye(width, dtype=dtype), jnp.zeros(width, dtype)
        layers: list[Any] = [(jnp.zeros((1,), dtype), lambda _: one)]
        spans = [range(block.first, block.first + block.layers) for block in own.sizes.blocks]
        if len(own.flips) > len(spans):
            spans.append(range(spans[-1].stop, spans[-1].stop + 1))
        for span in spans[1:]:
            indices = [layer + i for i in span]
            specs = jax.tree.map(lambda *x: jnp.stack(x), *(net.layer(i) for i in indices))
            shape = net.widths[indices[0]], net.widths[indices[0] + 1]
            draw = drawing(seed, *shape, dtype)
            layers.append(((jnp.asarray(indices, jnp.int32), specs), draw))
        most: dict[Any, int] = dict(zip((*own.sizes.blocks, None), own.flips, strict=False))

        def observe(
            image: traverse.Rows,
            weights: Float[Array, "fan_in k"],
            offset: Float[Array, "k"],
            block: Block | None,
        ) -> label_changes.SignChanges:
            assert isinstance(image, Arcs)
            some = slice(self.readouts)
            return label_changes.sign_changes(image, weights[:, some], offset[some], most[block])

        splits = own.sizes.splits
        pieces = self.quarters * splits
        edges = jnp.asarray(np.arange(pieces + 1) * QUARTER / splits, dtype)
        t = jnp.stack([edges[:-1], edges[1:]], axis=1)

        def one_input(
            pair: tuple[Float[Array, "k"], Float[Array, "k"]],
        ) -> tuple[list[Any], Int[Array, "pieces layers 2"], Float[Array, "pieces layers"]]:
            arc = jnp.stack([*pair, biases])
            begun = t, jnp.broadcast_to(arc[None], (pieces, *arc.shape))

            def through(segment: segments.Segment) -> traverse.SegmentResult:
                blocks = own.sizes.blocks
                return traverse.through(segment, layers, net.activation, blocks, observe)

            results = traverse.over(through, begun, splits)
            return results.extra, results.required, results.totals.length

        changes_of, rows, lengths = lax.map(one_input, ends)
        sound = jnp.all(jnp.isfinite(lengths), axis=(0, 1))
        counts = [_labellings(one, edges[1:-1]) for one in changes_of]
        different, changes = (jnp.concatenate(x) for x in zip(*counts, strict=True))
        found = [jnp.where(sound, x.astype(dtype), jnp.inf) for x in (different, changes)]
        flips = jnp.concatenate([jnp.max(one.total, axis=(0, 1, 3)) for one in changes_of])
        required = jnp.concatenate([rows.max(axis=(0, 1)), flips[:, None]], axis=1)
        return [found[0], found[0], found[1], found[1]], required


def _different_codes(codes: UInt32[Array, "points 2"]) -> Int[Array, ""]:
    return bits.distinct(codes, jnp.ones(codes.shape[0], bool))


def _changes(codes: UInt32[Array, "points 2"]) -> Int[Array, ""]:
    return jnp.sum(lax.population_count(codes[1:] ^ codes[:-1]).astype(jnp.int32))


def _labellings(
    seen: label_changes.SignChanges, joints: Float[Array, "joints"]
) -> tuple[Float[Array, "layers"], Float[Array, "layers"]]:
    """Labellings and flips, each ``(layers,)``, of a block's ``(inputs, segments, layers, r)``."""
    meets = seen.last[:, :-1] != seen.first[:, 1:]
    between = jnp.where(meets, joints[None, :, None, None], jnp.inf)
    inputs, pieces, layers, readouts, most = seen.times.shape
    times = jnp.moveaxis(seen.times, 1, 3).reshape(inputs, layers, readouts, pieces * most)
    times = jnp.concatenate([times, jnp.moveaxis(between, 1, 3)], axis=3)
    by_layer = jax.vmap(jax.vmap(label_changes.labellings, (1, 1)), (1, 1))
    different = by_layer(times, seen.first[:, 0])
    changes = jnp.sum(jnp.isfinite(times), axis=(0, 3), dtype=jnp.int32)
    return tuple(jnp.mean(x.astype(times.dtype), axis=1) for x in (different, changes))  # type: ignore[return-value]
