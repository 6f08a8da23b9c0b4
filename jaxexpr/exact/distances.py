"""Distance from a point to the nearest activation boundary, exactly.

The boundary of unit j is the set where its pre-activation h_j equals a breakpoint c. With the
gradients taken at x, the distance to the nearest boundary of any unit of any layer is

    min over j, c of |h_j(x) - c| / |grad h_j(x)|,

over the units whose gradient is not zero (Hanin & Rolnick 2019, section 3.2, for ReLU).

*Why this is exact*, although the formula only uses the region that contains x. Let d be the
minimum, and continue the h_j affinely from x's region to R^n: the formula uses these continuations.

- No boundary is nearer. Walk from x along any ray. Until the first boundary is met the pattern is
  that of x, so every h_j equals its continuation; the continuation of the unit met first reaches
  its breakpoint there, and it has a zero no nearer than d. (A unit of gradient zero is constant as
  long as the pattern lasts, so it is not met first.)
- d is attained. Let p be the foot of the perpendicular from x on the nearest hyperplane, that of
  unit j. The points between x and p are nearer than d, so by the first part they are in x's
  region, and p is in its closure: h_j and its continuation agree at p, where h_j equals its
  breakpoint.

A boundary of the *function* (where its gradient changes) is an activation boundary; the converse
is false, so the distance to the nearest one of the function is at least as large.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import advised, explained
from jaxexpr._core.linalg import dot
from jaxexpr._core.threads import on_cores
from jaxexpr._core.x64 import precision
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves.supported import exact_activation
from jaxexpr.params import Params, checked_params, precision_of

ROUNDINGS = 64
ENTRIES = 2**23  # numbers in the gradients of all points of a block


class Nearest(NamedTuple):
    """The nearest activation boundary.

    Attributes
    ----------
    distance : distance to it, ``(...)``; inf if all gradients are zero.
    layer : number of its layer, counted from 1, ``(...)``, int32.
    unit : index of the unit in that layer, ``(...)``, int32. Both are -1 if there is none.
    """

    distance: np.ndarray | jax.Array
    layer: np.ndarray | jax.Array
    unit: np.ndarray | jax.Array


@advised(return_unit="use nearest_boundary(params, x), which returns layer and unit as well")
def distance_to_boundary(
    params: Params, x: ArrayLike, activation: str | Activation = "relu"
) -> np.ndarray | jax.Array:
    """Exact distance from points to the nearest *activation* boundary of any unit.

    ``min |h_j(x) - c| / |grad h_j(x)|`` over the breakpoints c of all units of all layers whose
    gradient is not zero; exact for every piecewise linear activation (proof: module docstring).

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer, W ``(fan_in, fan_out)``, b ``(fan_out,)``,
        ``h = z @ W + b``. NumPy float64 is computed in float64 whatever JAX's global flag is
        (inside another trace that flag applies). With a leading axis in every array: many
        networks, each evaluated at all points.
    x : points, ``(..., n_in)``.
    activation : piecewise linear.

    Returns
    -------
    ``(...)``, for many networks ``(E, ...)``: 0 for a point on a boundary, inf where all gradients
    are zero. JAX arrays if `x` or `params` contain any (then it works under jit, vmap and grad),
    otherwise NumPy.

    Raises
    ------
    ValueError
        for invalid parameters (the message names the layer), points of another dimension, NaN or
        infinite entries, a smooth activation.

    Notes
    -----
    Gradients of all units are computed in forward mode, in coordinates of the first layer's row
    space where that is smaller (norms are the same), in blocks of points of about 2^23 numbers.
    A gradient within 64 rounding errors of zero counts as zero.

    Examples
    --------
    >>> W, b = np.array([[3.0, 0.0], [4.0, 1.0]]), np.array([0.0, -1.0])
    >>> distance_to_boundary(((W, b),), [[1.0, 0.5], [0.0, 0.0]]).tolist()
    [0.5, 0.0]
    """
    return nearest_boundary(params, x, activation).distance


@explained
def nearest_boundary(
    params: Params, x: ArrayLike, activation: str | Activation = "relu"
) -> Nearest:
    """The nearest activation boundary of each point: its distance, layer and unit.

    Parameters and the type of the returned arrays are those of ``distance_to_boundary``.

    Raises
    ------
    ValueError
        as for ``distance_to_boundary``.

    Examples
    --------
    >>> W, b = np.array([[3.0, 0.0], [4.0, 1.0]]), np.array([0.0, -1.0])
    >>> nearest = nearest_boundary(((W, b),), [1.0, 0.5])
    >>> float(nearest.distance), int(nearest.layer), int(nearest.unit)
    (0.5, 1, 1)
    """
    params, phi = checked_params(params, networks=True), exact_activation(activation)
    x = checks.numeric("x", x)
    n = np.shape(params[0][0])[-2]
    if np.ndim(x) == 0 or np.shape(x)[-1] != n:
        raise ValueError(
            f"x has shape {np.shape(x)} and params[0][0] has {n} rows: give points of shape "
            f"(..., {n})"
        )
    leaves = [*jax.tree.leaves(params), x]
    first = _first(params[0][0])
    many = np.ndim(params[0][0]) == 3
    if any(checks.is_traced(leaf) for leaf in leaves):
        dtype = jax.dtypes.canonicalize_dtype(precision_of(params))
        params, first, x = _cast(params, first, x, dtype)
        nearest = (_in_each if many else _nearest)(params, first, x, phi)
    else:
        dtype = np.dtype(precision_of(params))
        with precision(dtype.name):
            params, first, x = _cast(params, first, x, dtype)
            if many:
                nearest = on_cores(
                    lambda network: _compiled_each(network[0], network[1], x, phi), (params, first)
                )
            else:
                nearest = _compiled(params, first, x, phi)
    if not any(isinstance(leaf, jax.Array) for leaf in leaves):
        nearest = Nearest(*(np.asarray(part) for part in nearest))
    return nearest


def _first(weights: np.ndarray | jax.Array) -> np.ndarray | jax.Array:
    """The first weights, or as many rows as columns with the same inner products of columns."""
    if checks.is_traced(weights) or weights.shape[-2] <= weights.shape[-1]:
        return weights
    return np.asarray(np.linalg.qr(np.asarray(weights, np.float64), mode="r"))


def _cast(
    params: Params, first: np.ndarray | jax.Array, x: ArrayLike, dtype: DTypeLike
) -> tuple[Params, jax.Array, jax.Array]:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(dtype), (params, first, x))


def _nearest(params: Params, first: jax.Array, x: jax.Array, phi: Activation) -> Nearest:
    points = x.reshape(-1, x.shape[-1])
    count = len(points)
    per_point = first.shape[0] * max(w.shape[1] for w, _ in params)
    size = min(count, max(1, ENTRIES // per_point))
    blocks = math.ceil(count / size)
    if blocks == 1:
        nearest = _block(params, first, points, phi)
    else:
        padding = jnp.broadcast_to(points[-1:], (blocks * size - count, x.shape[-1]))
        points = jnp.concatenate([points, padding]).reshape(blocks, size, x.shape[-1])
        nearest = lax.map(lambda block: _block(params, first, block, phi), points)
    return Nearest(*(block.reshape(-1)[:count].reshape(x.shape[:-1]) for block in nearest))


def _in_each(params: Params, first: jax.Array, x: jax.Array, phi: Activation) -> Nearest:
    """As ``_nearest``, for each network, the leading axis of `params` and `first`."""
    return lax.map(lambda network: _nearest(network[0], network[1], x, phi), (params, first))


_compiled = jax.jit(_nearest, static_argnums=3)
_compiled_each = jax.jit(_in_each, static_argnums=3)


def _block(params: Params, first: jax.Array, x: jax.Array, phi: Activation) -> Nearest:
    """The nearest boundary of each point; x is ``(m, n_in)``."""
    z, rows, tiny = x, first.shape[0], ROUNDINGS * float(jnp.finfo(x.dtype).eps)
    gradients = size = jnp.zeros(())
    best: list[jax.Array] = []
    units: list[jax.Array] = []
    for layer, (weights, biases) in enumerate(params):
        h = dot(z, weights) + biases[None]
        if layer == 0:
            gradients = first[None]
            norm = _norms(gradients)
            size = jnp.zeros_like(norm)
        else:
            gradients = dot(gradients.reshape(-1, len(weights)), weights)
            gradients = gradients.reshape(len(x), rows, -1)
            norm = _norms(gradients)
            # Size of the terms of a gradient: its rounding error is a multiple of it.
            size = jnp.sqrt(dot(size * size, weights * weights))
        levels = phi.breakpoints or ()
        gap = functools.reduce(
            jnp.minimum, (jnp.abs(h - level) for level in levels), jnp.full_like(h, jnp.inf)
        )
        nonzero = jnp.broadcast_to(norm > tiny * size, h.shape)
        distance = jnp.where(nonzero, gap / jnp.where(nonzero, norm, 1), jnp.inf)
        unit = jnp.argmin(distance, axis=1)
        best.append(jnp.take_along_axis(distance, unit[:, None], axis=1)[:, 0])
        units.append(unit.astype(jnp.int32))
        slope = phi.derivative(h)
        gradients = gradients * slope[:, None, :]
        size = lax.stop_gradient(jnp.abs(slope) * jnp.maximum(size, norm))
        z = phi(h)
    distances = jnp.stack(best)
    layer_of = jnp.argmin(distances, axis=0).astype(jnp.int32)
    distance = jnp.take_along_axis(distances, layer_of[None], axis=0)[0]
    unit = jnp.take_along_axis(jnp.stack(units), layer_of[None], axis=0)[0]
    none = jnp.isinf(distance)
    return Nearest(distance, jnp.where(none, -1, layer_of + 1), jnp.where(none, -1, unit))


def _norms(gradients: jax.Array) -> jax.Array:
    """Norms over the middle axis, whatever the scale; with gradient 0, not NaN, at zero."""
    largest = lax.stop_gradient(jnp.max(jnp.abs(gradients), axis=1, keepdims=True))
    scale = jnp.where(largest > 0, largest, 1)
    squares = jnp.sum((gradients / scale) ** 2, axis=1)
    nonzero = squares > 0
    return jnp.where(nonzero, jnp.sqrt(jnp.where(nonzero, squares, 1)), 0) * scale[:, 0]
