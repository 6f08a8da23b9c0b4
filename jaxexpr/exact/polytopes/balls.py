"""Activation regions that intersect a ball: exact in few dimensions, a lower bound in many.

*The lower bound.* Let x be inside a region C. In C every pre-activation is affine, and C is the
polytope in which no affine form changes its side. Rays from x that leave C through the relative
interior of a facet within the radius find facets of C that meet the open ball, and behind each of
them lies another region. Regions behind two facets on different hyperplanes differ: a region is
convex, and so is C, so one hyperplane separates the two and contains the intersection of their
closures.
Hence ``1 + (distinct facets found)`` regions meet the ball. The rays go to the foot of the
perpendicular on each hyperplane that cuts the ball, so the nearest boundary is always found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation
from jaxexpr.exact.along_curves.supported import exact_activation
from jaxexpr.exact.distances import ROUNDINGS
from jaxexpr.exact.piecewise_linear import PiecewiseLinear
from jaxexpr.exact.polytopes.boxes import few_inputs, in_numpy
from jaxexpr.exact.polytopes.face_lattice import Array
from jaxexpr.exact.polytopes.partition import Partition, partition
from jaxexpr.params import Params

EPS = float(np.finfo(np.float64).eps)
CLOSE = 1e-9  # hyperplanes at distances with a smaller relative difference count as one
PARALLEL = 1e-12  # normals whose cosine differs less from 1 count as equal
STEPS = 4  # attempts to step off a boundary


@explained
def regions_in_ball(
    params: Params,
    x: ArrayLike,
    radius: ArrayLike,
    activation: str | Activation = "relu",
    *,
    method: str = "auto",
) -> Array:
    """Number of *activation* regions that intersect the open ball around x.

    Either exact, from the regions that intersect the cube around the ball and their distances to x;
    or a lower bound, one more than the number of facets of x's region found within the radius (see
    the module docstring): 1 where the nearest boundary is at least as far as the radius, at least 2
    where it is nearer.

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer, W ``(fan_in, fan_out)``, b ``(fan_out,)``,
        ``h = z @ W + b``; computed in float64 on the host.
    x : centres, ``(..., n_in)``.
    radius : > 0, one number or an array that broadcasts to ``(...)``.
    activation : piecewise linear.
    method : ``"exact"``, for up to 10 inputs; ``"facets"``, the lower bound, for any number; or
        ``"auto"``, exact for up to 3 inputs.

    Returns
    -------
    ``(...)``, int64.

    Raises
    ------
    ValueError
        for invalid parameters (the message names the layer), points of another dimension, a radius
        that is not above 0 or does not broadcast, a smooth activation, traced parameters or points,
        too many inputs for ``method="exact"``.

    Notes
    -----
    Exact counts have the resolution of ``cells``, about 1e-12 of the coordinates of x: use
    ``"facets"`` for smaller balls.

    Examples
    --------
    >>> lines = ((np.eye(2), np.array([0.0, 0.0])),)
    >>> regions_in_ball(lines, [[3.0, 4.0], [0.5, 0.0]], [3.5, 0.1]).tolist()
    [2, 2]
    """
    layers, phi = in_numpy(params), exact_activation(activation)
    n = len(layers[0][0])
    for name, value in (("x", x), ("radius", radius)):
        checks.concrete(name, value, "regions are counted")
    x = np.asarray(checks.numeric("x", x), np.float64)
    if x.ndim == 0 or x.shape[-1] != n:
        raise ValueError(
            f"x has shape {x.shape} and params[0][0] has {n} rows: give points of shape (..., {n})"
        )
    given = np.asarray(checks.numeric("radius", radius), np.float64)
    if not np.all(given > 0):
        raise ValueError(f"radius={checks.shown(radius)}: give numbers > 0")
    try:
        radii = np.broadcast_to(given, x.shape[:-1])
    except ValueError:
        raise ValueError(
            f"radius has shape {given.shape} and x {x.shape}: give one radius, or one a point"
        ) from None
    checks.one_of("method", method, ("auto", "exact", "facets"))
    if method == "exact":
        few_inputs(n)
    count = _exact if method == "exact" or (method == "auto" and n <= 3) else _lower_bound
    pairs = zip(x.reshape(-1, n), radii.ravel(), strict=True)
    counts = [count(layers, phi, centre, r) for centre, r in pairs]
    return np.array(counts, np.int64).reshape(x.shape[:-1])


def _exact(layers: list[tuple[Array, Array]], phi: Activation, centre: Array, radius: float) -> int:
    """Number of cells of the cube around the ball that are nearer to its centre than its radius."""
    cube = partition(layers, phi, (centre - radius, centre + radius))
    return int(np.sum(_distances(cube, centre) < radius))


def _distances(cube: Partition, x: Array) -> Array:
    """Distance of a point to each cell, 0 inside.

    Dimension by dimension: the nearest point of a face is the foot of the perpendicular on its
    span, if that lies in the face, and otherwise the nearest point of one of its facets. Every face
    has an interior point and an orthonormal basis of its span: that of its first facet, and the
    direction from there to the interior point.
    """
    inside = cube.complex.points.rows[:, :-1]
    basis = np.zeros((*inside.shape, 0))
    distance = np.linalg.norm(inside - x, axis=1)
    for faces in cube.complex.faces[1:]:
        faces.compact()
        facet, start, length = faces.facets.rows, faces.start.rows, faces.length.rows
        centre = faces.means(inside)
        owner = np.repeat(np.arange(faces.size), length)
        inward = centre[owner] - inside[facet]
        inward -= _along(basis[facet], inward)
        normal = inward[start] / np.linalg.norm(inward[start], axis=1, keepdims=True)
        spanned = np.concatenate([basis[facet[start]], normal[:, :, None]], axis=2)
        foot = centre + _along(spanned, x - centre)
        within = np.sum((foot[owner] - inside[facet]) * inward, axis=1) >= 0
        nearest = np.minimum.reduceat(distance[facet], start)
        direct = np.logical_and.reduceat(within, start)
        distance = np.where(direct, np.linalg.norm(foot - x, axis=1), nearest)
        inside, basis = centre, spanned
    return distance


def _along(basis: Array, vectors: Array) -> Array:
    """Parts of vectors ``(r, n)`` in the spans of orthonormal bases ``(r, n, k)``."""
    return np.einsum("rnk,rk->rn", basis, np.einsum("rnk,rn->rk", basis, vectors))


def _lower_bound(
    layers: list[tuple[Array, Array]], phi: Activation, x: Array, radius: float
) -> int:
    """One more than the number of distinct facets found around x; see the module docstring."""
    piecewise, generator = PiecewiseLinear(phi, broken=True), np.random.default_rng(0)
    centre, rest = x, radius
    for _ in range(STEPS):
        normals, gaps = _forms(layers, phi, piecewise, centre)
        if np.all(np.abs(gaps) > CLOSE * rest):
            break
        # On a boundary x is in no region: use a smaller ball inside, around a point near x.
        step = generator.normal(size=len(x))
        centre, rest = x + radius / 8 * step / np.linalg.norm(step), radius * 7 / 8
    else:
        return 2
    cut = np.abs(gaps) < rest
    if not cut.any():
        return 1
    rays = -np.sign(gaps[cut, None]) * normals[cut]
    rates = normals @ rays.T
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(rates * gaps[:, None] < 0, -gaps[:, None] / rates, np.inf)
    first = np.argmin(far, axis=0)
    met = far <= (1 + CLOSE) * np.min(far, axis=0)
    # A ray through a face of lower dimension shows no facet: it may meet only one hyperplane.
    alike = np.abs(normals @ normals[first].T) > 1 - PARALLEL
    facets = np.unique(first[np.all(alike | ~met, axis=0)])
    turn = normals[facets] @ normals[facets].T
    apart = np.abs(gaps[facets] - np.sign(turn) * gaps[facets, None])
    same = (np.abs(turn) > 1 - PARALLEL) & (apart <= CLOSE * rest)
    return 1 + int(np.sum(~np.tril(same, -1).any(axis=1)))


def _forms(
    layers: list[tuple[Array, Array]], phi: Activation, piecewise: PiecewiseLinear, x: Array
) -> tuple[Array, Array]:
    """Unit normals ``(f, n)`` and signed distances ``(f,)`` from x of its region's hyperplanes."""
    z, gradients, size = x, np.eye(len(x)), np.zeros(len(x))
    normals, gaps = [np.zeros((0, len(x)))], [np.zeros(0)]
    for weights, biases in layers:
        h, gradients = z @ weights + biases, gradients @ weights
        size = np.sqrt(size**2 @ weights**2)
        norm = np.linalg.norm(gradients, axis=0)
        nonzero = norm > ROUNDINGS * EPS * size
        for breakpoint in phi.breakpoints or ():
            normals.append((gradients[:, nonzero] / norm[nonzero]).T)
            gaps.append((h[nonzero] - breakpoint) / norm[nonzero])
        value, piece = piecewise.value((h[:, None] - piecewise.levels)[None], np.ones((1, 1)))
        z, slope = value[0], piecewise.slopes[piece[0]]
        size = np.abs(slope) * np.maximum(size, norm)
        gradients = gradients * slope
    return np.concatenate(normals), np.concatenate(gaps)
