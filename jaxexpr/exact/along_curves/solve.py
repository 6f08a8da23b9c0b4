"""Exact pieces of a piecewise linear network along a curve.

Along a line a piecewise linear network is piecewise linear, and a grid is the wrong tool: it costs
more and errs. Here are the breakpoints themselves, and with them the activation regions that the
curve meets, the transitions that each layer makes, and the length of its image, for straight lines,
infinite ones, polylines, arcs, circles, ellipses and semicircles.
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
from jaxexpr._core.precision import precision
from jaxexpr._core.shapes import Array, Float, Int, Shaped
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity, crossing_rows, level_crossings, segments, traverse
from jaxexpr.exact.along_curves.capacity import Block, Capacity
from jaxexpr.exact.along_curves.supported import exact_activation, family_of
from jaxexpr.params import Params, checked_params, precision_of

_CACHE_BYTES = 2**19  # rows of the curves that are side by side on CPU: they stay in the cache
MEMORY = 2.0**30

Numbers = tuple[traverse.Totals, Any, Any]  # totals, length of the curve, crossings of levels


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Pieces:
    """A network along a curve.

    Attributes
    ----------
    breakpoints : curve parameters, increasing, both end points included (minus and plus infinity
        on an infinite line), ``(count + 1,)``. Between two neighbours the activation pattern is
        constant, and it differs from piece to piece.
    layers : number of the lowest layer whose units change at each inner breakpoint, 1 the first;
        ``(count - 1,)``.
    counts : activation regions of the first d layers that the curve meets in turn, ``(depth,)``.
        On a straight line no region is met twice (Raghu et al. 2017, Corollary 1), so they are
        all distinct.
    crossings : transitions that each layer makes, ``(depth,)``: each unit and each breakpoint of
        the activation by itself, so that coincident ones count in full.
    lengths : of the curve's image after each layer's activation, ``(depth,)``; inf on an
        infinite line, and from the layer on in which values overflow the precision, where all
        other numbers are void.
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
        """Activation regions of the whole network that the curve meets in turn."""
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
    memory : bytes for the rows of one segment of the curve; segments with more pieces than they
        hold are split.

    Raises
    ------
    ValueError
        for a smooth activation, a curve that is a user's function, and as ``measure``.

    In float32 a breakpoint is off by a few ``1e-7`` of the curve's extent (more where layers
    amplify rounding), and pieces narrower than that are lost; in float64 by a few ``1e-16``.

    Examples
    --------
    >>> from jaxexpr import curves
    >>> W, b = np.array([[1.0, -1.0]]), np.array([-0.25, 0.75])
    >>> found = pieces(((W, b),), curves.line([0.0], [1.0]))
    >>> found.breakpoints.tolist(), found.crossings.tolist()
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

    Examples
    --------
    >>> from jaxexpr import MLP, curves, laws
    >>> params = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Gaussian(0.1)).init(jax.random.key(0))
    >>> rays = [curves.line([0.0, 0.0], [np.cos(a), np.sin(a)]) for a in (0.0, 0.3, 0.6)]
    >>> [found.count > 1 for found in pieces_batch(params, rays)]
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
        found = _solve(params, family[0], stacked, phi, paired=paired, memory=memory)
    return [one for one, _ in found]


def totals(
    params: Params,
    curve: Curve,
    phi: activations.Activation,
    dtype: str,
    levels: tuple[float, ...] = (),
) -> Numbers:
    """Integrals of a given network along a curve, the curve's own length, and crossings.

    Of many networks, with a leading axis in `params`, every array has it.

    levels : others than the activation's breakpoints, whose crossings are counted too,
        ``(depth, m)``.
    """
    paired = np.ndim(params[0][0]) == 3
    count = len(params[0][0]) if paired else 1
    with precision(dtype):
        params = jax.tree.map(lambda x: jnp.asarray(x).astype(dtype), params)
        arrays = [np.repeat(np.asarray(array)[None], count, axis=0) for array in curve.arrays]
        found = _solve(params, curve, arrays, phi, paired=paired, memory=MEMORY, levels=levels)
    numbers = [one for _, one in found]
    return jax.tree.map(lambda *x: np.stack(x), *numbers) if paired else numbers[0]


def layers_of(params: Params, blocks: Sequence[Block]) -> list[traverse.Layers]:
    """What ``traverse.through`` loops over, from given parameters."""
    found = []
    for block in blocks:
        here = params[block.first : block.first + block.layers]
        found.append((jax.tree.map(lambda *x: jnp.stack(x), *here), lambda pair: pair))
    return found


def count_levels(levels: tuple[float, ...]) -> traverse.Observe | None:
    """What observes each layer and counts the crossings of these levels; ``None`` if none."""
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
    """Totals and breakpoints of all curves; leading axis of `arrays`."""

    def one(item: tuple[Params | None, list[Float[Array, "..."]]]) -> tuple[Any, ...]:
        own, points = item
        net = params if own is None else own
        path = dataclasses.replace(curve, arrays=tuple(points))
        begun = segments.begin(path, splits, net[0][0].dtype)
        layers, observe = layers_of(net, blocks), count_levels(levels)
        results = traverse.over(
            lambda s: traverse.through(s, layers, activation, blocks, observe), begun, splits
        )
        totals, joints = traverse.total(results)
        counts = traverse.level_totals(results.extra) if levels else ()
        ends = (begun[0], begun[1] if len(begun) == 3 else jnp.ones_like(begun[0]))
        rows = results.rows
        shape = ends, (rows.t, rows.made, rows.real)
        numbers = totals, jnp.sum(results.start), counts
        return numbers, joints, results.required.max(axis=0), *shape

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
    """Run until every curve fits; pieces, totals, the curve's length and crossings of levels."""
    found: list[Any] = [None] * len(arrays[0])
    shapes = [tuple(np.shape(w)[-2:]) for w, _ in params]
    units = np.cumsum([width for _, width in shapes]) * len(phi.breakpoints or ())
    work = sum(float(n) * a * b for n, (a, b) in zip(units, shapes, strict=True))
    work *= len(found) * segments.count(curve)
    cut = capacity.blocks(shapes, work)

    def attempt(
        take: Int[np.ndarray, "taken"], sizes: Capacity
    ) -> Int[np.ndarray, "taken depth 2"]:
        # A whole number of batches: few compilations.
        most = side_by_side(row_cache(params) * sizes.rows * sizes.segments, memory, take.size)
        batches = -(-take.size // most)
        batch = -(-take.size // batches)
        padded = np.resize(take, batches * batch)
        out = _solve_compiled(
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
        out = [jax.tree.map(np.asarray, one) for one in out]
        required = out[2][: take.size]
        for place in np.flatnonzero(~sizes.overflowed(required)):
            if found[take[place]] is None:
                found[take[place]] = _collected(curve, out, int(place))
        return required

    until_all_fit(attempt, len(found), capacity_of_params(params, curve, phi, cut), memory)
    return found


def capacity_of_params(
    params: Params,
    curve: Curve,
    phi: activations.Activation,
    cut: Sequence[tuple[int, int]],
) -> Capacity:
    """The capacity that given networks are begun with, in blocks of these layers."""
    widths = [np.shape(w)[-1] for w, _ in params]
    segment_count = segments.count(curve)
    blocks = capacity.guess(cut, widths, len(phi.breakpoints or ()), segment_count)
    arrays = 8 * (1 if curve.kind in segments.STRAIGHT else 3)
    return Capacity(blocks, arrays * row_cache(params), segment_count)


def row_cache(params: Params) -> float:
    """Bytes of one row of values."""
    return float(max(np.shape(w)[-1] for w, _ in params) * np.dtype(params[0][0].dtype).itemsize)


def until_all_fit(
    attempt: Callable[[np.ndarray, Capacity], np.ndarray],
    count: int,
    sizes: Capacity,
    memory: float,
) -> None:
    """Attempt entries 0, ..., count - 1, and those that overflow again with a larger capacity.

    attempt : from numbers of entries, repeated where they are fewer than the size that is compiled,
        and a capacity to what each entry required, ``(entries, ..., depth, 2)``. It keeps the
        results of those that fit.
    """
    left = np.arange(count)
    while left.size:
        # Few different numbers of entries, so few compilations.
        take = np.resize(left, min(capacity.bucket(left.size), count))
        required = attempt(take, sizes)[: left.size]
        overflowed = sizes.overflowed(required)
        full = overflowed.reshape(left.size, -1).any(axis=1)
        left = left[full]
        if left.size:
            sizes = sizes.grown(required[overflowed].max(axis=0), memory)


def side_by_side(row_bytes: float, memory: float, most: int) -> int:
    """How many curves at a time: on CPU as many as stay in the cache."""
    budget = _CACHE_BYTES if jax.default_backend() == "cpu" else memory / 16
    return int(np.clip(budget // row_bytes, 1, most))


def chosen(params: Params, take: Int[np.ndarray, "taken"]) -> Params:
    """Networks of these numbers."""
    if take.size == len(params[0][0]) and np.array_equal(take, np.arange(take.size)):
        return params
    return jax.tree.map(lambda x: x[take], params)


def _collected(curve: Curve, out: list[Any], place: int) -> tuple[Pieces, Numbers]:
    """What ``_solve_compiled`` found of the curve number `place`."""
    both, joints, _, ends, rows = (jax.tree.map(lambda x: x[place], one) for one in out)
    (totals, *_), (t, weight), (inner, made, count) = both, ends, rows
    per_turn = math.pi if curve.kind == "semicircles" else 1.0
    at, layer = [np.full(1, _end(t[0, 0], weight[0, 0]))], []
    for i in range(len(t)):
        here = slice(1, int(count[i]) - (1 if curve.kind in segments.STRAIGHT else 0))
        kept = made[i][here] < crossing_rows.NEVER
        at.append(inner[i][here][kept])
        layer.append(made[i][here][kept])
        if joints[i] < crossing_rows.NEVER:
            at.append(t[i, 1:])
            layer.append(joints[i : i + 1])
    at.append(np.full(1, _end(t[-1, 1], weight[-1, 1])))
    lengths = np.ldexp(totals.length.astype(np.float64), totals.exponent)
    found = Pieces(
        np.concatenate(at).astype(np.float64) / per_turn,
        np.concatenate(layer).astype(int) + 1 if layer else np.zeros(0, int),
        np.asarray(totals.pieces).astype(int),
        np.asarray(totals.crossings).astype(int),
        np.full_like(lengths, np.inf) if curve.whole else lengths,
    )
    return found, both


def _end(t: np.floating, weight: np.floating) -> float:
    return float(t) if weight > 0 else math.copysign(math.inf, float(t))
