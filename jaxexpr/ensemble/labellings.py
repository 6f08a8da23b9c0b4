"""Sweeping weights instead of the input: how many ways a moving layer labels fixed points.

Raghu et al. 2017, appendix B.3. The weights of one layer go round a great circle,
``W cos t + W' sin t``, all others stay; a unit of any layer above is a read-out, and its sign the
label of a point. At fixed points the pre-activations of the moving layer are arcs themselves, so
in a piecewise linear network every flip of a label is known exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.shapes import Array, Key
from jaxexpr.ensemble.labelling_passes import Sweep, initial_label_capacity
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
    """Count the labellings of points that networks give while the weights of one layer move.

    Parameters
    ----------
    net : arrays in its laws are a sweep.
    inputs : the points to be labelled, ``(s, n_in)``, at most 62.
    swept : number of the layer whose weights move, 1 the first, or several, one at a time.
    readouts : units of each layer whose signs are labels, each by itself; their counts are
        averaged, which costs little and lowers the error.
    path : ``"circle"`` (t in [0, 2 pi]), ``"half"`` of it, or ``"arc"``, a quarter.
    method : ``"exact"`` (piecewise linear networks: every flip), ``"grid"``, or ``"auto"``: exact
        where it can be.
    points : of the grid, both ends among them; by default 1025.
    key, draws : as for ``estimate``.
    options : see ``RunOptions``. A grid misses what happens between its points: ``refine=0.01``
        doubles it until the counts move by less than that.

    Returns
    -------
    ``{"dichotomies": Estimate, "flips": Estimate}``: different labellings met on the path, and
    label changes of all points. ``mean`` has shape ``net.sweep_shape + (depth,)`` for one `swept`
    layer, ``net.sweep_shape + (len(swept), depth)`` for several. The last axis is the layer that
    is read out; NaN below the moving one.

    In float32 flips of two labels within a millionth of a radian count as one; float64 tells
    them apart.

    Raises
    ------
    ValueError
        for more than 62 points, points of another space, a layer that is not there, and
        ``method="exact"`` with a smooth activation.

    Examples
    --------
    >>> import jax
    >>> from jaxexpr import laws
    >>> net = MLP((4, 16, 16), laws.Gaussian(3.0), laws.Zero(), "hard_tanh")
    >>> found = dichotomies(net, np.eye(4), key=jax.random.key(0), draws=20)
    >>> float(found["flips"].mean[0])  # a great circle meets the plane of each point twice
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
    number = np.shape(inputs)[0]
    if number > MOST_POINTS:
        raise ValueError(
            f"inputs holds {number} points, whose labels are coded in {MOST_POINTS} bits: "
            f"give at most {MOST_POINTS}"
        )
    checks.held("inputs", inputs, net.dtype)
    numbers = isinstance(swept, int | np.integer | Sequence | np.ndarray)
    if not numbers or isinstance(swept, str):
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
    known = not checks.is_traced(inputs)
    moment = float(np.mean(np.square(np.asarray(inputs, np.float64)))) if known else None
    task = Sweep(
        layers=layers,
        several=not isinstance(swept, int | np.integer),
        readouts=readouts,
        quarters=PATHS[path],
        inputs=number,
        points=0 if exact else grid,
        capacities=tuple(
            initial_label_capacity(net, layer, moment, PATHS[path]) for layer in layers
        )
        if exact
        else (),
    )
    inputs = np.asarray(inputs, net.dtype)
    return run_task(task, net, inputs, key=key, draws=draws, **options)
