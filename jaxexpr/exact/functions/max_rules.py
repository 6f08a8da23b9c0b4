"""The largest of many entries along a segment: max-pooling, ``reduce_max``, and the smallest.

On a piece every candidate is a line, and their maximum is the upper envelope of these lines. Only
the corners of the envelope become rows, not all the places where two candidates cross. A maximum
keeps its state from one piece to the next if one and the same entry may be taken for the largest
on both.
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
    somewhere, and the two intervals beside it are looked at in turn.

    Returns
    -------
    The bundle of each corner, and the difference of the two lines that meet there, at 0 and at 1.
    """
    bundle = np.arange(len(left))
    tops = [x >= x.max(axis=1, keepdims=True) - slack[:, None] for x in (left, right)]
    # Of several that are the largest at an end, the one that stays so.
    i = np.where(tops[0], right, -np.inf).argmax(axis=1)
    j = np.where(tops[1], left, -np.inf).argmax(axis=1)
    found: list[tuple[Array, Array, Array]] = []
    while bundle.size:
        at_left = left[bundle, i] - left[bundle, j]
        at_right = right[bundle, i] - right[bundle, j]
        part = at_left / (at_left - at_right)
        level = left[bundle] + part[:, None] * (right[bundle] - left[bundle])
        each = np.arange(bundle.size)
        k = level.argmax(axis=1)
        corner = (level[each, k] <= level[each, i] + slack[bundle]) | (k == i) | (k == j)
        found.append((bundle[corner], at_left[corner], at_right[corner]))
        bundle, i, j, k = (x[~corner] for x in (bundle, i, j, k))
        bundle = np.concatenate([bundle, bundle])
        i, j = np.concatenate([i, k]), np.concatenate([k, j])
    where, at_left, at_right = (np.concatenate(x) for x in zip(*found, strict=True))
    return where, at_left, at_right


def largest(segment: Segment, equation: Equation, value: Linear, places: Array) -> Linear:
    """The largest entry in each group of `places`, ``(groups, K)``, flat; -1 stands for none.

    Raises
    ------
    ValueError
        for a group without entries and for numbers that are not finite.
    """
    if (places < 0).all(axis=1).any():
        raise equation.refused("which has a window without entries")
    if not np.isfinite(value.error).all():
        raise equation.refused("where the numbers are NaN or infinite")
    # Padding takes part as a repetition of the group's first entry.
    first = places[np.arange(len(places)), (places >= 0).argmax(axis=1)]
    places = np.where(places < 0, first[:, None], places)
    error = value.error.ravel()[places].max(axis=1)
    slack, members = ROUNDINGS * error, np.ascontiguousarray(places.T)
    while True:
        found, changes = [], StateChanges()
        values = np.empty((segment.t.size, len(places)))
        for begin, end in segment.spans(places.size):
            # Members of a group along the middle axis, groups along the last: much the faster.
            lines = segment.rows(value, begin, end + 1)[:, members]
            top = lines.max(axis=1)
            values[begin : end + 1] = top
            best = lines >= (top - slack)[:, None]
            both = best[:-1] & best[1:]
            row, group = np.nonzero(~both.any(axis=1))
            if row.size:
                ends = lines[row, :, group], lines[row + 1, :, group]
                which, at_left, at_right = _corners(*ends, slack[group])
                found.append((row[which] + begin, at_left, at_right, slack[group][which]))
            changes.see(both)
        if not found:
            break
        insert(segment, *(np.concatenate(x) for x in zip(*found, strict=True)))
    segment.crossed(equation, changes)
    return Linear(values, error, segment.version)


def _many(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    (value,) = arguments
    if equation.name.startswith("reduce_window"):
        places = windows(equation, value.shape)
    else:
        axes = tuple(equation.params["axes"])
        index = np.arange(value.error.size).reshape(value.shape)
        index = np.moveaxis(index, axes, range(-len(axes), 0))
        places = index.reshape(int(np.prod(equation.shapes[0], dtype=int)), -1)
    lowest = equation.name.endswith("min")
    if lowest:
        value = Linear(-value.values, value.error, value.version)
    found = largest(segment, equation, value, places)
    values = found.values.reshape((-1, *equation.shapes[0]))
    error = found.error.reshape(equation.shapes[0])
    return [Linear(-values if lowest else values, error, found.version)]


RULES: dict[str, Rule] = dict.fromkeys(
    ("reduce_max", "reduce_min", "reduce_window_max", "reduce_window_min"), _many
)
