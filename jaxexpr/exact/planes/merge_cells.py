"""Join activation regions of a plane into linear regions.

Two neighbours belong to one linear region if the network's gradient is the same on both: the unit
whose boundary separates them feeds only inactive units, or its contributions cancel. Their affine
maps are then equal, too, since the network is continuous.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.exact.piecewise_linear import PiecewiseLinear
from jaxexpr.exact.planes.forward import EPS
from jaxexpr.exact.planes.polygons import Array
from jaxexpr.exact.planes.result import Plane

BLOCK = 2**14  # regions or pairs of regions compared at once


@dataclasses.dataclass(frozen=True, eq=False)
class LinearRegions:
    """Linear regions of a plane.

    Attributes
    ----------
    count : number of linear regions.
    of_cell : index of the linear region of each activation region, ``(cells,)``.
    """

    count: int
    of_cell: Array


@explained
def linear_regions(
    partition: Plane, output: tuple[ArrayLike, ArrayLike] | None = None
) -> LinearRegions:
    """Count the *linear* regions of a plane: maximal connected sets of constant gradient.

    Regions that touch only in a point are not connected. There are at most ``partition.count``, the
    number of activation regions.

    Parameters
    ----------
    partition : from ``plane`` or ``plane_through``.
    output : ``(W, b)`` of an output layer, W ``(width, outputs)``: regions of the network's output.
        By default those of the last hidden layer's values, all of them together.

    Raises
    ------
    ValueError
        if `partition` is no ``Plane``, or the shape of `output` is wrong.

    Notes
    -----
    Gradients are compared along the plane's two directions, unit by unit, and are equal if they
    differ by no more than the rounding error of the matrix products.

    Examples
    --------
    >>> from jaxexpr.exact import plane
    >>> W, b = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), np.zeros(3)
    >>> partition = plane([(W, b)], [0, 0], [1, 0], [0, 1])
    >>> partition.count, linear_regions(partition).count
    (4, 4)
    >>> output = np.array([[1.0], [-1.0], [1.0]]), np.zeros(1)  # x + relu(y)
    >>> linear_regions(partition, output).count
    2
    """
    if not isinstance(partition, Plane):
        raise ValueError(f"partition={checks.shown(partition)}: give what plane returned")
    last = _output_layer(output, len(partition.params[-1][1]))
    cells = [
        _gradients(partition, last, slice(i, i + BLOCK)) for i in range(0, partition.count, BLOCK)
    ]
    gradient, square = (np.concatenate(part) for part in zip(*cells, strict=True))
    pairs = partition.adjacency.cells
    if last is None:  # across a boundary of the last layer the gradient of its unit differs
        slopes = PiecewiseLinear(partition.activation).slopes
        bent = (slopes[1:] != slopes[:-1])[partition.adjacency.level]
        pairs = pairs[~bent | (partition.adjacency.layer < partition.counts.size)]
    same = np.empty(len(pairs), bool)
    for i in range(0, len(pairs), BLOCK):
        a, b = pairs[i : i + BLOCK].T
        difference = (gradient[a] - gradient[b]) ** 2
        same[i : i + BLOCK] = np.all(difference.sum(axis=1) <= square[a] + square[b], axis=1)
    return LinearRegions(*_components(partition.count, pairs[same]))


def _gradients(partition: Plane, last: Array | None, cells: slice) -> tuple[Array, Array]:
    """Derivatives along u and v ``(cells, 2, k)``, and the squares of their errors ``(cells, k)``.

    Scaled as the last computed layer is.
    """
    slopes = PiecewiseLinear(partition.activation).slopes
    # All cells share the gradient until the first activation.
    along = np.stack([partition.u, partition.v])[None]
    square = np.zeros((1, along.shape[2]))
    for layer, pattern in zip(partition.layers, partition.patterns, strict=True):
        along, square = _through(along, square, layer.weights)
        slope = slopes[pattern[cells]]
        along, square = along * slope[:, None], square * slope**2
    return (along, square) if last is None else _through(along, square, last)


def _through(along: Array, square: Array, weights: Array) -> tuple[Array, Array]:
    rounding = EPS**2 * np.sum(along**2, axis=1)
    rows = along.reshape(-1, along.shape[2]) @ weights  # one product, not one for each cell
    return rows.reshape(len(along), 2, -1), (square + rounding) @ weights**2


def _output_layer(output: tuple[ArrayLike, ArrayLike] | None, width: int) -> Array | None:
    if output is None:
        return None
    if not isinstance(output, tuple | list) or len(output) != 2:
        raise ValueError(f"output={checks.shown(output)}: give a pair (W, b)")
    weights, biases = (checks.numeric(f"output[{i}]", part) for i, part in enumerate(output))
    shape = np.shape(weights)
    if len(shape) != 2 or shape[0] != width:
        raise ValueError(f"output[0] has shape {shape}: give W of shape ({width}, outputs)")
    if np.shape(biases) != shape[1:]:
        raise ValueError(f"output[1] has shape {np.shape(biases)}: give b of shape {shape[1:]}")
    return np.asarray(weights, np.float64)


def _components(count: int, pairs: Array) -> tuple[int, Array]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs), np.int8), tuple(pairs.T)), shape=(count, count))
    components, label = connected_components(graph, directed=False)
    return int(components), label.astype(np.int64)
