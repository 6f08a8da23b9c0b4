"""PyTorch state dicts as ``params``; the order of the layers follows from names and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.convert.arrays import OTHERWISE, as_array, as_params

STEPS = 10_000  # limit of the search for orders; beyond it the order counts as ambiguous


@explained
def from_torch_state(
    state: Mapping[str, Any], *, readout: bool = True, order: Sequence[str] | None = None
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Convert a PyTorch state dict of linear layers to ``params``.

    A state dict contains neither the order of the layers (safetensors sorts the names) nor
    activations nor skip connections. The order is inferred from names and shapes; an ambiguous one
    raises ValueError. Whether the network is a chain with a given activation cannot be checked;
    ``from_torch`` takes a module and checks it.

    Parameters
    ----------
    state : name to array, such as ``module.state_dict()``, ``safetensors.numpy.load_file(path)`` or
        ``numpy.load(path)``: ``NAME.weight`` ``(fan_out, fan_in)`` and ``NAME.bias`` of each
        ``torch.nn.Linear``. PyTorch itself is not needed. Layers whose names differ only in
        numbers, such as ``layers.2`` and ``layers.10``, are ordered by these; the order of the
        others must follow from their shapes.
    readout : as for ``from_arrays``.
    order : names of all layers in the order of use, such as ``["first", "second", "out"]``.

    Returns
    -------
    A tuple of ``(W, b)``, NumPy float64, W transposed to ``(fan_in, fan_out)``.

    Raises
    ------
    ValueError
        if several orders fit, shapes are incompatible, an entry is no weight or bias of a linear
        layer, a bias has no weights, or `order` does not name every layer once; the message names
        the entry.

    Examples
    --------
    >>> state = {"0.weight": np.ones((3, 2)), "0.bias": np.zeros(3), "2.weight": np.ones((1, 3))}
    >>> [W.shape for W, b in from_torch_state(state)]
    [(2, 3)]
    """
    if not hasattr(state, "keys"):
        raise ValueError(f"state={checks.shown(state)}: give a mapping of names to arrays")
    entries: dict[str, dict[str, np.ndarray]] = {}
    for name in state:
        layer, _, kind = str(name).rpartition(".")
        if kind not in ("weight", "bias"):
            raise ValueError(
                f"state[{name!r}] is neither weight nor bias of a linear layer: {OTHERWISE}, "
                "written in JAX"
            )
        entries.setdefault(layer, {})[kind] = as_array(f"state[{name!r}]", state[name])
    layers = {}
    for layer, entry in entries.items():
        weights = entry.get("weight")
        if weights is None or weights.ndim != 2:
            shape = "no weight" if weights is None else f"a weight of shape {weights.shape}"
            raise ValueError(
                f"state has {shape} for {layer!r}: give (fan_out, fan_in) of linear layers"
            )
        layers[layer] = (weights.T, entry.get("bias"))
    names = _unique_order(layers) if order is None else _given_order(order, layers)
    return as_params([layers[name] for name in names], readout, "state", names)


def _given_order(order: Sequence[str], layers: Mapping[str, Any]) -> list[str]:
    """Return the order given by the caller, if it names every layer once."""
    names: list[Any] = (
        [order] if isinstance(order, str) or not hasattr(order, "__iter__") else list(order)
    )
    if sorted(map(str, names)) != sorted(layers):
        raise ValueError(
            f"order={checks.shown(order)}: name each layer of state once, in the order of use: "
            f"{', '.join(map(repr, layers))}"
        )
    return names


def _unique_order(layers: Mapping[str, Any]) -> list[str]:
    """Return the unique order with compatible shapes that respects numbers in names."""
    shapes = {name: weights.shape for name, (weights, _) in layers.items()}
    search = _orders(shapes)
    first, second = next(search, None), next(search, None)
    if first is None:  # used in the error message about shapes
        return _by_numbers(shapes)
    if second is not None:
        a, b = next((a, b) for a, b in zip(first, second, strict=True) if a != b)
        raise ValueError(
            f"state leaves open which of {a!r} {shapes[a]} and {b!r} {shapes[b]} is used first: "
            f"give order=[...], the names of all layers in the order of use, or the module to "
            "from_torch"
        )
    return first


def _orders(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[list[str]]:
    """Orders with compatible shapes that respect the numbers in the names."""
    after = {b: {a for a in shapes if _before(a, b)} for b in shapes}
    waiting: list[list[str]] = [[]]
    steps = 0
    while waiting:
        order = waiting.pop()
        if len(order) == len(shapes):
            yield order
            continue
        steps += 1
        if steps > STEPS:
            names = sorted(shapes)
            raise ValueError(
                f"state leaves the order of its {len(names)} layers open ({names[0]!r}, "
                f"{names[1]!r}, ...): give order=[...], their names in the order of use"
            )
        used = set(order)
        for name, (fan_in, _) in reversed(list(shapes.items())):
            fits = not order or shapes[order[-1]][1] == fan_in
            if name not in used and fits and after[name] <= used:
                waiting.append([*order, name])


def _before(a: str, b: str) -> bool:
    """Whether the first different parts differ only in numbers, smaller ones in `a`."""
    for left, right in zip(a.split("."), b.split("."), strict=False):
        if left != right:
            alike = re.sub(r"\d+", "#", left) == re.sub(r"\d+", "#", right)
            return alike and _numbers_in(left) < _numbers_in(right)
    return False


def _numbers_in(part: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", part)]


def _by_numbers(shapes: Mapping[str, Any]) -> list[str]:
    """Names in their order, except that names that differ only in numbers are sorted by these."""
    remaining, order = list(shapes), []
    while remaining:
        name = next(b for b in remaining if not any(_before(a, b) for a in remaining))
        remaining.remove(name)
        order.append(name)
    return order
