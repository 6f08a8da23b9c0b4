"""How a model is called: which shapes of an input are tried, and what is said if none fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxexpr._core import checks
from jaxexpr.convert.arrays import OTHERWISE


def called_with(call: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the further arguments of a model's call."""
    if call is not None and not isinstance(call, Mapping):
        raise ValueError(
            f"call={checks.shown(call)}: give a dictionary, such as {{'train': False}}"
        )
    return call or {}


def shapes(
    matrices: Sequence[tuple[int, ...]], input_shape: int | Sequence[int] | None
) -> list[tuple[int, ...]]:
    """Shapes of an input to try: one input, or a batch of one, of each fan-in there is.

    Those come first that no layer gives out, since the first layer's fan-in often is one of them.
    """
    if input_shape is not None:
        sizes = np.atleast_1d(np.asarray(input_shape, object)).tolist()
        shape = tuple(checks.integer("input_shape", size) for size in sizes)
        return [shape, (1, *shape)]
    given = [shape[-2] for shape in matrices if len(shape) > 1]
    made = {shape[-1] for shape in matrices if len(shape) > 1}
    sizes = list(dict.fromkeys(sorted(given, key=lambda size: size in made)))
    return [shape for size in sizes for shape in ((size,), (1, size))]


def not_called(
    tried: Sequence[tuple[int, ...]], failure: Exception | None, holds: str = ""
) -> ValueError:
    """The refusal of a model that none of the shapes fits."""
    if failure is None:
        return ValueError(f"module does not hold a matrix of weights: {OTHERWISE}")
    told = checks.shown(_Plain(f"{type(failure).__name__}: {failure}"), 200)
    return ValueError(
        f"module cannot be called with x of shape {' or '.join(map(str, tried[:4]))} ({told}): "
        f"give input_shape=, the shape of one input, and call=, what else its call takes, such as "
        f"{{'train': False}}{holds}"
    )


class _Plain(str):
    """Text that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)
