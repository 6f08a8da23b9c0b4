"""Activation regions that meet a box in R^n, or all of R^n, counted and listed exactly.

Regions are computed layer by layer, by cutting those of the layers below (``partition``), with all
their faces. ``partition`` defines which points count as on a boundary, hence the counts in
degenerate networks.
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
    patterns : for each layer the linear piece of every unit, ``(count, width)``, uint8: the number
        of breakpoints below its pre-activation; for ReLU 1 if it is active, else 0. No two regions
        agree in all layers.
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
    """Find all *activation* regions that intersect the interior of a box, or all of R^n.

    An activation region is a set of constant activation pattern with an interior; it is convex.
    (A *linear* region, a maximal connected set of constant gradient, may be a union of several.)

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer, W ``(fan_in, fan_out)``, b ``(fan_out,)``,
        ``h = z @ W + b``; up to 10 inputs. Computed in float64 on the host.
    low, high : corners of the box, ``(n_in,)`` or one number for all coordinates. If both are None,
        all of R^n, in homogeneous coordinates, which include regions at any distance.
    activation : piecewise linear; with T breakpoints a unit has T parallel boundaries.
    limit : largest number of regions; each takes 2 to 10 kB of memory.
    progress : as for ``estimate``, past two seconds: hyperplanes done (one for each unit and
        breakpoint), and the regions so far. Later ones take longer, so no remaining time is shown.

    Returns
    -------
    Cells : with `count`, `counts` of each depth, `patterns` and interior `points`.

    Raises
    ------
    ValueError
        for invalid parameters (the message names the layer), a smooth activation, more than 10
        inputs, one corner without the other, ``low >= high``, traced parameters, more regions than
        `limit`, and a network so close to a degenerate one that float64 cannot separate its
        regions.

    Notes
    -----
    Regions are convex polytopes (Raghu et al. 2017, Theorem 2). One hidden layer in general
    position has Zaslavsky's number of regions:

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> regions = cells([(rng.normal(size=(3, 6)), rng.normal(size=6))])
    >>> regions.count, regions.patterns[0].shape, regions.points.shape
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
        divided = partition(
            layers,
            phi,
            _box(low, high, n),
            limit,
            lambda done, cells: bar.update(done, f"{cells} regions"),
        )
    counts, region = divided.regions()
    # A region may have parts in several cones of R^n, with equal patterns: keep the first.
    _, first = np.unique(region, return_index=True)
    centre = divided.complex.centres()[first]
    points = centre[:, :-1] / centre[:, -1:]
    return Cells(counts, tuple(pattern[first] for pattern in divided.patterns()), points)


def few_inputs(n: int) -> None:
    """Raise ValueError if the input space has too many dimensions."""
    if n > LARGEST:
        raise ValueError(
            f"params[0][0] has {n} rows, one an input, and regions are listed for up to {LARGEST}: "
            "restrict the network to a plane or a line"
        )


def in_numpy(params: Params) -> list[tuple[Array, Array]]:
    """Convert checked parameters to NumPy float64; traced ones raise ValueError."""
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
