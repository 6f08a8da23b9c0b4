"""Which units cross a breakpoint on which pieces, in arrays of fixed size.

Signs of all units are packed into words of 32 bits, so that the work on the few that cross is
independent of the width. Everything is pure, unbatched, and works under ``jit`` and ``vmap``.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core.bits import WORD, ones
from jaxexpr._core.shapes import Array, Bool, Int, UInt32


def _select(word: UInt32[Array, "m"], rank: Int[Array, "m"]) -> Int[Array, "m"]:
    """Place of the set bit number `rank` (0 the lowest) in each word, by halving."""
    place = jnp.zeros_like(rank)
    for width in (16, 8, 4, 2, 1):
        low = word & np.uint32((1 << width) - 1)
        below = lax.population_count(low).astype(jnp.int32)
        higher = rank >= below
        word = jnp.where(higher, word >> np.uint32(width), low)
        rank = jnp.where(higher, rank - below, rank)
        place = jnp.where(higher, place + width, place)
    return place


class Found(NamedTuple):
    """Set bits in the order of rows: ``row`` and ``unit`` ``(m,)``; the first ``total`` are real.

    ``total`` may exceed m: then some were not kept.
    """

    row: Int[Array, "m"]
    unit: Int[Array, "m"]
    total: Int[Array, ""]


def find(packed: UInt32[Array, "rows words"], capacity: int) -> Found:
    """Return rows and units of the first `capacity` set bits of ``(r, words)``."""
    width = packed.shape[1]
    flat = packed.reshape(-1)
    counts = lax.population_count(flat).astype(jnp.int32)
    ends = jnp.cumsum(counts, dtype=jnp.int32)
    slots = jnp.arange(capacity, dtype=jnp.int32)
    word = jnp.searchsorted(ends, slots, side="right", method="scan").astype(jnp.int32)
    word = jnp.minimum(word, flat.shape[0] - 1)
    rank = slots - (ends[word] - counts[word])
    unit = (word % width) * WORD + _select(flat[word], rank)
    return Found(word // width, unit, ends[-1])


class Merge(NamedTuple):
    """Where each row of the merged order comes from.

    Attributes
    ----------
    left : the old row at or before it, ``(q,)``.
    slot : which new row it is, -1 for an old one.
    real : rows that are real; the others repeat the last old one. More than there are places:
        some rows are missing.
    """

    left: Int[Array, "q"]
    slot: Int[Array, "q"]
    real: Int[Array, ""]


def merge(
    row: Int[Array, "m"], keep: Bool[Array, "m"], rows: int, count: Int[Array, ""], size: int
) -> Merge:
    """Put new rows between old ones; the merged order has `size` places.

    Parameters
    ----------
    row : the old row that each new row follows, ``(m,)``, increasing; ``rows`` marks an empty
        slot.
    keep : which of them to put in.
    rows, count : old rows in all, and how many of them are real.
    """
    kept = jnp.cumsum(keep, dtype=jnp.int32)
    # Places of the new rows in the merged order. One that is not kept has its predecessor's place,
    # so the first slot of a place is the one that is kept.
    place = row + kept
    at = jnp.arange(size, dtype=jnp.int32)
    slot = jnp.searchsorted(place, at, method="scan").astype(jnp.int32)
    slot = jnp.minimum(slot, row.shape[0] - 1)
    new = (place[slot] == at) & (row[slot] < rows)
    before = jnp.concatenate([jnp.zeros(1, jnp.int32), kept])
    left = at - jnp.where(new | (place[slot] < at), kept[slot], before[slot])
    real = count + kept[-1]
    padding = at >= real
    left = jnp.where(padding, count - 1, left)
    return Merge(left, jnp.where(new & ~padding, slot, -1), real)


NEVER = 2**30  # the layer of a row at which no unit changes


class Changes(NamedTuple):
    """State changes of one layer between neighbouring pieces.

    Attributes
    ----------
    total : how many, each breakpoint of the activation by itself.
    made : lowest layer with a change, for each piece's beginning, ``NEVER`` if none.
    first, last : packed states on the first and on the last real piece.
    """

    total: Int[Array, ""]
    made: Int[Array, "p"]
    first: UInt32[Array, "words"]
    last: UInt32[Array, "words"]


def changes(
    state: UInt32[Array, "p words"],
    count: Int[Array, ""],
    made: Int[Array, "p"],
    index: Int[Array, ""] | int,
) -> Changes:
    """Compare the packed states ``(p, words)`` of neighbouring pieces, `count` of them real.

    made : lowest layer with a change so far, ``(p,)``, 0 the first.
    index : this layer.
    """
    number = ones(state[1:] ^ state[:-1])
    inner = jnp.arange(1, state.shape[0], dtype=jnp.int32) < count
    number = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.where(inner, number, 0)])
    made = jnp.where(number > 0, jnp.minimum(made, index), made)
    return Changes(jnp.sum(number, dtype=jnp.int32), made, state[0], state[count - 1])
