"""Evaluate a jaxpr along a segment: calls are inlined, loops unrolled, dead code is skipped."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core, source_info_util
from jax.typing import DTypeLike

from jaxexpr.exact.functions import indexing_rules, linear_rules, max_rules, nonlinear_rules
from jaxexpr.exact.functions.equations import Equation
from jaxexpr.exact.functions.linear_rules import mapped
from jaxexpr.exact.functions.values import Linear, Segment, Steps, Value

RULES = linear_rules.RULES | indexing_rules.RULES | max_rules.RULES | nonlinear_rules.RULES
# Rules that accept values that jump between pieces.
TAKE_STEPS = ("mul", "div", "select_n")
# Primitives that call a function once, and the parameter that holds it.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}


class Walk:
    """Evaluates the equations of a function in order on a segment.

    Attributes
    ----------
    segment : segment into which breakpoints are inserted.
    dtype : the lowest floating precision of a value that depends on x so far.
    done : number of steps done, as ``steps`` counts them.
    """

    def __init__(self, segment: Segment, dtype: DTypeLike, see: Callable[[int], None]) -> None:
        self.segment = segment
        self.dtype = np.dtype(dtype)
        self.done, self._report, self._inside = 0, see, 0

    def run(
        self, jaxpr: core.Jaxpr, consts: Sequence[Any], arguments: Sequence[Any],
        wanted: Sequence[bool], place: str,
    ) -> list[Any]:  # fmt: skip
        """Return the outputs of a jaxpr; those that are not `wanted` are ``None``."""
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

        def read(atom: core.Literal | core.Var) -> Value:
            if isinstance(atom, core.Literal):
                return np.asarray(atom.val, array_of(atom).dtype)
            return values[atom]

        outs = [v if w else None for v, w in zip(jaxpr.outvars, wanted, strict=True)]
        for equation, used, last in _needed(jaxpr, outs):
            inputs = [read(atom) for atom in equation.invars]
            location = _location(equation, place)
            outputs = self.step(equation, inputs, used, location)
            for variable, value in zip(equation.outvars, outputs, strict=True):
                values[variable] = value
                if isinstance(value, Linear):
                    self._note(array_of(variable))
            for variable in last:
                del values[variable]
        return [None if out is None else read(out) for out in outs]

    def _note(self, aval: jax.core.ShapedArray) -> None:
        dtype = aval.dtype
        floating = jax.numpy.issubdtype(dtype, np.floating)
        if floating and np.dtype(dtype).itemsize < self.dtype.itemsize:
            self.dtype = np.dtype(dtype)

    def _count_steps(self, steps: int) -> None:
        if not self._inside:
            self.done += steps
            self._report(self.done)

    def step(
        self, eqn: core.JaxprEqn, inputs: list[Any], used: Sequence[bool], place: str
    ) -> Sequence[Any]:
        """Carry out one equation."""
        name, params = eqn.primitive.name, eqn.params
        if name in CALLS:
            jaxpr, consts = _opened(params[CALLS[name]])
            return self.run(jaxpr, consts, inputs, used, place)
        avals = [variable.aval for variable in eqn.outvars]
        equation = Equation(
            eqn.primitive,
            params,
            tuple(getattr(a, "shape", ()) for a in avals),
            tuple(getattr(a, "dtype", None) for a in avals),
            place,
        )
        moving = [isinstance(x, Linear | Steps) for x in inputs]
        if not any(moving):
            outs = eqn.primitive.bind(*inputs, **params)
            self._count_steps(_steps_of(eqn, used))
            return outs if eqn.primitive.multiple_results else [outs]
        if name == "scan":
            return self.scan(equation, inputs, used)
        if name in LOOPS:  # their number of steps is not known in advance
            self._inside += 1
            outs = LOOPS[name](self, equation, inputs, used)
            self._inside -= 1
        else:
            outs = self._applied(equation, inputs, moving)
        self._count_steps(1)
        return outs

    def _applied(
        self, equation: Equation, inputs: list[Any], moving: Sequence[bool]
    ) -> Sequence[Any]:
        """Carry out one equation that calls no function."""
        name = equation.name
        sizes = [math.prod(shape) for shape in equation.shapes]
        sizes += [math.prod(x.shape) for x in inputs if isinstance(x, Linear | Steps)]
        self.segment.reserve(max(sizes))
        inputs = [self.segment.now(x) for x in inputs]
        if not any(isinstance(x, Linear) for x in inputs):
            rows = [x.values if isinstance(x, Steps) else x for x in inputs]
            return [Steps(out, self.segment.version) for out in mapped(equation, rows, moving)]
        if name not in RULES:
            raise equation.refused("which is not piecewise linear in x, or not known to be")
        if name not in TAKE_STEPS:
            inputs = [self.segment.settled(equation, x) for x in inputs]
        return RULES[name](self.segment, equation, inputs)

    def scan(
        self, equation: Equation, inputs: Sequence[Any], used: Sequence[bool]
    ) -> Sequence[Any]:
        """A loop of a fixed number of iterations, one after the other."""
        p = equation.params
        jaxpr, constants = _opened(p["jaxpr"])
        fixed, carried = p["num_consts"], p["num_carry"]
        rounds = range(p["length"])
        carry = list(inputs[fixed : fixed + carried])
        stacks: list[list[Any]] = [[] for _ in used[carried:]]
        for i in reversed(rounds) if p["reverse"] else rounds:
            slices = [_entry(self.segment.now(x), i) for x in inputs[fixed + carried :]]
            wanted = [True] * carried + list(used[carried:])
            outs = self.run(
                jaxpr, constants, [*inputs[:fixed], *carry, *slices], wanted, equation.place
            )
            carry = outs[:carried]
            for stack, out in zip(stacks, outs[carried:], strict=True):
                stack.append(out)
        if p["reverse"]:
            stacks = [stack[::-1] for stack in stacks]
        if not rounds:
            empty = zip(equation.shapes[carried:], equation.dtypes[carried:], strict=True)
            return [*carry, *(np.zeros(shape, dtype) for shape, dtype in empty)]
        return [*carry, *(self._stacked(equation, stack) for stack in stacks)]

    def _stacked(self, equation: Equation, stack: list[Any]) -> Value | None:
        if stack[0] is None:
            return None
        stack = [self.segment.now(x) for x in stack]
        if not any(isinstance(x, Linear | Steps) for x in stack):
            return np.stack([np.asarray(x) for x in stack])
        rows = self.segment.t.size
        if any(isinstance(x, Linear) for x in stack):
            stack = [self.segment.settled(equation, x) for x in stack]
            values = [
                x.values if isinstance(x, Linear) else np.broadcast_to(x, (rows, *np.shape(x)))
                for x in stack
            ]
            errors = [x.error if isinstance(x, Linear) else np.zeros(np.shape(x)) for x in stack]
            version = self.segment.version
            return Linear(np.stack(values, axis=1).astype(np.float64), np.stack(errors), version)
        values = [
            x.values if isinstance(x, Steps) else np.broadcast_to(x, (rows - 1, *np.shape(x)))
            for x in stack
        ]
        return Steps(np.stack(values, axis=1), self.segment.version)

    def loop(
        self, equation: Equation, inputs: Sequence[Any], used: Sequence[bool]
    ) -> Sequence[Any]:
        """A loop whose condition does not depend on x."""
        p = equation.params
        test, test_consts = _opened(p["cond_jaxpr"])
        body, body_consts = _opened(p["body_jaxpr"])
        first, second = p["cond_nconsts"], p["body_nconsts"]
        for_test, for_body = inputs[:first], inputs[first : first + second]
        carry = list(inputs[first + second :])
        while self._decided(
            equation, self.run(test, test_consts, [*for_test, *carry], [True], equation.place)[0]
        ):
            wanted = [True] * len(carry)
            carry = self.run(body, body_consts, [*for_body, *carry], wanted, equation.place)
        return carry

    def branch(
        self, equation: Equation, inputs: Sequence[Any], used: Sequence[bool]
    ) -> Sequence[Any]:
        """A choice between functions that does not depend on x."""
        branches = equation.params["branches"]
        index = min(max(self._decided(equation, inputs[0]), 0), len(branches) - 1)
        jaxpr, consts = _opened(branches[index])
        return self.run(jaxpr, consts, inputs[1:], used, equation.place)

    def _decided(self, equation: Equation, value: Value) -> int:
        if isinstance(value, Linear | Steps):
            raise equation.refused("whose condition depends on x")
        return int(np.asarray(value))


LOOPS = {"scan": Walk.scan, "while": Walk.loop, "cond": Walk.branch}


def steps(jaxpr: core.Jaxpr, wanted: Sequence[bool]) -> int:
    """Number of steps of a jaxpr: its equations, and those of the functions and loops they call.

    A loop with a condition, or a choice, is one step. Outputs that are not `wanted` cost nothing.
    """
    outs = [v if w else None for v, w in zip(jaxpr.outvars, wanted, strict=True)]
    return sum(_steps_of(equation, used) for equation, used, _ in _needed(jaxpr, outs))


def _steps_of(equation: core.JaxprEqn, used: Sequence[bool]) -> int:
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        return steps(_opened(params[CALLS[name]])[0], used)
    if name != "scan":
        return 1
    carried = params["num_carry"]
    wanted = [True] * carried + list(used[carried:])
    return int(params["length"]) * steps(_opened(params["jaxpr"])[0], wanted)


def array_of(atom: core.Literal | core.Var) -> jax.core.ShapedArray:
    """Shape and type of an atom of a jaxpr."""
    aval: Any = atom.aval
    return aval


def _opened(jaxpr: core.Jaxpr | core.ClosedJaxpr) -> tuple[core.Jaxpr, Sequence[Any]]:
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, core.ClosedJaxpr) else (jaxpr, ())


def _entry(value: Value, index: int) -> Value:
    if isinstance(value, Linear):
        return Linear(value.values[:, index], value.error[index], value.version)
    if isinstance(value, Steps):
        return Steps(value.values[:, index], value.version)
    return value[index]


def _needed(
    jaxpr: core.Jaxpr, outs: Sequence[Any]
) -> list[tuple[core.JaxprEqn, list[bool], list[core.Var]]]:
    """Equations that `outs` depend on; which of their outputs; variables last read by each."""
    live = {v for v in outs if v is not None and not isinstance(v, core.Literal)}
    equations = []
    for equation in reversed(jaxpr.eqns):
        used = [variable in live for variable in equation.outvars]
        if not any(used):
            continue
        read = {v for v in equation.invars if not isinstance(v, core.Literal)}
        equations.append((equation, used, [v for v in read if v not in live]))
        live |= read
    return equations[::-1]


_LIBRARIES = tuple(f"{os.sep}{name}{os.sep}" for name in ("flax", "haiku", "equinox"))
_PYTHON = ("site-packages", os.path.dirname(os.__file__))


def _summary(source: source_info_util.SourceInfo) -> str:
    """File and line of an equation; inside a layer of a library, those of the user's code."""
    file = str(source_info_util.summarize(source))
    if source.traceback is not None and any(name in file for name in _LIBRARIES):
        inside = False
        for frame in source.traceback.frames:
            inside = inside or any(name in frame.file_name for name in _LIBRARIES)
            if frame.file_name.startswith(os.path.dirname(__file__)):
                break
            if inside and not any(name in frame.file_name for name in _PYTHON):
                return f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
    return file


def _location(equation: core.JaxprEqn, caller: str) -> str:
    """Source location of an equation; without one, that of its caller."""
    file = _summary(equation.source_info)
    module = str(equation.source_info.name_stack)
    return ", in ".join(part for part in (file, module) if part) if file else caller
