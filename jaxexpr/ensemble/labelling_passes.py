"""The weights of one layer move along a great circle, in one network.

The task of ``dichotomies``. At a fixed input the pre-activations of the moving layer are
``a cos t + b sin t + c``; the layers above follow these arcs, exactly or on a grid.
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
from jaxexpr._core import packed_bits
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
MOVING = 2  # index of the random stream of the second weights, towards which the layer moves
QUARTER = math.pi / 2
_ROWS_CPU, _ROWS = 2**12, 2**17  # rows of one product on a grid, on CPU and elsewhere


class LabelCapacity(NamedTuple):
    """Sizes of arrays for the exact pass of one moving layer.

    Attributes
    ----------
    sizes : for the layers from the moving one on, without the last layer, of which only the
        readouts are needed. The moving layer comes first: its pre-activations are arcs, on which it
        acts with identity weights. A segment is a quarter turn.
    flips : largest number of flips of one label on a segment, for each block and the last layer.
    """

    sizes: Capacity
    flips: tuple[int, ...]

    def with_sizes(self, sizes: Capacity) -> LabelCapacity:
        """The capacity with other sizes; fewer flips if segments are shorter."""
        times = round(math.log2(sizes.splits / self.sizes.splits))
        return LabelCapacity(sizes, tuple(_scaled_flips(f, 0.6, times) for f in self.flips))


def _scaled_flips(flips: int, factor: float, times: int) -> int:
    for _ in range(times):
        flips = capacity.bucket(factor * flips)
    return flips


def initial_label_capacity(
    net: MLP, layer: int, moment: float | None, quarters: int
) -> LabelCapacity:
    """Initial capacity for the moving layer and all layers above it.

    moment : mean square of the inputs' entries; ``None`` if it is unknown.
    """
    widths = (net.widths[layer + 1], *net.widths[layer + 1 :])
    kinds: list[Any] = ["identity"]
    for above in range(layer + 1, net.depth - 1):
        shape = net.widths[above], net.widths[above + 1]
        kinds.append((shape, jax.tree.structure(net.layer(above))))
    runs = capacity.blocks(kinds, math.inf)
    shares = None if moment is None or net.sweep_shape else shares_moving(net, layer, moment)
    blocks = capacity.guess(runs, widths[1:], len(net.activation.breakpoints or ()), 4, shares)
    return LabelCapacity(Capacity(blocks, row_bytes(net, 3), quarters), _flips(blocks, widths))


def _flips(blocks: tuple[Block, ...], widths: Sequence[int]) -> tuple[int, ...]:
    """Estimate of the largest number of flips of one unit, block by block, from the new rows."""
    flips = []
    for block in blocks:
        mean = block.new / min(widths[block.first + 1 : block.first + 1 + block.layers])
        flips.append(capacity.bucket(2 * mean + 4 * math.sqrt(mean) + 6))
    last = blocks[-1].first + blocks[-1].layers
    return (*flips, 2 * flips[-1]) if last < len(widths) - 1 else tuple(flips)


def _enlarged(
    label_capacity: LabelCapacity,
    required: Int[np.ndarray, "*networks layers 3"],
    net: Network,
    layer: int,
    budget: float,
) -> LabelCapacity:
    """Larger capacity, for the required numbers ``(..., layers, 3)``: new rows, rows, flips."""
    largest = required.reshape(-1, *required.shape[-2:]).max(axis=0)
    spans = [
        slice(block.first, block.first + block.layers) for block in label_capacity.sizes.blocks
    ]
    required_rows, larger, times = largest[: spans[-1].stop, :2], label_capacity, 0
    if label_capacity.sizes.overflowed(required_rows):
        widths = (net.widths[layer + 1], *net.widths[layer + 1 :])
        larger = label_capacity.with_sizes(label_capacity.sizes.grown(required_rows, budget))
        times = round(math.log2(larger.sizes.splits / label_capacity.sizes.splits))
        flips = _flips(larger.sizes.blocks, widths)
        larger = larger._replace(flips=tuple(map(max, larger.flips, flips)))
    if len(label_capacity.flips) > len(spans):
        spans.append(slice(spans[-1].stop, None))
    # A segment that overflowed counted too few flips.
    more = [
        capacity.bucket(1.25 * 0.6**times * largest[span, 2].max())
        if largest[span, 2].max() > available
        else 0
        for span, available in zip(spans, label_capacity.flips, strict=True)
    ]
    return larger._replace(flips=tuple(map(max, larger.flips, more)))


@dataclasses.dataclass(frozen=True)
class MovingLayer(Task):
    """The task of ``dichotomies``: the weights of one layer move, at fixed inputs.

    Attributes
    ----------
    layers : indices, from 0, of the layers that move, one at a time.
    several : whether the result has an axis of moving layers.
    readouts : number of readout units in each layer.
    quarters : number of quarter turns of the path.
    inputs : number of inputs.
    points : number of grid points; 0 if exact.
    capacities : of the exact pass, one for each moving layer; empty on a grid.
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
        splits = max(each.sizes.splits for each in self.capacities)
        return "exact" + (f" in {splits} parts" if splits > 1 else ""), 0

    @property
    def fingerprint_parts(self) -> object:
        return dataclasses.replace(self, capacities=())

    @property
    def exact(self) -> bool:
        return not self.points

    def bytes(self, net: Network, data: Inputs) -> float:
        size, widest = np.dtype(net.dtype).itemsize, max(net.widths)
        weights = weight_bytes(net)
        if self.points:
            codes = 12 * self.points * self.readouts * net.depth  # two words, and half of them
            rows = 4 * size * self.inputs * self._block_points() * widest
            return weights + rows + codes + 48 * self.points
        return weights + max(each.sizes.bytes for each in self.capacities)

    def refined(self) -> MovingLayer | None:
        return dataclasses.replace(self, points=2 * self.points - 1) if self.points else None

    def with_more_capacity(
        self,
        required: tuple[Int[np.ndarray, "*networks _ 3"], ...],
        net: Network,
        budget: float,
    ) -> MovingLayer | None:
        if not self.capacities:
            return None
        larger = tuple(
            _enlarged(each, np.asarray(rows), net, layer, budget)
            for each, rows, layer in zip(self.capacities, required, self.layers, strict=True)
        )
        return None if larger == self.capacities else dataclasses.replace(self, capacities=larger)

    def fit_memory(self, net: Network, budget: float) -> MovingLayer:
        fitting = tuple(each.with_sizes(each.sizes.fitted(budget)) for each in self.capacities)
        return dataclasses.replace(self, capacities=fitting)

    def _block_points(self) -> int:
        """Number of grid points in one product."""
        rows = _ROWS_CPU if jax.default_backend() == "cpu" else _ROWS
        return int(np.clip(rows // self.inputs, 1, self.points))

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
            words = prng.words(prng.child(seed, layer, MOVING), weights.shape)
            second = spec.weight_scale(weights.shape[0], dtype) * laws.unit_of(
                spec.weights, words, dtype
            )
            arc = dot(below[layer], weights), dot(below[layer], second)
            if self.points:
                layer_counts = self._on_grid(net, arc, biases, params[layer + 1 :])
            else:
                label_capacity = self.capacities[index]
                layer_counts, layer_required = self._exactly(
                    net, seed, arc, biases, layer, label_capacity
                )
                required.append(layer_required)
            counts.append([jnp.pad(x, (layer, 0), constant_values=jnp.nan) for x in layer_counts])
        stacked = [jnp.stack(x) if self.several else x[0] for x in zip(*counts, strict=True)]
        named = zip(NAMES, stacked[::2], stacked[1::2], strict=True)
        numbers = {
            name: Observation.of(value)._replace(coarser=coarser - value)
            for name, value, coarser in named
        }
        return Observed(numbers, tuple(required))

    def _on_grid(
        self,
        net: Network,
        arc: tuple[Float[Array, "s k"], Float[Array, "s k"]],
        biases: Float[Array, "k"],
        above: list[tuple[Array, Array]],
    ) -> list[Float[Array, "layers"]]:
        """Labellings, labellings on half of the grid, flips, flips on half of it; ``(layers,)``."""
        dtype, block = biases.dtype, self._block_points()
        bits = jnp.asarray(label_changes.point_bits(self.inputs))
        t = jnp.asarray(np.linspace(0, self.quarters * QUARTER, self.points), dtype)
        t = jnp.pad(t, (0, -self.points % block), mode="edge").reshape(-1, block)

        def codes_at(t: Float[Array, "block"]) -> UInt32[Array, "layers block readouts 2"]:
            cos, sin = jnp.cos(t)[:, None, None], jnp.sin(t)[:, None, None]
            h = cos * arc[0][None] + sin * arc[1][None] + biases[None, None]
            codes = [self._codes(h, bits)]
            for weights, offset in above:
                z = net.activation(h).reshape(-1, h.shape[-1])
                h = (dot(z, weights) + offset[None]).reshape(block, self.inputs, -1)
                codes.append(self._codes(h, bits))
            return jnp.stack(codes)  # (layers, block, readouts, 2)

        codes = jnp.moveaxis(lax.map(codes_at, t), 0, 1)
        codes = codes.reshape(codes.shape[0], -1, *codes.shape[3:])[:, : self.points]
        codes = jnp.swapaxes(codes, 1, 2)  # (layers, readouts, points, 2)
        half_grid = codes[:, :, ::2]
        if self.points % 2 == 0:
            half_grid = jnp.concatenate([half_grid, codes[:, :, -1:]], axis=2)
        numbers = []
        for count in (_different_codes, _changes):
            for rows in (codes, half_grid):
                counts = lax.map(count, rows.reshape(-1, *rows.shape[2:])).reshape(rows.shape[:2])
                number = jnp.mean(counts.astype(dtype), axis=1)
                defined = rows is codes or self.points >= 3
                numbers.append(number if defined else jnp.full_like(number, jnp.nan))
        return numbers

    def _codes(
        self, h: Float[Array, "block s k"], bits: UInt32[Array, "s 2"]
    ) -> UInt32[Array, "block readouts 2"]:
        """Labels of all inputs in two words, ``(block, readouts, 2)``."""
        positive = h[:, :, : self.readouts, None] > 0
        return jnp.sum(jnp.where(positive, bits[None, :, None], 0), axis=1, dtype=jnp.uint32)

    def _exactly(
        self,
        net: Network,
        seed: prng.Seed,
        arc_of_inputs: tuple[Float[Array, "s k"], Float[Array, "s k"]],
        biases: Float[Array, "k"],
        layer: int,
        label_capacity: LabelCapacity,
    ) -> tuple[list[Float[Array, "layers"]], Int[Array, "layers 3"]]:
        """As ``_on_grid``, but exact; and the sizes that each layer required, ``(layers, 3)``."""
        dtype, width = biases.dtype, biases.shape[0]
        identity = jnp.eye(width, dtype=dtype), jnp.zeros(width, dtype)
        layers: list[Any] = [(jnp.zeros((1,), dtype), lambda _: identity)]
        spans = [
            range(block.first, block.first + block.layers) for block in label_capacity.sizes.blocks
        ]
        if len(label_capacity.flips) > len(spans):
            spans.append(range(spans[-1].stop, spans[-1].stop + 1))
        for span in spans[1:]:
            indices = [layer + i for i in span]
            specs = jax.tree.map(lambda *x: jnp.stack(x), *(net.layer(i) for i in indices))
            shape = net.widths[indices[0]], net.widths[indices[0] + 1]
            draw = drawing(seed, *shape, dtype)
            layers.append(((jnp.asarray(indices, jnp.int32), specs), draw))
        flips_of_block: dict[Any, int] = dict(
            zip((*label_capacity.sizes.blocks, None), label_capacity.flips, strict=False)
        )

        def observe(
            image: traverse.Rows,
            weights: Float[Array, "fan_in k"],
            offset: Float[Array, "k"],
            block: Block | None,
        ) -> label_changes.SignChanges:
            assert isinstance(image, Arcs)
            readouts = slice(self.readouts)
            return label_changes.sign_changes(
                image, weights[:, readouts], offset[readouts], flips_of_block[block]
            )

        splits = label_capacity.sizes.splits
        segment_count = self.quarters * splits
        edges = jnp.asarray(np.arange(segment_count + 1) * QUARTER / splits, dtype)
        t = jnp.stack([edges[:-1], edges[1:]], axis=1)

        def one_input(
            pair: tuple[Float[Array, "k"], Float[Array, "k"]],
        ) -> tuple[list[Any], Int[Array, "segments layers 2"], Float[Array, "segments layers"]]:
            arc = jnp.stack([*pair, biases])
            segments_of_path = t, jnp.broadcast_to(arc[None], (segment_count, *arc.shape))

            def through(segment: segments.Segment) -> traverse.SegmentResult:
                blocks = label_capacity.sizes.blocks
                return traverse.through(segment, layers, net.activation, blocks, observe)

            results = traverse.over(through, segments_of_path, splits)
            return results.extra, results.required, results.totals.length

        changes_of_blocks, rows, lengths = lax.map(one_input, arc_of_inputs)
        all_finite = jnp.all(jnp.isfinite(lengths), axis=(0, 1))
        counts = [_labellings(block, edges[1:-1]) for block in changes_of_blocks]
        different, changes = (jnp.concatenate(x) for x in zip(*counts, strict=True))
        numbers = [jnp.where(all_finite, x.astype(dtype), jnp.inf) for x in (different, changes)]
        flips = jnp.concatenate(
            [jnp.max(block.total, axis=(0, 1, 3)) for block in changes_of_blocks]
        )
        required = jnp.concatenate([rows.max(axis=(0, 1)), flips[:, None]], axis=1)
        return [numbers[0], numbers[0], numbers[1], numbers[1]], required


def _different_codes(codes: UInt32[Array, "points 2"]) -> Int[Array, ""]:
    return packed_bits.distinct(codes, jnp.ones(codes.shape[0], bool))


def _changes(codes: UInt32[Array, "points 2"]) -> Int[Array, ""]:
    return jnp.sum(lax.population_count(codes[1:] ^ codes[:-1]).astype(jnp.int32))


def _labellings(
    sign_changes: label_changes.SignChanges, joints: Float[Array, "joints"]
) -> tuple[Float[Array, "layers"], Float[Array, "layers"]]:
    """Labellings and flips, each ``(layers,)``, of a block.

    sign_changes : with leading axes ``(inputs, segments, layers)``.
    """
    flips_at_joint = sign_changes.last[:, :-1] != sign_changes.first[:, 1:]
    joint_times = jnp.where(flips_at_joint, joints[None, :, None, None], jnp.inf)
    inputs, segment_count, layers, readouts, most = sign_changes.times.shape
    times = jnp.moveaxis(sign_changes.times, 1, 3).reshape(
        inputs, layers, readouts, segment_count * most
    )
    times = jnp.concatenate([times, jnp.moveaxis(joint_times, 1, 3)], axis=3)
    by_layer = jax.vmap(jax.vmap(label_changes.labellings, (1, 1)), (1, 1))
    different = by_layer(times, sign_changes.first[:, 0])
    changes = jnp.sum(jnp.isfinite(times), axis=(0, 3), dtype=jnp.int32)
    return tuple(jnp.mean(x.astype(times.dtype), axis=1) for x in (different, changes))  # type: ignore[return-value]
