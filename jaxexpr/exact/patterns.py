"""Activation patterns along a curve: the state of every unit on every piece."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr import checks
from jaxexpr.activations import Activation
from jaxexpr.curves import Curve, as_curve
from jaxexpr.exact.forward import Bends, Front, as_float64
from jaxexpr.exact.pieces import exact_activation, pieces
from jaxexpr.given import checked_params, fitting
from jaxexpr.networks import Params, precision

Array = np.ndarray


def patterns(
    params: Params, curve: Curve, activation: str | Activation = "relu"
) -> tuple[Array, ...]:
    """Activation patterns of the pieces that ``pieces`` finds, in the order of the curve.

    On a straight line no two pieces have the same pattern (Raghu et al. 2017, Corollary 1); on
    other curves a region may be met again.

    Parameters
    ----------
    params, curve, activation : as for ``pieces``; computed in float64 from its breakpoints on.

    Returns
    -------
    For each layer the number of breakpoints that each unit is beyond on each piece, for ReLU 1
    where it is active: ``(count, width)``, int8. A unit that stands on a breakpoint throughout a
    piece is not beyond it.

    Raises
    ------
    ValueError
        as ``pieces``, and for traced parameters.

    >>> from jaxexpr import curves
    >>> W, b = np.array([[1.0, -1.0]]), np.array([-0.25, 0.75])
    >>> patterns(((W, b),), curves.line([0.0], [1.0]))[0].tolist()
    [[0, 1], [1, 1], [1, 0]]
    """
    params = checked_params(params)
    if any(checks.is_traced(leaf) for leaf in jax.tree.leaves(params)):
        raise ValueError("params are traced: patterns are listed on the host, outside jit and vmap")
    curve = fitting("params[0][0]", int(np.shape(params[0][0])[0]), as_curve("curve", curve))
    phi = exact_activation(activation)
    t = pieces(params, curve, phi).breakpoints
    with precision("float64"):
        inside = jnp.asarray(_inside(t))
        front = Front(
            np.asarray(curve.astype("float64").points(inside)), as_float64(params), Bends(phi)
        )
    found = []
    for _ in params:
        h, slack = front.pre_activations()
        levels = front.bends.levels
        found.append(sum((h - c > slack for c in levels), np.zeros(h.shape, np.int8)))
        front.activate(h)
    return tuple(np.asarray(state, np.int8) for state in found)


def _inside(t: Array) -> Array:
    """A parameter inside each piece; ends may be infinite."""
    low, high = t[:-1], t[1:]
    with np.errstate(invalid="ignore"):
        middle = (low + high) / 2
    middle = np.where(np.isinf(low), high - 1, np.where(np.isinf(high), low + 1, middle))
    return np.where(np.isinf(low) & np.isinf(high), 0.0, middle)
