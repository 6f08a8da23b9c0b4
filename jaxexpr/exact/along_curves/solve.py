"""Exact pieces of a piecewise linear network along a curve.

Along a line a piecewise linear network is piecewise linear, and its breakpoints cost less than a
fine grid and have no discretisation error. This module computes the breakpoints, the number of
activation regions that the curve passes through, the transitions of each layer and the length of
its image, along finite and infinite lines, polylines, arcs, circles, ellipses and semicircles.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.shapes import Array, Float, Int, Shaped
from jaxexpr._core.x64 import precision
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity, crossing_rows, level_crossings, segments, traverse
from jaxexpr.exact.along_curves.capacity import Block, Capacity
from jaxexpr.exact.along_curves.supported import exact_activation, family_of
from jaxexpr.params import Params, checked_params, precision_of

_CACHE_BYTES = 2**19  # on CPU: rows of a batch of curves, so that they stay in the cache
MEMORY = 2.0**30

Numbers = tuple[traverse.Totals, Any, Any]  # totals, length of the curve, crossings of levels


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Pieces:
    """Pieces of a network along a curve.

    Attributes
    ----------
    breakpoints : curve parameters, increasing, both end points included (minus and plus infinity
        on an infinite line), ``(count + 1,)``. Between two neighbours the activation pattern is
        constant, and it differs from piece to piece.
    layers : for each inner breakpoint the number, from 1, of the lowest layer in which a unit
        changes its state, ``(count - 1,)``.
    counts : number of activation regions of the first d layers that the curve passes through, in
        order along it, ``(depth,)``. On a straight line no region occurs twice (Raghu et al. 2017,
        Corollary 1), so they are all distinct.
    crossings : number of transitions in each layer, ``(depth,)``. Each unit and each breakpoint of
        the activation counts by itself, also where transitions coincide.
    lengths : of the curve's image after each layer's activation, ``(depth,)``; inf on an infinite
        line. Also inf from the first layer in which values overflow; there all other numbers are
        invalid.
    """

    breakpoints: Float[np.ndarray, "ends"]
    layers: Int[np.ndarray, "ends-2"]
    counts: Int[np.ndarray, "depth"]
    crossings: Int[np.ndarray, "depth"]
    lengths: Float[np.ndarray, "depth"]

    def __repr__(self) -> str:
        lengths = ", ".join(f"{x:.4g}" for x in self.lengths)
        return f"Pieces(count={self.count}, depth={self.counts.size}, lengths=[{lengths}])"

    @property
    def count(self) -> int:
        """Number of activation regions of the whole network that the curve passes through."""
        return int(self.counts[-1])


@explained
def pieces(
    params: Params,
    curve: Curve,
    activation: str | activations.Activation = "relu",
    *,
    memory: float = MEMORY,
) -> Pieces:
    """Return the exact breakpoints of a network along a curve.

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer, W ``(fan_in, fan_out)``, b ``(fan_out,)``. NumPy
        float64 is computed in float64 whatever JAX's global flag says.
    curve : line (also an infinite one), polyline, arc, circle, ellipse or semicircles.
    activation : relu, leaky_relu, abs, hard_tanh, linear or any ``piecewise_linear``.
    memory : bytes for the rows of one segment of the curve; a segment whose pieces do not fit is
        split.

    Raises
    ------
    ValueError
        if the activation is smooth or the curve is a user's function, and as ``measure``.

    In float32 a breakpoint has an error of a few ``1e-7`` of the curve's extent (more where layers
    amplify rounding errors), and shorter pieces are lost; in float64 the error is a few ``1e-16``.

    Examples
    --------
    >>> from jaxexpr import curves
    >>> W, b = np.array([[1.0, -1.0]]), np.array([-0.25, 0.75])
    >>> p = pieces(((W, b),), curves.line([0.0], [1.0]))
    >>> p.breakpoints.tolist(), p.crossings.tolist()
    ([0.0, 0.25, 0.75, 1.0], [2])
    """
    return pieces_batch(params, [curve], activation, memory=memory)[0]


@explained
def pieces_batch(
    params: Params,
    curves: Sequence[Curve],
    activation: str | activations.Activation = "relu",
    *,
    memory: float = MEMORY,
) -> list[Pieces]:
    """As ``pieces``, for many curves at once: in one network, or each in a network of its own.

    Parameters
    ----------
    params : as for ``pieces``; or with a leading axis in every array, one network for each curve.
    curves : of one kind and size.
    activation, memory : as for ``pieces``.

    Raises
    ------
    ValueError
        if the curves differ in kind or size, or in number from the networks; and as ``pieces``.

    Examples
    --------
    >>> from jaxexpr import MLP, curves, laws
    >>> params = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Gaussian(0.1)).init(jax.random.key(0))
    >>> rays = [curves.line([0.0, 0.0], [np.cos(a), np.sin(a)]) for a in (0.0, 0.3, 0.6)]
    >>> [p.count > 1 for p in pieces_batch(params, rays)]
    [True, True, True]
    """
    params = checked_params(params, networks=True)
    paired = np.ndim(params[0][0]) == 3
    family, phi = family_of(params, curves), exact_activation(activation)
    checks.concrete("params, curves", (params, family), "pieces are found")
    if paired and np.shape(params[0][0])[0] != len(family):
        raise ValueError(
            f"params holds {np.shape(params[0][0])[0]} networks for {len(family)} curves: give one "
            "for each, or one for all"
        )
    memory = checks.positive("memory", memory)
    dtype = precision_of(params)
    with precision(dtype):
        params = jax.tree.map(lambda x: jnp.asarray(x).astype(dtype), params)
        stacked = [np.stack(arrays) for arrays in zip(*(c.arrays for c in family), strict=True)]
        results = _solve(params, family[0], stacked, phi, paired=paired, memory=memory)
    return [result for result, _ in results]


def totals(
    params: Params,
    curve: Curve,
    phi: activations.Activation,
    dtype: str,
    levels: tuple[float, ...] = (),
) -> Numbers:
    """Integrals of a given network along a curve, the length of the curve, and crossings.

    With a leading axis of networks in `params`, every array has that axis.

    levels : further levels whose crossings are counted, beside the activation's breakpoints; the
        counts have shape ``(depth, m)``.
    """
    paired = np.ndim(params[0][0]) == 3
    count = len(params[0][0]) if paired else 1
    with precision(dtype):
        params = jax.tree.map(lambda x: jnp.asarray(x).astype(dtype), params)
        arrays = [np.repeat(np.asarray(array)[None], count, axis=0) for array in curve.arrays]
        results = _solve(params, curve, arrays, phi, paired=paired, memory=MEMORY, levels=levels)
    numbers = [number for _, number in results]
    return jax.tree.map(lambda *x: np.stack(x), *numbers) if paired else numbers[0]


def layers_of(params: Params, blocks: Sequence[Block]) -> list[traverse.Layers]:
    """Given parameters in the form that ``traverse.through`` loops over."""
    layers = []
    for block in blocks:
        params_of_block = params[block.first : block.first + block.layers]
        layers.append((jax.tree.map(lambda *x: jnp.stack(x), *params_of_block), lambda pair: pair))
    return layers


def count_levels(levels: tuple[float, ...]) -> traverse.Observe | None:
    """Function that counts the crossings of `levels` in a layer; ``None`` if there are none."""
    if not levels:
        return None
    return lambda rows, weights, biases, _: level_crossings.count_crossings(
        rows, weights, biases, levels
    )


@functools.partial(
    jax.jit, static_argnames=("activation", "blocks", "splits", "paired", "batch", "levels")
)
def _solve_compiled(
    params: Params,
    curve: Curve,
    arrays: list[Float[Array, "curves ..."]],
    *,
    activation: activations.Activation,
    blocks: tuple[Block, ...],
    splits: int,
    paired: bool,
    batch: int,
    levels: tuple[float, ...],
) -> tuple[Any, ...]:
    """Totals and breakpoints of all curves, along the leading axis of `arrays`."""

    def one(item: tuple[Params | None, list[Float[Array, "..."]]]) -> tuple[Any, ...]:
        own_params, points = item
        net = params if own_params is None else own_params
        path = dataclasses.replace(curve, arrays=tuple(points))
        curve_segments = segments.begin(path, splits, net[0][0].dtype)
        layers, observe = layers_of(net, blocks), count_levels(levels)
        results = traverse.over(
            lambda s: traverse.through(s, layers, activation, blocks, observe),
            curve_segments,
            splits,
        )
        totals, joints = traverse.total(results)
        counts = traverse.level_totals(results.extra) if levels else ()
        ends = (
            curve_segments[0],
            curve_segments[1] if len(curve_segments) == 3 else jnp.ones_like(curve_segments[0]),
        )
        rows = results.rows
        breakpoints = ends, (rows.t, rows.lowest_layer, rows.real)
        numbers = totals, jnp.sum(results.start), counts
        return numbers, joints, results.required.max(axis=0), *breakpoints

    items = (params if paired else None, arrays)
    return lax.map(one, items, batch_size=batch)


def _solve(
    params: Params,
    curve: Curve,
    arrays: list[Shaped[np.ndarray, "curves ..."]],
    phi: activations.Activation,
    *,
    paired: bool,
    memory: float,
    levels: tuple[float, ...] = (),
) -> list[tuple[Pieces, Numbers]]:
    """Pieces and numbers of every curve, with larger arrays until all fit."""
    results: list[Any] = [None] * len(arrays[0])
    shapes = [tuple(np.shape(w)[-2:]) for w, _ in params]
    units = np.cumsum([width for _, width in shapes]) * len(phi.breakpoints or ())
    work = sum(float(n) * a * b for n, (a, b) in zip(units, shapes, strict=True))
    work *= len(results) * segments.count(curve)
    runs = capacity.blocks(shapes, work)

    def attempt(
        indices: Int[np.ndarray, "taken"], sizes: Capacity
    ) -> Int[np.ndarray, "taken depth 2"]:
        # A whole number of batches: few compilations.
        largest_batch = side_by_side(
            row_cache(params) * sizes.rows * sizes.segments, memory, indices.size
        )
        batches = -(-indices.size // largest_batch)
        batch = -(-indices.size // batches)
        padded = np.resize(indices, batches * batch)
        output = _solve_compiled(
            chosen(params, padded) if paired else params,
            curve,
            [jnp.asarray(a[padded], params[0][0].dtype) for a in arrays],
            activation=phi,
            blocks=sizes.blocks,
            splits=sizes.splits,
            paired=paired,
            batch=batch,
            levels=levels,
        )
        output = [jax.tree.map(np.asarray, one) for one in output]
        required = output[2][: indices.size]
        for position in np.flatnonzero(~sizes.overflowed(required)):
            if results[indices[position]] is None:
                results[indices[position]] = _collected(curve, output, int(position))
        return required

    until_all_fit(attempt, len(results), capacity_of_params(params, curve, phi, runs), memory)
    return results


def capacity_of_params(
    params: Params,
    curve: Curve,
    phi: activations.Activation,
    cut: Sequence[tuple[int, int]],
) -> Capacity:
    """Initial capacity for given networks, in blocks of the runs `cut` of layers."""
    widths = [np.shape(w)[-1] for w, _ in params]
    segment_count = segments.count(curve)
    blocks = capacity.guess(cut, widths, len(phi.breakpoints or ()), segment_count)
    arrays = 8 * (1 if curve.kind in segments.STRAIGHT else 3)
    return Capacity(blocks, arrays * row_cache(params), segment_count)


def row_cache(params: Params) -> float:
    """Memory in bytes of one row of values."""
    return float(max(np.shape(w)[-1] for w, _ in params) * np.dtype(params[0][0].dtype).itemsize)


def until_all_fit(
    attempt: Callable[[np.ndarray, Capacity], np.ndarray],
    count: int,
    sizes: Capacity,
    memory: float,
) -> None:
    """Attempt entries 0, ..., count - 1, and those that overflow again with a larger capacity.

    attempt : function of indices of entries, padded to a common size by repetition, and a capacity.
        It stores the results of the entries that fit, and returns the sizes that each entry
        requires, ``(entries, ..., depth, 2)``.
    """
    remaining = np.arange(count)
    while remaining.size:
        # Few different numbers of entries mean few compilations.
        indices = np.resize(remaining, min(capacity.bucket(remaining.size), count))
        required = attempt(indices, sizes)[: remaining.size]
        overflowed = sizes.overflowed(required)
        failed = overflowed.reshape(remaining.size, -1).any(axis=1)
        remaining = remaining[failed]
        if remaining.size:
            sizes = sizes.grown(required[overflowed].max(axis=0), memory)


def side_by_side(row_bytes: float, memory: float, most: int) -> int:
    """Number of curves computed at once: on CPU as many as fit into the cache."""
    budget = _CACHE_BYTES if jax.default_backend() == "cpu" else memory / 16
    return int(np.clip(budget // row_bytes, 1, most))


def chosen(params: Params, indices: Int[np.ndarray, "taken"]) -> Params:
    """The networks with these indices."""
    if indices.size == len(params[0][0]) and np.array_equal(indices, np.arange(indices.size)):
        return params
    return jax.tree.map(lambda x: x[indices], params)


def _collected(curve: Curve, output: list[Any], position: int) -> tuple[Pieces, Numbers]:
    """Pieces and numbers of one curve, from the output of ``_solve_compiled``."""
    numbers, joints, _, ends, rows = (jax.tree.map(lambda x: x[position], part) for part in output)
    (totals, *_), (t, weight), (inner, lowest_layer, count) = numbers, ends, rows
    per_turn = math.pi if curve.kind == "semicircles" else 1.0
    breakpoints, layers = [np.full(1, _end(t[0, 0], weight[0, 0]))], []
    for i in range(len(t)):
        rows_inside = slice(1, int(count[i]) - (1 if curve.kind in segments.STRAIGHT else 0))
        visible = lowest_layer[i][rows_inside] < crossing_rows.NEVER
        breakpoints.append(inner[i][rows_inside][visible])
        layers.append(lowest_layer[i][rows_inside][visible])
        if joints[i] < crossing_rows.NEVER:
            breakpoints.append(t[i, 1:])
            layers.append(joints[i : i + 1])
    breakpoints.append(np.full(1, _end(t[-1, 1], weight[-1, 1])))
    lengths = np.ldexp(totals.length.astype(np.float64), totals.exponent)
    result = Pieces(
        np.concatenate(breakpoints).astype(np.float64) / per_turn,
        np.concatenate(layers).astype(int) + 1 if layers else np.zeros(0, int),
        np.asarray(totals.pieces).astype(int),
        np.asarray(totals.crossings).astype(int),
        np.full_like(lengths, np.inf) if curve.whole else lengths,
    )
    return result, numbers


def _end(t: np.floating, weight: np.floating) -> float:
    return float(t) if weight > 0 else math.copysign(math.inf, float(t))
