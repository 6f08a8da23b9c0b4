"""Make undefined derivatives NaN instead of silently 0.

A count is constant between its jumps, and so is a sparse mask as a function of its density.
Automatic differentiation returns 0 there, which is not the derivative of their means. Values that
pass through ``without_derivative`` have derivative NaN instead. Other derivatives are unaffected,
because a tangent or cotangent of 0 stays 0.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxexpr._core import checks
from jaxexpr._core.shapes import Array, Float


def without_derivative(value: Float[Array, "*shape"], causes: object) -> Float[Array, "*shape"]:
    """Return `value`, whose derivative with respect to each array in `causes` is NaN.

    Examples
    --------
    >>> steps = lambda x: without_derivative(jnp.floor(x), x) + 2 * x
    >>> float(steps(1.5)), float(jax.grad(steps)(1.5))
    (4.0, nan)
    """
    leaves = [x for x in jax.tree.leaves(causes) if checks.is_traced(x)]
    floats = [x for x in leaves if jnp.issubdtype(x.dtype, jnp.floating)]
    return _identity(value, floats) if floats else value


@jax.custom_jvp
def _identity(value: Float[Array, "*shape"], causes: list[Any]) -> Float[Array, "*shape"]:
    return value


@_identity.defjvp
def _identity_jvp(
    primals: tuple[Float[Array, "*shape"], list[Any]],
    tangents: tuple[Float[Array, "*shape"], list[Any]],
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    value, value_tangent = primals[0], tangents[0]
    total = jnp.zeros((), value.dtype)
    for tangent in tangents[1]:
        total = total + jnp.sum(_nan_unless_zero.bind(tangent)).astype(value.dtype)
    # Again after the sum, for reverse mode: cotangents that add up to 0 must not give 0.
    out = _nan_unless_zero.bind(jnp.broadcast_to(total, value.shape))
    return _identity(*primals), value_tangent + out


def _nan_where_nonzero(tangent: Any) -> Float[Array, "..."]:
    nan = np.asarray(np.nan, tangent.dtype)
    return jnp.where(tangent == 0, jnp.zeros_like(tangent), nan)


# Declared linear for differentiation, and its own transpose.
_nan_unless_zero = Primitive("nan_unless_zero")
_nan_unless_zero.def_impl(_nan_where_nonzero)
_nan_unless_zero.def_abstract_eval(lambda tangent: tangent)
ad.deflinear2(_nan_unless_zero, lambda cotangent, _: [_nan_unless_zero.bind(cotangent)])
batching.defvectorized(_nan_unless_zero)
mlir.register_lowering(_nan_unless_zero, mlir.lower_fun(_nan_where_nonzero, multiple_results=False))
