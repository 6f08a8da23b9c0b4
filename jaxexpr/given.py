"""Networks that are given rather than drawn: their parameters, checked, and their precision."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxexpr import activations, checks
from jaxexpr.curves import Curve, as_curve
from jaxexpr.networks import Network, Params


def given(
    params: Params, curve: Curve, activation: str | activations.Activation
) -> tuple[Params, Curve, activations.Activation, str]:
    """Check a network and a curve through it; choose the precision.

    Returns
    -------
    params, curve, the activation itself, and the precision: float64 for NumPy float64, that of the
    arrays otherwise.
    """
    params = checked_params(params)
    curve = fitting("params[0][0]", int(np.shape(params[0][0])[0]), as_curve("curve", curve))
    return params, curve, activations.get(activation), precision_of(params)


def precision_of(params: Any) -> str:
    """``"float64"`` if any array is of that type, else ``"float32"``."""
    kinds = {np.dtype(x.dtype) for x in jax.tree.leaves(params)}
    return "float64" if np.dtype(np.float64) in kinds else "float32"


def given_for(
    net: Network, params: Params, curve: Curve
) -> tuple[Params, Curve, activations.Activation, str]:
    """As ``given``, of the parameters of a network whose layers are those of `net`."""
    pairs = [op for op in net.ops if hasattr(op, "fan_in")]
    try:
        held = [(w, b) for w, b in params]
    except (TypeError, ValueError):
        held = []
    if len(held) != len(pairs):
        raise ValueError(
            f"params={checks.shown(params)}: give {len(pairs)} pairs (W, b), one for each layer of "
            "net that has weights"
        )
    for i, ((weights, biases), op) in enumerate(zip(held, pairs, strict=True)):
        for place, array, shape in ((0, weights, op.weights_shape), (1, biases, (op.outputs,))):
            found = np.shape(checks.numeric(f"params[{i}][{place}]", array))
            if found != shape:
                raise ValueError(f"params[{i}][{place}] has shape {found}: net asks for {shape}")
    arrays = tuple((_array(w), _array(b)) for w, b in held)
    curve = fitting("net.input_shape", net.input_shape, as_curve("curve", curve))
    return arrays, curve, net.activation, precision_of(arrays)


def fitting(name: str, size: int | tuple[int, ...], curve: Curve) -> Curve:
    """Return the curve if it lives in the input space of a network of this width, or shape."""
    shape = (size,) if isinstance(size, int) else size
    if curve.shape != shape:
        raise ValueError(
            f"curve lives in shape {curve.shape} and {name} is {size}: give points of shape "
            f"{shape}, or a network of that input"
        )
    return curve


def checked_params(params: Any, *, networks: bool = False) -> Params:
    """Return a tuple of ``(W, b)`` whose shapes chain and whose entries are finite.

    networks : whether all arrays may share a leading axis, one entry a network.

    Raises ValueError naming the layer.
    """
    try:
        pairs = [(w, b) for w, b in params]
    except (TypeError, ValueError):
        raise ValueError(
            f"params={checks.shown(params)}: give a sequence of pairs (W, b), one a layer"
        ) from None
    if not pairs:
        raise ValueError("params=() is empty: give (W, b) of at least one layer")
    checked: list[tuple[Any, Any]] = []
    lead: tuple[int, ...] = np.shape(pairs[0][0])[:-2] if networks else ()
    below = None
    for i, (weights, biases) in enumerate(pairs):
        weights = checks.numeric(f"params[{i}][0]", weights)
        biases = checks.numeric(f"params[{i}][1]", biases)
        shape = np.shape(weights)
        own = shape[len(lead) :]
        fits = len(own) == 2 and 0 not in own and shape[: len(lead)] == lead and len(lead) < 2
        if not fits or (below is not None and own[0] != below):
            front = "".join(f"{n}, " for n in lead)
            wanted = "fan_in, fan_out" if below is None else f"{below}, fan_out"
            raise ValueError(f"params[{i}][0] has shape {shape}: give W of shape ({front}{wanted})")
        if np.shape(biases) != (*lead, own[1]):
            raise ValueError(
                f"params[{i}][1] has shape {np.shape(biases)}: give b of shape {(*lead, own[1])}"
            )
        below = own[1]
        checked.append((_array(weights), _array(biases)))
    return tuple(checked)


def _array(value: Any) -> Any:
    return value if hasattr(value, "dtype") else np.asarray(value)
