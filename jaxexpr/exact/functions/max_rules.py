"""The largest of many entries along a segment: max-pooling, ``reduce_max``, and the smallest.

On a piece every candidate is affine in t, and their maximum is the upper envelope of lines. Only
the corners of the envelope become rows, not all crossings of two candidates. A maximum
keeps its state from one piece to the next if the same entry is, within rounding, the largest on
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxexpr.exact.functions.equations import Array, Equation, StateChanges
from jaxexpr.exact.functions.linear_rules import Rule, windows
from jaxexpr.exact.functions.nonlinear_rules import insert
from jaxexpr.exact.functions.values import ROUNDINGS, Linear, Segment, Value


def _corners(left: Array, right: Array, slack: Array) -> tuple[Array, Array, Array]:
    """Where the largest of K lines on [0, 1] changes, for each of n bundles ``(n, K)``.

    Only for bundles in which no line is the largest at both ends. Two lines that are the largest
    at the ends of an interval meet inside it; if a third is above them there, it is the largest
    somewhere, and the intervals on its two sides are examined in turn.

    Returns
    -------
    The bundle of each corner, and the difference of the two lines that meet there, at 0 and at 1.
    """
    bundle = np.arange(len(left))
    tops = [x >= x.max(axis=1, keepdims=True) - slack[:, None] for x in (left, right)]
    # Of several that are the largest at an end, take the one that remains so.
    i = np.where(tops[0], right, -np.inf).argmax(axis=1)
    j = np.where(tops[1], left, -np.inf).argmax(axis=1)
    corners: list[tuple[Array, Array, Array]] = []
    while bundle.size:
        at_left = left[bundle, i] - left[bundle, j]
        at_right = right[bundle, i] - right[bundle, j]
        part = at_left / (at_left - at_right)
        level = left[bundle] + part[:, None] * (right[bundle] - left[bundle])
        index = np.arange(bundle.size)
        k = level.argmax(axis=1)
        corner = (level[index, k] <= level[index, i] + slack[bundle]) | (k == i) | (k == j)
        corners.append((bundle[corner], at_left[corner], at_right[corner]))
        bundle, i, j, k = (x[~corner] for x in (bundle, i, j, k))
        bundle = np.concatenate([bundle, bundle])
        i, j = np.concatenate([i, k]), np.concatenate([k, j])
    bundles, at_left, at_right = (np.concatenate(x) for x in zip(*corners, strict=True))
    return bundles, at_left, at_right


def largest(segment: Segment, equation: Equation, value: Linear, indices: Array) -> Linear:
    """The largest entry in each group of flat indices `indices`, ``(groups, K)``; -1 is padding.

    Raises
    ------
    ValueError
        for a group without entries and for numbers that are not finite.
    """
    if (indices < 0).all(axis=1).any():
        raise equation.refused("which has a window without entries")
    if not np.isfinite(value.error).all():
        raise equation.refused("where the numbers are NaN or infinite")
    # Padding is replaced by the group's first entry.
    first = indices[np.arange(len(indices)), (indices >= 0).argmax(axis=1)]
    indices = np.where(indices < 0, first[:, None], indices)
    error = value.error.ravel()[indices].max(axis=1)
    slack, members = ROUNDINGS * error, np.ascontiguousarray(indices.T)
    while True:
        crossings, changes = [], StateChanges()
        values = np.empty((segment.t.size, len(indices)))
        for begin, end in segment.spans(indices.size):
            # Members of a group along the middle axis, groups along the last: this is much faster.
            lines = segment.rows(value, begin, end + 1)[:, members]
            top = lines.max(axis=1)
            values[begin : end + 1] = top
            best = lines >= (top - slack)[:, None]
            both = best[:-1] & best[1:]
            row, group = np.nonzero(~both.any(axis=1))
            if row.size:
                ends = lines[row, :, group], lines[row + 1, :, group]
                which, at_left, at_right = _corners(*ends, slack[group])
                crossings.append((row[which] + begin, at_left, at_right, slack[group][which]))
            changes.see(both)
        if not crossings:
            break
        insert(segment, *(np.concatenate(x) for x in zip(*crossings, strict=True)))
    segment.crossed(equation, changes)
    return Linear(values, error, segment.version)


def _many(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    (value,) = arguments
    if equation.name.startswith("reduce_window"):
        indices = windows(equation, value.shape)
    else:
        axes = tuple(equation.params["axes"])
        index = np.arange(value.error.size).reshape(value.shape)
        index = np.moveaxis(index, axes, range(-len(axes), 0))
        indices = index.reshape(int(np.prod(equation.shapes[0], dtype=int)), -1)
    lowest = equation.name.endswith("min")
    if lowest:
        value = Linear(-value.values, value.error, value.version)
    maximum = largest(segment, equation, value, indices)
    values = maximum.values.reshape((-1, *equation.shapes[0]))
    error = maximum.error.reshape(equation.shapes[0])
    return [Linear(-values if lowest else values, error, maximum.version)]


RULES: dict[str, Rule] = dict.fromkeys(
    ("reduce_max", "reduce_min", "reduce_window_max", "reduce_window_min"), _many
)
