"""Rules of affine primitives: sums, and products with constants, by the name of the primitive.

Each rule takes a segment, an equation and its arguments (on the current rows, at least one of them
``Linear``) and returns the outputs.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from numpy.typing import ArrayLike

from jaxexpr.exact.functions.equations import Array, Equation
from jaxexpr.exact.functions.values import EPS, Linear, Segment, Steps, Value, peak

Rule: TypeAlias = Callable[[Segment, Equation, Sequence[Any]], Sequence[Value]]

BLOCK = 2**22  # entries in one batched call of a primitive


def real(constant: ArrayLike) -> Array:
    """Convert a constant of the function to float64."""
    return np.asarray(constant).astype(np.float64, copy=False)


def per_row(values: Array, rank: int) -> Array:
    """Reshape rows of scalars so that they broadcast with rows of arrays of this rank."""
    lacking = rank - (values.ndim - 1)
    return values.reshape(values.shape[:1] + (1,) * lacking + values.shape[1:])


def mapped(
    equation: Equation, arguments: Sequence[Any], batched: Sequence[bool], **changes: Any
) -> list[Array]:
    """Apply a primitive to every row of the batched arguments; others are shared by all rows.

    Blocks have sizes of powers of two, so that few sizes are compiled.
    """
    rows = next(len(a) for a, b in zip(arguments, batched, strict=True) if b)
    params = equation.params | changes
    axes = tuple(0 if b else None for b in batched)

    def one(*row: Any) -> Any:
        return equation.primitive.bind(*row, **params)

    call = jax.vmap(one, in_axes=axes)
    entries = [math.prod(np.shape(a)[1:]) for a, b in zip(arguments, batched, strict=True) if b]
    largest = max(1, *entries, *(math.prod(shape) for shape in equation.shapes))
    block = 2 ** min(10, int(math.log2(max(1, BLOCK // largest))))
    blocks = []
    for begin in range(0, rows, block):
        count = min(block, rows - begin)
        index = np.minimum(np.arange(2 ** math.ceil(math.log2(count))), count - 1) + begin
        rows_in_block = [a[index] if b else a for a, b in zip(arguments, batched, strict=True)]
        outs = call(*rows_in_block)
        outs = outs if equation.primitive.multiple_results else [outs]
        blocks.append([np.asarray(out)[:count] for out in outs])
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _applied(
    segment: Segment,
    value: Linear,
    apply: Callable[[Array, Any], Array],
    constant: Array | None = None,
) -> Linear:
    """Apply a linear function of the rows: to the values, to their sizes, to their variances."""
    size = apply(peak(value.values)[None], None if constant is None else np.abs(constant))[0]
    square = None if constant is None else constant * constant
    variance = apply(value.error[None] ** 2, square)[0]
    return segment.linear(apply(value.values, constant), variance, size)


def _added(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    rank, sign = len(equation.shapes[0]), -1 if equation.name == "sub" else 1
    terms, variance = [], np.zeros(equation.shapes[0])
    for argument in arguments:
        if isinstance(argument, Linear):
            terms.append(per_row(argument.values, rank))
            variance = variance + argument.error**2
        else:
            terms.append(real(argument))
    values = terms[0] + sign * terms[1]
    return [segment.linear(values, variance, peak(values))]


def _negated(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    (value,) = arguments
    return [Linear(-value.values, value.error, segment.version)]


def _scaled(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    a, b = arguments
    depends = [isinstance(x, Linear) for x in (a, b)]
    if equation.name == "div" and depends[1]:
        raise equation.refused("which divides by a value that depends on x")
    if all(depends):
        raise equation.refused("which multiplies values that depend on x by each other")
    value, factor = (a, b) if depends[0] else (b, a)
    rank = len(equation.shapes[0])
    if isinstance(factor, Steps):
        return [_masked(segment, equation, value, factor, rank)]
    factor = real(factor)
    rows = per_row(value.values, rank)
    values = rows / factor if equation.name == "div" else rows * factor
    share = 1 / factor if equation.name == "div" else factor
    return [segment.linear(values, (value.error * share) ** 2, peak(values))]


def _masked(segment: Segment, equation: Equation, value: Linear, steps: Steps, rank: int) -> Linear:
    rows, factor = per_row(value.values, rank), per_row(real(steps.values), rank)
    if equation.name == "div":
        factor = 1 / factor
    ends = rows[1:] * factor
    error = np.maximum(value.error * peak(factor), EPS * peak(ends))
    return segment.joined(equation, rows[:-1] * factor, ends, error)


def _product(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    """A matrix product or any other contraction with a constant."""
    a, b = arguments
    if isinstance(a, Linear) and isinstance(b, Linear):
        raise equation.refused("which multiplies values that depend on x by each other")
    (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
    letters = iter(string.ascii_letters)
    rows = next(letters)
    left = [next(letters) for _ in a.shape]
    right = [next(letters) for _ in b.shape]
    for i, j in (
        *zip(left_sum, right_sum, strict=True),
        *zip(left_batch, right_batch, strict=True),
    ):
        right[j] = left[i]
    out = [left[i] for i in left_batch]
    out += [s for i, s in enumerate(left) if i not in (*left_sum, *left_batch)]
    out += [s for j, s in enumerate(right) if j not in (*right_sum, *right_batch)]
    value, constant = (a, b) if isinstance(a, Linear) else (b, a)
    value_axes, constant_axes = (left, right) if isinstance(a, Linear) else (right, left)
    spec = f"{rows}{''.join(value_axes)},{''.join(constant_axes)}->{rows}{''.join(out)}"
    constant = real(constant)
    return [_applied(segment, value, lambda v, c: np.einsum(spec, v, c, optimize=True), constant)]


def _convolved(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    image, kernel = arguments
    depends = [isinstance(a, Linear) for a in (image, kernel)]
    if all(depends):
        raise equation.refused("which multiplies values that depend on x by each other")

    def apply(rows: Array, constant: Array) -> Array:
        pair = (rows, constant) if depends[0] else (constant, rows)
        return mapped(equation, pair, depends, preferred_element_type=None)[0]

    value, constant = (image, kernel) if depends[0] else (kernel, image)
    return [_applied(segment, value, apply, real(constant))]


def _summed(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    axes = tuple(axis + 1 for axis in equation.params["axes"])
    return [_applied(segment, arguments[0], lambda v, _: v.sum(axis=axes))]


def _accumulated(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    axis, reverse = equation.params["axis"] + 1, equation.params["reverse"]

    def apply(rows: Array, _: object) -> Array:
        if reverse:
            rows = np.flip(rows, axis)
        total = np.cumsum(rows, axis=axis)
        return np.flip(total, axis) if reverse else total

    return [_applied(segment, arguments[0], apply)]


def windows(equation: Equation, shape: tuple[int, ...]) -> Array:
    """Flat indices of the entries in each window, ``(outputs, entries)``; -1 for padding."""
    p = equation.params
    indices = np.zeros((1, 1), np.int64)
    for axis, size in enumerate(shape):
        dilation, stride = p["base_dilation"][axis], p["window_strides"][axis]
        first = np.arange(equation.shapes[0][axis]) * stride - p["padding"][axis][0]
        step = np.arange(p["window_dimensions"][axis]) * p["window_dilation"][axis]
        index = first[:, None] + step[None]
        inside = (index >= 0) & (index <= (size - 1) * dilation) & (index % dilation == 0)
        index = np.where(inside, index // dilation, -1)
        outer, inner = indices[:, None, :, None], index[None, :, None, :]
        joint = np.where((outer < 0) | (inner < 0), -1, outer * size + inner)
        indices = joint.reshape(outer.shape[0] * index.shape[0], -1)
    return indices


def _windows_summed(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    (value,) = arguments
    indices = windows(equation, value.shape)

    def apply(rows: Array, _: object) -> Array:
        flat = rows.reshape(len(rows), -1)
        total = np.zeros((len(rows), len(indices)))
        for column in indices.T:  # one entry of each window at a time: no array of all windows
            total += np.where(column >= 0, flat[:, column], 0.0)
        return total.reshape((len(rows), *equation.shapes[0]))

    return [_applied(segment, value, apply)]


def _scattered(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    """Add entries of one array to entries of another (a sum over the edges of a graph)."""
    target, index, added = arguments
    size = math.prod(equation.shapes[0])
    shapes = [x.shape if isinstance(x, Linear) else np.shape(x) for x in (target, added)]
    dtype = equation.dtypes[0]

    def scatter(entries: jax.Array) -> jax.Array:
        start = np.zeros(shapes[0], dtype)
        return equation.primitive.bind(start, index, entries, **equation.params)

    # Target of each entry: the transpose of a scatter-add is a gather.
    labels = np.arange(1, size + 1).reshape(equation.shapes[0]).astype(dtype)
    (targets,) = jax.linear_transpose(scatter, np.zeros(shapes[1], dtype))(labels)
    targets = np.asarray(targets).astype(np.int64).ravel() - 1  # -1: out of bounds, dropped
    valid = np.flatnonzero(targets >= 0)

    def total(target: Array, added: Array) -> Array:
        flat = np.array(target.reshape(len(target), -1))
        np.add.at(flat.T, targets[valid], added.reshape(len(added), -1).T[valid])
        return flat.reshape((len(flat), *equation.shapes[0]))

    values, sizes, variances = [], [], []
    for x, shape in zip((target, added), shapes, strict=True):
        depends = isinstance(x, Linear)
        rows = x.values if depends else np.broadcast_to(real(x), (segment.t.size, *shape))
        values.append(rows)
        sizes.append(peak(rows)[None])
        variances.append(x.error[None] ** 2 if depends else np.zeros((1, *shape)))
    return [segment.linear(total(*values), total(*variances)[0], total(*sizes)[0])]


RULES: dict[str, Rule] = {
    "add": _added,
    "add_any": _added,
    "sub": _added,
    "neg": _negated,
    "mul": _scaled,
    "div": _scaled,
    "scatter-add": _scattered,
    "dot_general": _product,
    "conv_general_dilated": _convolved,
    "reduce_sum": _summed,
    "cumsum": _accumulated,
    "reduce_window_sum": _windows_summed,
}
