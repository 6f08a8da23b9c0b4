"""Find the units that cross a breakpoint, and insert their crossings as rows.

Arrays have fixed sizes. The signs of all units are packed into words of 32 bits, so that the work
per crossing does not depend on the width. All functions are pure and unbatched, and work under
``jit`` and ``vmap``.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core.packed_bits import WORD, ones
from jaxexpr._core.shapes import Array, Bool, Int, UInt32


def _select(word: UInt32[Array, "m"], rank: Int[Array, "m"]) -> Int[Array, "m"]:
    """Position of the set bit number `rank` (0 the lowest) in each word, by bisection."""
    position = jnp.zeros_like(rank)
    for width in (16, 8, 4, 2, 1):
        low = word & np.uint32((1 << width) - 1)
        below = lax.population_count(low).astype(jnp.int32)
        higher = rank >= below
        word = jnp.where(higher, word >> np.uint32(width), low)
        rank = jnp.where(higher, rank - below, rank)
        position = jnp.where(higher, position + width, position)
    return position


class SetBits(NamedTuple):
    """Row and unit of each set bit, in the order of rows, ``(m,)`` each.

    ``total`` is the number of set bits. If it is below m, the last entries are padding; if it
    exceeds m, some bits are missing.
    """

    row: Int[Array, "m"]
    unit: Int[Array, "m"]
    total: Int[Array, ""]


def find(packed: UInt32[Array, "rows words"], size: int) -> SetBits:
    """Return rows and units of the first `size` set bits of ``(r, words)``."""
    width = packed.shape[1]
    flat = packed.reshape(-1)
    counts = lax.population_count(flat).astype(jnp.int32)
    ends = jnp.cumsum(counts, dtype=jnp.int32)
    slots = jnp.arange(size, dtype=jnp.int32)
    word = jnp.searchsorted(ends, slots, side="right", method="scan").astype(jnp.int32)
    word = jnp.minimum(word, flat.shape[0] - 1)
    rank = slots - (ends[word] - counts[word])
    unit = (word % width) * WORD + _select(flat[word], rank)
    return SetBits(word // width, unit, ends[-1])


class Merge(NamedTuple):
    """For each row of the merged order, its source.

    Attributes
    ----------
    left : index of the last old row at or before it, ``(q,)``.
    slot : index of the new row, ``(q,)``; -1 for an old row.
    real : number of merged rows. If it is below q, the last entries are padding and repeat the last
        old row; if it exceeds q, some rows are missing.
    """

    left: Int[Array, "q"]
    slot: Int[Array, "q"]
    real: Int[Array, ""]


def merge(
    row: Int[Array, "m"], keep: Bool[Array, "m"], rows: int, count: Int[Array, ""], size: int
) -> Merge:
    """Insert new rows between old ones; the merged order has `size` entries.

    Parameters
    ----------
    row : index of the old row that each new row follows, ``(m,)``, increasing; the value ``rows``
        marks an unused entry.
    keep : whether to insert each of them, ``(m,)``.
    rows, count : number of old rows with padding, and without.
    """
    kept = jnp.cumsum(keep, dtype=jnp.int32)
    # Positions of the new rows in the merged order. A row that is not kept has the position of its
    # predecessor, so the first entry with a given position is the one that is kept.
    position = row + kept
    index = jnp.arange(size, dtype=jnp.int32)
    slot = jnp.searchsorted(position, index, method="scan").astype(jnp.int32)
    slot = jnp.minimum(slot, row.shape[0] - 1)
    new = (position[slot] == index) & (row[slot] < rows)
    before = jnp.concatenate([jnp.zeros(1, jnp.int32), kept])
    left = index - jnp.where(new | (position[slot] < index), kept[slot], before[slot])
    real = count + kept[-1]
    padding = index >= real
    left = jnp.where(padding, count - 1, left)
    return Merge(left, jnp.where(new & ~padding, slot, -1), real)


NEVER = 2**30  # layer index of a row at which no unit changes its state


class Changes(NamedTuple):
    """State changes of one layer between neighbouring pieces.

    Attributes
    ----------
    total : number of changes; each breakpoint of the activation counts by itself.
    lowest_layer : index of the lowest layer with a change where each piece begins; ``NEVER`` if
        there is none.
    first, last : packed states on the first and on the last real piece.
    """

    total: Int[Array, ""]
    lowest_layer: Int[Array, "p"]
    first: UInt32[Array, "words"]
    last: UInt32[Array, "words"]


def changes(
    state: UInt32[Array, "p words"],
    count: Int[Array, ""],
    lowest_layer: Int[Array, "p"],
    index: Int[Array, ""] | int,
) -> Changes:
    """Compare the packed states ``(p, words)`` of neighbouring pieces, `count` of them real.

    lowest_layer : index of the lowest layer with a change, among the layers below, ``(p,)``.
    index : index of this layer, from 0.
    """
    number = ones(state[1:] ^ state[:-1])
    inner = jnp.arange(1, state.shape[0], dtype=jnp.int32) < count
    number = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.where(inner, number, 0)])
    lowest_layer = jnp.where(number > 0, jnp.minimum(lowest_layer, index), lowest_layer)
    return Changes(jnp.sum(number, dtype=jnp.int32), lowest_layer, state[0], state[count - 1])
