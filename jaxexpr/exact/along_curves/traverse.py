"""A curve cut into segments, each sent exactly through a network; the results added up.

A segment is straight, a ray, or an arc of at most a quarter turn: a line is one, an
infinite line two, a polyline one for each of its sides, a circle four. A curve with more pieces
than memory holds is cut into more. All segments have the same shape, so they share one
compilation; what happens exactly where two of them meet is counted from the states on both sides.
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
# For each block what to loop over, and what makes ``(W, b)`` of one slice of it.
Layers = tuple[Any, Callable[[Any], tuple[Array, Array]]]
Observe = Callable[[Rows, Array, Array, Block | None], Any]

FILLED = 0.85  # share of its capacity that a part of a curve is to fill


class Totals(NamedTuple):
    """Integrals along a curve, layer by layer; each array ``(depth,)``.

    Attributes
    ----------
    length : of the image above the layer, in units of ``2**exponent``; inf from the layer on in
        which values overflow the precision: all other numbers are void there.
    share, growth, squared : extent in the curve's parameter where the image below moves, and the
        integrals over it of the growth factor and of its square.
    survives, log : extent where the image above moves as well, and the integral of the logarithm.
    still : pieces on which the image below does not move.
    crossings, pieces : state changes of this layer's units, and activation regions of the layers
        up to this one.
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
    """What is found on a segment.

    Attributes
    ----------
    totals : integrals along it.
    first, last : states of all units at its ends, packed, block by block.
    required : new rows and rows of each layer, ``(depth, 2)``.
    start : its own length.
    rows : above the last block.
    extra : what the caller's own function observed of the layers, block by block, layers leading.
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
    both = moves & (above > 0)
    log = jnp.log(jnp.where(both, ratio, 1))
    real = jnp.arange(rows.made.shape[0], dtype=jnp.int32) < rows.pieces
    still = real & jnp.pad(jnp.all(below == 0, axis=1), (0, rows.made.shape[0] - below.shape[0]))
    return Totals(
        length=jnp.where(layer.sound, jnp.sum(pieces), jnp.inf),
        exponent=rows.exponent,
        share=jnp.sum(jnp.where(moves, share, 0)),
        growth=jnp.sum(ratio * share),
        squared=jnp.sum(ratio * ratio * share),
        survives=jnp.sum(jnp.where(both, share, 0)),
        log=jnp.sum(jnp.where(both, log, 0) * share),
        still=jnp.sum(still, dtype=jnp.int32),
        crossings=layer.changes.total,
        pieces=jnp.sum(real & (rows.made <= index), dtype=jnp.int32),
    )


def through(
    segment: segments.Segment,
    layers: Sequence[Layers],
    activation: Activation,
    blocks: tuple[Block, ...],
    observe: Observe | None = None,
) -> SegmentResult:
    """Send one segment through a network.

    Parameters
    ----------
    segment : one of ``segments.begin``.
    layers : for each block, what to loop over (leading axis: its layers) and a function from one
        slice of it to ``(W, b)``.
        One item more than there are `blocks` is a last layer whose crossings alone are counted.
    observe : from the image below a layer, W, b and the layer's block to anything (``extra``).
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
            found = _totals(layer, kind, index), changes.first, changes.last, layer.required
            return layer.rows, (found, observe(rows, weights, biases, block) if observe else ())

        indices = jnp.arange(block.first, block.first + block.layers, dtype=jnp.int32)
        if block.layers == 1:
            rows, out = body(rows, (block.first, jax.tree.map(lambda x: x[0], slices)))
            out = jax.tree.map(lambda x: x[None], out)
        else:
            rows, out = scan(body, _padded(rows, block.size), (indices, slices))
        results.append(out[0])
        extra.append(out[1])
    if len(layers) > len(blocks):
        slices, make = layers[-1]
        weights, biases = make(jax.tree.map(lambda x: x[0], slices))
        counted = _counted(rows, weights, biases, activation)
        results.append(jax.tree.map(lambda x: x[None], counted))
        observed = observe(rows, weights, biases, None) if observe else ()
        extra.append(jax.tree.map(lambda x: x[None], observed))
    totals, first, last, required = zip(*results, strict=True)
    joined = jax.tree.map(lambda *x: jnp.concatenate(x), *totals)
    lost = lax.cummax(jnp.isinf(joined.length).astype(jnp.int32)) > 0
    joined = joined._replace(length=jnp.where(lost, jnp.inf, joined.length))
    return SegmentResult(
        joined, list(first), list(last), jnp.concatenate(required), start, rows, extra
    )


def _counted(
    rows: Rows, weights: Float[Array, "fan_in k"], biases: Float[Array, "k"], activation: Activation
) -> tuple[Totals, UInt32[Array, "words"], UInt32[Array, "words"], Int[Array, "2"]]:
    """The result of a layer whose crossings alone are counted; all else is 0."""
    found = level_crossings.count_crossings(rows, weights, biases, activation.breakpoints or ())
    zero = jnp.zeros((), biases.dtype)
    none = jnp.zeros((), jnp.int32)
    totals = Totals(
        length=jnp.where(found.sound, zero, jnp.inf),
        exponent=rows.exponent,
        share=zero,
        growth=zero,
        squared=zero,
        survives=zero,
        log=zero,
        still=none,
        crossings=jnp.sum(found.total, dtype=jnp.int32),
        pieces=none,
    )
    ends = (found.first.reshape(-1), found.last.reshape(-1))
    if not activation.breakpoints:
        ends = (jnp.zeros(1, jnp.uint32),) * 2
    return totals, *ends, jnp.stack([none, none])


def _padded(rows: State, size: int) -> State:
    """Repeat the last row until there are `size`."""

    def pad(x: Float[Array, "..."] | Int[Array, "..."]) -> Array:
        if x.ndim == 0:
            return x
        missing = size - rows.made.shape[0]
        return jnp.pad(x, ((0, missing), *((0, 0),) * (x.ndim - 1)), mode="edge")

    return jax.tree.map(pad, rows)


def total(results: SegmentResult) -> tuple[Totals, Int[Array, "segments"]]:
    """Add up the results of segments, leading axis s; also where they meet.

    Returns
    -------
    Totals of the whole curve, and the lowest layer that changes at the end of each segment,
    ``(s,)`` (``crossings.NEVER`` if none, and for the last).
    """
    at = []
    for first, last in zip(results.first, results.last, strict=True):
        at.append(jnp.sum(lax.population_count(first[1:] ^ last[:-1]).astype(jnp.int32), axis=-1))
    changed = jnp.concatenate(at, axis=1).astype(jnp.int32)  # (s - 1, depth)
    depth = changed.shape[1]
    layer = jnp.arange(depth, dtype=jnp.int32)[None, :]
    made = jnp.min(jnp.where(changed > 0, layer, crossing_rows.NEVER), axis=1)
    made = jnp.concatenate([made, jnp.full((1,), crossing_rows.NEVER, made.dtype)])
    one = results.totals
    exponent = jnp.max(one.exponent, axis=0)
    scale = power_of_two(one.exponent - exponent[None], one.length.dtype)
    added = jax.tree.map(lambda x: jnp.sum(x, axis=0, dtype=x.dtype), one)
    joints = jnp.sum(made[:, None] <= layer, axis=0, dtype=jnp.int32)
    return added._replace(
        length=jnp.sum(one.length * scale, axis=0),
        exponent=exponent,
        crossings=added.crossings + jnp.sum(changed, axis=0, dtype=jnp.int32),
        pieces=added.pieces + joints + 1,
    ), made


def level_totals(extra: Sequence[level_crossings.Counted]) -> Int[Array, "depth m"]:
    """Crossings of each level in each layer, ``(depth, m)``, from those on segments."""
    found = []
    for one in extra:  # leading axes: segments, layers
        meets = lax.population_count(one.first[1:] ^ one.last[:-1]).astype(jnp.int32)
        found.append(jnp.sum(one.total, axis=0) + jnp.sum(meets, axis=(0, 3)))
    return jnp.concatenate(found).astype(jnp.int32)


def over(
    function: Callable[[segments.Segment], SegmentResult], begun: segments.Segment, splits: int
) -> SegmentResult:
    """Side by side where a curve's own segments are few; one after another if they were split."""
    if begun[0].shape[0] == 1:
        return jax.tree.map(lambda x: x[None], function(jax.tree.map(lambda x: x[0], begun)))
    return jax.vmap(function)(begun) if splits == 1 else lax.map(function, begun)


class _Progress(NamedTuple):
    """How far ``in_parts`` has come: the segment, the share of it, the next part's share."""

    segment: Int[Array, ""]
    low: Float[Array, ""]
    width: Float[Array, ""]
    any: Bool[Array, ""]
    result: SegmentResult


def in_parts(
    function: Callable[[segments.Segment], SegmentResult],
    begun: segments.Segment,
    blocks: tuple[Block, ...],
) -> SegmentResult:
    """One part of a curve after another, each as long as the capacity allows.

    A part that overflows is done again at half its length; what a part leaves of its capacity says
    how long the next one is. So all parts together hold any number of pieces, however they lie
    along the curve; but for more crossings at one point than the arrays hold.

    Returns
    -------
    The result of all of them together, as of one segment (leading axis 1); without rows.
    """
    number, dtype = begun[0].shape[0], begun[0].dtype
    least = float(np.finfo(dtype).eps) * 2**7
    capacity = caps(blocks)
    layers = len(capacity)

    def measured(
        segment: Int[Array, ""], low: Float[Array, ""], high: Float[Array, ""]
    ) -> SegmentResult:
        own = jax.tree.map(lambda x: x[segment], begun)
        return function(segments.between(own, low, high))._replace(rows=())

    def step(way: _Progress) -> _Progress:
        high = jnp.where(way.width < 1 - way.low, way.low + way.width, 1)
        one = measured(way.segment, way.low, high)
        required = one.required[:layers]
        overflowed = jnp.any(required > capacity)
        kept = ~overflowed | (way.width <= least)
        both = jax.tree.map(
            lambda a, b: jnp.where(way.any, a, b), _joined_results(way.result, one), one
        )
        result = jax.tree.map(lambda a, b: jnp.where(kept, a, b), both, way.result)
        filled = jnp.max(required.astype(dtype) / capacity.astype(dtype))
        longer = jnp.clip(FILLED / jnp.maximum(filled, least), 0.5, 2) * (high - way.low)
        done = kept & (high == 1)  # the last part may be short; the next segment is begun as it was
        longer = jnp.maximum(longer, jnp.where(done, way.width, least))
        width = jnp.where(overflowed, way.width / 2, longer)
        after = jnp.where(overflowed & kept, number, way.segment + done.astype(jnp.int32))
        low = jnp.where(done, 0, jnp.where(kept, high, way.low))
        return spread(_Progress(after, low, jnp.minimum(width, 1), way.any | kept, result), way)

    first, none, whole = jnp.zeros((), jnp.int32), jnp.zeros((), dtype), jnp.ones((), dtype)
    like = jax.eval_shape(measured, first, none, whole)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    way = spread(_Progress(first, none, whole, jnp.zeros((), bool), nothing), begun)
    result = lax.while_loop(lambda way: way.segment < number, step, way).result
    return jax.tree.map(lambda x: x[None], result)


def _joined_results(one: SegmentResult, two: SegmentResult) -> SegmentResult:
    """The result of two consecutive segments together."""
    both = jax.tree.map(lambda *x: jnp.stack(x), one, two)
    totals, _ = total(both)
    extra = [
        level_crossings.Counted(level_totals([c]), a.first, b.last, a.sound & b.sound) if c else ()
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
