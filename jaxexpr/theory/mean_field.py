"""Infinitely wide layers: lengths, correlations, their fixed points, and the edge of chaos.

In the limit of wide layers pre-activations are Gaussian, and a network is a map of their second
moments (Poole et al. 2016, Schoenholz et al. 2017). Weights ``N(0, sigma_w^2 / fan_in)``, biases
``N(0, sigma_b^2)``; q is the variance of a pre-activation, c the correlation for two inputs:

    q' = sigma_w^2 E phi(h)^2 + sigma_b^2              h = sqrt(q) N(0, 1)
    q12' = sigma_w^2 E phi(h1) phi(h2) + sigma_b^2     Cov = [[q1, q12], [q12, q2]]
    chi_1 = sigma_w^2 E phi'(h)^2                      squared growth of a small distance

If ``chi_1 < 1`` at the fixed point inputs converge (order), if ``chi_1 > 1`` they diverge (chaos).
The means are closed forms for homogeneous activations such as ReLU and for erf, sums of normal
integrals for other piecewise linear activations, and quadrature for tanh. All arguments broadcast.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation, get
from jaxexpr.theory import gaussian_integrals
from jaxexpr.theory.layered import LayeredNetwork, refuse_others

Array = np.ndarray
SMALL = 1e-13


@explained
def length_map(
    q: ArrayLike, sigma_w: ArrayLike, sigma_b: ArrayLike, activation: str | Activation
) -> Array:
    """Variance of a pre-activation in the next layer, ``sigma_w^2 E phi(h)^2 + sigma_b^2``.

    Parameters
    ----------
    q : variance in this layer; that of the first is ``sigma_w^2 |x|^2 / n_in + sigma_b^2``.
    sigma_w, sigma_b : scales of weights (before the division by ``sqrt(fan_in)``) and biases.

    Raises
    ------
    ValueError
        for negative arguments and an unknown activation.

    Examples
    --------
    >>> float(length_map(2.0, 2**0.5, 0.0, "relu").round(12))
    2.0
    """
    q, w, b = _numbers(q=q, sigma_w=sigma_w, sigma_b=sigma_b)
    return np.asarray(w**2 * gaussian_integrals.mean_square(get(activation), q) + b**2)


@explained
def covariance_map(
    q1: ArrayLike,
    q2: ArrayLike,
    q12: ArrayLike,
    sigma_w: ArrayLike,
    sigma_b: ArrayLike,
    activation: str | Activation,
) -> Array:
    """Covariance of two inputs' pre-activations in the next layer.

    Parameters
    ----------
    q1, q2, q12 : variances and covariance in this layer, ``|q12| <= sqrt(q1 q2)``.
    sigma_w, sigma_b, activation : as for ``length_map``.

    Raises
    ------
    ValueError
        for negative variances or scales, and a covariance beyond ``sqrt(q1 q2)``.

    Examples
    --------
    >>> float(covariance_map(1.0, 1.0, 0.0, 1.0, 0.0, "relu").round(6))  # 1 / (2 pi)
    0.159155
    """
    q1, q2, w, b = _numbers(q1=q1, q2=q2, sigma_w=sigma_w, sigma_b=sigma_b)
    size = np.sqrt(q1 * q2)
    q12 = np.asarray(checks.numeric("q12", q12), np.float64)
    if np.any(np.abs(q12) > size * (1 + 1e-12)):
        raise ValueError(f"q12={checks.shown(q12)} is beyond sqrt(q1 q2): give a covariance")
    c = np.clip(q12 / np.where(size > 0, size, 1.0), -1, 1)
    return np.asarray(w**2 * gaussian_integrals.product(get(activation), q1, q2, c) + b**2)


@explained
def correlation_map(
    c: ArrayLike, q: ArrayLike, sigma_w: ArrayLike, sigma_b: ArrayLike, activation: str | Activation
) -> Array:
    """Correlation of two inputs of equal length in the next layer, with variance q in this one.

    Raises
    ------
    ValueError
        for negative arguments, and a correlation outside [-1, 1].

    Examples
    --------
    >>> float(correlation_map(1.0, 3.0, 1.5, 0.1, "tanh"))
    1.0
    """
    (q,) = _numbers(q=q)
    c = np.asarray(checks.numeric("c", c), np.float64)
    if np.any(np.abs(c) > 1):
        raise ValueError(f"c={checks.shown(c)} is not a correlation: give numbers in [-1, 1]")
    length = length_map(q, sigma_w, sigma_b, activation)
    covariance = covariance_map(q, q, c * q, sigma_w, sigma_b, activation)
    return np.where(length > 0, covariance / np.where(length > 0, length, 1.0), c)


@explained
def chi_1(q: ArrayLike, sigma_w: ArrayLike, activation: str | Activation) -> Array:
    """Squared growth of a small distance in one layer, ``sigma_w^2 E phi'(h)^2``.

    Raises
    ------
    ValueError
        for negative arguments.

    Examples
    --------
    >>> float(chi_1(3.0, 2.0, "relu"))  # sigma_w^2 / 2
    2.0
    """
    q, w = _numbers(q=q, sigma_w=sigma_w)
    return np.asarray(w**2 * gaussian_integrals.slope_square(get(activation), q))


@explained
def curvature_map(
    kappa_squared: ArrayLike, q: ArrayLike, sigma_w: ArrayLike, activation: str | Activation
) -> Array:
    """Squared extrinsic curvature of a curve's image: ``3 chi_2 / chi_1^2 + kappa^2 / chi_1``.

    Poole et al. 2016, ``chi_2 = sigma_w^2 E phi''(h)^2``; at the fixed point of the length map, and
    multiplied by the width, as all squared lengths in this module.

    Raises
    ------
    ValueError
        for negative arguments, and piecewise linear activations, whose images have corners.

    Examples
    --------
    >>> float(curvature_map(1.0, 1.0, 1.0, "erf").round(4))
    5.9711
    """
    phi = get(activation)
    if phi.piecewise_linear:
        raise ValueError(
            f"activation={phi.name!r} is piecewise linear: its images have corners and no "
            "curvature; use tanh or erf"
        )
    kappa, q, w = _numbers(kappa_squared=kappa_squared, q=q, sigma_w=sigma_w)
    chi = chi_1(q, w, phi)
    return np.asarray(3 * w**2 * gaussian_integrals.bend_square(phi, q) / chi**2 + kappa / chi)


@explained
def fixed_length(sigma_w: ArrayLike, sigma_b: ArrayLike, activation: str | Activation) -> Array:
    """Variance q* to which the length map converges from above; inf where it grows without bound.

    Raises
    ------
    ValueError
        for negative arguments.

    Examples
    --------
    >>> float(fixed_length(1.0, 1.0, "relu").round(9))  # sigma_b^2 / (1 - sigma_w^2 / 2)
    2.0
    """
    w, b = np.broadcast_arrays(*_numbers(sigma_w=sigma_w, sigma_b=sigma_b))
    phi = get(activation)
    if phi.homogeneous:
        rate = w**2 * gaussian_integrals.mean_square(phi, np.ones(()))
        rate = np.where(np.abs(rate - 1) < SMALL, 1.0, rate)  # sqrt(2)^2 is not 2
        with np.errstate(divide="ignore", invalid="ignore"):
            q = np.where(rate < 1, b**2 / (1 - rate), np.inf)
        return np.where((rate <= 1) & (b == 0), np.where(rate == 1, 1.0, 0.0), q)
    # q'(q) is concave for bounded activations: from above the map decreases to the fixed point.
    return _map_over(lambda w, b: _fixed_point(phi, w, b), w, b)


def _fixed_point(phi: Activation, w: float, b: float) -> float:
    from scipy.optimize import brentq

    def excess(q: float) -> float:
        return float(length_map(q, w, b, phi)) - q

    high = 1.0
    while excess(high) > 0:
        high *= 2
        if high > 1e12:
            return float("inf")
    low = high
    while excess(low) <= 0:
        low /= 2
        if low < 1e-24:
            return 0.0
    return float(brentq(excess, low, 2 * low if low < high else high, xtol=1e-15, rtol=1e-14))


@explained
def fixed_correlation(
    sigma_w: ArrayLike, sigma_b: ArrayLike, activation: str | Activation
) -> Array:
    """Correlation c* to which that of two different inputs converges at q*; 1 in the ordered phase.

    NaN where the lengths have no finite fixed point above 0.

    Raises
    ------
    ValueError
        for negative arguments.

    Examples
    --------
    >>> float(fixed_correlation(0.5, 0.3, "tanh"))
    1.0
    """
    w, b = np.broadcast_arrays(*_numbers(sigma_w=sigma_w, sigma_b=sigma_b))
    phi = get(activation)

    def fixed_point(w: float, b: float) -> float:
        from scipy.optimize import brentq

        q = float(fixed_length(w, b, phi))
        if not 0 < q < np.inf:
            return float("nan")
        if float(chi_1(q, w, phi)) <= 1:
            return 1.0

        def excess(c: float) -> float:
            return float(correlation_map(c, q, w, b, phi)) - c

        # Near 1 the map lies below the diagonal; c* is the largest crossing.
        gap = 0.5
        while excess(1 - gap) >= 0:
            gap /= 2
            if gap < SMALL:
                return 1.0
        # Odd maps (no biases) have an unstable fixed point at -1.
        low = -1.0 if excess(-1.0) > SMALL else gap - 1
        return float(brentq(excess, low, 1 - gap, xtol=1e-14))

    return _map_over(fixed_point, w, b)


@explained
def edge_of_chaos(sigma_b: ArrayLike, activation: str | Activation) -> Array:
    """Scale sigma_w at which ``chi_1 = 1`` at the fixed point: the boundary of order and chaos.

    Raises
    ------
    ValueError
        for negative arguments.

    Examples
    --------
    >>> [round(float(edge_of_chaos(s, "relu")), 6) for s in (0.0, 1.0)]  # sqrt(2), whatever sigma_b
    [1.414214, 1.414214]
    """
    (b,) = _numbers(sigma_b=sigma_b)
    phi = get(activation)
    if phi.homogeneous:
        slope = float(gaussian_integrals.slope_square(phi, np.ones(())))
        return np.full(b.shape, slope**-0.5)

    def critical(b: float) -> float:
        from scipy.optimize import brentq

        def excess(w: float) -> float:
            return float(chi_1(max(float(fixed_length(w, b, phi)), 1e-12), w, phi)) - 1

        high = 1.0
        while excess(high) <= 0:
            high *= 1.5
        return float(brentq(excess, 1e-3, high, xtol=1e-12))

    return _map_over(critical, b)


@explained
def mean_field_growth(net: LayeredNetwork, q0: float) -> Array:
    """Growth of a small distance in each layer of a wide network, ``sqrt(chi_1(q_l))``.

    q_l is iterated from the input, not taken at the fixed point. With unequal widths a factor
    carries ``sqrt(width / fan_in)``.

    Parameters
    ----------
    net : an ``MLP`` without a sweep; only the standard deviations of its laws are used.
    q0 : ``|x|^2 / n_in`` of the input.

    Returns
    -------
    ``(depth,)``.

    Raises
    ------
    ValueError
        for a sweep, a negative `q0`, and another object than a random network.

    Examples
    --------
    >>> from jaxexpr import MLP, laws
    >>> net = MLP((100,) * 3, laws.Gaussian(2.0), laws.Zero(), "relu")
    >>> mean_field_growth(net, 1.0).round(6).tolist()
    [1.414214, 1.414214]
    """
    factors = [
        np.sqrt(chi_1(q, w, net.activation) * width / fan_in)
        for q, w, fan_in, width in _layers(net, q0)
    ]
    return np.array(factors, np.float64)


@explained
def transitions_over_length(net: LayeredNetwork, q0: float) -> Array:
    """Transitions of each layer over the length of its image, in a wide network on a sphere.

    Along a curve of constant |x|, h and its derivative h' are independent in the
    mean field: a unit of variance q crosses the level c at the rate ``sqrt(v / q) exp(-c^2 / 2q) /
    pi``, v being the variance of h', and k units move at the speed ``sqrt(k v E[phi'(h)^2])``. So
    the ratio does not depend on v, that is on the curve.

    Parameters
    ----------
    net : a piecewise linear ``MLP`` without a sweep; only the standard deviations of its laws are
        used.
    q0 : ``|x|^2 / n_in`` of the input.

    Returns
    -------
    ``(depth,)``.

    Raises
    ------
    ValueError
        for a smooth activation, a sweep, and another object than a random network.

    Examples
    --------
    >>> from jaxexpr import MLP, laws
    >>> net = MLP((100,) * 3, laws.Gaussian(2.0), laws.Zero(), "relu")
    >>> transitions_over_length(net, 1.0).round(6).tolist()  # sqrt(2 k) / (pi sigma_w)
    [2.250791, 1.591549]
    """
    layers, phi = _layers(net, q0), net.activation
    if phi.breakpoints is None:
        raise ValueError(
            f"net has activation={phi.name!r}, which is smooth and has no transitions: use relu, "
            "leaky_relu, abs or hard_tanh"
        )
    ratios = []
    for q, _, _, width in layers:
        rate = sum(np.exp(-(level**2) / (2 * q)) for level in phi.breakpoints) / np.pi
        speed = np.sqrt(gaussian_integrals.slope_square(phi, np.asarray(q)))
        ratios.append(np.sqrt(width / q) * rate / speed)
    return np.array(ratios, np.float64)


def _layers(net: LayeredNetwork, q0: float) -> list[tuple[float, float, int, int]]:
    """Variance of the pre-activations, sigma_w, fan-in and width of each layer."""
    refuse_others(net)
    if net.sweep_shape:
        raise ValueError(f"net has a sweep of shape {net.sweep_shape}: give one cell at a time")
    moment, layers = float(checks.non_negative("q0", q0)), []
    for i, (fan_in, width) in enumerate(zip(net.widths, net.widths[1:], strict=False)):
        w, b = (float(law.std) for law in (net.layer(i).weights, net.layer(i).biases))
        q = w**2 * moment + b**2
        layers.append((q, w, fan_in, width))
        moment = float(gaussian_integrals.mean_square(net.activation, np.asarray(q)))
    return layers


def _numbers(**values: ArrayLike) -> list[Array]:
    return [np.asarray(checks.non_negative(k, v), np.float64) for k, v in values.items()]


def _map_over(function: Callable[..., float], *arrays: Array) -> Array:
    rows = zip(*(a.flat for a in arrays), strict=True)
    values = [function(*(float(x) for x in row)) for row in rows]
    return np.array(values, np.float64).reshape(arrays[0].shape)
