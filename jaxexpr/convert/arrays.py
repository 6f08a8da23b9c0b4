"""Plain arrays as ``params``: the common last step of all conversions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.params import checked_params

OTHERWISE = "give the model itself to jaxexpr.exact.pieces_of"


@explained
def from_arrays(
    arrays: Iterable[Any], *, readout: bool = True
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Convert a list of arrays, W and b of each layer in turn, to ``params``.

    Parameters
    ----------
    arrays : ``[W1, b1, W2, b2, ...]``, W ``(fan_in, fan_out)``, or pairs ``[(W1, b1), ...]``, in
        the order of the layers; missing biases are 0.
    readout : whether the last layer is a linear readout. It is omitted from the result, which
        contains only the layers followed by an activation.

    Returns
    -------
    A tuple of ``(W, b)``, NumPy float64.

    Raises
    ------
    ValueError
        if an array is invalid, or consecutive layers have incompatible shapes; the message names
        the array.

    Examples
    --------
    >>> params = from_arrays([np.eye(2, 3), np.zeros(3), np.ones((3, 1))])
    >>> [(W.shape, b.shape) for W, b in params]
    [((2, 3), (3,))]
    """
    if not isinstance(arrays, Iterable) or isinstance(arrays, str | Mapping):
        raise ValueError(f"arrays={checks.shown(arrays)}: give a list of arrays, W and b in turn")
    flat: list[Any] = []
    for item in arrays:
        paired = isinstance(item, tuple | list) and len(item) == 2 and np.ndim(item[0]) == 2
        flat += list(item) if paired else [item]
    layers: list[list[Any]] = []
    for i, item in enumerate(flat):
        array = as_array(f"arrays[{i}]", item)
        if array.ndim == 2:
            layers.append([array])
        elif array.ndim == 1 and layers and len(layers[-1]) == 1:
            layers[-1].append(array)
        else:
            raise ValueError(
                f"arrays[{i}] has shape {array.shape}: give W of two axes, then b of one"
            )
    return as_params(
        [(layer[0], layer[1] if len(layer) > 1 else None) for layer in layers], readout, "arrays"
    )


def as_array(name: str, value: object) -> np.ndarray:
    """Convert `value` to float64, which represents every number of a narrower type exactly."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{name} cannot be turned into an array ({error}): give NumPy arrays, of a tensor "
            "x.detach().cpu().numpy()"
        ) from error
    if array.dtype.kind == "V":  # types unknown to NumPy, such as bfloat16
        array = array.astype(np.float32)
    return np.asarray(checks.numeric(name, array)).astype(np.float64)


def as_params(
    layers: Sequence[tuple[Any, Any]], readout: bool, name: str, named: Sequence[str] = ()
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Check that shapes of layers fit; omit the readout. named : names of the layers, if any."""
    if not layers or (readout and len(layers) < 2):
        fix = "say readout=False if an activation follows the last one" if layers else "give some"
        raise ValueError(f"{name} holds {len(layers)} layers, the readout among them: {fix}")
    pairs = [(w, np.zeros(w.shape[1]) if b is None else b) for w, b in layers]
    for i in range(1, len(pairs) if named else 0):
        below, above = pairs[i - 1][0].shape, pairs[i][0].shape
        if below[1] != above[0]:
            raise ValueError(
                f"{name} holds {named[i - 1]!r} with {below[1]} outputs and then {named[i]!r} with "
                f"{above[0]} inputs: give the layers to from_arrays in the order of their use"
            )
    checked = checked_params(pairs)
    return tuple((np.asarray(w), np.asarray(b)) for w, b in (checked[:-1] if readout else checked))
