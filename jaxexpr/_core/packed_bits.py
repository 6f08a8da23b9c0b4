"""Bits packed into 32-bit words, and counts of distinct codes."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax

from jaxexpr._core.shapes import Array, Bool, Int, UInt32

WORD = 32


def word_count(units: int) -> int:
    """Return how many words hold one bit for each of `units` units."""
    return -(-units // WORD)


def pack(bits: Bool[Array, "rows units"]) -> UInt32[Array, "rows words"]:
    """Pack booleans ``(r, k)`` into uint32, ``(r, word_count(k))``; unit 0 is the lowest bit.

    Examples
    --------
    >>> pack(jnp.array([[True, False, True]])).tolist()
    [[5]]
    """
    rows, units = bits.shape
    columns = word_count(units) * WORD
    if columns > units:
        bits = jnp.concatenate([bits, jnp.zeros((rows, columns - units), bool)], axis=1)
    shifts = jnp.arange(WORD, dtype=jnp.uint32)[None, None, :]
    return jnp.sum(
        bits.reshape(rows, columns // WORD, WORD).astype(jnp.uint32) << shifts, -1, dtype=jnp.uint32
    )


def pack_all(
    bits: Sequence[Bool[Array, "{rows} units"]], rows: int
) -> UInt32[Array, "{rows} words"]:
    """Pack one matrix of booleans for each breakpoint, side by side; one zero word if none."""
    if not bits:
        return jnp.zeros((rows, 1), jnp.uint32)
    return jnp.concatenate([pack(b) for b in bits], axis=1)


def ones(packed: UInt32[Array, "rows words"]) -> Int[Array, "rows"]:
    """Count the set bits of each row: ``(r, words)`` to ``(r,)``, int32."""
    return jnp.sum(lax.population_count(packed).astype(jnp.int32), axis=-1, dtype=jnp.int32)


def distinct(codes: UInt32[Array, "codes 2"], valid: Bool[Array, "codes"]) -> Int[Array, ""]:
    """Count the different codes, rows of ``(n, 2)``, among those that are `valid`, ``(n,)``."""
    invalid, high, low = lax.sort((~valid, codes[:, 1], codes[:, 0]), num_keys=3)
    differs = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    is_first = jnp.concatenate([jnp.ones(1, bool), differs])
    return jnp.sum(is_first & ~invalid, dtype=jnp.int32)
