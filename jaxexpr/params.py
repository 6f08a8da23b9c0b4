"""Networks that are given rather than drawn: their parameters, checked, and their precision."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr.curves import Curve, as_curve

Params = Sequence[tuple[Any, Any]]


def validate(
    params: Params,
    curve: Curve,
    activation: str | activations.Activation,
    *,
    networks: bool = False,
) -> tuple[Params, Curve, activations.Activation, str]:
    """Check a network, or several, and a curve through it; choose the precision.

    Returns
    -------
    params, curve, the activation itself, and the precision: float64 for NumPy float64, that of the
    arrays otherwise.
    """
    params = checked_params(params, networks=networks)
    curve = fitting("params[0][0]", int(np.shape(params[0][0])[-2]), as_curve("curve", curve))
    return params, curve, activations.get(activation), precision_of(params)


def precision_of(params: object) -> str:
    """``"float64"`` if any array is of that type, else ``"float32"``."""
    kinds = {np.dtype(x.dtype) for x in jax.tree.leaves(params)}
    return "float64" if np.dtype(np.float64) in kinds else "float32"


def fitting(name: str, size: int | tuple[int, ...], curve: Curve) -> Curve:
    """Return the curve if it lives in the input space of a network of this width, or shape."""
    shape = (size,) if isinstance(size, int) else size
    if curve.shape != shape:
        raise ValueError(
            f"curve lives in shape {curve.shape} and {name} is {size}: give points of shape "
            f"{shape}, or a network of that input"
        )
    return curve


_A_FUNCTION = "use exact.pieces_of(function, x0, x1), which takes any JAX function"
_NO_MORE = "(distances, planes and cells are of fully connected layers alone)"


def pairs_of(params: Params) -> list[tuple[Any, Any]]:
    """Return ``(W, b)`` of each layer; refuse what is something else and say where it belongs."""
    if not isinstance(params, Mapping):  # a name of two letters would pass for a pair
        with contextlib.suppress(TypeError, ValueError):
            return [(w, b) for w, b in params]
    kinds = {kind.__module__.partition(".")[0] for kind in type(params).__mro__}
    fix = "give a sequence of pairs (W, b), one a layer"
    if "jaxexpr" in kinds and hasattr(params, "init"):
        fix = "give its parameters, net.init(key)"
        if "MLP" in {kind.__name__ for kind in type(params).__mro__}:
            fix += "; of many networks, estimate(net, curve, ...)"
        else:
            fix += f", with net=net; or {_A_FUNCTION} {_NO_MORE}"
    elif "flax" in kinds:
        fix = f"give from_flax(model) of dense layers, or {_A_FUNCTION} {_NO_MORE}"
    elif "torch" in kinds:
        fix = f"give from_torch(model) {_NO_MORE}"
    elif isinstance(params, Mapping):
        fix = "give from_flax(module, variables) of Flax, from_torch_state(state) of PyTorch"
    elif callable(params):
        fix = f"{_A_FUNCTION}; or {fix} {_NO_MORE}"
    elif isinstance(params, tuple | list) and len(params) == 2 and np.ndim(params[0]) == 2:
        fix += ": [(W, b)] for one layer"
    raise ValueError(f"params={checks.shown(params, 40)}: {fix}")


def checked_params(params: Params, *, networks: bool = False) -> Params:
    """Return a tuple of ``(W, b)`` whose shapes chain and whose entries are finite.

    networks : whether all arrays may share a leading axis, one entry a network.

    Raises
    ------
    ValueError
        naming the layer.
    """
    pairs = pairs_of(params)
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
            more = f", or for a convolution {_A_FUNCTION}" if len(shape) >= 4 else ""
            raise ValueError(
                f"params[{i}][0] has shape {shape}: give W of shape ({front}{wanted}){more}"
            )
        if np.shape(biases) != (*lead, own[1]):
            raise ValueError(
                f"params[{i}][1] has shape {np.shape(biases)}: give b of shape {(*lead, own[1])}"
            )
        below = own[1]
        checked.append((to_array(weights), to_array(biases)))
    return tuple(checked)


def to_array(value: Any) -> np.ndarray | jax.Array:
    """Return an array of NumPy or JAX as it is, anything else as one of NumPy."""
    return value if hasattr(value, "dtype") else np.asarray(value)
