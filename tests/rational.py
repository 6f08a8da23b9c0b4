"""Regions counted by brute force: rational arithmetic in one and two dimensions, LPs in any.

Slow and simple, and independent of the package: weights are taken as the exact rationals that
their floats are, cells are cut one unit after another, and nothing is rounded.
"""

import collections
import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

RELU = ((0,), (0, 1))
HARD_TANH = ((-1, 1), (0, 1, 0))


class Cell(NamedTuple):
    """A cell: vertices in order (two points in 1-D), states of all units, affine map of z.

    ``z_j = jacobian[j] . x + offset[j]``.
    """

    corners: tuple
    pattern: tuple
    jacobian: tuple
    offset: tuple


def rational(array):
    return np.vectorize(Fraction, otypes=[object])(np.asarray(array, object))


def box(low, high):
    """Corners of a segment or of a rectangle, in order."""
    low, high = rational(low), rational(high)
    if len(low) == 1:
        return (tuple(low), tuple(high))
    return ((low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1]))


def dot(a, x):
    return sum((p * q for p, q in zip(a, x, strict=True)), Fraction(0))


def between(p, q, f, g):
    """The point of the segment from p (value f) to q (value g) where the value is 0."""
    t = f / (f - g)
    return tuple(a + t * (b - a) for a, b in zip(p, q, strict=True))


def cut(corners, a, c):
    """The parts of a cell where ``a . x + c`` is at most 0 and at least 0; None if flat."""
    values = [dot(a, x) + c for x in corners]
    if all(v <= 0 for v in values):
        return corners, None
    if all(v >= 0 for v in values):
        return None, corners
    ends = list(zip(corners, values, strict=True))
    if len(corners) == 2:
        (p, f), (q, g) = ends
        middle = between(p, q, f, g)
        return ((p, middle), (middle, q)) if f < 0 else ((middle, q), (p, middle))
    below, above = [], []
    for (p, f), (q, g) in itertools.pairwise([*ends, ends[0]]):
        below += [p] if f <= 0 else []
        above += [p] if f >= 0 else []
        if f * g < 0:
            middle = between(p, q, f, g)
            below.append(middle)
            above.append(middle)
    return tuple(below), tuple(above)


def cells(params, low, high, activation=RELU):
    """All activation regions that meet the inside of a segment or rectangle."""
    breakpoints, slopes = activation
    n = len(low)
    eye = tuple(tuple(Fraction(int(i == j)) for j in range(n)) for i in range(n))
    found = [Cell(box(low, high), (), eye, (Fraction(0),) * n)]
    for W, b in params:
        W, b = rational(W), rational(b)
        above = []
        for cell in found:
            J, c = np.array(cell.jacobian, object), np.array(cell.offset, object)
            rows, h0 = W.T @ J, W.T @ c + b
            parts = [(cell.corners, ())]
            for a, shift in zip(rows, h0, strict=True):
                split = []
                for corners, states in parts:
                    rest = corners
                    for state, at in enumerate(breakpoints):
                        below, rest = cut(rest, a, shift - at)
                        if below is not None:
                            split.append((below, (*states, state)))
                        if rest is None:
                            break
                    else:
                        split.append((rest, (*states, len(breakpoints))))
                parts = split
            for corners, states in parts:
                lines = [line(breakpoints, slopes, s) for s in states]
                jacobian = tuple(tuple(k * a) for (k, _), a in zip(lines, rows, strict=True))
                offset = tuple(k * s + m for (k, m), s in zip(lines, h0, strict=True))
                above.append(Cell(corners, (*cell.pattern, states), jacobian, offset))
        found = above
    return found


def line(breakpoints, slopes, state):
    """Slope and offset of an activation on one of its pieces, with f(0) = 0."""

    def value(x):
        total = Fraction(slopes[0]) * x
        for at, k, m in zip(breakpoints, slopes, slopes[1:], strict=False):
            total += (m - k) * (max(x - at, Fraction(0)) - max(Fraction(-at), Fraction(0)))
        return total

    ends = [breakpoints[0] - 2, *breakpoints, breakpoints[-1] + 2]
    inside = Fraction(ends[state] + ends[state + 1]) / 2
    return Fraction(slopes[state]), value(inside) - slopes[state] * inside


def borders(cell):
    """Border pieces of a cell, ``(key of the line or point, start, end)`` along the line."""
    if len(cell.corners) == 2:
        return [(point, Fraction(0), Fraction(1)) for point in cell.corners]
    found = []
    for p, q in itertools.pairwise([*cell.corners, cell.corners[0]]):
        dx, dy = q[0] - p[0], q[1] - p[1]
        axis = 0 if dx else 1
        key = (axis, dy / dx, p[1] - p[0] * dy / dx) if dx else (axis, p[0], None)
        found.append((key, *sorted((p[axis], q[axis]))))
    return found


def linear_regions(found):
    """Number of maximal connected sets of equal Jacobian: neighbours share a border piece."""
    root = list(range(len(found)))

    def top(i):
        while root[i] != i:
            i = root[i]
        return i

    on = collections.defaultdict(list)
    for i, cell in enumerate(found):
        for key, start, end in borders(cell):
            on[key].append((start, end, i))
    for pieces in on.values():
        for (s, e, i), (t, f, j) in itertools.combinations(pieces, 2):
            if max(s, t) < min(e, f) and found[i].jacobian == found[j].jacobian:
                root[top(i)] = top(j)
    return len({top(i) for i in range(len(found))})


def patterns(params, low, high, least=1e-7):
    """Activation patterns of a ReLU network that meet the inside of a box in R^n, by LPs."""
    n = len(low)
    rows = np.concatenate([np.eye(n), -np.eye(n)])
    limits = np.concatenate([np.asarray(high, float), -np.asarray(low, float)])
    found = [((), rows, limits, inner(rows, limits, least), np.eye(n), np.zeros(n))]
    for W, b in params:
        above = []
        for pattern, rows, limits, x, J, c in found:
            A, h0 = J @ W, c @ W + b
            parts = [((), rows, limits, x)]
            for j in range(len(b)):
                split = []
                for states, rows, limits, x in parts:
                    here = bool(x @ A[:, j] + h0[j] > 0)
                    for active in (False, True):
                        sign = -1.0 if active else 1.0  # sign * (a.x + h0) <= 0
                        more = np.vstack([rows, sign * A[:, j]])
                        bounds = np.append(limits, -sign * h0[j])
                        if np.any(A[:, j]) or active == here:
                            witness = x if not np.any(A[:, j]) else inner(more, bounds, least)
                            if witness is not None:
                                split.append(((*states, int(active)), more, bounds, witness))
                parts = split
            for states, rows, limits, x in parts:
                on = np.array(states, float)
                above.append(((*pattern, states), rows, limits, x, A * on, h0 * on))
        found = above
    return [pattern for pattern, *_ in found]


def inner(rows, limits, least):
    """Centre of a ball of radius above `least` in ``rows @ x <= limits``, or None."""
    length = np.linalg.norm(rows, axis=1)
    keep = length > 0
    rows, limits, length = rows[keep], limits[keep], length[keep]
    n = rows.shape[1]
    done = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.column_stack([rows / length[:, None], np.ones(len(rows))]),
        b_ub=limits / length,
        bounds=[(None, None)] * n + [(None, 1.0)],
    )
    return done.x[:n] if done.status == 0 and done.x[n] > least else None
