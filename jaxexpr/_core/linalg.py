"""Matrix products in full precision, triangular factors, norms, powers of two."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core.shapes import Array, Float, Int

NO_EXPONENT = -(2**20)  # exponent of an array of zeros
LARGEST_SHIFT = 120  # exponent that float32 can represent, with room for a factor


def dot(
    a: Float[Array, "rows inner"], b: Float[Array, "inner columns"]
) -> Float[Array, "rows columns"]:
    """Return ``a @ b`` for matrices, never in a lower precision than that of the inputs."""
    return lax.dot(a, b, precision=lax.Precision.HIGHEST, preferred_element_type=a.dtype)


def triangular(rows: Float[Array, "rows width"]) -> Float[Array, "rows rows"]:
    """Lower triangular L with ``L L^T = rows rows^T``, for fewer rows than columns.

    Computed by Householder reflections of ``rows = L Q``, so that each row is accurate relative to
    its own norm; the Gram matrix would lose small distances to rounding. LAPACK is not used,
    because XLA's CPU runtime can deadlock when two LAPACK calls run concurrently.

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
        # Divide by the largest entry, since squares of very small entries would underflow.
        largest = lax.stop_gradient(jnp.max(jnp.abs(row)))
        nonzero = largest > 0
        row = row / jnp.where(nonzero, largest, 1)
        is_pivot = column == i
        pivot = jnp.sum(jnp.where(is_pivot, row, 0))
        norm = jnp.sqrt(jnp.where(nonzero, jnp.sum(row * row), 1))
        mirror = row + jnp.where(is_pivot, jnp.where(pivot < 0, -norm, norm), 0)
        half = norm * (norm + jnp.abs(pivot))  # |mirror|^2 / 2
        step = dot(state, mirror[:, None]) * jnp.where(nonzero, 1 / half, 0)
        return state - step * mirror[None]

    # In the last of `count` columns only the sign is left to choose.
    return jnp.tril(lax.fori_loop(0, count, reflect, rows)[:, :count])


def power_of_two(exponent: Int[Array, "*shape"], dtype: jnp.dtype) -> Float[Array, "*shape"]:
    """Return ``2**exponent`` exactly; 0 where it would be subnormal."""
    info = np.finfo(dtype)
    low, high = int(info.minexp), int(info.maxexp) - 1
    integer, shift = (jnp.int32, 23) if dtype == jnp.float32 else (jnp.int64, 52)
    bits = (jnp.clip(exponent, low, high) + high).astype(integer) << shift
    power = lax.bitcast_convert_type(bits, dtype)
    return jnp.where(exponent < low, jnp.zeros((), dtype), power)


def _exponent(largest: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    """Return the exponent of the power of two near `largest`; ``NO_EXPONENT`` for 0."""
    largest = lax.stop_gradient(largest)
    exponent = jnp.clip(jnp.frexp(largest)[1], -LARGEST_SHIFT, LARGEST_SHIFT)
    return jnp.where(largest > 0, exponent.astype(jnp.int32), NO_EXPONENT)


def norms(rows: Float[Array, "rows width"]) -> Float[Array, "rows"]:
    """Return the Euclidean norm of each row, with gradient 0 (not NaN) at a row of zeros."""
    # A product with ones: XLA's own sum is several times slower for long rows of differences.
    squares = dot(rows * rows, jnp.ones((rows.shape[1], 1), rows.dtype))[:, 0]
    is_zero = squares == 0  # False for NaN, which stays NaN
    return jnp.where(is_zero, 0, jnp.sqrt(jnp.where(is_zero, 1, squares)))
