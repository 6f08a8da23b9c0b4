"""Random words by position: two independent 32-bit words for every entry of an array.

The words are one block of Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011), counted by (row, column). An entry's
words depend on the key and on its position alone, so a narrower matrix is a corner of a
wider one, and every density, scale and precision sees the same draw.

JAX's own sampler spends a block on each 32-bit word and keeps the rounds in a loop on CPU;
one unrolled block for an entry, both words used, is several times faster there
(``benchmarks/sampling.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


class Words(NamedTuple):
    """Two arrays of independent uniform 32-bit words, of equal shape."""

    first: jax.Array
    second: jax.Array


def threefry2x32(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[jax.Array, jax.Array]:
    """Threefry-2x32-20 of `counter` under `key`, uint32 arrays that broadcast together."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(_PARITY))
    x, y = counter[0] + schedule[0], counter[1] + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
            y = y ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


Seed = tuple[jax.Array, jax.Array]


def seed(key: jax.Array) -> Seed:
    """Two words of a typed JAX key, of any implementation, that start a stream."""
    both = jax.random.bits(key, (2,), jnp.uint32)
    return both[0], both[1]


def child(parent: Seed, layer: ArrayLike, kind: int) -> Seed:
    """The seed of an array of `layer` (index from 0): kind 0 weights, 1 biases, 2 weight noise."""
    return threefry2x32(parent, (jnp.asarray(layer).astype(jnp.uint32), np.uint32(kind)))


def words(start: Seed, shape: tuple[int, ...]) -> Words:
    """Draw two words for each entry of an array of one or two dimensions.

    Parameters
    ----------
    start : from ``seed`` or ``child``.
    shape : ``(n,)`` or ``(rows, columns)``.

    Returns
    -------
    Words of uint32 arrays of shape `shape`.
    """
    rows_columns = shape if len(shape) == 2 else (1, *shape)
    row = lax.broadcasted_iota(jnp.uint32, rows_columns, 0)
    column = lax.broadcasted_iota(jnp.uint32, rows_columns, 1)
    first, second = threefry2x32(start, (row, column))
    return Words(first.reshape(shape), second.reshape(shape))


def further(known: Words) -> Words:
    """Two more words for each entry: the block that its first two are the key of.

    For a draw that needs more than two words; the four are as independent as the numbers of split
    keys.
    """
    return Words(*threefry2x32(known, (np.uint32(0), np.uint32(0))))


def permutation(start: Seed, count: int) -> jax.Array:
    """Draw an order of ``0, ..., count - 1``, int32, by sorting random words.

    Numbers are sorted by 32 random bits or more, so that two are tied (and keep their order) with
    probability 2^-32. XLA's CPU sort is ten times faster on one array than on keys and values: so
    random bits and indices share a word, and are sorted in rounds, the leading bits last.
    """
    index_bits = max(count - 1, 1).bit_length()
    if index_bits > 24:
        raise ValueError(f"count={count}: an order of at most {2**24} numbers can be drawn")
    low = np.uint32(2**index_bits - 1)
    order = lax.iota(jnp.uint32, count)
    for turn in range(-(-32 // (32 - index_bits))):
        drawn = words(child(start, turn, 0), (count,)).first
        packed = (drawn & ~low) | lax.iota(jnp.uint32, count)
        order = order[lax.sort(packed, is_stable=False) & low]
    return order.astype(jnp.int32)


def unit_interval(word: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Map words to (0, 1) on a grid of 2**-24 (exact in float32 and in float64).

    The smallest value is 2**-25 in place of 0, so that logarithms and negative powers are finite.
    """
    _one_of_two("unit_interval", word)
    grid = (word >> np.uint32(8)).astype(jnp.int32).astype(dtype) * np.array(2.0**-24, dtype)
    return jnp.maximum(grid, np.array(2.0**-25, dtype))


def symmetric(word: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Map words to (-1, 1), exactly evenly: the values are odd multiples of 2**-24."""
    _one_of_two("symmetric", word)
    signed = lax.bitcast_convert_type(word, jnp.int32) >> 8
    return (signed.astype(dtype) + np.array(0.5, dtype)) * np.array(2.0**-23, dtype)


def normal(word: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Map words to standard normals by inversion; even, never 0, at most 5.3 in size."""
    _one_of_two("normal", word)
    return lax.erf_inv(symmetric(word, dtype)) * np.array(np.sqrt(2.0), dtype)


def _one_of_two(name: str, word: object) -> None:
    if isinstance(word, Words):
        raise ValueError(
            f"word=Words(...) holds two words for each entry: give prng.{name} one of them, "
            "words.first or words.second"
        )
