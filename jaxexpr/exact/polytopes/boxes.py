"""Activation regions that meet a box in R^n, or all of R^n, counted and listed exactly.

Regions come layer by layer, by cutting those of the layers below (``partition``), with all their
faces; what counts as on a boundary, and so what is counted in degenerate networks, is said there.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.progress import Bar, Progress
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves.supported import exact_activation
from jaxexpr.exact.polytopes.face_lattice import Array
from jaxexpr.exact.polytopes.partition import LIMIT, partition
from jaxexpr.params import Params, checked_params

LARGEST = 10  # dimensions; a box of n has 3^n faces


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """The activation regions of a network on a box or on all of R^n.

    Attributes
    ----------
    counts : activation regions of the first d layers, ``(depth,)``, int64.
    patterns : for each layer the linear piece on which every unit is, ``(count, width)``, uint8:
        how many breakpoints it is beyond; for ReLU 1 where it is active, else 0. All rows are
        distinct if the layers are taken together.
    points : a point in the interior of each region, ``(count, n_in)``.
    """

    counts: Array
    patterns: tuple[Array, ...]
    points: Array

    def __repr__(self) -> str:
        return f"Cells(count={self.count}, depth={self.counts.size}, n_in={self.points.shape[1]})"

    @property
    def count(self) -> int:
        """Activation regions of the whole network."""
        return int(self.counts[-1])


@explained
def cells(
    params: Params,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    activation: str | Activation = "relu",
    *,
    limit: int = LIMIT,
    progress: Progress = None,
) -> Cells:
    """Find all *activation* regions that meet the inside of a box, or all of R^n.

    An activation region is a set of constant activation pattern with an interior; it is convex.
    (A *linear* region, a maximal connected set of constant gradient, may be a union of several.)

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer, W ``(fan_in, fan_out)``, b ``(fan_out,)``,
        ``h = z @ W + b``; up to 10 inputs. Computed in float64 on the host.
    low, high : corners of the box, ``(n_in,)`` or one number for all; both None: all of R^n,
        in homogeneous coordinates, so that no region is too far away.
    activation : piecewise linear; with T breakpoints a unit has T parallel boundaries.
    limit : stop beyond so many regions; one takes 2 to 10 kB of memory.
    progress : as for ``estimate``, past two seconds: hyperplanes that are done (one for each unit
        and breakpoint), and the regions so far. Later ones take longer, so no time is foretold.

    Returns
    -------
    Cells : with `count`, `counts` of each depth, `patterns` and interior `points`.

    Raises
    ------
    ValueError
        for bad parameters (with the layer), a smooth activation, more than 10 inputs, one corner
        without the other, ``low >= high``, parameters that are traced, more regions than `limit`,
        and a network so close to a degenerate one that float64 cannot tell its regions.

    Notes
    -----
    Regions are convex polytopes (Raghu et al. 2017, Theorem 2). One hidden layer in general
    position has Zaslavsky's number of regions:

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = cells([(rng.normal(size=(3, 6)), rng.normal(size=6))])
    >>> found.count, found.patterns[0].shape, found.points.shape
    (42, (42, 6), (42, 3))
    >>> cells([([[1.0]], [0.0]), ([[1.0]], [-0.5])], low=0, high=1).counts.tolist()
    [1, 2]
    """
    layers, phi = in_numpy(params), exact_activation(activation)
    n, limit = len(layers[0][0]), checks.integer("limit", limit)
    few_inputs(n)
    planes = sum(len(b) for _, b in layers) * len(phi.breakpoints or ())
    bar = Bar(planes, "cells", progress, delay=2.0, unit="hyperplanes", even=False)
    with bar:
        found = partition(
            layers,
            phi,
            _box(low, high, n),
            limit,
            lambda done, cells: bar.update(done, f"{cells} regions"),
        )
    counts, region = found.regions()
    # The parts of a region that different cones of space hold have one pattern: keep the first.
    _, first = np.unique(region, return_index=True)
    centre = found.complex.centres()[first]
    points = centre[:, :-1] / centre[:, -1:]
    return Cells(counts, tuple(pattern[first] for pattern in found.patterns()), points)


def few_inputs(n: int) -> None:
    """Refuse a network whose input space has too many dimensions to be listed."""
    if n > LARGEST:
        raise ValueError(
            f"params[0][0] has {n} rows, one an input, and regions are listed for up to {LARGEST}: "
            "restrict the network to a plane or a line"
        )


def in_numpy(params: Params) -> list[tuple[Array, Array]]:
    """Checked parameters in NumPy float64; tracers are refused."""
    checked = checked_params(params)
    checks.concrete("params", checked, "regions are listed")
    return [(np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in checked]


def _box(low: ArrayLike | None, high: ArrayLike | None, n: int) -> tuple[Array, Array] | None:
    if low is None and high is None:
        return None
    ends = []
    for name, value in (("low", low), ("high", high)):
        if value is None:
            raise ValueError(f"{name}=None: give both corners of the box, or neither for all R^n")
        value = np.asarray(checks.numeric(name, value), np.float64)
        if value.shape not in ((), (n,)):
            raise ValueError(
                f"{name} has shape {value.shape}: give a corner of shape ({n},), or one number"
            )
        ends.append(np.broadcast_to(value, (n,)))
    if not np.all(ends[0] < ends[1]):
        raise ValueError(
            f"high={checks.shown(high)} is not above low={checks.shown(low)} in every coordinate: "
            "give low < high"
        )
    return ends[0], ends[1]
