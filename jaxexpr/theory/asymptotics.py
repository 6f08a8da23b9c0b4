"""Counting bounds in the limit of wide layers, regions per parameter, and splits of a budget.

A *leading term* is what an exact bound of ``regions`` tends to in ratio as the width grows at
fixed depth and dimension. It is a number to compare rates with, not a bound: it may lie on
either side. All are exact ``Fraction``s, which never overflow; ``float(...)`` converts them.

==========================  ==============================================  ====================
function                    leading term                                    of
==========================  ==============================================  ====================
zaslavsky_leading           ``n^m / m!``                                    zaslavsky
raghu2017_leading           ``((T n)^m / m!)^d``                            the upper bounds
raghu2017_order             ``(T n)^(m d)``                                 the same, as printed
pascanu2013_leading         ``(n / n_0)^(d - 1) n^n_0 / n_0!``              pascanu2013_lower
montufar2014_leading        ``(n / n_0)^((d - 1) n_0) n^n_0 / n_0!``        montufar2014_lower
deep_density_leading        ``(n / n_0)^(d - 1) n^(n_0 - 2) / (n_0! (d-1))``  regions/parameter
shallow_density_leading     ``N^(n_0 - 1) / (n_0! (n_0 + n_out + 1))``      regions/parameter
==========================  ==============================================  ====================

Raghu's leading term is shared by ``montufar2017_upper`` and, for T = 1, ``serra2018_upper``: with
wide layers the rank is n_0 everywhere.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation
from jaxexpr.theory.arrangements import breakpoints_of
from jaxexpr.theory.regions import raghu2017_upper


@explained
def zaslavsky_leading(hyperplanes: int, dim: int) -> Fraction:
    """``n^m / m!``, the leading term of ``zaslavsky(n, m)`` for n much larger than m.

    Pascanu et al. 2013, Proposition 6: a layer of N units has ``O(N^n_0)`` regions.

    Raises
    ------
    ValueError
        if an argument is no integer >= 0.

    Examples
    --------
    >>> float(zaslavsky_leading(1000, 2))  # zaslavsky(1000, 2) = 500501
    500000.0
    """
    hyperplanes = checks.integer("hyperplanes", hyperplanes, minimum=0)
    dim = checks.integer("dim", dim, minimum=0)
    return Fraction(hyperplanes**dim, math.factorial(dim))


@explained
def raghu2017_order(
    n_in: int, width: int, depth: int, activation: str | Activation = "relu"
) -> int:
    """Order of the number of activation patterns of Raghu et al. 2017, Theorem 1: ``(T k)^(m n)``.

    ``k^(m n)`` for ReLU and ``(2 k)^(m n)`` for hard-tanh, for n layers of width k and m inputs. As
    printed, without the factors ``1 / m!`` of ``raghu2017_leading``: a rate, never a bound (one
    layer of 1 unit on 1 input has 2 regions, the order says 1).

    Raises
    ------
    ValueError
        if a size is no integer >= 1 or `activation` is not piecewise linear.

    Examples
    --------
    >>> raghu2017_order(2, 10, 3)
    1000000
    """
    n_in, width, depth = _three(n_in, width, depth)
    return int((breakpoints_of(activation) * width) ** (n_in * depth))


@explained
def raghu2017_leading(
    n_in: int, width: int, depth: int, activation: str | Activation = "relu"
) -> Fraction:
    """Leading term of ``raghu2017_upper`` for `depth` layers of equal width: ``((T n)^m / m!)^d``.

    It is the same with and without ``parallel``. Raises ValueError as ``raghu2017_order``.
    """
    order = raghu2017_order(n_in, width, depth, activation)
    return Fraction(order, math.factorial(n_in) ** depth)


@explained
def pascanu2013_leading(n_in: int, width: int, depth: int) -> Fraction:
    """Leading term of ``pascanu2013_lower``, ``(n / n_0)^(d - 1) n^n_0 / n_0!``.

    Pascanu et al. 2013, Proposition 6: ``Omega(floor(n / n_0)^(d - 1) n^n_0)`` for d layers of
    width n. Polynomial in the width, exponential in the depth; a shallow layer of ``d n`` units
    gains ``d^n_0`` from d. Raises ValueError if a size is no integer >= 1.
    """
    n_in, width, depth = _three(n_in, width, depth)
    return Fraction(width, n_in) ** (depth - 1) * zaslavsky_leading(width, n_in)


@explained
def montufar2014_leading(n_in: int, width: int, depth: int) -> Fraction:
    """Leading term of ``montufar2014_lower``, ``(n / n_0)^((d - 1) n_0) n^n_0 / n_0!``.

    Raises
    ------
    ValueError
        if a size is no integer >= 1.
    """
    n_in, width, depth = _three(n_in, width, depth)
    return Fraction(width, n_in) ** ((depth - 1) * n_in) * zaslavsky_leading(width, n_in)


@explained
def parameters(n_in: int, widths: Iterable[int], n_out: int = 1) -> int:
    """Number of weights and biases, including those of the linear output layer.

    ``sum_l (n_(l-1) + 1) n_l + (n_L + 1) n_out``. Pascanu et al. 2013, Proposition 7: with d layers
    of width n it is ``(d - 1) n^2 + (d + n_0 + n_out) n + n_out``, with one layer of N units
    ``(n_0 + n_out + 1) N + n_out``.

    Parameters
    ----------
    n_in, widths, n_out : inputs, hidden layers, outputs (0: no output layer).

    Raises
    ------
    ValueError
        if a size is no integer >= 1 (`n_out` >= 0), or there is no layer.

    Examples
    --------
    >>> parameters(2, (4, 4)), parameters(2, (8,))
    (37, 33)
    """
    n_in, sizes = checks.network_sizes(n_in, widths)
    n_out = checks.integer("n_out", n_out, minimum=0)
    ends = (n_in, *sizes, n_out)
    return sum((inputs + 1) * n for inputs, n in zip(ends, ends[1:], strict=False))


@explained
def regions_per_parameter(
    regions: int, n_in: int, widths: Iterable[int], n_out: int = 1
) -> Fraction:
    """Number of regions, counted or a bound, over the number of parameters.

    Pascanu et al. 2013, Proposition 8, with exact numbers. Raises ValueError as ``parameters``,
    and if `regions` is no integer >= 0.

    Examples
    --------
    >>> from jaxexpr.theory import montufar2014_lower, zaslavsky
    >>> deep = regions_per_parameter(montufar2014_lower(2, (8, 8, 8)), 2, (8, 8, 8))
    >>> shallow = regions_per_parameter(zaslavsky(24, 2), 2, (24,))
    >>> round(float(deep), 2), round(float(shallow), 2)
    (53.51, 3.1)
    """
    regions = checks.integer("regions", regions, minimum=0)
    return Fraction(regions, parameters(n_in, widths, n_out))


@explained
def deep_density_leading(n_in: int, width: int, depth: int) -> Fraction:
    """Leading term of ``pascanu2013_lower`` per parameter, d >= 2 layers of width n.

    ``(n / n_0)^(d - 1) n^(n_0 - 2) / (n_0! (d - 1))``. Pascanu et al. 2013, Proposition 8, give
    its order ``Omega(floor(n / n_0)^(d - 1) n^(n_0 - 2) / d)``: exponential in the depth.

    Raises
    ------
    ValueError
        if a size is no integer >= 1, or `depth` < 2 (see the shallow one).
    """
    depth = checks.integer("depth", depth, minimum=2)
    return pascanu2013_leading(n_in, width, depth) / (Fraction(width) ** 2 * (depth - 1))


@explained
def shallow_density_leading(n_in: int, units: int, n_out: int = 1) -> Fraction:
    """Leading term of the most regions per parameter of one layer of N units.

    ``N^(n_0 - 1) / (n_0! (n_0 + n_out + 1))``; with ``N = d n`` it is of order
    ``d^(n_0 - 1) n^(n_0 - 1)``, as in Pascanu et al. 2013, Proposition 8.

    Raises
    ------
    ValueError
        if a size is no integer >= 1 (`n_out` >= 0).
    """
    n_in, units = checks.integer("n_in", n_in), checks.integer("units", units)
    n_out = checks.integer("n_out", n_out, minimum=0)
    return zaslavsky_leading(units, n_in) / (units * (n_in + n_out + 1))


class Split(NamedTuple):
    """A number of units split into layers of equal width: one entry of ``depth_chain``.

    Attributes
    ----------
    depth, width : layers, and units in each.
    upper : ``raghu2017_upper``, exact.
    order : ``raghu2017_order``.
    upper_grows, order_grows : whether the next deeper split has a larger one.
    """

    depth: int
    width: int
    upper: int
    order: int
    upper_grows: bool
    order_grows: bool


@explained
def depth_chain(n_in: int, units: int, activation: str | Activation = "relu") -> tuple[Split, ...]:
    """Upper bounds for N units in 1, 2, ..., N layers: the chain of Raghu et al. 2017, section 2.1.

    ``U(1, N, m) < U(2, N/2, m) < ...``, for every depth d that divides N. The paper derives it from
    the order form ``(N / d)^(m d)``, which rises in d only while ``N / d > e``. The exact product
    rises only while the width exceeds m; from there on every split has the same bound, ``2^N`` for
    ReLU. (With T breakpoints, replace N by ``T N``.) These are upper bounds on activation
    regions, not numbers of regions.

    Parameters
    ----------
    n_in : number of inputs m.
    units : total number of units N.
    activation : a name or an ``Activation``, piecewise linear.

    Raises
    ------
    ValueError
        if a size is no integer >= 1 or `activation` is not piecewise linear.

    Examples
    --------
    >>> [(s.depth, s.upper, s.upper_grows) for s in depth_chain(2, 8)]
    [(1, 37, True), (2, 121, True), (4, 256, False), (8, 256, False)]
    """
    n_in, units = checks.integer("n_in", n_in), checks.integer("units", units)
    depths = [d for d in range(1, units + 1) if units % d == 0]
    widths = [units // d for d in depths]
    splits = list(zip(depths, widths, strict=True))
    upper = [raghu2017_upper(n_in, (n,) * d, activation) for d, n in splits]
    order = [raghu2017_order(n_in, n, d, activation) for d, n in splits]
    rises = [[*map(operator.lt, u, u[1:]), False] for u in (upper, order)]
    return tuple(itertools.starmap(Split, zip(depths, widths, upper, order, *rises, strict=True)))


def _three(n_in: int, width: int, depth: int) -> tuple[int, int, int]:
    n_in, width = checks.integer("n_in", n_in), checks.integer("width", width)
    return n_in, width, checks.integer("depth", depth)
