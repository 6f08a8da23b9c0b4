"""A function of one cell of a sweep, over all cells."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def over_sweep(function: Any, *, loops: int = 0) -> Any:
    """Map ``function(net)`` over the sweep of `net`, axis by axis.

    A number that does not vary along an axis stays unbatched there, so what depends on it alone
    (a mask on the density, a unit matrix on nothing) is computed once for the whole axis. The
    first `loops` axes run one cell after another, to save memory.
    """

    def mapped(net: Any) -> Any:
        shape = net.sweep_shape
        dtype = jnp.dtype(net.dtype)

        def full(leaf: Any) -> jax.Array:
            array = jnp.asarray(leaf).astype(dtype)
            return array.reshape((1,) * (len(shape) - array.ndim) + array.shape)

        leaves, tree = jax.tree.flatten(jax.tree.map(full, net))

        def descend(leaves: list[jax.Array], axes: tuple[int, ...]) -> Any:
            if not axes:
                return function(jax.tree.unflatten(tree, leaves))
            varies = [leaf.shape[0] > 1 for leaf in leaves]
            inner = [leaf if v else leaf[0] for leaf, v in zip(leaves, varies, strict=True)]
            if not any(varies):
                return jax.tree.map(lambda x: x[None], descend(inner, axes[1:]))
            if len(shape) - len(axes) < loops:
                moving = [leaf for leaf, v in zip(inner, varies, strict=True) if v]

                def cell(numbers: list[jax.Array]) -> Any:
                    fresh = iter(numbers)
                    merged = [next(fresh) if v else x for v, x in zip(varies, inner, strict=True)]
                    return descend(merged, axes[1:])

                return lax.map(cell, moving)
            return jax.vmap(
                lambda ls: descend(ls, axes[1:]),
                in_axes=([0 if v else None for v in varies],),
                axis_size=axes[0],
            )(inner)

        return descend(leaves, shape)

    return mapped
