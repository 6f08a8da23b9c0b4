"""Checked parameters of given networks, and their precision."""

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
    """Return the curve if its points have the input width, or input shape, of a network."""
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
    """Return ``(W, b)`` of each layer; raise ValueError with advice for other objects."""
    if not isinstance(params, Mapping):  # a key of two letters would unpack as a pair
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
    """Return a tuple of ``(W, b)`` with compatible shapes and finite entries.

    networks : whether all arrays may have a leading axis, one entry for each network.

    Raises
    ------
    ValueError
        for wrong shapes or entries; the message names the layer.
    """
    pairs = pairs_of(params)
    if not pairs:
        raise ValueError("params=() is empty: give (W, b) of at least one layer")
    checked: list[tuple[Any, Any]] = []
    lead: tuple[int, ...] = np.shape(pairs[0][0])[:-2] if networks else ()
    fan_in = None
    for i, (weights, biases) in enumerate(pairs):
        weights = checks.numeric(f"params[{i}][0]", weights)
        biases = checks.numeric(f"params[{i}][1]", biases)
        shape = np.shape(weights)
        sizes = shape[len(lead) :]
        fits = len(sizes) == 2 and 0 not in sizes and shape[: len(lead)] == lead and len(lead) < 2
        if not fits or (fan_in is not None and sizes[0] != fan_in):
            front = "".join(f"{n}, " for n in lead)
            wanted = "fan_in, fan_out" if fan_in is None else f"{fan_in}, fan_out"
            more = f", or for a convolution {_A_FUNCTION}" if len(shape) >= 4 else ""
            raise ValueError(
                f"params[{i}][0] has shape {shape}: give W of shape ({front}{wanted}){more}"
            )
        if np.shape(biases) != (*lead, sizes[1]):
            raise ValueError(
                f"params[{i}][1] has shape {np.shape(biases)}: give b of shape {(*lead, sizes[1])}"
            )
        fan_in = sizes[1]
        checked.append((to_array(weights), to_array(biases)))
    return tuple(checked)


def to_array(value: Any) -> np.ndarray | jax.Array:
    """Return a NumPy or JAX array unchanged; convert any other object to NumPy."""
    return value if hasattr(value, "dtype") else np.asarray(value)
