"""Layers as arrangements of hyperplanes: the parts of constructions.

A layer is ``(W, b)``, ``h = x @ W + b``: unit i is active on one side of its hyperplane. For the
arrangements of this module the regions, or enough of them, are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained

Array = np.ndarray
Layer = tuple[Array, Array]


@explained
def general_position(units: int, dim: int) -> Layer:
    """Return a layer whose hyperplanes are in general position, with all regions near the origin.

    Every region meets the open cube (-1, 1)^dim. With more units than dimensions each region has
    an active unit, and no weight is 0.

    The hyperplane of unit i holds the monic polynomials of degree `dim` that vanish at a node t_i,
    the point being their other coefficients: a polynomial has at most `dim` roots, so no more
    hyperplanes meet in a point, and any `dim` of them meet in one. Signs of units alternate along
    the nodes: a region without active unit would be a polynomial with too many roots.

    Parameters
    ----------
    units, dim : numbers of units and of dimensions, ``units >= dim``.

    Returns
    -------
    ``(W, b)`` of shapes ``(dim, units)`` and ``(units,)``.

    Raises
    ------
    ValueError
        if a size is no integer >= 1, or there are fewer units than dimensions.

    Examples
    --------
    >>> W, b = general_position(4, 2)
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(10_000, 2))
    >>> len(np.unique(x @ W + b > 0, axis=0))
    11
    """
    units, dim = checks.integer("units", units), checks.integer("dim", dim)
    if units < dim:
        raise ValueError(f"units={units} is below dim={dim}: give at least as many")
    if units == dim:
        return np.eye(dim), np.zeros(units)
    # Odd numbers over 2 * units: never 0, within (-1, 1).
    nodes = (4 * np.arange(units) + 3 - 2 * units) / (2 * units)
    largest = np.sort(np.abs(nodes))[-dim:]
    # No vertex has a coefficient beyond those of the polynomial with the largest roots, all of
    # one sign: in these units all vertices lie in a cube of 0.8, and each region has a vertex.
    reach = 1.25 * np.abs(np.poly(-largest))[:0:-1]
    sign = np.where(np.arange(units) % 2 == (units - 1) % 2, 1.0, -1.0)
    powers = nodes[None, :] ** np.arange(dim)[:, None]
    return sign * reach[:, None] * powers, sign * nodes**dim


@explained
def consecutive(units: int) -> Layer:
    """Return a layer on R^2 where each group of consecutive units is the active set of a region.

    Pascanu et al. 2013, Proposition 4, with lines tangent to a parabola: unit t has pre-activation
    ``x_1 t + x_2 - t^2``, t = 0, 1, ..., units - 1. At ``x = (a + b, -a b)`` that is
    ``(t - a)(b - t)``: exactly the units between a and b are active. In general position.

    Returns ``(W, b)`` of shapes ``(2, units)`` and ``(units,)``. Raises ValueError if `units` is no
    integer >= 1.

    Examples
    --------
    >>> W, b = consecutive(6)
    >>> first, last = 1.5, 4.5
    >>> (np.array([first + last, -first * last]) @ W + b > 0).tolist()
    [False, False, True, True, True, False]
    """
    t = np.arange(checks.integer("units", units), dtype=np.float64)
    return np.stack([t, np.ones_like(t)]), -t * t


class Grouped(NamedTuple):
    """A layer on the cube with p boxes that it and its readout map onto the cube.

    Box i is ``centre[i] + stretch[i] * cube`` (``(p, n_in)`` both; stretches may be negative).
    """

    layer: Layer
    readout: Layer
    centre: Array
    stretch: Array


def grouped(n: int, width: int) -> Grouped:
    """Return a layer with disjoint groups of n consecutive units, each the active set of a region.

    ``consecutive``, tilted so that each group has full rank n. Raises ValueError for n = 1, where
    no unit is active alone between two others, and for a width below n.
    """
    if n < 2 or width < n:
        raise ValueError(f"n={n}, width={width}: give n >= 2 and a width of at least n")
    p = width // n
    # The point where a group's lines meet and the point `at` in its region must differ in every
    # coordinate: the nodes are chosen so that the difference that depends on them is not near 0.
    left, right = 0.25, 0.75
    slope = n - 2 + right - left
    t = np.arange(width) - width // 2 + left * (n - 1 + right) / slope + 0.5
    V = np.zeros((n, width))
    V[0], V[1], d = t, 1.0, -t * t
    starts = n * np.arange(p)
    for row in range(2, n):  # the tilt: coordinate `row` moves one unit of each group
        V[row, starts + row] = 1.0
    a, b = t[starts] - left, t[starts + n - 1] + right
    at = np.zeros((p, n))
    at[:, 0], at[:, 1] = a + b, -a * b
    members = starts[:, None] + np.arange(n)
    blocks = V[:, members].transpose(1, 0, 2)  # (p, n, n), one column for each unit
    corner = -np.linalg.solve(blocks.transpose(0, 2, 1), d[members][..., None])[..., 0]
    arm = at - corner
    # Shrunk by `ratio`, box i meets no hyperplane of the layer.
    ratio = np.max(np.abs(arm) @ np.abs(V) / np.abs(at @ V + d)) / 0.9
    box = np.abs(arm) / ratio
    low, high = (at - box).min(axis=0), (at + box).max(axis=0)
    middle, reach = (low + high) / 2, (high - low) / 2
    # x = corner + h_group @ inverse; y = (corner - x) ratio / arm + ratio vanishes at x = at and
    # is -1 or 1 where x is on the surface of the box.
    U = np.zeros((width, n))
    U[members] = -np.linalg.inv(blocks) * (ratio / arm)[:, None, :]
    layer = reach[:, None] * V, d + middle @ V
    return Grouped(layer, (U, np.full(n, ratio)), (at - middle) / reach, -arm / ratio / reach)


def absorbed(layers: list[Layer], readouts: list[Layer]) -> tuple[Layer, ...]:
    """Layers on the coordinates y, each readout ``y = z @ U + c`` merged into the next layer."""
    params = [layers[0]]
    for (V, d), (U, c) in zip(layers[1:], readouts, strict=True):
        params.append((U @ V, c @ V + d))
    return tuple((W.copy(), b.copy()) for W, b in params)


def arrangement_regions(units: int, dim: int) -> int:
    """Number of regions of hyperplanes in general position."""
    return sum(math.comb(units, i) for i in range(dim + 1))


def wide_sizes(n_in: int, widths: Iterable[int]) -> tuple[int, tuple[int, ...]]:
    """Return checked sizes of a network with at least as many units as inputs in every layer."""
    n_in, sizes = checks.network_sizes(n_in, widths)
    for i, n in enumerate(sizes):
        if n < n_in:
            raise ValueError(
                f"widths[{i}]={n} is below n_in={n_in}: give at least as many units as inputs"
            )
    return n_in, sizes
