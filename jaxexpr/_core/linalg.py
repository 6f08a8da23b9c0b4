"""Matrix products in their own precision, triangular factors, norms, powers of two."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core.shapes import Array, Float, Int

NO_EXPONENT = -(2**20)  # exponent of an array of zeros
LARGEST_SHIFT = 120  # a power of two that float32 holds, with room for what it multiplies


def dot(
    a: Float[Array, "rows inner"], b: Float[Array, "inner columns"]
) -> Float[Array, "rows columns"]:
    """``a @ b`` for matrices, never in a lower precision than their own."""
    return lax.dot(a, b, precision=lax.Precision.HIGHEST, preferred_element_type=a.dtype)


def triangular(rows: Float[Array, "rows width"]) -> Float[Array, "rows rows"]:
    """Lower triangular L with ``L L^T = rows rows^T``, for fewer rows than columns.

    By Householder reflections of ``rows = L Q``: each row keeps its own relative precision, where
    the Gram matrix itself would lose fine spacings to rounding. Plain array operations: XLA's CPU
    runtime can wait for ever where two LAPACK calls run side by side.

    Examples
    --------
    >>> import jax
    >>> rows = jax.random.normal(jax.random.key(0), (3, 5))
    >>> L = triangular(rows)
    >>> bool(jnp.allclose(L @ L.T, rows @ rows.T, atol=1e-5)) and float(L[0, 2]) == 0
    True
    """
    count, width = rows.shape
    column = lax.iota(jnp.int32, width)

    def reflect(i: Int[Array, ""], state: Float[Array, "rows width"]) -> Float[Array, "rows width"]:
        row = jnp.where(column >= i, lax.dynamic_index_in_dim(state, i, keepdims=False), 0)
        # Squares of very small rows would vanish: the largest entry is the unit.
        largest = lax.stop_gradient(jnp.max(jnp.abs(row)))
        moves = largest > 0
        row = row / jnp.where(moves, largest, 1)
        here = column == i
        pivot = jnp.sum(jnp.where(here, row, 0))
        norm = jnp.sqrt(jnp.where(moves, jnp.sum(row * row), 1))
        mirror = row + jnp.where(here, jnp.where(pivot < 0, -norm, norm), 0)
        half = norm * (norm + jnp.abs(pivot))  # |mirror|^2 / 2
        step = dot(state, mirror[:, None]) * jnp.where(moves, 1 / half, 0)
        return state - step * mirror[None]

    # On the last of `count` columns no more than its sign is left to choose.
    return jnp.tril(lax.fori_loop(0, count, reflect, rows)[:, :count])


def power_of_two(exponent: Int[Array, "*shape"], dtype: jnp.dtype) -> Float[Array, "*shape"]:
    """``2**exponent`` exactly; 0 where it would be subnormal."""
    info = np.finfo(dtype)
    low, high = int(info.minexp), int(info.maxexp) - 1
    integer, shift = (jnp.int32, 23) if dtype == jnp.float32 else (jnp.int64, 52)
    bits = (jnp.clip(exponent, low, high) + high).astype(integer) << shift
    power = lax.bitcast_convert_type(bits, dtype)
    return jnp.where(exponent < low, jnp.zeros((), dtype), power)


def _exponent(largest: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    """Exponent e of a size, about ``2**e``; ``NO_EXPONENT`` for 0."""
    largest = lax.stop_gradient(largest)
    exponent = jnp.clip(jnp.frexp(largest)[1], -LARGEST_SHIFT, LARGEST_SHIFT)
    return jnp.where(largest > 0, exponent.astype(jnp.int32), NO_EXPONENT)


def norms(rows: Float[Array, "rows width"]) -> Float[Array, "rows"]:
    """Euclidean norm of each row, with gradient 0 (not NaN) at a row of zeros."""
    # A product with ones: XLA sums differences of long rows several times slower by itself.
    squares = dot(rows * rows, jnp.ones((rows.shape[1], 1), rows.dtype))[:, 0]
    still = squares == 0  # NaN is not: it stays NaN
    return jnp.where(still, 0, jnp.sqrt(jnp.where(still, 1, squares)))
