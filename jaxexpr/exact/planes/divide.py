"""The partition of a plane through input space into activation regions, layer by layer.

On a cell of the first l layers every unit of the next one is affine, so its values at the vertices
of all cells come from one matrix product, and values at new vertices by interpolation. The units
cut the cells that they cross (``subdivide``); the cost is that of the products and of the resulting
cells, whatever the width of the network, without a Python loop over cells.

Degenerate networks (zero biases, repeated and parallel units, rows of zeros, folds, boundaries
through vertices or along edges) need no perturbation: ``forward`` estimates the errors of float64,
``subdivide`` defines which values count as equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.progress import Bar, Progress
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves.supported import exact_activation
from jaxexpr.exact.piecewise_linear import PiecewiseLinear
from jaxexpr.exact.planes import polygons
from jaxexpr.exact.planes.chords import Lines
from jaxexpr.exact.planes.forward import ForwardPass, params_in_float64
from jaxexpr.exact.planes.polygons import Array
from jaxexpr.exact.planes.result import Plane
from jaxexpr.exact.planes.subdivide import NewVertices, cut
from jaxexpr.params import Params, checked_params


@explained
def plane(
    params: Params,
    origin: ArrayLike,
    u: ArrayLike,
    v: ArrayLike,
    half_width: float = 1.0,
    activation: str | Activation = "relu",
    *,
    progress: Progress = None,
) -> Plane:
    """Divide the square ``origin + a u + b v``, ``|a|, |b| <= half_width``, into its regions.

    Counts *activation* regions: cells of constant activation pattern with an interior, which are
    convex (Raghu et al. 2017, Theorem 2). ``linear_regions`` joins those with equal gradients.

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer, W ``(fan_in, fan_out)``, b ``(fan_out,)``,
        ``h = z @ W + b``. Computed in float64 on the host.
    origin, u, v : a point and two directions of input space, ``(n_in,)``; not parallel, but they
        need not be orthogonal or of length 1.
    half_width : half the side of the square in (a, b), > 0.
    activation : piecewise linear; each of its breakpoints gives a boundary for each unit.
    progress : as for ``estimate``, past two seconds: layers done, and the regions so far. Layers
        differ, so no remaining time is shown.

    Returns
    -------
    Plane : with `counts` ``(depth,)``, `polygons`, flat arrays, areas, adjacency, perimeters.

    Raises
    ------
    ValueError
        for invalid parameters (the message names the layer), points of another dimension, parallel
        directions, a smooth activation, traced arrays, values beyond float64's range.

    Notes
    -----
    Memory is about 140 bytes for each region, at its peak about ``8 (width + 100)`` bytes; time
    about 3 microseconds for each region on one core, for widths up to 128.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> params = [(rng.normal(size=(2, 8)), rng.normal(size=8)) for _ in range(1)]
    >>> partition = plane(params, [0, 0], [1, 0], [0, 1], half_width=100.0)
    >>> partition.counts.tolist(), len(partition.polygons)  # 8 generic lines: 1 + 8 + 28
    ([37], 37)
    >>> bool(np.isclose(partition.areas.sum(), 200.0**2))
    True
    """
    layers = _checked_layers(params)
    bar = Bar(len(layers), "plane", progress, delay=2.0, unit="layers", even=False)
    phi = exact_activation(activation)
    n = len(layers[0][0])
    origin, u, v = (_plane_vector(*item, n) for item in (("origin", origin), ("u", u), ("v", v)))
    _independent(u, v)
    half_width = checks.positive("half_width", half_width)
    piecewise, cells = PiecewiseLinear(phi), polygons.square(half_width)
    forward = ForwardPass(
        origin + cells.points[:, :1] * u + cells.points[:, 1:] * v, layers, piecewise
    )
    blur, close, first_line = np.ones(4), 0, 0
    counts: list[int] = []
    new_vertices: list[NewVertices] = []
    with bar:
        for index in range(len(layers)):

            def see(regions: int, done: int = index) -> None:
                bar.update(done, f"{regions} regions")

            h, slack = forward.pre_activations()
            done = cut(cells, blur, Lines(h, piecewise.levels, slack), first_line, see)
            cells, blur, close = done.cells, done.blur, close + done.close
            counts.append(cells.size)
            new_vertices.append(done.new_vertices)
            first_line += slack.size * piecewise.levels.size
            see(cells.size, index + 1)
            if index + 1 < len(layers):
                forward.activate(done.new_vertices.values(h, piecewise.levels))
    square = (origin, u, v, half_width)
    computed = (tuple(forward.layers), tuple(new_vertices))
    return Plane(np.array(counts, np.int64), cells, close, *square, layers, phi, *computed)


@explained
def plane_through(
    params: Params,
    p: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    half_width: float | None = None,
    activation: str | Activation = "relu",
    *,
    progress: Progress = None,
) -> Plane:
    """Divide a square in the plane through three points, around the centre of their circumcircle.

    The square of Hanin & Rolnick 2019, Figure 8; (a, b) are lengths in input space, ``u`` points
    from p to q. ``plane_through(...).coordinates(p)`` are the coordinates (a, b) of p.

    Parameters
    ----------
    p, q, r : points of input space, ``(n_in,)``, not on one line.
    half_width : half the side of the square; by default 1.25 times the radius of the circumcircle.
    params, activation, progress : as for ``plane``.

    Raises
    ------
    ValueError
        as for ``plane``, and for three points on one line.

    Examples
    --------
    >>> W, b = np.eye(3), np.zeros(3)
    >>> partition = plane_through([(W, b)], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0])
    >>> partition.count, partition.coordinates([[1.0, 0, 0], [0, 1, 0]]).round(4).tolist()
    (7, [[-0.7071, -0.4082], [0.7071, -0.4082]])
    """
    layers = _checked_layers(params)
    n = len(layers[0][0])
    p, q, r = (_plane_vector(*item, n) for item in (("p", p), ("q", q), ("r", r)))
    for name, point, other in (("q", q, p), ("r", r, p), ("r", r, q)):
        if np.array_equal(point, other):
            raise ValueError(f"{name}={checks.shown(point)} equals another: give three points")
    base = np.linalg.norm(q - p)
    u = (q - p) / base
    along = (r - p) @ u
    v = (r - p) - along * u
    v -= (v @ u) * u  # once more, for an angle that is right to rounding
    height = np.linalg.norm(v)
    if height <= 1e-7 * np.hypot(along, height):
        raise ValueError(
            f"r={checks.shown(r)} lies on the line through p and q: give three points that span "
            "a plane"
        )
    up = (along * (along - base) + height**2) / (2 * height)
    centre = p + base / 2 * u + up * (v / height)
    width = 1.25 * float(np.hypot(base / 2, up)) if half_width is None else half_width
    return plane(layers, centre, u, v / height, width, activation, progress=progress)


def _checked_layers(params: Params) -> tuple[tuple[Array, Array], ...]:
    params = checked_params(params)
    checks.concrete("params", params, "a plane is divided")
    return params_in_float64(params)


def _plane_vector(name: str, value: ArrayLike, n: int) -> Array:
    value = checks.numeric(name, value)
    checks.concrete(name, value, "a plane is divided")
    if np.shape(value) != (n,):
        raise ValueError(
            f"{name} has shape {np.shape(value)} and params[0][0] has {n} rows: give a point of "
            f"shape ({n},)"
        )
    return np.asarray(value, np.float64)


def _independent(u: Array, v: Array) -> None:
    """Raise ValueError for two directions that span no plane."""
    for name, x in (("u", u), ("v", v)):
        if not x.any():
            raise ValueError(f"{name} is the zero vector: give a direction that is not zero")
    # Divide by the largest entry first: squares of very large or small ones overflow or underflow.
    a, b = u / np.abs(u).max(), v / np.abs(v).max()
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    if np.linalg.norm(b - (a @ b) * a) < 1e-7:
        raise ValueError(
            f"v={checks.shown(v)} is parallel to u: a plane needs two directions (pieces takes a "
            "line)"
        )
