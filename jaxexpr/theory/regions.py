"""Counting bounds: how many regions a piecewise linear network can have, as Python ints.

An *activation region* is a set of constant activation pattern (convex, of full dimension); a
*linear region* is a maximal connected set on which the gradient is constant, so a union of
activation regions. There are never more linear regions than activation regions: an upper bound for
activation regions holds for both, and a lower bound for linear regions holds for both.

===========================  =========================================  ======================
function                     about                                      for
===========================  =========================================  ======================
zaslavsky                    maximum, attained                          hyperplanes in R^m
zaslavsky_central            the same, through one point                zero bias, one layer
zaslavsky_parallel           the same, families of parallels            several breakpoints
trivial_upper                upper, every network                       piecewise linear
line_upper                   upper, along a straight line               piecewise linear
raghu2017_upper              upper, every network                       piecewise linear
montufar2017_upper           upper, never larger                        piecewise linear
serra2018_upper              upper, never larger                        ReLU
zero_bias_upper              upper, every network without biases        one breakpoint, at 0
pascanu2013_lower            reached by a construction                  ReLU, n_i >= n_0
pascanu2013_folding_lower    reached by a construction                  ReLU, n_i = 2 n_0
montufar2014_lower           reached by a construction                  ReLU, n_i >= n_0
telgarsky2015_lower          reached by a construction, on a segment    ReLU, n_i >= 2
===========================  =========================================  ======================

Upper bounds hold for every choice of weights and on every convex set of inputs. Lower bounds are
reached by one choice of weights, so they bound the maximum: a given network may have fewer
regions, down to one. Sizes are ``n_in`` (n_0) inputs and ``widths = (n_1, ..., n_L)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation
from jaxexpr.theory.arrangements import breakpoints_of, cuts, zaslavsky_central


@explained
def trivial_upper(widths: Iterable[int], activation: str | Activation = "relu") -> int:
    """Number of activation patterns, ``(T + 1)^units`` with T breakpoints for each unit.

    Raises
    ------
    ValueError
        if a width is no integer >= 1, there is no layer, or `activation` is not piecewise linear.

    Examples
    --------
    >>> trivial_upper((4, 4)), trivial_upper((4, 4), "hard_tanh")
    (256, 6561)
    """
    return (breakpoints_of(activation) + 1) ** sum(checks.network_sizes(1, widths)[1])


@explained
def line_upper(widths: Iterable[int], activation: str | Activation = "relu") -> int:
    """Most activation regions along a straight line: ``prod_l (T n_l + 1)``.

    On a linear piece of the layers below every unit is affine, so it crosses each of its T
    breakpoints at most once. Raises ValueError as ``trivial_upper``.

    Examples
    --------
    >>> line_upper((4, 4)), line_upper((4, 4), "hard_tanh")
    (25, 81)
    """
    breakpoints = breakpoints_of(activation)
    return math.prod(breakpoints * n + 1 for n in checks.network_sizes(1, widths)[1])


@explained
def raghu2017_upper(
    n_in: int,
    widths: Iterable[int],
    activation: str | Activation = "relu",
    *,
    parallel: bool = False,
) -> int:
    """Upper bound on activation regions of Raghu et al. 2017, Theorem 1, with its exact sums.

    ``prod_l sum_{i <= n_0} C(T n_l, i)``: each layer cuts each region of the layers below by an
    arrangement of ``T n_l`` hyperplanes, T = 1 for ReLU and 2 for hard-tanh.

    Parameters
    ----------
    n_in, widths : n_0 and ``(n_1, ..., n_L)``, integers >= 1.
    activation : piecewise linear, a name or an ``Activation``.
    parallel : whether to use that the T hyperplanes of one unit are parallel, which gives
        ``prod_l sum_{i <= n_0} T^i C(n_l, i)``: the same for T = 1, never larger.

    Raises
    ------
    ValueError
        if a size is no integer >= 1, there is no layer, or `activation` is not piecewise linear.

    Examples
    --------
    >>> raghu2017_upper(2, (4, 4)), raghu2017_upper(2, (5,), "hard_tanh")
    (121, 56)
    >>> raghu2017_upper(2, (5,), "hard_tanh", parallel=True)
    51
    """
    n_in, sizes = checks.network_sizes(n_in, widths)
    breakpoints = breakpoints_of(activation)
    if parallel:
        return math.prod(cuts(n, n_in, breakpoints) for n in sizes)
    return math.prod(cuts(breakpoints * n, n_in) for n in sizes)


@explained
def montufar2017_upper(
    n_in: int, widths: Iterable[int], activation: str | Activation = "relu"
) -> int:
    """Upper bound on activation regions of Montufar 2017, by the rank of each layer's input.

    ``prod_l sum_{i <= m_l} T^i C(n_l, i)`` with ``m_l = min(n_0, ..., n_l)``: on a region of the
    layers below, the units of layer l are functions of at most m_l coordinates. The paper's
    statement is for one breakpoint (T = 1); the same argument holds with T parallel hyperplanes
    for each unit. Never larger than ``raghu2017_upper``.

    Raises
    ------
    ValueError
        as ``raghu2017_upper``.

    Examples
    --------
    >>> montufar2017_upper(2, (1, 4)), raghu2017_upper(2, (1, 4))
    (10, 22)
    """
    n_in, sizes = checks.network_sizes(n_in, widths)
    breakpoints = breakpoints_of(activation)
    bound, rank = 1, n_in
    for n in sizes:
        rank = min(rank, n)
        bound *= cuts(n, rank, breakpoints)
    return bound


@explained
def serra2018_upper(n_in: int, widths: Iterable[int]) -> int:
    """Upper bound on activation regions of ReLU networks, Serra et al. 2018, Theorem 1.

    ``sum over (j_1, ..., j_L) of prod_l C(n_l, j_l)``,
    ``0 <= j_l <= min(n_0, n_1 - j_1, ..., n_(l-1) - j_(l-1), n_l)``: where units are inactive,
    the input of the layers above has fewer dimensions. Never larger than ``montufar2017_upper``.

    Cost: from the last layer down, with prefix sums over the number of dimensions that are left;
    ``min(n_0, n_l)`` products of integers for each layer, fast for widths of thousands.

    Raises
    ------
    ValueError
        as ``raghu2017_upper``.

    Examples
    --------
    >>> serra2018_upper(2, (4, 4)), serra2018_upper(2, (2, 2)), montufar2017_upper(2, (2, 2))
    (121, 11, 16)
    """
    n_in, sizes = checks.network_sizes(n_in, widths)
    # above[d]: the sum over the layers above for an input of d dimensions. More than n dimensions
    # below n units are equivalent to n.
    above = [1]
    for i in range(len(sizes) - 1, -1, -1):
        n = sizes[i]
        dimensions = min(n_in, *sizes[: i + 1])
        choose, plain, weighted = 1, [0], [0]  # sums over j < k of C(n, j) and C(n, j) above[j]
        for j in range(dimensions + 1):
            plain.append(plain[-1] + choose)
            weighted.append(weighted[-1] + choose * _last(above, j))
            choose = choose * (n - j) // (j + 1)
        # j active hyperplanes leave min(d, n - j) dimensions: d up to j = n - d, then n - j.
        above = [
            _last(above, d) * plain[min(d, n - d) + 1]
            + (weighted[d] - weighted[n - d] if 2 * d > n else 0)
            for d in range(dimensions + 1)
        ]
    return above[-1]


@explained
def zero_bias_upper(n_in: int, widths: Iterable[int]) -> int:
    """Upper bound on activation regions in R^n_0 of networks whose biases are all 0.

    ``2 Z(n_1 - 1, n_0 - 1) prod_{l >= 2} Z(n_l, m_l - 1)`` with Z of ``zaslavsky`` and
    ``m_l = min(n_0, ..., n_(l-1))``. The first layer is a central arrangement. Each of its regions
    is a cone on one side of a hyperplane, whose image in every layer lies in one orthant; a slice
    across it has one dimension less, in which a layer is an arrangement without a common point.
    Holds for activations whose only breakpoint is 0 (relu, leaky_relu, abs). Not in the papers.

    Raises
    ------
    ValueError
        as ``raghu2017_upper``.

    Examples
    --------
    >>> zero_bias_upper(2, (16,)), zero_bias_upper(2, (16, 16)), zero_bias_upper(1, (5, 5))
    (32, 544, 2)
    """
    n_in, sizes = checks.network_sizes(n_in, widths)
    bound, rank = zaslavsky_central(sizes[0], n_in), n_in
    for below, n in zip(sizes, sizes[1:], strict=False):
        rank = min(rank, below)
        bound *= cuts(n, rank - 1)
    return bound


@explained
def pascanu2013_lower(n_in: int, widths: Iterable[int]) -> int:
    """Linear regions that a construction reaches, Pascanu et al. 2013, Theorem 1 (ReLU).

    ``prod_{l < L} floor(n_l / n_0) * sum_{i <= n_0} C(n_L, i)``. The paper's construction needs
    two inputs or more; for one input ``montufar2014_lower`` gives the same number. With
    ``n_L = n_0`` it counts activation regions: those in which the last layer is inactive may join
    to fewer linear regions.

    Raises
    ------
    ValueError
        as ``raghu2017_upper``, and for a width below `n_in`.

    Examples
    --------
    >>> pascanu2013_lower(2, (4, 4)), pascanu2013_lower(2, (5, 4, 4))
    (22, 44)
    """
    n_in, sizes = _roomy(n_in, widths)
    return math.prod(n // n_in for n in sizes[:-1]) * cuts(sizes[-1], n_in)


@explained
def pascanu2013_folding_lower(n_in: int, depth: int) -> int:
    """Linear regions of a folding network, Pascanu et al. 2013, Theorem 2 in Section 5 (ReLU).

    `depth` layers of ``2 n_0`` units: ``2^((depth - 1) n_0) sum_{i <= n_0} C(2 n_0, i)``. The
    number of activation and of linear regions of that construction, not the maximum.

    Raises
    ------
    ValueError
        if a size is no integer >= 1.

    Examples
    --------
    >>> [pascanu2013_folding_lower(2, k) for k in (1, 2, 3, 4)]
    [11, 44, 176, 704]
    """
    n_in, depth = checks.integer("n_in", n_in), checks.integer("depth", depth)
    return montufar2014_lower(n_in, (2 * n_in,) * depth)


@explained
def montufar2014_lower(n_in: int, widths: Iterable[int]) -> int:
    """Linear regions that a construction reaches, Montufar et al. 2014, Theorem 4 (ReLU).

    ``prod_{l < L} floor(n_l / n_0)^n_0 * sum_{i <= n_0} C(n_L, i)``; never smaller than
    ``pascanu2013_lower``. With ``n_L = n_0`` it counts activation regions: those in which units of
    the last layer are inactive join to fewer linear regions in the known construction.

    Raises
    ------
    ValueError
        as ``pascanu2013_lower``.

    Examples
    --------
    >>> montufar2014_lower(2, (4, 4)), montufar2014_lower(1, (3, 3))
    (44, 12)
    """
    n_in, sizes = _roomy(n_in, widths)
    return math.prod((n // n_in) ** n_in for n in sizes[:-1]) * cuts(sizes[-1], n_in)


@explained
def telgarsky2015_lower(depth: int) -> int:
    """Linear pieces on [0, 1] of the sawtooth of Telgarsky 2015: ``2^depth``.

    `depth` layers of 2 ReLU units; ``2^(depth - 1)`` teeth. Along a segment in any input space.
    Raises ValueError if `depth` is no integer >= 1.

    Examples
    --------
    >>> telgarsky2015_lower(10)
    1024
    """
    return 2 ** checks.integer("depth", depth)


def _roomy(n_in: int, widths: Iterable[int]) -> tuple[int, tuple[int, ...]]:
    """Return checked sizes of a construction that needs as many units as inputs."""
    n_in, sizes = checks.network_sizes(n_in, widths)
    for i, n in enumerate(sizes):
        if n < n_in:
            raise ValueError(
                f"widths[{i}]={n} is below n_in={n_in}: the construction needs at least as many "
                "units as inputs in every layer; give such widths, or fewer inputs (a subspace)"
            )
    return n_in, sizes


def _last(values: list[int], index: int) -> int:
    return values[min(index, len(values) - 1)]
