"""Exact passes of the segments of a curve through a network, and the sum of their results.

A segment is straight, a ray, or an arc of at most a quarter turn: a line has one, an infinite line
two, a polyline one for each side, a circle four. A curve whose pieces do not fit into memory is cut
into more segments. All segments have the same shape and share one compilation. Transitions at the
point where two segments meet are counted from the states on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.shapes import Array, Bool, Float, Int, UInt32
from jaxexpr._core.transforms import scan, spread
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves import arcs, crossing_rows, level_crossings, lines, segments
from jaxexpr.exact.along_curves.capacity import Block, caps

Rows = lines.Rows | arcs.Arcs
State = TypeVar("State", bound=Rows)
# For each block the arrays to loop over, and a function from one slice of them to ``(W, b)``.
Layers = tuple[Any, Callable[[Any], tuple[Array, Array]]]
Observe = Callable[[Rows, Array, Array, Block | None], Any]

FILLED = 0.85  # share of the capacity that a part of a curve should use


class Totals(NamedTuple):
    """Integrals along a curve, layer by layer; each array ``(depth,)``.

    Attributes
    ----------
    length : of the image above the layer, in units of ``2**exponent``; inf from the first layer in
        which values overflow, where all other numbers are invalid.
    share, growth, squared : extent in the curve's parameter where the image below moves, and the
        integrals over it of the growth factor and of its square.
    survives, log : extent where the image above moves as well, and the integral of the logarithm.
    still : number of pieces on which the image below does not move.
    crossings, pieces : number of state changes of this layer's units, and of activation regions of
        the layers up to this one.
    """

    length: Float[Array, "depth"]
    exponent: Int[Array, "depth"]
    share: Float[Array, "depth"]
    growth: Float[Array, "depth"]
    squared: Float[Array, "depth"]
    survives: Float[Array, "depth"]
    log: Float[Array, "depth"]
    still: Int[Array, "depth"]
    crossings: Int[Array, "depth"]
    pieces: Int[Array, "depth"]


class SegmentResult(NamedTuple):
    """Result of one segment.

    Attributes
    ----------
    totals : integrals along it.
    first, last : states of all units at its ends, packed, block by block.
    required : numbers of new rows and of rows that each layer requires, ``(depth, 2)``.
    start : length of the segment itself.
    rows : image above the last block.
    extra : results of the caller's function `observe`, block by block, with a leading axis of
        layers.
    """

    totals: Totals
    first: list[UInt32[Array, "layers words"]]
    last: list[UInt32[Array, "layers words"]]
    required: Int[Array, "depth 2"]
    start: Float[Array, ""]
    rows: Any
    extra: list[Any] = []  # noqa: RUF012


def _totals(
    layer: lines.LayerResult | arcs.LayerResult, kind: ModuleType, index: Int[Array, ""] | int
) -> Totals:
    share, below, above, pieces = kind.pieces(layer)
    rows = layer.rows
    moves = (below > 0) & (share > 0)
    ratio = jnp.where(moves, above / jnp.where(moves, below, 1), 0)
    ratio = ratio * power_of_two(rows.exponent - layer.exponent, share.dtype)
    moves_on_both_sides = moves & (above > 0)
    log = jnp.log(jnp.where(moves_on_both_sides, ratio, 1))
    real = jnp.arange(rows.lowest_layer.shape[0], dtype=jnp.int32) < rows.pieces
    still = real & jnp.pad(
        jnp.all(below == 0, axis=1), (0, rows.lowest_layer.shape[0] - below.shape[0])
    )
    return Totals(
        length=jnp.where(layer.finite, jnp.sum(pieces), jnp.inf),
        exponent=rows.exponent,
        share=jnp.sum(jnp.where(moves, share, 0)),
        growth=jnp.sum(ratio * share),
        squared=jnp.sum(ratio * ratio * share),
        survives=jnp.sum(jnp.where(moves_on_both_sides, share, 0)),
        log=jnp.sum(jnp.where(moves_on_both_sides, log, 0) * share),
        still=jnp.sum(still, dtype=jnp.int32),
        crossings=layer.changes.total,
        pieces=jnp.sum(real & (rows.lowest_layer <= index), dtype=jnp.int32),
    )


def through(
    segment: segments.Segment,
    layers: Sequence[Layers],
    activation: Activation,
    blocks: tuple[Block, ...],
    observe: Observe | None = None,
) -> SegmentResult:
    """Compute the images of one segment in all layers of a network.

    Parameters
    ----------
    segment : one of ``segments.begin``.
    layers : for each block, the arrays to loop over (leading axis: its layers) and a function from
        one slice of them to ``(W, b)``. An item more than there are `blocks` is a last layer of
        which only the crossings are counted.
    observe : function of the image below a layer, W, b and the layer's block; its results are
        returned as ``extra``.
    """
    kind: ModuleType = lines if len(segment) == 3 else arcs
    rows = kind.start(*segment)
    start = kind.length(rows)
    results, extra = [], []
    for (slices, make), block in zip(layers, blocks, strict=False):

        def body(
            rows: Rows,
            step: tuple[Int[Array, ""] | int, Any],
            make: Callable[[Any], tuple[Array, Array]] = make,
            block: Block = block,
        ) -> tuple[Rows, tuple[Any, ...]]:
            index, item = step
            weights, biases = make(item)
            sizes = {"new": block.new, "size": block.size}
            layer = kind.advance(rows, weights, biases, activation, index=index, **sizes)
            changes = layer.changes
            numbers = _totals(layer, kind, index), changes.first, changes.last, layer.required
            return layer.rows, (numbers, observe(rows, weights, biases, block) if observe else ())

        indices = jnp.arange(block.first, block.first + block.layers, dtype=jnp.int32)
        if block.layers == 1:
            rows, output = body(rows, (block.first, jax.tree.map(lambda x: x[0], slices)))
            output = jax.tree.map(lambda x: x[None], output)
        else:
            rows, output = scan(body, _padded(rows, block.size), (indices, slices))
        results.append(output[0])
        extra.append(output[1])
    if len(layers) > len(blocks):
        slices, make = layers[-1]
        weights, biases = make(jax.tree.map(lambda x: x[0], slices))
        last_layer = _counted(rows, weights, biases, activation)
        results.append(jax.tree.map(lambda x: x[None], last_layer))
        last_observed = observe(rows, weights, biases, None) if observe else ()
        extra.append(jax.tree.map(lambda x: x[None], last_observed))
    totals, first, last, required = zip(*results, strict=True)
    joined = jax.tree.map(lambda *x: jnp.concatenate(x), *totals)
    overflowed = lax.cummax(jnp.isinf(joined.length).astype(jnp.int32)) > 0
    joined = joined._replace(length=jnp.where(overflowed, jnp.inf, joined.length))
    return SegmentResult(
        joined, list(first), list(last), jnp.concatenate(required), start, rows, extra
    )


def _counted(
    rows: Rows, weights: Float[Array, "fan_in k"], biases: Float[Array, "k"], activation: Activation
) -> tuple[Totals, UInt32[Array, "words"], UInt32[Array, "words"], Int[Array, "2"]]:
    """The result of a layer of which only the crossings are counted; other numbers are 0."""
    counts = level_crossings.count_crossings(rows, weights, biases, activation.breakpoints or ())
    zero = jnp.zeros((), biases.dtype)
    zero_count = jnp.zeros((), jnp.int32)
    totals = Totals(
        length=jnp.where(counts.finite, zero, jnp.inf),
        exponent=rows.exponent,
        share=zero,
        growth=zero,
        squared=zero,
        survives=zero,
        log=zero,
        still=zero_count,
        crossings=jnp.sum(counts.total, dtype=jnp.int32),
        pieces=zero_count,
    )
    ends = (counts.first.reshape(-1), counts.last.reshape(-1))
    if not activation.breakpoints:
        ends = (jnp.zeros(1, jnp.uint32),) * 2
    return totals, *ends, jnp.stack([zero_count, zero_count])


def _padded(rows: State, size: int) -> State:
    """Pad to `size` rows by repeating the last one."""

    def pad(x: Float[Array, "..."] | Int[Array, "..."]) -> Array:
        if x.ndim == 0:
            return x
        missing = size - rows.lowest_layer.shape[0]
        return jnp.pad(x, ((0, missing), *((0, 0),) * (x.ndim - 1)), mode="edge")

    return jax.tree.map(pad, rows)


def total(results: SegmentResult) -> tuple[Totals, Int[Array, "segments"]]:
    """Sum the results of segments along the leading axis s, with the changes where they meet.

    Returns
    -------
    Totals of the whole curve; and the index of the lowest layer that changes at the end of each
    segment, ``(s,)`` (``crossing_rows.NEVER`` if none, and for the last segment).
    """
    changes_between = []
    for first, last in zip(results.first, results.last, strict=True):
        changes_between.append(
            jnp.sum(lax.population_count(first[1:] ^ last[:-1]).astype(jnp.int32), axis=-1)
        )
    changed = jnp.concatenate(changes_between, axis=1).astype(jnp.int32)  # (s - 1, depth)
    depth = changed.shape[1]
    layer = jnp.arange(depth, dtype=jnp.int32)[None, :]
    lowest_layer = jnp.min(jnp.where(changed > 0, layer, crossing_rows.NEVER), axis=1)
    lowest_layer = jnp.concatenate(
        [lowest_layer, jnp.full((1,), crossing_rows.NEVER, lowest_layer.dtype)]
    )
    totals = results.totals
    exponent = jnp.max(totals.exponent, axis=0)
    scale = power_of_two(totals.exponent - exponent[None], totals.length.dtype)
    sums = jax.tree.map(lambda x: jnp.sum(x, axis=0, dtype=x.dtype), totals)
    joints = jnp.sum(lowest_layer[:, None] <= layer, axis=0, dtype=jnp.int32)
    return sums._replace(
        length=jnp.sum(totals.length * scale, axis=0),
        exponent=exponent,
        crossings=sums.crossings + jnp.sum(changed, axis=0, dtype=jnp.int32),
        pieces=sums.pieces + joints + 1,
    ), lowest_layer


def level_totals(extra: Sequence[level_crossings.Counted]) -> Int[Array, "depth m"]:
    """Crossings of each level in each layer, ``(depth, m)``, from the counts on segments."""
    counts = []
    for block in extra:  # leading axes: segments, layers
        changes_between = lax.population_count(block.first[1:] ^ block.last[:-1]).astype(jnp.int32)
        counts.append(jnp.sum(block.total, axis=0) + jnp.sum(changes_between, axis=(0, 3)))
    return jnp.concatenate(counts).astype(jnp.int32)


def over(
    function: Callable[[segments.Segment], SegmentResult],
    curve_segments: segments.Segment,
    splits: int,
) -> SegmentResult:
    """Apply a function to all segments: at once, or in sequence if they were split."""
    if curve_segments[0].shape[0] == 1:
        return jax.tree.map(
            lambda x: x[None], function(jax.tree.map(lambda x: x[0], curve_segments))
        )
    return jax.vmap(function)(curve_segments) if splits == 1 else lax.map(function, curve_segments)


class _Progress(NamedTuple):
    """State of ``in_parts``.

    Attributes
    ----------
    segment, low : index of the segment, and the share of it that is done.
    width : share of the segment that the next part tries.
    any : whether there is a result.
    result : of all parts so far.
    """

    segment: Int[Array, ""]
    low: Float[Array, ""]
    width: Float[Array, ""]
    any: Bool[Array, ""]
    result: SegmentResult


def in_parts(
    function: Callable[[segments.Segment], SegmentResult],
    curve_segments: segments.Segment,
    blocks: tuple[Block, ...],
) -> SegmentResult:
    """Traverse a curve in parts, one after another, each as long as the capacity allows.

    A part that overflows is repeated with half its length; the length of the next part follows from
    the share of the capacity that a part used. All parts together can have any number of
    pieces, however they are distributed along the curve; only crossings at a single point must fit.

    Returns
    -------
    The joint result of all parts, as of one segment (leading axis 1), without rows.
    """
    segment_count, dtype = curve_segments[0].shape[0], curve_segments[0].dtype
    smallest = float(np.finfo(dtype).eps) * 2**7
    capacity = caps(blocks)
    layers = len(capacity)

    def measured(
        segment: Int[Array, ""], low: Float[Array, ""], high: Float[Array, ""]
    ) -> SegmentResult:
        segment_arrays = jax.tree.map(lambda x: x[segment], curve_segments)
        return function(segments.between(segment_arrays, low, high))._replace(rows=())

    def step(state: _Progress) -> _Progress:
        high = jnp.where(state.width < 1 - state.low, state.low + state.width, 1)
        part = measured(state.segment, state.low, high)
        required = part.required[:layers]
        overflowed = jnp.any(required > capacity)
        accepted = ~overflowed | (state.width <= smallest)
        joined = jax.tree.map(
            lambda a, b: jnp.where(state.any, a, b), _joined_results(state.result, part), part
        )
        result = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), joined, state.result)
        used = jnp.max(required.astype(dtype) / capacity.astype(dtype))
        next_width = jnp.clip(FILLED / jnp.maximum(used, smallest), 0.5, 2) * (high - state.low)
        # The last part of a segment may be short: the next segment starts with the previous width.
        done = accepted & (high == 1)
        next_width = jnp.maximum(next_width, jnp.where(done, state.width, smallest))
        width = jnp.where(overflowed, state.width / 2, next_width)
        next_segment = jnp.where(
            overflowed & accepted, segment_count, state.segment + done.astype(jnp.int32)
        )
        low = jnp.where(done, 0, jnp.where(accepted, high, state.low))
        return spread(
            _Progress(next_segment, low, jnp.minimum(width, 1), state.any | accepted, result), state
        )

    first, zero, full = jnp.zeros((), jnp.int32), jnp.zeros((), dtype), jnp.ones((), dtype)
    shapes = jax.eval_shape(measured, first, zero, full)
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    state = spread(_Progress(first, zero, full, jnp.zeros((), bool), empty), curve_segments)
    result = lax.while_loop(lambda state: state.segment < segment_count, step, state).result
    return jax.tree.map(lambda x: x[None], result)


def _joined_results(one: SegmentResult, two: SegmentResult) -> SegmentResult:
    """The result of two consecutive segments together."""
    both = jax.tree.map(lambda *x: jnp.stack(x), one, two)
    totals, _ = total(both)
    extra = [
        level_crossings.Counted(level_totals([c]), a.first, b.last, a.finite & b.finite)
        if c
        else ()
        for a, b, c in zip(one.extra, two.extra, both.extra, strict=True)
    ]
    return SegmentResult(
        totals._replace(pieces=totals.pieces - 1),
        one.first,
        two.last,
        jnp.maximum(one.required, two.required),
        one.start + two.start,
        (),
        extra,
    )
