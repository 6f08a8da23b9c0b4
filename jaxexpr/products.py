"""Matrix products: in their own precision, and with Gaussian matrices that are never drawn.

The columns of ``rows @ W``, W iid standard normal, are iid normal with covariance ``rows rows^T``,
and so are those of ``L G`` with the triangular factor L of ``rows = L Q`` and G iid standard
normal: ``min(r, fan_in) x fan_out`` normals in place of ``fan_in x fan_out``.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxexpr import noise


def dot(a: jax.Array, b: jax.Array) -> jax.Array:
    """``a @ b`` for matrices, never in a lower precision than their own."""
    return lax.dot(a, b, precision=lax.Precision.HIGHEST, preferred_element_type=a.dtype)


def gram_product(
    seed: noise.Seed, layer: Any, fan_in: int, fan_out: int, rows: jax.Array
) -> jax.Array:
    """Draw ``rows @ W`` of a layer, in law; ``(r, fan_in)`` to ``(r, fan_out)``."""
    factor = triangular(rows) if rows.shape[0] < fan_in else rows
    draw = noise.words(noise.child(seed, layer, 0), (factor.shape[1], fan_out))
    return dot(factor, noise.normal(draw.second, rows.dtype))


def triangular(rows: jax.Array) -> jax.Array:
    """Lower triangular L with ``L L^T = rows rows^T``, for fewer rows than columns.

    By Householder reflections of ``rows = L Q``: each row keeps its own relative precision, where
    the Gram matrix itself would lose fine spacings to rounding. Plain array operations: XLA's CPU
    runtime can wait for ever where two LAPACK calls run side by side.

    Examples
    --------
    >>> rows = jax.random.normal(jax.random.key(0), (3, 5))
    >>> L = triangular(rows)
    >>> bool(jnp.allclose(L @ L.T, rows @ rows.T, atol=1e-5)) and float(L[0, 2]) == 0
    True
    """
    count, width = rows.shape
    column = lax.iota(jnp.int32, width)

    def reflect(i: Any, state: jax.Array) -> jax.Array:
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
