"""Bits packed into words of 32, and rows of them told apart."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax

from jaxexpr._core.shapes import Array, Bool, Int, UInt32

WORD = 32


def word_count(units: int) -> int:
    """Words that hold a bit for each of so many units."""
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
    places = jnp.arange(WORD, dtype=jnp.uint32)[None, None, :]
    return jnp.sum(
        bits.reshape(rows, columns // WORD, WORD).astype(jnp.uint32) << places, -1, dtype=jnp.uint32
    )


def pack_all(
    bits: Sequence[Bool[Array, "{rows} units"]], rows: int
) -> UInt32[Array, "{rows} words"]:
    """Pack one matrix of booleans for each breakpoint, side by side; one word if there is none."""
    if not bits:
        return jnp.zeros((rows, 1), jnp.uint32)
    return jnp.concatenate([pack(b) for b in bits], axis=1)


def ones(packed: UInt32[Array, "rows words"]) -> Int[Array, "rows"]:
    """How many bits are set in each row: ``(r, words)`` to ``(r,)``, int32."""
    return jnp.sum(lax.population_count(packed).astype(jnp.int32), axis=-1, dtype=jnp.int32)


def distinct(codes: UInt32[Array, "codes 2"], valid: Bool[Array, "codes"]) -> Int[Array, ""]:
    """How many different codes ``(n, 2)`` there are among the `valid` ones ``(n,)``."""
    unused, high, low = lax.sort((~valid, codes[:, 1], codes[:, 0]), num_keys=3)
    new = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    fresh = jnp.concatenate([jnp.ones(1, bool), new])
    return jnp.sum(fresh & ~unused, dtype=jnp.int32)
