"""Networks from elsewhere: Flax modules, PyTorch state dicts and lists of arrays, as ``params``.

All of them are for fully connected layers with an activation between two of them. Anything else
that JAX can call (convolutions, residual connections, normalisation) goes to
``jaxexpr.exact.pieces_of`` as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxexpr import checks
from jaxexpr.given import checked_params

_OTHERWISE = "give the model itself to jaxexpr.exact.pieces_of"


def from_arrays(arrays: Any, *, readout: bool = True) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return ``params`` of a plain list of arrays: W and b of each layer, one after the other.

    Parameters
    ----------
    arrays : ``[W1, b1, W2, b2, ...]``, W ``(fan_in, fan_out)``; biases that are left out are 0. Or
        pairs ``[(W1, b1), ...]``.
    readout : whether the last layer is a linear read-out; it is left out of the result, which holds
        the layers that an activation follows.

    Returns
    -------
    A tuple of ``(W, b)``, NumPy, in the precision of the arrays.

    Raises
    ------
    ValueError
        naming the array, for shapes that do not chain.

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
        array = _array(f"arrays[{i}]", item)
        if array.ndim == 2:
            layers.append([array])
        elif array.ndim == 1 and layers and len(layers[-1]) == 1:
            layers[-1].append(array)
        else:
            raise ValueError(
                f"arrays[{i}] has shape {array.shape}: give W of two axes, then b of one"
            )
    return _layers(
        [(layer[0], layer[1] if len(layer) > 1 else None) for layer in layers], readout, "arrays"
    )


def from_torch_state(
    state: Mapping[str, Any], *, readout: bool = True
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return ``params`` of a PyTorch state dict of linear layers.

    Parameters
    ----------
    state : name to array, such as ``module.state_dict()``, ``safetensors.numpy.load_file(path)`` or
        ``numpy.load(path)``: ``NAME.weight`` ``(fan_out, fan_in)`` and ``NAME.bias`` of each
        ``torch.nn.Linear``. Layers come in the order in which `state` holds them, which is that of
        their definition in a state dict; names that differ in numbers alone, such as ``layers.2``
        and ``layers.10``, in that of the numbers. PyTorch itself is not needed.
    readout : as of ``from_arrays``.

    Returns
    -------
    A tuple of ``(W, b)``, NumPy, W transposed to ``(fan_in, fan_out)``.

    Raises
    ------
    ValueError
        naming the entry: shapes that do not chain, convolutions, running means, a bias without
        weights.

    >>> state = {"0.weight": np.ones((3, 2)), "0.bias": np.zeros(3), "2.weight": np.ones((1, 3))}
    >>> [W.shape for W, b in from_torch_state(state)]
    [(2, 3)]
    """
    if not hasattr(state, "keys"):
        raise ValueError(f"state={checks.shown(state)}: give a mapping of names to arrays")
    found: dict[str, dict[str, np.ndarray]] = {}
    for name in state:
        layer, _, kind = str(name).rpartition(".")
        if kind not in ("weight", "bias"):
            raise ValueError(
                f"state[{name!r}] is neither weight nor bias of a linear layer: {_OTHERWISE}, "
                "written in JAX"
            )
        found.setdefault(layer, {})[kind] = _array(f"state[{name!r}]", state[name])
    layers = []
    for layer in _ordered(found):
        weights = found[layer].get("weight")
        if weights is None or weights.ndim != 2:
            shape = "no weight" if weights is None else f"a weight of shape {weights.shape}"
            raise ValueError(
                f"state has {shape} for {layer!r}: give (fan_out, fan_in) of linear layers"
            )
        layers.append((weights.T, found[layer].get("bias")))
    return _layers(layers, readout, "state", _ordered(found))


def from_flax(
    module: Any, variables: Any = None, *, readout: bool = True
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return ``params`` of a Flax model of dense layers.

    Parameters
    ----------
    module : of ``flax.nnx``, whose ``Linear`` layers are taken in the order in which the module
        holds them, one that it holds twice being refused; or of ``flax.linen``, with its
        `variables`, whose layers are taken as of ``from_torch_state``. Its activation is not read:
        say ``activation=`` where the result is measured, if it is not ReLU.
    variables : of ``flax.linen``: what ``module.init`` returned, or ``{"params": ...}``.
    readout : as of ``from_arrays``.

    Raises
    ------
    ValueError
        naming the layer: convolutions, normalisation, shapes that do not chain.

    >>> from flax import nnx
    >>> rngs = nnx.Rngs(0)
    >>> model = nnx.Sequential(nnx.Linear(2, 3, rngs=rngs), nnx.relu, nnx.Linear(3, 1, rngs=rngs))
    >>> [W.shape for W, b in from_flax(model)]
    [(2, 3)]
    """
    from flax import linen, nnx

    if isinstance(module, nnx.Module):
        if variables is not None:
            raise ValueError("variables belong to flax.linen and module is of flax.nnx: leave out")
        held = list(_of_nnx(module, nnx))
        named = [name for name, _ in held]
        return _layers([layer for _, layer in held], readout, "module", named)
    if not isinstance(module, linen.Module):
        raise ValueError(f"module={checks.shown(module)} is no Flax module: {_OTHERWISE}")
    if not isinstance(variables, Mapping) or "params" not in variables:
        raise ValueError(
            f"variables={checks.shown(variables)}: give what module.init returned, with 'params'"
        )
    found = dict(_leaves(variables["params"]))
    layers = []
    for name in _ordered(found):
        entry = found[name]
        kernel = entry.get("kernel")
        if kernel is None or np.ndim(kernel) != 2 or set(entry) - {"kernel", "bias"}:
            raise ValueError(f"variables holds {name!r}, which is no dense layer: {_OTHERWISE}")
        bias = entry.get("bias")
        layers.append((_array(name, kernel), None if bias is None else _array(name, bias)))
    return _layers(layers, readout, "variables", _ordered(found))


def _of_nnx(module: Any, nnx: Any) -> Iterable[tuple[str, tuple[np.ndarray, Any]]]:
    """Names, weights and biases of the linear layers of a module, in its own order.

    Containers may hold a layer that the module holds as well, or lead back to the module.
    """
    held = {id(module): module}
    waiting = [("module", module)]
    while waiting:
        name, node = waiting.pop(0)
        if isinstance(node, nnx.Linear):
            bias = None if node.bias is None else _array(name, node.bias[...])
            yield name, (_array(name, node.kernel[...]), bias)
            continue
        inner = []
        for key, value in _held(node):
            if isinstance(value, nnx.Variable) and not isinstance(value, nnx.RngState):
                raise ValueError(f"{name} holds {key!r} and is no linear layer: {_OTHERWISE}")
            if not isinstance(value, nnx.Module | list | tuple | dict):
                continue
            if id(value) not in held:
                held[id(value)] = value
                inner.append((f"{name}.{key}", value))
            elif isinstance(value, nnx.Linear):
                raise ValueError(
                    f"{name}.{key} is held twice, which leaves the order open: give the layers to "
                    "from_arrays in the order in which they are used"
                )
        waiting = inner + waiting


def _held(node: Any) -> Iterable[tuple[str, Any]]:
    if hasattr(node, "items"):
        return [(str(k), v) for k, v in node.items()]
    if isinstance(node, Sequence) or (hasattr(node, "__iter__") and hasattr(node, "__len__")):
        return [(str(i), value) for i, value in enumerate(node)]
    return [(k, v) for k, v in vars(node).items() if not k.startswith("_")]


def _leaves(tree: Any, name: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """Names and entries of the innermost mappings."""
    if not any(isinstance(value, Mapping) for value in tree.values()):
        return [(name, tree)]
    found = []
    for key, value in tree.items():
        inner = f"{name}.{key}" if name else str(key)
        if not isinstance(value, Mapping):
            raise ValueError(f"variables holds {inner!r} beside layers: {_OTHERWISE}")
        found += _leaves(value, inner)
    return found


def _ordered(names: Iterable[str]) -> list[str]:
    """Names in the order in which they are given, but those that differ in numbers by these."""
    places: dict[Any, int] = {}

    def key(name: str) -> list[Any]:
        parts, found = name.split("."), []
        for i, part in enumerate(parts):
            alike = (*parts[:i], re.sub(r"\d+", "#", part))
            numbers = [int(number) for number in re.findall(r"\d+", part)]
            found.append((places.setdefault(alike, len(places)), numbers))
        return found

    keys = {name: key(name) for name in names}
    return sorted(keys, key=keys.__getitem__)


def _array(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{name} cannot be turned into an array ({error}): give NumPy arrays, of a tensor "
            "x.detach().cpu().numpy()"
        ) from error
    if array.dtype.kind == "V":  # bfloat16 and the like, which NumPy does not know
        array = array.astype(np.float32)
    return np.asarray(checks.numeric(name, array))


def _layers(
    layers: Sequence[tuple[Any, Any]], readout: bool, name: str, named: Sequence[str] = ()
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Check that layers chain; leave the read-out out. named : what they are called, if known."""
    if not layers or (readout and len(layers) < 2):
        mend = "say readout=False if an activation follows the last one" if layers else "give some"
        raise ValueError(f"{name} holds {len(layers)} layers, the read-out among them: {mend}")
    pairs = [
        (np.asarray(w), np.zeros(w.shape[1], w.dtype) if b is None else np.asarray(b))
        for w, b in layers
    ]
    for i in range(1, len(pairs) if named else 0):
        below, above = pairs[i - 1][0].shape, pairs[i][0].shape
        if below[1] != above[0]:
            raise ValueError(
                f"{name} holds {named[i - 1]!r} with {below[1]} outputs and then {named[i]!r} with "
                f"{above[0]} inputs: give the layers to from_arrays in the order of their use"
            )
    checked = checked_params(pairs)
    return tuple((np.asarray(w), np.asarray(b)) for w, b in (checked[:-1] if readout else checked))
