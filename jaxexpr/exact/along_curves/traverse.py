"""A curve cut into stretches, each sent exactly through a network; what they say added up.

A stretch is a straight segment, a ray, or an arc of at most a quarter turn: a line is one, an
infinite line two, a polyline one for each of its sides, a circle four. A curve with more pieces
than memory holds is cut into more. All stretches have the same shape, so they share one
compilation; what happens exactly where two of them meet is counted from the states on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.transforms import scan, spread
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves import arcs, crossing_rows, level_crossings, lines, segments
from jaxexpr.exact.along_curves.capacity import Block, caps

FILLED = 0.85  # share of its room that a part of a curve is to fill


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

    length: jax.Array
    exponent: jax.Array
    share: jax.Array
    growth: jax.Array
    squared: jax.Array
    survives: jax.Array
    log: jax.Array
    still: jax.Array
    crossings: jax.Array
    pieces: jax.Array


class Said(NamedTuple):
    """What a stretch says: totals, states at its ends, room it asked for, its last rows.

    extra : what a caller's own look at the layers saw, block by block, layers leading.
    """

    totals: Totals
    first: list[jax.Array]
    last: list[jax.Array]
    needed: jax.Array
    start: jax.Array
    rows: Any
    extra: list[Any] = []  # noqa: RUF012


def _totals(seen: Any, kind: Any, index: Any) -> Totals:
    share, below, above, pieces = kind.pieces(seen)
    rows = seen.rows
    moves = (below > 0) & (share > 0)
    ratio = jnp.where(moves, above / jnp.where(moves, below, 1), 0)
    ratio = ratio * power_of_two(rows.exponent - seen.exponent, share.dtype)
    both = moves & (above > 0)
    log = jnp.log(jnp.where(both, ratio, 1))
    real = jnp.arange(rows.made.shape[0], dtype=jnp.int32) < rows.pieces
    still = real & jnp.pad(jnp.all(below == 0, axis=1), (0, rows.made.shape[0] - below.shape[0]))
    return Totals(
        length=jnp.where(seen.sound, jnp.sum(pieces), jnp.inf),
        exponent=rows.exponent,
        share=jnp.sum(jnp.where(moves, share, 0)),
        growth=jnp.sum(ratio * share),
        squared=jnp.sum(ratio * ratio * share),
        survives=jnp.sum(jnp.where(both, share, 0)),
        log=jnp.sum(jnp.where(both, log, 0) * share),
        still=jnp.sum(still, dtype=jnp.int32),
        crossings=seen.changes.total,
        pieces=jnp.sum(real & (rows.made <= index), dtype=jnp.int32),
    )


def through(
    stretch: tuple[Any, ...],
    layers: Sequence[tuple[Any, Callable[[Any], tuple[jax.Array, jax.Array]]]],
    activation: Activation,
    plan: tuple[Block, ...],
    look: Callable[[Any, jax.Array, jax.Array, Block | None], Any] | None = None,
) -> Said:
    """Send one stretch through a network.

    Parameters
    ----------
    stretch : one of ``begin``.
    layers : for each block, what to loop over (leading axis: its layers) and a function from one
        slice of it to ``(W, b)``.
        One item more than `plan` has blocks is a last layer whose crossings alone are counted.
    look : from the image below a layer, W, b and the layer's block to anything (``Said.extra``).
    """
    kind: Any = lines if len(stretch) == 3 else arcs
    rows = kind.start(*stretch)
    start = kind.length(rows)
    said, extra = [], []
    for (slices, make), block in zip(layers, plan, strict=False):

        def body(rows: Any, step: Any, make: Any = make, block: Block = block) -> Any:
            index, item = step
            weights, biases = make(item)
            room = {"new": block.new, "size": block.size}
            seen = kind.advance(rows, weights, biases, activation, index=index, **room)
            changes = seen.changes
            told = _totals(seen, kind, index), changes.first, changes.last, seen.needed
            return seen.rows, (told, look(rows, weights, biases, block) if look else ())

        indices = jnp.arange(block.first, block.first + block.layers, dtype=jnp.int32)
        if block.layers == 1:
            rows, out = body(rows, (block.first, jax.tree.map(lambda x: x[0], slices)))
            out = jax.tree.map(lambda x: x[None], out)
        else:
            rows, out = scan(body, _padded(rows, block.size), (indices, slices))
        said.append(out[0])
        extra.append(out[1])
    if len(layers) > len(plan):
        slices, make = layers[-1]
        weights, biases = make(jax.tree.map(lambda x: x[0], slices))
        said.append(jax.tree.map(lambda x: x[None], _counted(rows, weights, biases, activation)))
        seen = look(rows, weights, biases, None) if look else ()
        extra.append(jax.tree.map(lambda x: x[None], seen))
    totals, first, last, needed = zip(*said, strict=True)
    joined = jax.tree.map(lambda *x: jnp.concatenate(x), *totals)
    lost = lax.cummax(jnp.isinf(joined.length).astype(jnp.int32)) > 0
    joined = joined._replace(length=jnp.where(lost, jnp.inf, joined.length))
    return Said(joined, list(first), list(last), jnp.concatenate(needed), start, rows, extra)


def _counted(
    rows: Any, weights: jax.Array, biases: jax.Array, activation: Activation
) -> tuple[Totals, jax.Array, jax.Array, jax.Array]:
    """What a layer says of which the crossings alone are counted; all else is 0."""
    found = level_crossings.count(rows, weights, biases, activation.breakpoints or ())
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


def _padded(rows: Any, size: int) -> Any:
    """Repeat the last row until there are `size`."""

    def pad(x: jax.Array) -> jax.Array:
        if x.ndim == 0:
            return x
        missing = size - rows.made.shape[0]
        return jnp.pad(x, ((0, missing), *((0, 0),) * (x.ndim - 1)), mode="edge")

    return jax.tree.map(pad, rows)


def total(said: Said) -> tuple[Totals, jax.Array]:
    """Add up the stretches, leading axis s; also where they meet.

    Returns
    -------
    Totals of the whole curve, and the lowest layer that changes at the end of each stretch,
    ``(s,)`` (``crossings.NEVER`` if none, and for the last).
    """
    at = []
    for first, last in zip(said.first, said.last, strict=True):
        at.append(jnp.sum(lax.population_count(first[1:] ^ last[:-1]).astype(jnp.int32), axis=-1))
    changed = jnp.concatenate(at, axis=1).astype(jnp.int32)  # (s - 1, depth)
    depth = changed.shape[1]
    layer = jnp.arange(depth, dtype=jnp.int32)[None, :]
    made = jnp.min(jnp.where(changed > 0, layer, crossing_rows.NEVER), axis=1)
    made = jnp.concatenate([made, jnp.full((1,), crossing_rows.NEVER, made.dtype)])
    one = said.totals
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


def level_totals(extra: Sequence[level_crossings.Counted]) -> jax.Array:
    """Crossings of each level in each layer, ``(depth, m)``, from ``levels.count`` on stretches."""
    found = []
    for one in extra:  # leading axes: stretches, layers
        meets = lax.population_count(one.first[1:] ^ one.last[:-1]).astype(jnp.int32)
        found.append(jnp.sum(one.total, axis=0) + jnp.sum(meets, axis=(0, 3)))
    return jnp.concatenate(found).astype(jnp.int32)


def over(function: Callable[[Any], Said], begun: tuple[Any, ...], parts: int) -> Said:
    """Side by side where a curve's own stretches are few; one after another if it was cut."""
    if begun[0].shape[0] == 1:
        return jax.tree.map(lambda x: x[None], function(jax.tree.map(lambda x: x[0], begun)))
    return jax.vmap(function)(begun) if parts == 1 else lax.map(function, begun)


class _Way(NamedTuple):
    """How far ``in_parts`` has come: the stretch, the share of it, the next part's share."""

    stretch: jax.Array
    low: jax.Array
    width: jax.Array
    any: jax.Array
    said: Said


def in_parts(
    function: Callable[[Any], Said], begun: tuple[Any, ...], plan: tuple[Block, ...]
) -> Said:
    """One part of a curve after another, each as long as the room allows.

    A part that lacks room is done again at half its length; what a part leaves of its room says how
    long the next one is. So all parts together have room for any number of pieces, however they lie
    along the curve; but for more crossings than there is room for at one point.

    Returns
    -------
    What all of them say together, as of one stretch (leading axis 1); without rows.
    """
    number, dtype = begun[0].shape[0], begun[0].dtype
    least = float(np.finfo(dtype).eps) * 2**7
    room = caps(plan)
    layers = len(room)

    def measured(stretch: jax.Array, low: jax.Array, high: jax.Array) -> Said:
        own = jax.tree.map(lambda x: x[stretch], begun)
        return function(segments.between(own, low, high))._replace(rows=())

    def step(way: _Way) -> _Way:
        high = jnp.where(way.width < 1 - way.low, way.low + way.width, 1)
        one = measured(way.stretch, way.low, high)
        asked = one.needed[:layers]
        lacks = jnp.any(asked > room)
        kept = ~lacks | (way.width <= least)
        both = jax.tree.map(lambda a, b: jnp.where(way.any, a, b), _joined(way.said, one), one)
        said = jax.tree.map(lambda a, b: jnp.where(kept, a, b), both, way.said)
        filled = jnp.max(asked.astype(dtype) / room.astype(dtype))
        longer = jnp.clip(FILLED / jnp.maximum(filled, least), 0.5, 2) * (high - way.low)
        done = kept & (high == 1)  # the last part may be short; the next stretch is begun as it was
        longer = jnp.maximum(longer, jnp.where(done, way.width, least))
        width = jnp.where(lacks, way.width / 2, longer)
        after = jnp.where(lacks & kept, number, way.stretch + done.astype(jnp.int32))
        low = jnp.where(done, 0, jnp.where(kept, high, way.low))
        return spread(_Way(after, low, jnp.minimum(width, 1), way.any | kept, said), way)

    first, none, whole = jnp.zeros((), jnp.int32), jnp.zeros((), dtype), jnp.ones((), dtype)
    like = jax.eval_shape(measured, first, none, whole)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    way = spread(_Way(first, none, whole, jnp.zeros((), bool), nothing), begun)
    said = lax.while_loop(lambda way: way.stretch < number, step, way).said
    return jax.tree.map(lambda x: x[None], said)


def _joined(one: Said, two: Said) -> Said:
    """What two consecutive stretches say together."""
    both = jax.tree.map(lambda *x: jnp.stack(x), one, two)
    totals, _ = total(both)
    extra = [
        level_crossings.Counted(level_totals([c]), a.first, b.last, a.sound & b.sound) if c else ()
        for a, b, c in zip(one.extra, two.extra, both.extra, strict=True)
    ]
    return Said(
        totals._replace(pieces=totals.pieces - 1),
        one.first,
        two.last,
        jnp.maximum(one.needed, two.needed),
        one.start + two.start,
        (),
        extra,
    )
