"""Rules of primitives that copy entries, or change no value over the reals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxexpr.exact.functions.equations import Array, Equation
from jaxexpr.exact.functions.linear_rules import Rule, real
from jaxexpr.exact.functions.values import Linear, Segment, Value


def _reshaped(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    value, shape = arguments[0], equation.shapes[0]
    values = value.values.reshape((-1, *shape))
    return [Linear(values, value.error.reshape(shape), segment.version)]


def _moves(*data: int, rest: bool = False) -> Rule:
    """Rule of a primitive that only copies entries of its arguments with the indices `data`.

    The primitive is applied once to arrays of flat indices instead of the entries.
    """

    def rule(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
        chosen = [i for i in range(len(arguments)) if i in data or (rest and i >= min(data))]
        labels, begin, starts = list(arguments), 0, {}
        for i, argument in enumerate(arguments):
            if i in chosen:
                shape = argument.shape if isinstance(argument, Linear) else np.shape(argument)
                end = begin + math.prod(shape)
                labels[i] = np.arange(begin, end, dtype=np.float64).reshape(shape)
                starts[i], begin = begin, end
            elif isinstance(argument, Linear):
                raise equation.refused("which chooses by a value that depends on x")
        outs = equation.primitive.bind(*labels, **equation.params)
        outs = outs if equation.primitive.multiple_results else [outs]
        return [_copied(segment, arguments, starts, np.asarray(out)) for out in outs]

    return rule


def _copied(
    segment: Segment, arguments: Sequence[Any], starts: dict[int, int], source: Array
) -> Linear:
    flat = source.ravel()
    rows = segment.t.size
    # Entries out of bounds (a gather that fills) have no source and are NaN.
    values, error = np.full((rows, flat.size), np.nan), np.full(flat.size, np.nan)
    for i, start in starts.items():
        argument = arguments[i]
        if isinstance(argument, Linear):
            entries, errors = argument.values.reshape(rows, -1), argument.error.ravel()
        else:
            entries, errors = real(argument).reshape(1, -1), np.zeros(np.size(argument))
        copied = np.flatnonzero((flat >= start) & (flat < start + errors.size))
        index = (flat[copied] - start).astype(np.int64)
        if copied.size == flat.size and len(entries) == rows:
            values, error = entries[:, index], errors[index]
        else:
            values[:, copied], error[copied] = entries[:, index], errors[index]
    return Linear(
        values.reshape((rows, *source.shape)), error.reshape(source.shape), segment.version
    )


def _same(segment: Segment, equation: Equation, arguments: Sequence[Any]) -> list[Value]:
    for argument, dtype in zip(arguments, equation.dtypes, strict=True):
        if isinstance(argument, Linear) and not jax.numpy.issubdtype(dtype, np.floating):
            raise equation.refused(f"which turns a value that depends on x into {dtype}")
    return list(arguments)


RULES: dict[str, Rule] = {
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "broadcast_in_dim": _moves(0),
    "transpose": _moves(0),
    "slice": _moves(0),
    "rev": _moves(0),
    "split": _moves(0),
    "tile": _moves(0),
    "gather": _moves(0),
    "dynamic_slice": _moves(0),
    "dynamic_update_slice": _moves(0, 1),
    "pad": _moves(0, 1),
    "scatter": _moves(0, 2),
    "concatenate": _moves(0, rest=True),
    "stack": _moves(0, rest=True),
    "select_n": _moves(1, rest=True),
    "convert_element_type": _same,
    "copy": _same,
    "copy_p": _same,
    "stop_gradient": _same,
    "reduce_precision": _same,
    "optimization_barrier": _same,
    "device_put": _same,
    "sharding_constraint": _same,
    "name": _same,
}
