"""Growth of trajectory length: bounds and exact laws.

Every function returns the factor of one layer on the length of a curve's image, as NumPy float64;
the numbers in a law may be arrays, which broadcast. Weights are
divided by ``sqrt(fan_in)`` (as everywhere in the package); ``fan_in=None`` means
``fan_in = width``, otherwise a factor carries ``sqrt(width / fan_in)``. ``composed`` multiplies
factors over layers.

=====================  ================================  ==========================
function               about                             holds for
=====================  ================================  ==========================
price_tanner_lower     E[length], from below             ReLU, even weights, biases
price_tanner_sharp     the same, never smaller           the same
second_moment_upper    E[length], from above;            the same
                       exact root of E[ratio^2]
gaussian_growth        E[length] and E[ratio], exact     ReLU, dense Gaussian
gaussian_log_growth    E[log ratio], exact               ReLU, dense Gaussian
lipschitz_upper        E[length], from above             1-Lipschitz, dense Gaussian
raghu_lower            E[length] beside a constant,      ReLU and hard-tanh,
                       from below                        dense Gaussian
raghu_sharp            the same, never smaller           the same
raghu_rate             an order of growth, not a bound   the same
turning_share          the constant beside raghu_lower   any curve
=====================  ================================  ==========================

"Ratio" is ``|dz_{d+1}| / |dz_d|`` at a point. An upper bound on E[ratio^2] bounds E[ratio] and,
composed, E[length], by Jensen's inequality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr import laws
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation, get
from jaxexpr.curves import Curve
from jaxexpr.theory.layered import LayeredNetwork, refuse_others

Array = np.ndarray


def _sizes(width: int, fan_in: int | None) -> tuple[int, int]:
    width = checks.integer("width", width)
    return width, width if fan_in is None else checks.integer("fan_in", fan_in)


def _law(weights: laws.Law) -> laws.Law:
    return laws.as_float64(laws.as_law("weights", weights))


@explained
def mean_chi(dof: ArrayLike) -> Array:
    """Mean of a chi variable, ``sqrt 2 Gamma((j+1)/2) / Gamma(j/2)``; 0 for j = 0.

    Raises
    ------
    ValueError
        if `dof` is negative.

    Examples
    --------
    >>> round(float(mean_chi(1)), 6)  # sqrt(2/pi)
    0.797885
    """
    from scipy.special import gammaln

    j = np.asarray(checks.non_negative("dof", dof), np.float64)
    positive = np.maximum(j, 1e-300)
    value = np.sqrt(2.0) * np.exp(gammaln((positive + 1) / 2) - gammaln(positive / 2))
    return np.where(j > 0, value, 0.0)


def _binomial(trials: int, p: ArrayLike) -> tuple[Array, Array]:
    """Support ``(trials + 1,)`` and probabilities ``p.shape + (trials + 1,)``."""
    from scipy.special import gammaln, xlog1py, xlogy

    j = np.arange(trials + 1.0)
    p = np.asarray(p, np.float64)[..., None]
    choose = gammaln(trials + 1.0) - gammaln(j + 1) - gammaln(trials - j + 1)
    return j, np.exp(choose + xlogy(j, p) + xlog1py(trials - j, -p))


@explained
def price_tanner_lower(weights: laws.Law, width: int, fan_in: int | None = None) -> Array:
    """Lower bound of Price & Tanner 2019 (Theorem 2): ``alpha M sqrt(width / fan_in) / 2``.

    ``E length(z_d) >= prod_l factor_l * length(x)`` for ReLU networks with iid even weights
    ``alpha P + (1 - alpha) delta_0`` and independent even biases (zero is allowed), whatever the
    curve; M is ``linear_constant`` of P.

    Parameters
    ----------
    weights : a law, before the division by ``sqrt(fan_in)``.
    width : units of the layer.
    fan_in : number of inputs of a unit; by default `width`.

    Raises
    ------
    ValueError
        if `weights` is no law or a size is no positive integer.

    Examples
    --------
    >>> float(price_tanner_lower(laws.Sparse(laws.Gaussian(2.0), 0.5), 784).round(6))
    0.398942
    """
    width, fan_in = _sizes(width, fan_in)
    return np.asarray(_law(weights).linear_constant * np.sqrt(width / fan_in) / 2)


@explained
def price_tanner_sharp(weights: laws.Law, width: int, fan_in: int | None = None) -> Array:
    """Bound of ``price_tanner_lower`` with an exact mean: ``alpha M E sqrt(A) / sqrt(fan_in)``.

    A ~ Binomial(width, 1/2) counts the active units; the paper uses ``sqrt A >= A / sqrt width``,
    which loses a factor that tends to sqrt 2. The assumptions are the same; never smaller.

    Raises
    ------
    ValueError
        as for ``price_tanner_lower``.
    """
    width, fan_in = _sizes(width, fan_in)
    active, probability = _binomial(width, 0.5)
    mean = np.sum(np.sqrt(active) * probability)
    return np.asarray(_law(weights).linear_constant * mean / np.sqrt(fan_in))


@explained
def second_moment_upper(weights: laws.Law, width: int, fan_in: int | None = None) -> Array:
    """``std(weights) sqrt(width / (2 fan_in))``: root of the exact mean of ``ratio^2``.

    For ReLU, every even law of weights and of biases and every sparsity,
    ``E |dz_d|^2 = prod_l factor_l^2 |dx|^2`` exactly: given the layer below, the pair
    (increment, pre-activation) of a unit is even, so the activation halves the mean square
    increment. By Jensen's inequality this is an upper bound on the mean length.

    Raises
    ------
    ValueError
        as for ``price_tanner_lower``.

    Examples
    --------
    >>> float(second_moment_upper(laws.Gaussian(2.0), 784).round(6))
    1.414214
    """
    width, fan_in = _sizes(width, fan_in)
    return np.asarray(_law(weights).std * np.sqrt(width / (2 * fan_in)))


@explained
def gaussian_growth(sigma: ArrayLike, width: int, fan_in: int | None = None) -> Array:
    """Exact mean growth of a ReLU layer with dense Gaussian weights and any even biases.

    ``sigma sum_j Binomial(width, 1/2)(j) E chi_j / sqrt(fan_in)``. The ratios of successive
    layers are independent, so the product over layers is the exact ``E length(z_d) / length(x)``.

    Raises
    ------
    ValueError
        if `sigma` is negative or a size is no integer >= 1.

    Examples
    --------
    >>> float(gaussian_growth(1.0, 32).round(10))
    0.693169984
    """
    width, fan_in = _sizes(width, fan_in)
    active, probability = _binomial(width, 0.5)
    mean = np.sum(mean_chi(active) * probability)
    return np.asarray(_sigma("sigma", sigma) * mean / np.sqrt(fan_in))


@explained
def gaussian_log_growth(sigma: ArrayLike, width: int, fan_in: int | None = None) -> Array:
    """Exact mean of ``log ratio`` given that the ratio is not 0; assumptions of gaussian_growth.

    ``log(sigma / sqrt(fan_in)) + E[(psi(A/2) + log 2) / 2 | A > 0]``, A ~ Binomial(width, 1/2).

    Raises
    ------
    ValueError
        as for ``gaussian_growth``.
    """
    from scipy.special import digamma

    width, fan_in = _sizes(width, fan_in)
    active, probability = _binomial(width, 0.5)
    logs = (digamma(active[1:] / 2) + np.log(2.0)) / 2
    mean = np.sum(logs * probability[1:]) / np.sum(probability[1:])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(_sigma("sigma", sigma) / np.sqrt(fan_in)) + mean)


@explained
def lipschitz_upper(sigma: ArrayLike, width: int, fan_in: int | None = None) -> Array:
    """``sigma E chi_width / sqrt(fan_in)``: upper bound for every 1-Lipschitz activation.

    The mean growth from post-activations to pre-activations under dense Gaussian weights, exact
    (Raghu et al. 2017 bound it by ``sigma sqrt((k + 1) / k)``). Exact for abs and linear.

    Raises
    ------
    ValueError
        as for ``gaussian_growth``.
    """
    width, fan_in = _sizes(width, fan_in)
    return np.asarray(_sigma("sigma", sigma) * mean_chi(width) / np.sqrt(fan_in))


@explained
def linear_probability(
    sigma_w: ArrayLike, sigma_b: ArrayLike, activation: str | Activation
) -> Array:
    """Lower bound on the probability that a unit is in its linear part, as in Raghu et al. 2017.

    1/2 for ReLU. For hard-tanh ``erf(1 / sqrt(2 (sigma_w^2 + sigma_b^2)))``: after the first
    layer ``|z|^2 <= fan_in``; in the first it is a condition on the input, ``|x|^2 <= fan_in``.

    Raises
    ------
    ValueError
        for any other activation, and for negative scales or ones that do not broadcast.
    """
    from scipy.special import erf

    sigma_w, sigma_b = _sigmas(sigma_w, sigma_b)
    name = checks.one_of("activation", get(activation).name, ("relu", "hard_tanh"))
    scale = np.sqrt(2 * (sigma_w**2 + sigma_b**2))
    if name == "relu":
        return np.full(scale.shape, 0.5)
    with np.errstate(divide="ignore"):
        return np.asarray(erf(1 / scale))


@explained
def raghu_lower(
    sigma_w: ArrayLike,
    sigma_b: ArrayLike,
    width: int,
    activation: str | Activation,
    fan_in: int | None = None,
) -> Array:
    """Lower bound of Raghu et al. 2017 (Theorem 3) with the constants of its proof.

    ``1/2 (s p / sqrt(1 + (k-1) p) - s p (1-p)^(k-1))`` with ``s = sigma_w sqrt(k) sqrt(k/fan_in)``
    and p from ``linear_probability``. The bound is on the length after all layers: with
    ``c = (integral of |dx_perp|) / length(x)``, dx_perp the component of the derivative orthogonal
    to x(t), ``E length(z_d) >= c prod_l factor_l length(x)``. It does not bound the ratio of two
    successive lengths. Dense Gaussian weights, Gaussian biases, ReLU or hard-tanh; for hard-tanh
    the input must satisfy ``|x|^2 <= fan_in``.

    Raises
    ------
    ValueError
        if a size or scale is invalid, or `activation` is another one.

    Examples
    --------
    >>> float(raghu_lower(2.0, 0.0, 32, "hard_tanh").round(3))
    0.604
    """
    width, fan_in = _sizes(width, fan_in)
    p = linear_probability(sigma_w, sigma_b, activation)
    scale = _sigma("sigma_w", sigma_w) * np.sqrt(width) * np.sqrt(width / fan_in)
    first = p / np.sqrt(1 + (width - 1) * p)
    return np.asarray(np.maximum(scale * (first - p * (1 - p) ** (width - 1)) / 2, 0.0))


@explained
def raghu_sharp(
    sigma_w: ArrayLike,
    sigma_b: ArrayLike,
    width: int,
    activation: str | Activation,
    fan_in: int | None = None,
) -> Array:
    """Sharper ``raghu_lower``: ``sigma_w E chi_max(A-1, 0) / sqrt(fan_in)``, A ~ Binomial(k, p).

    Raises
    ------
    ValueError
        as for ``raghu_lower``.

    Examples
    --------
    >>> float(raghu_sharp(2.0, 0.0, 32, "hard_tanh").round(3))
    1.15
    """
    width, fan_in = _sizes(width, fan_in)
    linear, probability = _binomial(width, linear_probability(sigma_w, sigma_b, activation))
    mean = np.sum(mean_chi(np.maximum(linear - 1, 0)) * probability, axis=-1)
    return np.asarray(_sigma("sigma_w", sigma_w) * mean / np.sqrt(fan_in))


@explained
def turning_share(curve: Curve) -> float:
    """The share of a curve's length that is orthogonal to the position, by 4000 tangents.

    The constant of Raghu et al. 2017, Theorem 3: their bound is on the component orthogonal to the
    position, so E[length of layer d] is at least ``turning_share * length`` times the product of
    ``raghu_lower``. 1 on a circle around 0, 0 on a ray from it.

    Raises
    ------
    ValueError
        if `curve` is no curve, an infinite line, or a curve through 0.

    Examples
    --------
    >>> from jaxexpr import curves
    >>> turning_share(curves.circle([1.0, 0.0], [0.0, 1.0]))
    1.0
    """
    if not isinstance(curve, Curve) or curve.whole:
        raise ValueError(f"curve={checks.shown(curve)}: give a curve of finite length")
    x, dx = curve.midpoints()
    radius = np.linalg.norm(x, axis=1)
    if not radius.all():
        raise ValueError("curve goes through 0, where no direction is at right angles to the point")
    speed = np.linalg.norm(dx, axis=1)
    orthogonal = np.sqrt(np.maximum(speed**2 - (np.sum(x * dx, axis=1) / radius) ** 2, 0))
    return float(orthogonal.sum() / speed.sum())


@explained
def raghu_rate(
    sigma_w: ArrayLike, sigma_b: ArrayLike, width: int, activation: str | Activation
) -> Array:
    """Order of growth printed in Raghu et al. 2017, Theorem 3: a rate to plot, never a bound.

    ReLU ``sigma_w sqrt k / sqrt(k + 1)``; hard-tanh
    ``sigma_w / s^(1/2) sqrt k / sqrt(s + k)`` with ``s = sqrt(sigma_w^2 + sigma_b^2)``. As a
    bound it fails: k = 32, hard-tanh, sigma_w = 2 gives 1.37, and 1.20 to 1.31 is measured.

    Raises
    ------
    ValueError
        if a size or scale is invalid, or `activation` is another one.

    Examples
    --------
    >>> float(raghu_rate(2.0, 0.0, 32, "hard_tanh").round(2))
    1.37
    """
    width, _ = _sizes(width, None)
    sigma_w, sigma_b = _sigmas(sigma_w, sigma_b)
    name = checks.one_of("activation", get(activation).name, ("relu", "hard_tanh"))
    if name == "relu":
        return np.asarray(sigma_w * np.sqrt(width / (width + 1)) + 0 * sigma_b)
    s = np.sqrt(sigma_w**2 + sigma_b**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = sigma_w / np.sqrt(s) * np.sqrt(width / (s + width))
    return np.asarray(np.where(s > 0, rate, 0.0))


@explained
def composed(factors: Iterable[ArrayLike] | ArrayLike, depth: int | None = None) -> Array:
    """Products of the factors of layers 1 to d, for d = 1, 2, ..., on a new last axis.

    Parameters
    ----------
    factors : one factor for each layer, or, with `depth`, the same factor for all; each may be an
        array over a sweep.
    depth : number of layers with the same factor.

    Returns
    -------
    ``sweep + (depth,)``.

    Raises
    ------
    ValueError
        if there are no factors, or one number without `depth`.

    Examples
    --------
    >>> composed(2.0, 3).tolist()
    [2.0, 4.0, 8.0]
    """
    factor_of_layer: Iterable[Any]
    if depth is not None:
        factor_of_layer = [factors] * checks.integer("depth", depth)
    elif np.iterable(factors):
        factor_of_layer = factors
    else:
        raise ValueError(f"factors={checks.shown(factors)} is one number: give its depth as well")
    numbers = [checks.numeric("factors", factor) for factor in factor_of_layer]
    if not numbers:
        raise ValueError("factors=[] is empty: give at least one")
    arrays = np.broadcast_arrays(*(np.asarray(number, np.float64) for number in numbers))
    return np.cumprod(np.stack(arrays, axis=-1), axis=-1)


@explained
def per_layer(factor: Callable[..., Array], net: LayeredNetwork) -> Array:
    """Return ``factor(weights, width, fan_in)`` of every layer of a network.

    Parameters
    ----------
    factor : ``price_tanner_lower``, ``price_tanner_sharp``, ``second_moment_upper`` or your own.
    net : an ``MLP``; laws and widths may differ from layer to layer. Or a ``ConvNet``, for
        ``second_moment_upper``: the width of a convolution is its number of outputs times the
        largest number of windows that cover an entry of its input; the factor of a pool is its
        Lipschitz constant.

    Returns
    -------
    ``sweep + (depth,)``, the shape of an estimate, for ``verdict`` or ``np.cumprod``.

    Raises
    ------
    ValueError
        if `net` is no network, `factor` is not callable, or `factor` is a function of this module,
        which are for ReLU, and the network has another activation.
    """
    refuse_others(net)
    if not callable(factor):
        raise ValueError(
            f"factor={checks.shown(factor)}: give a function of weights, width and fan_in, such as "
            "theory.price_tanner_lower"
        )
    of_relu = factor in (price_tanner_lower, price_tanner_sharp, second_moment_upper)
    if of_relu and net.activation.name != "relu":
        raise ValueError(
            f"net.activation={net.activation.name!r} and {factor.__name__} is of relu: give a "
            "factor of your own, of lipschitz_upper for example"
        )
    factors = []
    for i, op in enumerate(net.ops):
        if hasattr(op, "fan_in"):
            width = op.outputs * op.coverage
            factors.append(factor(net.layer(i).weights, width, op.fan_in))
        else:
            factors.append(np.asarray(op.lipschitz))
    return np.stack(np.broadcast_arrays(*factors), axis=-1)


@explained
def critical_sigma(
    density: ArrayLike,
    width: int,
    fan_in: int | None = None,
    *,
    law: laws.Law | None = None,
    factor: Callable[..., Array] = second_moment_upper,
) -> Array:
    """Standard deviation sigma_w of the non-zero weights at which `factor` is 1.

    Parameters
    ----------
    density : share of weights that are not 0; may be an array.
    width, fan_in : as for ``price_tanner_lower``.
    law : the law of non-zero weights, of any scale (Gaussian by default).
    factor : ``second_moment_upper`` (growth in mean square is 1), ``price_tanner_lower`` or
        ``price_tanner_sharp`` (above it growth is proven).

    Raises
    ------
    ValueError
        if `density` is outside [0, 1], or `law` is no law or always 0.

    Examples
    --------
    >>> float(critical_sigma(0.5, 784).round(12))  # growth 1 at sigma_w = 2, density 1/2
    2.0
    """
    law = _spread_law(law)
    density = np.asarray(checks.fraction("density", density), np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(law.std / factor(laws.Sparse(law, density), width, fan_in))


@explained
def critical_density(
    sigma_w: ArrayLike,
    width: int,
    fan_in: int | None = None,
    *,
    law: laws.Law | None = None,
    factor: Callable[..., Array] = second_moment_upper,
) -> Array:
    """Density at which `factor` is 1 for weights of standard deviation `sigma_w`.

    NaN where the factor is below 1 even in a dense layer. Other arguments are those of
    ``critical_sigma``.

    Raises
    ------
    ValueError
        if `sigma_w` is negative, or `law` is no law or always 0.

    Examples
    --------
    >>> float(critical_density(2.0, 784).round(12))
    0.5
    """
    law = _spread_law(law)
    scale = _sigma("sigma_w", sigma_w) / law.std
    dense, thin = (scale * factor(laws.Sparse(law, a), width, fan_in) for a in (1.0, 0.25))
    # Every factor here is a power of the density: 1 for the lower bounds, 1/2 in mean square.
    with np.errstate(divide="ignore", invalid="ignore"):
        density = dense ** (-np.log(4.0) / np.log(dense / thin))
    return np.asarray(np.where(density <= 1 + 1e-12, np.minimum(density, 1.0), np.nan))


def _sigmas(sigma_w: ArrayLike, sigma_b: ArrayLike) -> tuple[Array, Array]:
    sigma_w, sigma_b = _sigma("sigma_w", sigma_w), _sigma("sigma_b", sigma_b)
    try:
        np.broadcast_shapes(sigma_w.shape, sigma_b.shape)
    except ValueError:
        raise ValueError(
            f"sigma_b has shape {sigma_b.shape} and sigma_w {sigma_w.shape}: give shapes that "
            "broadcast, such as sigma_w[:, None]"
        ) from None
    return sigma_w, sigma_b


def _spread_law(law: laws.Law | None) -> laws.Law:
    """Return the law of non-zero weights, Gaussian by default; raise ValueError if std is 0."""
    checked = laws.Gaussian(1.0) if law is None else _law(law)
    if np.any(np.asarray(checked.std) <= 0):
        raise ValueError(f"law={checks.shown(law)} is always 0: give a law with std > 0")
    return checked


def _sigma(name: str, value: ArrayLike) -> Array:
    return np.asarray(checks.non_negative(name, value), np.float64)
