"""Labellings of s points along a path of networks: bounds, and the random walk.

====================  ====================================================  ==================
function              about                                                 holds for
====================  ====================================================  ==================
flips_bound           ``min(2^s, flips + 1)``                               any labelling path
sauer_shelah          ``sum_{i <= vc} C(s, i)``                             classes of that VC
random_walk           E[vertices of the s-cube that a walk has visited]     independent flips
====================  ====================================================  ==================
"""

from __future__ import annotations

import functools
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained

Array = np.ndarray
MOST_POINTS = 62  # labels of so many points are packed in one integer


@explained
def flips_bound(points: int, flips: ArrayLike) -> Array:
    """Most labellings of `points` points on a path with `flips` label changes, one at a time.

    ``min(2^points, flips + 1)``; arrays of flips broadcast.

    Raises
    ------
    ValueError
        for more than 62 points and negative flips.

    Examples
    --------
    >>> flips_bound(3, [0, 4, 100]).tolist()
    [1.0, 5.0, 8.0]
    """
    points = _points(points)
    flips = np.asarray(checks.non_negative("flips", flips), np.float64)
    return np.minimum(2.0**points, flips + 1)


@explained
def sauer_shelah(points: int, vc: int) -> int:
    """Most labellings of `points` points by a class of VC dimension `vc`.

    ``sum_{i <= vc} C(points, i)`` (Sauer 1972, Shelah 1972): all ``2^points`` for vc >= points.

    Raises
    ------
    ValueError
        if `points` is no integer >= 1 or `vc` no integer >= 0.

    Examples
    --------
    >>> sauer_shelah(15, 2), sauer_shelah(3, 5)
    (121, 8)
    """
    points = checks.integer("points", points)
    vc = checks.integer("vc", vc, minimum=0)
    return sum(comb(points, i) for i in range(min(vc, points) + 1))


@explained
def random_walk(points: int, flips: ArrayLike) -> Array:
    """Expected number of labellings visited if each flip changes the label of a random point.

    A random walk on the vertices of the cube of dimension s = `points`, the reference in Raghu et
    al. 2017, figure 16. By symmetry of the vertices, the mean number of vertices
    visited in T steps is ``sum_{n <= T} q_n``, with q_n the probability that n steps do not return
    to their start. The generating function of q is ``1 / ((1 - z) G(z))``, that of the return
    probabilities ``G(z) = 2^-s sum_i C(s, i) / (1 - z (1 - 2 i / s))``; its poles are the zeros of
    a sum of simple fractions, one between any two eigenvalues of the walk, so that q_n and the mean
    are sums of s powers: exact for any number of flips.

    Parameters
    ----------
    points : s, from 1 to 62.
    flips : T >= 0; arrays broadcast. Between whole numbers (a mean number of flips) the mean is
        interpolated.

    Raises
    ------
    ValueError
        for more than 62 points and negative flips.

    Examples
    --------
    >>> random_walk(2, [0, 1, 2, 3]).round(12).tolist()  # the square: 1, 2, 2 + 1/2, ...
    [1.0, 2.0, 2.5, 3.0]
    """
    points = _points(points)
    flips = np.asarray(checks.non_negative("flips", flips), np.float64)
    whole = np.floor(flips)
    return (1 - flips + whole) * _walked(points, whole) + (flips - whole) * _walked(
        points, whole + 1
    )


def _walked(points: int, flips: Array) -> Array:
    """The mean for integer numbers of flips."""
    if points == 1:
        return np.minimum(flips, 1) + 1
    pole, below_one, weights = _powers(points)
    steps = flips[..., None]
    # Powers of the poles' sizes; those of negative ones with their sign.
    size = steps * np.log1p(-np.where(pole > 0, below_one, np.where(pole < 0, 1 + pole, 0.5)))
    lost = np.where(pole > 0, -np.expm1(size), 1 - np.where(steps % 2, -1, 1) * np.exp(size))
    lost = np.where(pole == 0, steps > 0, lost)
    return np.asarray(1 + np.sum(weights * lost / below_one, axis=-1))


@functools.cache
def _powers(points: int) -> tuple[Array, Array, Array]:
    """``q_n = sum_k weights_k pole_k^(n - 1)`` for n >= 1: poles, ``1 - pole``, and weights."""
    from scipy.optimize import brentq

    numbers = np.arange(points + 1)
    shares = np.array([comb(points, i) for i in numbers], np.float64) / 2.0**points
    powers = []
    for i in range(points):
        # The zero of sum_j shares_j / (w - eigenvalue_j) between eigenvalues i and i + 1, by its
        # distance from the nearer one: it may be far below the rounding of 1.
        def fractions(x: float, base: int, side: float) -> float:
            return float(np.sum(shares / (2 * (numbers - base) / points - side * x)))

        half = 1 / points
        base, side = (i, 1.0) if fractions(half, i, 1.0) > 0 else (i + 1, -1.0)
        least = half
        while side * fractions(least, base, side) > 0:
            least /= 2
        x = half if least == half else brentq(fractions, least, 2 * least, (base, side), 1e-300)
        differences = 2 * (numbers - base) / points - side * x
        below_one = 2 * base / points + side * x
        pole = 0.0 if points % 2 and i == points // 2 else 1 - below_one
        powers.append((pole, below_one, 1 / (below_one * np.sum(shares / differences**2))))
    pole, below_one, weights = np.array(powers).T
    return pole, below_one, weights


def _points(points: int) -> int:
    points = checks.integer("points", points)
    if points > MOST_POINTS:
        raise ValueError(
            f"points={points}: labels are coded in {MOST_POINTS} bits; give at most {MOST_POINTS} "
            "points"
        )
    return points
