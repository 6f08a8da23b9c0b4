"""Transitions of a layer: exact expectations in the first layer, and Raghu et al.'s rate.

A transition is a crossing of a breakpoint of the activation by a unit, along a curve through the
input. Weights ``N(0, sigma_w^2 / fan_in)``, biases ``N(0, sigma_b^2)``.

====================  ==============================================  ===================
function              about                                           holds for
====================  ==============================================  ===================
line_transitions      E[transitions] of the first layer on a segment  piecewise linear
circle_transitions    the same on an arc of a circle around 0         piecewise linear
raghu_transitions     their growth by a layer, not a bound            hard-tanh, saturated
====================  ==============================================  ===================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation, get

Array = np.ndarray


def _levels(activation: str | Activation) -> tuple[float, ...]:
    phi = get(activation)
    if phi.breakpoints is None:
        raise ValueError(
            f"activation={phi.name!r} is smooth and has no transitions: use relu, leaky_relu, abs "
            "or hard_tanh"
        )
    return phi.breakpoints


@explained
def line_transitions(
    x0: ArrayLike,
    x1: ArrayLike,
    sigma_w: ArrayLike,
    sigma_b: ArrayLike,
    width: int,
    activation: str | Activation = "relu",
) -> Array:
    """Expected transitions of the first layer on the segment from x0 to x1, exactly.

    A unit is affine along the segment, so it crosses a level c at most once: exactly if its values
    at the two ends, which are jointly Gaussian, lie on different sides of c. For c = 0 that has
    probability ``angle(u0, u1) / pi``, ``u = (sigma_w x / sqrt(n), sigma_b)``; for other levels it
    is an integral of one variable (Owen's T function).

    Parameters
    ----------
    x0, x1 : end points, ``(n,)``.
    sigma_w, sigma_b : scales of weights (before the division by ``sqrt(n)``) and biases; arrays
        broadcast.
    width : units of the layer.

    Raises
    ------
    ValueError
        for a smooth activation, negative scales, points of different spaces.

    Examples
    --------
    >>> round(float(line_transitions([1.0, 0], [0, 1.0], 1.0, 0.0, 10)), 12)  # 10 (pi/2) / pi
    5.0
    """
    from scipy import special

    ends = [np.asarray(checks.numeric(name, x), np.float64) for name, x in (("x0", x0), ("x1", x1))]
    if ends[0].ndim != 1 or ends[0].shape != ends[1].shape:
        raise ValueError(
            f"x0 and x1 have shapes {ends[0].shape} and {ends[1].shape}: give points (n,) of one "
            "space"
        )
    w = np.asarray(checks.non_negative("sigma_w", sigma_w), np.float64) ** 2 / ends[0].size
    b = np.asarray(checks.non_negative("sigma_b", sigma_b), np.float64) ** 2
    width = checks.integer("width", width)
    # Norms and angle of the two vectors u, by the half angle: accurate for near directions, too.
    norm0, norm1 = (np.sqrt(w * (x @ x) + b) for x in ends)
    both_nonzero = (norm0 > 0) & (norm1 > 0)
    a0, a1 = np.where(both_nonzero, norm0, 1.0), np.where(both_nonzero, norm1, 1.0)
    square = [
        sum(w * (p / a0 + sign * q / a1) ** 2 for p, q in zip(*ends, strict=True))
        + b * (1 / a0 + sign / a1) ** 2
        for sign in (-1, 1)
    ]
    angle = 2 * np.arctan2(np.sqrt(square[0]), np.sqrt(square[1]))
    levels = _levels(activation)
    total = sum(_crossing_probability(level, a0, a1, angle) for level in levels)
    # If all units are 0 at one end, they cross a level with the probability of one tail.
    size = np.maximum(norm0, norm1)
    size = np.where(size > 0, size, 1.0)
    tail = sum(special.erfc(abs(c) / (np.sqrt(2) * size)) / 2 for c in levels if c)
    from_zero = (norm0 > 0) ^ (norm1 > 0)
    return width * np.where(both_nonzero, total, np.where(from_zero, tail, 0.0))


def _crossing_probability(level: float, s0: Array, s1: Array, angle: Array) -> Array:
    """Probability that two zero-mean normals of this angle lie on different sides of `level`."""
    from scipy.special import owens_t

    if level == 0:
        return angle / np.pi
    # P(X < h, Y < k) = (Phi(h) + Phi(k)) / 2 - T(h, a) - T(k, a') for h k > 0 (Owen 1956), so
    # the two sides differ with probability 2 T(h, a) + 2 T(k, a').
    h, k = abs(level) / s0, abs(level) / s1
    sine, cosine = np.sin(angle), np.cos(angle)
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = (k - cosine * h) / (h * sine), (h - cosine * k) / (k * sine)
    alike = (sine == 0) & (h == k)
    first, second = (np.where(alike, np.tan(angle / 2), a) for a in (first, second))
    return np.asarray(2 * owens_t(h, first) + 2 * owens_t(k, second))


@explained
def circle_transitions(
    radius: ArrayLike,
    angle: ArrayLike,
    n_in: int,
    sigma_w: ArrayLike,
    sigma_b: ArrayLike,
    width: int,
    activation: str | Activation = "relu",
) -> Array:
    """Expected transitions of the first layer on an arc of a circle around the origin, exactly.

    With ``v = sigma_w^2 radius^2 / n_in`` and ``q = v + sigma_b^2`` each unit crosses level c
    ``angle / pi sqrt(v / q) exp(-c^2 / (2 q))`` times in the mean (Rice's formula; value and
    derivative are independent there).

    Parameters
    ----------
    radius, angle : radius and angle of the arc; the angle in radians.
    n_in : dimension of the input.
    sigma_w, sigma_b, width, activation : as for ``line_transitions``; arrays broadcast.

    Raises
    ------
    ValueError
        for a smooth activation, negative numbers, or sizes that are no integers >= 1.

    Examples
    --------
    >>> round(float(circle_transitions(1.0, np.pi / 2, 784, 2.0, 0.0, 100)), 12)
    50.0
    """
    radius = np.asarray(checks.non_negative("radius", radius), np.float64)
    angle = np.asarray(checks.non_negative("angle", angle), np.float64)
    n_in, width = checks.integer("n_in", n_in), checks.integer("width", width)
    v = np.asarray(checks.non_negative("sigma_w", sigma_w), np.float64) ** 2 * radius**2 / n_in
    q = v + np.asarray(checks.non_negative("sigma_b", sigma_b), np.float64) ** 2
    safe = np.where(q > 0, q, 1.0)
    each = sum(np.exp(-(c**2) / (2 * safe)) for c in _levels(activation))
    return np.where(q > 0, width * angle / np.pi * np.sqrt(v / safe) * each, 0.0)


@explained
def raghu_transitions(sigma_w: ArrayLike, sigma_b: ArrayLike, width: int) -> Array:
    """Growth of the number of transitions by one layer: Raghu et al. 2017, Theorem 4.

    ``k (1 - (2/pi) arctan(sqrt(k (1 + sigma_b^2 / sigma_w^2))))`` for hard-tanh networks in which
    all units are saturated except during transitions: an order of growth under that assumption,
    *not a bound*. Arrays broadcast.

    Raises
    ------
    ValueError
        for negative scales, or a width that is no integer >= 1.

    Examples
    --------
    >>> round(float(raghu_transitions(10.0, 0.0, 100)), 3)  # about (2/pi) sqrt(width)
    6.345
    """
    width = checks.integer("width", width)
    w = np.asarray(checks.non_negative("sigma_w", sigma_w), np.float64)
    b = np.asarray(checks.non_negative("sigma_b", sigma_b), np.float64)
    # 1 - (2/pi) arctan(x) = (2/pi) arctan(1/x), without its cancellation.
    return np.asarray(width * (2 / np.pi) * np.arctan2(w, np.sqrt(width) * np.hypot(w, b)))
