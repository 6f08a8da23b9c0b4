"""Regions of hyperplane arrangements, and checks shared by the counting bounds."""

from __future__ import annotations

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation, get


@explained
def zaslavsky(hyperplanes: int, dim: int) -> int:
    """Regions of hyperplanes in general position: ``sum_{i <= dim} C(hyperplanes, i)``.

    The maximum for all arrangements, and the largest number of activation regions (and of linear
    regions) of one ReLU layer. Zaslavsky 1975; Pascanu et al. 2013, Proposition 2; Raghu et al.
    2017, Theorem 5.

    Parameters
    ----------
    hyperplanes : number of hyperplanes, 0 or more.
    dim : dimension of the space, 0 or more.

    Raises
    ------
    ValueError
        if an argument is no integer >= 0.

    Examples
    --------
    >>> zaslavsky(4, 2), zaslavsky(8, 2), zaslavsky(12, 2)
    (11, 37, 79)
    """
    hyperplanes = checks.integer("hyperplanes", hyperplanes, minimum=0)
    return cuts(hyperplanes, checks.integer("dim", dim, minimum=0))


@explained
def zaslavsky_central(hyperplanes: int, dim: int) -> int:
    """Regions of hyperplanes through the origin, otherwise in general position, in R^dim.

    ``2 sum_{i < dim} C(hyperplanes - 1, i)``: the largest number of activation regions of one ReLU
    layer with zero bias. 1 without hyperplanes. Raises ValueError as ``zaslavsky``, and for
    dim = 0.

    Examples
    --------
    >>> [zaslavsky_central(n, 2) for n in (0, 1, 2, 5)]  # n lines through a point: 2 n
    [1, 2, 4, 10]
    """
    hyperplanes = checks.integer("hyperplanes", hyperplanes, minimum=0)
    dim = checks.integer("dim", dim)
    return 2 * cuts(hyperplanes - 1, dim - 1) if hyperplanes else 1


@explained
def zaslavsky_parallel(families: int, dim: int, parallel: int = 2) -> int:
    """Regions of families of parallel hyperplanes: ``sum_{i <= dim} parallel^i C(families, i)``.

    Hyperplanes of one family never meet, so a set of i that do meet takes one from each of i
    families. A layer of units with T breakpoints each has at most this number of activation
    regions, with ``parallel = T`` (2 for hard-tanh). Raises ValueError as ``zaslavsky``.

    Examples
    --------
    >>> zaslavsky_parallel(5, 2), zaslavsky(10, 2)
    (51, 56)
    """
    families = checks.integer("families", families, minimum=0)
    dim = checks.integer("dim", dim, minimum=0)
    return cuts(families, dim, checks.integer("parallel", parallel, minimum=0))


def breakpoints_of(activation: str | Activation) -> int:
    """Return the number T of breakpoints of one unit."""
    phi = get(activation)
    if phi.breakpoints is None:
        raise ValueError(
            f"activation={phi.name!r} is not piecewise linear and has no regions: use relu, "
            "leaky_relu, abs, hard_tanh or activations.piecewise_linear(...)"
        )
    return len(phi.breakpoints)


def cuts(n: int, most: int, base: int = 1) -> int:
    """``sum_{i <= most} base^i C(n, i)``."""
    if most >= n:
        return (1 + base) ** n
    term = total = 1
    for i in range(1, most + 1):
        term = term * base * (n - i + 1) // i
        total += term
    return total
