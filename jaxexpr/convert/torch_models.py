"""PyTorch modules as ``params``: evaluated at points, and compared with a chain of layers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation
from jaxexpr.convert.arrays import OTHERWISE
from jaxexpr.convert.calls import called_with, not_called, shapes
from jaxexpr.convert.chain import Product, Recorded, chained, points

if TYPE_CHECKING:
    import torch

WRITTEN = f"{OTHERWISE}, written in JAX"
CASTS = ("to", "type", "type_as", "float", "half", "bfloat16")


@explained
def from_torch(
    module: torch.nn.Module,
    *,
    readout: bool = True,
    activation: str | Activation = "relu",
    input_shape: int | Sequence[int] | None = None,
    call: Mapping[str, Any] | None = None,
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Convert a PyTorch module that is a chain of ``torch.nn.Linear`` layers to ``params``.

    As for ``from_flax``: a float64 copy of the module is evaluated at 256 random inputs, its
    ``Linear`` layers are taken in the order of execution, and the inputs of each are compared with
    the activations of the previous one. Casts to float32 are ignored. The module is not changed.
    PyTorch is required; ``from_torch_state`` converts a state dict without it.

    Parameters
    ----------
    module : a ``torch.nn.Module``, in inference mode (``module.eval()``) if it has dropout or batch
        normalisation. A layer may be used several times.
    readout, activation, input_shape, call : as for ``from_flax``.

    Returns
    -------
    A tuple of ``(W, b)``, NumPy float64, W transposed to ``(fan_in, fan_out)``.

    Raises
    ------
    ValueError
        as for ``from_flax``, and if PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise ValueError(
            "module needs PyTorch, which is not installed: install torch, or give "
            "module.state_dict() in NumPy arrays to from_torch_state"
        ) from None
    if not isinstance(module, torch.nn.Module):
        raise ValueError(
            f"module={checks.shown(module)} is not a torch.nn.Module: of a state dict, give it to "
            "from_torch_state"
        )
    for name, part in module.named_modules():
        kinds = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
        if part.training and isinstance(part, kinds):
            raise ValueError(
                f"module is in training mode ({name or 'module'}, {type(part).__name__}): call "
                "module.eval()"
            )
    record = _recorded_torch(module, torch, input_shape, called_with(call))
    return chained(record, activation, readout)


def _recorded_torch(
    module: torch.nn.Module,
    torch: ModuleType,
    input_shape: int | Sequence[int] | None,
    extra: Mapping[str, Any],
) -> Recorded:
    module = copy.deepcopy(getattr(module, "_orig_mod", module)).to("cpu", torch.float64)
    names = {part: name or "module" for name, part in module.named_modules()}
    layers = [part for part in names if isinstance(part, torch.nn.Linear)]
    for name, value in module.named_parameters():
        checks.numeric(name, value.detach().numpy())
    tried = shapes([(part.in_features, part.out_features) for part in layers], input_shape)
    with torch.no_grad(), _double(torch):
        shape = _checked_shape(module, torch, tried, extra)
        rows = points(int(np.prod(shape)))
        calls_by_row, outs = [], []
        for row in rows:
            calls: list[tuple[Any, np.ndarray]] = []
            hooks = [part.register_forward_hook(_recording(calls)) for part in layers]
            outs.append(module(torch.tensor(row).reshape(shape), **extra))
            calls_by_row.append(calls)
            for hook in hooks:
                hook.remove()
        again = [module(torch.tensor(row).reshape(shape), **extra) for row in rows]
    if not isinstance(outs[0], torch.Tensor):
        raise ValueError(
            f"module returns {type(outs[0]).__name__} and not one tensor (several heads?): "
            f"{WRITTEN}"
        )
    if not all(torch.equal(out, other) for out, other in zip(outs, again, strict=True)):
        raise ValueError(
            "module answers the same input differently each time: call module.eval(), which leaves "
            "dropout out"
        )
    used = [part for part, _ in calls_by_row[0]]
    if any([part for part, _ in calls] != used for calls in calls_by_row):
        raise ValueError(f"module uses other layers for other inputs: {WRITTEN}")
    products = []
    for number, part in enumerate(used):
        name, weights = names[part], part.weight.detach().numpy().T
        inputs = np.stack([calls[number][1] for calls in calls_by_row])
        if inputs.shape[1] != weights.shape[0]:
            raise ValueError(f"module applies {name!r} to several vectors at once: {WRITTEN}")
        outputs = weights.shape[1]
        bias = np.zeros(outputs) if part.bias is None else part.bias.detach().numpy()
        uses = sum(other is part for other in used[:number])
        name = f"{name} (use {uses + 1})" if uses else name
        products.append(Product(name, weights, inputs, [(np.ones(outputs), bias)]))
    used_ids = {id(value) for part in used for value in part.parameters()}
    unused = [name for name, value in module.named_parameters() if id(value) not in used_ids]
    output = np.stack([out.detach().numpy().ravel() for out in outs])
    return Recorded(rows, output, products, unused, otherwise=WRITTEN)


def _double(torch: ModuleType) -> AbstractContextManager[object]:
    """Return a context in which casts of float64 tensors to a narrower type have no effect."""
    mode: Any = torch.overrides.TorchFunctionMode

    class Double(mode):
        def __torch_function__(
            self,
            func: Callable[..., Any],
            types: Iterable[type],
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> object:
            out = func(*args, **(kwargs or {}))
            cast = getattr(func, "__name__", None) in CASTS and isinstance(out, torch.Tensor)
            narrowed = cast and out.is_floating_point() and args[0].dtype == torch.float64
            return args[0] if narrowed else out

    return Double()


def _recording(
    calls: list[tuple[Any, np.ndarray]],
) -> Callable[[torch.nn.Module, tuple[torch.Tensor, ...], torch.Tensor], None]:
    """Return a hook that records a layer and its inputs."""

    def note(part: torch.nn.Module, inputs: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        calls.append((part, inputs[0].detach().numpy().copy().ravel()))

    return note


def _checked_shape(
    module: torch.nn.Module,
    torch: ModuleType,
    tried: Sequence[tuple[int, ...]],
    extra: Mapping[str, Any],
) -> tuple[int, ...]:
    """The first shape of an input that the module accepts."""
    failure: Exception | None = None
    for shape in tried:
        try:
            module(torch.zeros(shape, dtype=torch.float64), **extra)
        except Exception as error:  # any error of a user's module for a wrong input
            failure = failure or error
            continue
        return shape
    raise not_called(tried, failure)
