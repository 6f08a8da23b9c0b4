"""Map a function of one cell of a sweep over all cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jaxexpr._core.shapes import Array, Float


@runtime_checkable
class Swept(Protocol):
    """A pytree of parameters, some of them arrays with axes of a sweep."""

    @property
    def sweep_shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...


Net = TypeVar("Net", bound=Swept)
Out = TypeVar("Out")


def over_sweep(function: Callable[[Net], Out], *, loops: int = 0) -> Callable[[Net], Out]:
    """Map ``function(net)`` over the sweep of `net`, axis by axis.

    A parameter that does not vary along an axis stays unbatched there, so that results that depend
    on it alone are computed once for the whole axis: a mask depends only on the density, and a
    matrix before scaling on no parameter at all. The first `loops` axes run one cell after another,
    to save memory.
    """

    def mapped(net: Net) -> Out:
        shape = net.sweep_shape
        dtype = jnp.dtype(net.dtype)

        def full(leaf: ArrayLike) -> Float[Array, "..."]:
            array = jnp.asarray(leaf).astype(dtype)
            return array.reshape((1,) * (len(shape) - array.ndim) + array.shape)

        leaves, tree = jax.tree.flatten(jax.tree.map(full, net))

        def descend(leaves: list[Float[Array, "..."]], axes: tuple[int, ...]) -> Out:
            if not axes:
                return function(jax.tree.unflatten(tree, leaves))
            varies = [leaf.shape[0] > 1 for leaf in leaves]
            inner = [leaf if v else leaf[0] for leaf, v in zip(leaves, varies, strict=True)]
            if not any(varies):
                return jax.tree.map(lambda x: x[None], descend(inner, axes[1:]))
            if len(shape) - len(axes) < loops:
                varying = [leaf for leaf, v in zip(inner, varies, strict=True) if v]

                def cell(numbers: list[Float[Array, "..."]]) -> Out:
                    values = iter(numbers)
                    merged = [next(values) if v else x for v, x in zip(varies, inner, strict=True)]
                    return descend(merged, axes[1:])

                return lax.map(cell, varying)
            return jax.vmap(
                lambda inner: descend(inner, axes[1:]),
                in_axes=([0 if v else None for v in varies],),
                axis_size=axes[0],
            )(inner)

        return descend(leaves, shape)

    return mapped
