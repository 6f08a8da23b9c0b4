"""Boundaries of regions at initialisation: bounds on their volume and on the distance to them.

Hanin & Rolnick 2019, Corollary 7 and Theorem 2, with explicit constants. For every piecewise linear
network whose biases are independent of the rest and have a density, and every point x:

- the boundary volume per volume is at most D, the sum of ``E|grad h| peak`` over all units and
  breakpoints, peak being the largest density of the bias (their Theorem 3);
- ``P(distance <= r) <= 2 r D``: the distance to the nearest boundary is the least
  ``|h_j - c| / |grad h_j|``, and given all else the bias of unit j lies in an interval of length
  ``2 r |grad h_j|`` with at most this probability. So the mean distance is at least ``1 / (4 D)``.

``E|grad h|`` is bounded by the root of the second moment, which is exact for ReLU, where half of
the units are active (Hanin 2018), and bounded by the Lipschitz constant otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from jaxexpr import laws
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.theory.layered import LayeredNetwork, refuse_others

Array = np.ndarray


@explained
def gradient_second_moment(net: LayeredNetwork) -> Array:
    """Mean square of a unit's gradient in the input, ``E|grad h|^2``, layer by layer.

    ``Var_1 (n_0) prod_m Var_m n_m / 2`` for ReLU with even weights and biases, exactly (Var of the
    scaled weights); for other activations an upper bound, with the square of the Lipschitz constant
    in place of 1/2. The bound only needs independent weights of mean 0.

    Parameters
    ----------
    net : an ``MLP``.

    Returns
    -------
    ``sweep + (depth,)``.

    Examples
    --------
    >>> from jaxexpr import MLP
    >>> net = MLP((784, 100, 100), laws.Gaussian(2**0.5), laws.Gaussian(1e-3))
    >>> gradient_second_moment(net).round(12).tolist()  # He weights: 2 in every layer
    [2.0, 2.0]
    """
    refuse_others(net)
    phi = net.activation
    share = 0.5 if phi.name == "relu" else phi.lipschitz**2
    squares = [
        np.asarray(laws.as_float64(net.layer(i).weights).std, np.float64) ** 2
        for i in range(net.depth)
    ]
    factors = [square * (share if i else 1.0) for i, square in enumerate(squares)]
    return np.cumprod(np.stack(np.broadcast_arrays(*factors), axis=-1), axis=-1)


@explained
def boundary_upper(net: LayeredNetwork) -> Array:
    """Upper bound on the mean boundary volume per unit of volume that each layer adds.

    ``T width peak sqrt(E|grad h|^2)`` with T breakpoints (Hanin & Rolnick 2019, Corollary 7, for
    codimension 1). On a segment it is the number of breakpoints per length.

    Parameters
    ----------
    net : a piecewise linear ``MLP``; every bias law has a density.

    Returns
    -------
    ``sweep + (depth,)``.

    Raises
    ------
    ValueError
        for a smooth activation, or biases without a density.

    Examples
    --------
    >>> from jaxexpr import MLP
    >>> net = MLP((1, 8), laws.Gaussian(1.0), laws.Gaussian(0.5))
    >>> boundary_upper(net).round(4).tolist()  # 8 / (0.5 sqrt(2 pi))
    [6.3831]
    """
    refuse_others(net)
    if net.activation.breakpoints is None:
        raise ValueError(
            f"net has activation={net.activation.name!r}, which is smooth and has no boundaries: "
            "use relu, leaky_relu, abs or hard_tanh"
        )
    peaks = []
    for index in range(net.depth):
        law = net.layer(index).biases
        if not law.has_pdf:
            raise ValueError(
                f"net has biases {checks.shown(law)} in layer {index + 1}, which have no density: "
                "use Gaussian or Uniform"
            )
        with np.errstate(divide="ignore"):
            peak = np.asarray(laws.as_float64(law).peak, np.float64)
        peaks.append(peak * net.widths[index + 1] * len(net.activation.breakpoints))
    return np.stack(np.broadcast_arrays(*peaks), axis=-1) * np.sqrt(gradient_second_moment(net))


@explained
def distance_lower(net: LayeredNetwork) -> Array:
    """Lower bound on the mean distance from any point to the nearest boundary.

    ``1 / (4 D)`` with D the sum of ``boundary_upper`` over the layers (Hanin & Rolnick 2019,
    Theorem 2: ``c / units``, here with its constant). Shape ``sweep``.

    Raises
    ------
    ValueError
        as ``boundary_upper``.

    Examples
    --------
    >>> from jaxexpr import MLP
    >>> net = MLP((1, 8), laws.Gaussian(1.0), laws.Gaussian(0.5))
    >>> float(distance_lower(net).round(4))
    0.0392
    """
    return 1 / (4 * boundary_upper(net).sum(axis=-1))


@explained
def good_probability(widths: Iterable[int]) -> Array:
    """Probability that a path of active units leads from a unit of each layer to the output.

    ``prod_{m > l} (1 - 2^-n_m)`` for dense ReLU networks with even continuous laws, the unit itself
    need not be active: all n units of a layer are inactive with probability ``2^-n``.

    Parameters
    ----------
    widths : ``(n_in, n_1, ..., n_d)``.

    Returns
    -------
    ``(d,)``.

    Raises
    ------
    ValueError
        if `widths` has fewer than two entries, or one is no integer >= 1.

    Examples
    --------
    >>> good_probability((1, 3, 2, 2)).tolist()
    [0.5625, 0.75, 1.0]
    """
    if not np.iterable(widths) or isinstance(widths, str) or len(list(widths)) < 2:
        raise ValueError(f"widths={checks.shown(widths)}: give (n_in, n_1, ..., n_d), d >= 1")
    sizes = [checks.integer(f"widths[{i}]", w) for i, w in enumerate(widths)]
    alive = np.array([1 - 0.5**n for n in sizes[2:]] + [1.0])
    return np.cumprod(alive[::-1])[::-1]
