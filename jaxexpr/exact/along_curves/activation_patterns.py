"""Activation patterns along a curve: the state of every unit on every piece."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.shapes import Float, Int, Shaped
from jaxexpr._core.x64 import precision
from jaxexpr.activations import Activation
from jaxexpr.curves import Curve, as_curve
from jaxexpr.exact.along_curves.solve import pieces
from jaxexpr.exact.along_curves.supported import exact_activation
from jaxexpr.exact.piecewise_linear import PiecewiseLinear
from jaxexpr.exact.planes.forward import ForwardPass, params_in_float64
from jaxexpr.params import Params, checked_params, fitting

BLOCK_BYTES = 2**27  # memory of the pre-activations of one block of pieces


@explained
def patterns(
    params: Params,
    curve: Curve,
    activation: str | Activation = "relu",
    *,
    packed: bool = False,
) -> tuple[Shaped[np.ndarray, "count states"], ...]:
    """Activation patterns of the pieces that ``pieces`` finds, in the order of the curve.

    On a straight line no two pieces have the same pattern (Raghu et al. 2017, Corollary 1); on
    other curves a region may occur more than once.

    Parameters
    ----------
    params, curve, activation : as for ``pieces``; given its breakpoints, computed in float64.
    packed : return one bit per unit and breakpoint instead of an int8 per unit: a million patterns
        of a thousand ReLU units take 125 MB. In both cases the pieces are processed in blocks.

    Returns
    -------
    For each layer an int8 array ``(count, width)``: the number of breakpoints below the
    pre-activation of each unit on each piece, for ReLU 1 where the unit is active. A breakpoint
    that equals the pre-activation on a whole piece is not counted. Packed: uint8
    ``(count, bytes)``, the bits of all units for the first breakpoint, then for the next, lowest
    bit first (``numpy.unpackbits(..., bitorder="little")``).

    Raises
    ------
    ValueError
        as ``pieces``, and if the parameters are traced.

    Examples
    --------
    >>> from jaxexpr import curves
    >>> W, b = np.array([[1.0, -1.0]]), np.array([-0.25, 0.75])
    >>> patterns(((W, b),), curves.line([0.0], [1.0]))[0].tolist()
    [[0, 1], [1, 1], [1, 0]]
    """
    params = checked_params(params)
    checks.concrete("params", params, "patterns are listed")
    curve = fitting("params[0][0]", int(np.shape(params[0][0])[0]), as_curve("curve", curve))
    phi = exact_activation(activation)
    t = pieces(params, curve, phi).breakpoints
    midpoints = _points_inside(t)
    params64 = params_in_float64(params)
    rows = max(BLOCK_BYTES // (8 * max(w.shape[1] for w, _ in params64)), 1)
    patterns_of_layers: list[list[np.ndarray]] = [[] for _ in params64]
    for begin in range(0, midpoints.size, rows):
        with precision("float64"):
            points = curve.astype("float64").points(jnp.asarray(midpoints[begin : begin + rows]))
        forward = ForwardPass(np.asarray(points), params64, PiecewiseLinear(phi))
        for states in patterns_of_layers:
            h, slack = forward.pre_activations()
            beyond = [h - level > slack for level in forward.piecewise.levels]
            if packed:
                bits = np.concatenate(beyond, axis=1) if beyond else np.zeros((len(h), 0), bool)
                states.append(np.packbits(bits, axis=1, bitorder="little"))
            else:
                states.append(sum(beyond, np.zeros(h.shape, np.int8)).astype(np.int8))
            forward.activate(h)
    return tuple(np.concatenate(states) for states in patterns_of_layers)


def distinct_patterns(
    states: Sequence[Shaped[np.ndarray, "count _"]],
) -> Int[np.ndarray, "depth"]:
    """Count the different patterns of the first d layers, ``(depth,)``.

    On a straight line there are as many as pieces, on a curve that meets a region twice fewer.

    Parameters
    ----------
    states : from ``patterns``, packed or not: one array ``(count, ...)`` for each layer.

    Raises
    ------
    ValueError
        if `states` is not what ``patterns`` returns.

    Examples
    --------
    >>> from jaxexpr import curves
    >>> W, b = np.array([[1.0, -1.0]]), np.array([0.0, 0.0])
    >>> there_and_back = curves.polyline([[1.0], [-1.0], [1.0]])
    >>> distinct_patterns(patterns(((W, b),), there_and_back)).tolist()
    [2]
    """
    if not isinstance(states, Sequence) or not states or not all(np.ndim(s) == 2 for s in states):
        raise ValueError(f"states={checks.shown(states)}: give what exact.patterns returned")
    counts, number = [], np.zeros(len(states[0]), np.int64)
    for layer in states:
        # The number of the pattern of all layers below, and this layer's pattern.
        rows = np.concatenate([number[:, None].view(np.uint8), layer.view(np.uint8)], axis=1)
        records = np.ascontiguousarray(rows).view(f"V{rows.shape[1]}").ravel()
        _, number = np.unique(records, return_inverse=True)
        number = number.astype(np.int64)
        counts.append(int(number.max(initial=-1)) + 1)
    return np.array(counts)


def _points_inside(t: Float[np.ndarray, "ends"]) -> Float[np.ndarray, "ends-1"]:
    """A parameter inside each piece; the ends of pieces may be infinite."""
    low, high = t[:-1], t[1:]
    with np.errstate(invalid="ignore"):
        middle = (low + high) / 2
    middle = np.where(np.isinf(low), high - 1, np.where(np.isinf(high), low + 1, middle))
    return np.where(np.isinf(low) & np.isinf(high), 0.0, middle)
