"""Labellings of fixed points by a network with a moving layer.

Raghu et al. 2017, appendix B.3. The weights of one layer move along a great circle,
``W cos t + W' sin t``, and all others are fixed. Units of that layer and of all layers above serve
as readouts: the sign of a unit is the label of a point. At a fixed point the pre-activations of the
moving layer follow an arc, so that in a piecewise linear network every flip of a label is computed
exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.shapes import Array, Key
from jaxexpr.ensemble.labelling_passes import MovingLayer, initial_label_capacity
from jaxexpr.ensemble.options import RunOptions
from jaxexpr.ensemble.runner import run_task
from jaxexpr.ensemble.statistics import Estimate
from jaxexpr.exact.along_curves.label_changes import MOST_POINTS
from jaxexpr.networks import MLP

GRID_POINTS = 1025
PATHS = {"arc": 1, "half": 2, "circle": 4}  # quarter turns


@explained
def dichotomies(
    net: MLP,
    inputs: ArrayLike,
    *,
    key: Key[Array, ""],
    draws: int,
    swept: int | Sequence[int] = 1,
    readouts: int = 1,
    path: str = "circle",
    method: str = "auto",
    points: int | None = None,
    **options: Unpack[RunOptions],
) -> dict[str, Estimate]:
    """Count the labellings of fixed points by networks in which the weights of one layer move.

    Parameters
    ----------
    net : arrays in its laws are a sweep.
    inputs : the points to be labelled, ``(s, n_in)``, at most 62.
    swept : number, from 1, of the layer whose weights move; or several numbers, for one moving
        layer at a time.
    readouts : number of readout units of each layer. Each gives labellings by itself; their counts
        are averaged, which costs little and lowers the error.
    path : ``"circle"`` (t in [0, 2 pi]), ``"half"`` of it, or ``"arc"``, a quarter of it.
    method : ``"exact"`` (piecewise linear networks: every flip), ``"grid"``, or ``"auto"``: exact
        if the activation is piecewise linear and `points` is not given.
    points : number of grid points, including both ends; default 1025.
    key, draws : as for ``estimate``.
    options : see ``RunOptions``. A grid misses flips between its points: ``refine=0.01``
        doubles their number until the counts change by at most 1 %.

    Returns
    -------
    ``{"dichotomies": Estimate, "flips": Estimate}``: the number of different labellings on
    the path, and the number of label changes of all points. ``mean`` has shape
    ``net.sweep_shape + (depth,)`` for one moving layer, ``net.sweep_shape + (len(swept), depth)``
    for several. The last axis is the layer of the readouts; NaN below the moving layer.

    In float32 flips of two labels within a millionth of a radian count as one; float64 tells
    them apart.

    Raises
    ------
    ValueError
        if `net` is not an ``MLP``, there are more than 62 points, the points are not in its input
        space, a layer does not exist or has fewer units than `readouts`, ``method="exact"`` is
        given with a smooth activation or with `points`.

    Examples
    --------
    >>> import jax
    >>> from jaxexpr import laws
    >>> net = MLP((4, 16, 16), laws.Gaussian(3.0), laws.Zero(), "hard_tanh")
    >>> counts = dichotomies(net, np.eye(4), key=jax.random.key(0), draws=20)
    >>> float(counts["flips"].mean[0])  # a great circle meets the plane of each point twice
    8.0
    """
    if not isinstance(net, MLP):
        raise ValueError(
            f"net={checks.shown(net)}: dichotomies are of fully connected random networks; give "
            "jaxexpr.MLP(...)"
        )
    checks.on_host("dichotomies", "jaxexpr.kernel", net, inputs, key)
    inputs = checks.numeric("inputs", inputs)
    if np.ndim(inputs) != 2 or np.shape(inputs)[1] != net.widths[0]:
        raise ValueError(
            f"inputs has shape {np.shape(inputs)}: give points (s, {net.widths[0]}), in the input "
            "space of the network"
        )
    point_count = np.shape(inputs)[0]
    if point_count > MOST_POINTS:
        raise ValueError(
            f"inputs holds {point_count} points, whose labels are coded in {MOST_POINTS} bits: "
            f"give at most {MOST_POINTS}"
        )
    checks.held("inputs", inputs, net.dtype)
    valid = isinstance(swept, int | np.integer | Sequence | np.ndarray)
    if not valid or isinstance(swept, str):
        raise ValueError(f"swept={checks.shown(swept)}: give the number of a layer, or several")
    chosen = (swept,) if isinstance(swept, int | np.integer) else tuple(swept)
    layers = tuple(checks.integer("swept", layer, minimum=0) - 1 for layer in chosen)
    wrong = not layers or min(layers) < 0 or max(layers) >= net.depth
    if wrong or len(set(layers)) < len(layers):
        raise ValueError(
            f"swept={checks.shown(swept)}: layers are numbered from 1: give layers from 1 to "
            f"{net.depth}, each once"
        )
    readouts = checks.integer("readouts", readouts)
    if readouts > min(net.widths[1:]):
        raise ValueError(
            f"readouts={readouts} and the narrowest layer has {min(net.widths[1:])} units: give at "
            "most as many"
        )
    checks.one_of("path", path, PATHS)
    checks.one_of("method", method, ("auto", "exact", "grid"))
    smooth = net.activation.breakpoints is None
    if method == "exact" and smooth:
        raise ValueError(
            f"method='exact' with activation={net.activation.name!r}, which is smooth: use "
            "method='grid' with refine=0.01, or a piecewise linear activation"
        )
    exact = method == "exact" or (method == "auto" and not smooth and points is None)
    if exact and points is not None:
        raise ValueError(f"points={points} with method='exact': leave points out")
    grid = checks.integer("points", GRID_POINTS if points is None else points, minimum=2)
    concrete = not checks.is_traced(inputs)
    moment = float(np.mean(np.square(np.asarray(inputs, np.float64)))) if concrete else None
    task = MovingLayer(
        layers=layers,
        several=not isinstance(swept, int | np.integer),
        readouts=readouts,
        quarters=PATHS[path],
        inputs=point_count,
        points=0 if exact else grid,
        capacities=tuple(
            initial_label_capacity(net, layer, moment, PATHS[path]) for layer in layers
        )
        if exact
        else (),
    )
    inputs = np.asarray(inputs, net.dtype)
    return run_task(task, net, inputs, key=key, draws=draws, **options)
