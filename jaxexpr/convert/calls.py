"""Calls of a model: shapes of an input to try, and the error if none is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxexpr._core import checks
from jaxexpr.convert.arrays import OTHERWISE


def called_with(call: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the checked keyword arguments of a model's call."""
    if call is not None and not isinstance(call, Mapping):
        raise ValueError(
            f"call={checks.shown(call)}: give a dictionary, such as {{'train': False}}"
        )
    return call or {}


def shapes(
    matrices: Sequence[tuple[int, ...]], input_shape: int | Sequence[int] | None
) -> list[tuple[int, ...]]:
    """Shapes of an input to try: a single input, or a batch of one, of each fan-in.

    Sizes that are not the fan-out of any layer come first, since the input size often is one.
    """
    if input_shape is not None:
        sizes = np.atleast_1d(np.asarray(input_shape, object)).tolist()
        shape = tuple(checks.integer("input_shape", size) for size in sizes)
        return [shape, (1, *shape)]
    fan_ins = [shape[-2] for shape in matrices if len(shape) > 1]
    fan_outs = {shape[-1] for shape in matrices if len(shape) > 1}
    sizes = list(dict.fromkeys(sorted(fan_ins, key=lambda size: size in fan_outs)))
    return [shape for size in sizes for shape in ((size,), (1, size))]


def not_called(
    tried: Sequence[tuple[int, ...]], failure: Exception | None, holds: str = ""
) -> ValueError:
    """Return the error for a model that accepts none of the shapes."""
    if failure is None:
        return ValueError(f"module does not hold a matrix of weights: {OTHERWISE}")
    reason = checks.shown(_Plain(f"{type(failure).__name__}: {failure}"), 200)
    return ValueError(
        f"module cannot be called with x of shape {' or '.join(map(str, tried[:4]))} ({reason}): "
        f"give input_shape=, the shape of one input, and call=, what else its call takes, such as "
        f"{{'train': False}}{holds}"
    )


class _Plain(str):
    """Text that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)
