"""Exact pieces of any JAX function along a segment, by evaluating its jaxpr.

The function is traced once; every equation is then evaluated at the breakpoints found so far.
Affine steps act on these values directly; piecewise linear steps (``max``, a comparison used for a
choice, max-pooling) first insert the breakpoints at which their arguments cross. No grid, step size
or perturbation is needed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core
from jax.tree_util import PyTreeDef
from numpy.typing import ArrayLike

from jaxexpr import curves
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.progress import Bar, Progress
from jaxexpr._core.x64 import double_enabled
from jaxexpr.exact.functions.equations import Array, Crossing, Equation, StateChanges
from jaxexpr.exact.functions.evaluator import Walk, steps
from jaxexpr.exact.functions.linear_rules import real
from jaxexpr.exact.functions.values import (
    EPS,
    ROUNDINGS,
    Linear,
    Segment,
    Steps,
    TooLarge,
    Value,
    peak,
)

CONTINUOUS = "give a continuous piecewise linear function of x"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FunctionPieces:
    """A function on the segment ``x0 + t (x1 - x0)``, t in [0, 1].

    Attributes
    ----------
    breakpoints : t at which the state of any nonlinear scalar of the function changes, and 0 and 1,
        in increasing order; shape ``(count + 1,)``. Between two of them every intermediate value is
        affine in t: these are *activation* pieces.
    values : the function's output at the breakpoints, ``(count + 1,) + output shape``, float64; a
        pytree where the function returns one.
    crossings : an entry for each nonlinear equation, in the order of execution (in a loop, one for
        each iteration): ``.primitive``, ``.place`` and ``.count``, the changes of state of its
        scalars. A breakpoint at which several scalars change is counted by each of them, so the sum
        is at least ``count - 1``.
    dtype : the lowest floating precision in which the function itself would hold values that
        depend on x. The pieces are those of the function over the reals, computed in float64: if
        this is not ``"float64"``, the function's own rounding hides the narrowest of them.
    """

    breakpoints: Array
    values: Any
    crossings: tuple[Crossing, ...]
    dtype: str
    error: Any

    def __repr__(self) -> str:
        shapes = jax.tree.map(lambda x: x.shape[1:], self.values)
        return (
            f"FunctionPieces(count={self.count}, linear_count={self.linear_count}, "
            f"output shape {shapes}, dtype={self.dtype!r})"
        )

    @property
    def count(self) -> int:
        """Activation pieces: intervals on which no nonlinear scalar changes its state."""
        return len(self.breakpoints) - 1

    @functools.cached_property
    def linear_breakpoints(self) -> Array:
        """The breakpoints at which the slope of the *output* changes, with 0 and 1.

        A breakpoint is omitted where the output lies on the chord between its neighbours, within
        rounding: the unit that changes its state there has weight zero in the output, or another
        one cancels its change.
        """
        t = self.breakpoints
        widths = np.diff(t)
        both = widths[:-1] + widths[1:]
        part = np.where(both > 0, widths[:-1] / np.where(both > 0, both, 1), 0.5)
        bends = np.zeros(max(0, t.size - 2), bool)
        leaves = zip(jax.tree.leaves(self.values), jax.tree.leaves(self.error), strict=True)
        for values, error in leaves:
            flat = values.reshape(t.size, -1)
            chord = flat[2:] - flat[:-2]
            off = np.abs(flat[1:-1] - (flat[:-2] + part[:, None] * chord))
            # t is rounded, too, which moves the point along the chord.
            moved = np.abs(chord) / np.where(both > 0, both, np.inf)[:, None]
            bends |= (off > ROUNDINGS * (error.ravel() + EPS * moved)).any(axis=1)
        return t[np.concatenate([[True], bends, [True]])]

    @property
    def linear_count(self) -> int:
        """Linear pieces: maximal intervals on which the output is affine; at most ``count``."""
        return len(self.linear_breakpoints) - 1


@explained
def pieces_of(
    fn: Callable[[Any], Any],
    x0: ArrayLike,
    x1: ArrayLike,
    *,
    memory: float = 2**30,
    progress: Progress = None,
) -> FunctionPieces:
    """Exact breakpoints of a piecewise linear JAX function along a segment.

    Parameters
    ----------
    fn : any function of one array that JAX can trace and that is made of affine and continuous
        piecewise linear steps: dense and convolutional layers, relu, leaky_relu, abs, clip, max-
        and average pooling, residual connections, batch normalisation in inference, ``where``,
        jitted functions, loops over a number of rounds that does not depend on x; a Flax module
        (``model`` of ``flax.nnx``, ``lambda x: model.apply(variables, x)`` of ``flax.linen``).
    x0, x1 : distinct end points, of any one shape (an image, a batch of them).
    memory : bytes that the numbers of one intermediate value may take, at all breakpoints; a few
        times as much is used. A segment that needs more is divided into parts.
    progress : as for ``estimate``, past two seconds: steps of the function done, and the
        pieces so far. Later steps take longer, so no remaining time is shown.

    Returns
    -------
    ``FunctionPieces``: ``breakpoints``, ``values``, ``count``, ``crossings``; and the linear
    pieces of the output, ``linear_breakpoints`` and ``linear_count``.

    Raises
    ------
    ValueError
        naming the primitive and its source location, for a step that is not piecewise linear
        (tanh, a product of two values that depend on x), that makes the function discontinuous
        (``where(x > 0, 1, 0)``), that uses a comparison for anything but a choice, or that is not
        supported; for a model of ``flax.nnx`` in training mode; for end points that are equal, of
        different shapes, NaN or infinite, or of a shape that `fn` does not accept.

    Notes
    -----
    The arithmetic is float64 whatever JAX's global flag is. `fn` is traced with float64 input
    (float32 for end points that are JAX float32 arrays); its float32 constants are converted
    exactly. A function that cannot be traced with float64 input is traced with float32, which
    ``dtype`` records. Branches that depend only on constants are evaluated; computations that do
    not affect the output are skipped.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> tent = lambda x: 1 - 2 * jnp.abs(x[0] - 0.5)
    >>> pieces = pieces_of(lambda x: tent(tent(x)[None]), np.zeros(1), np.ones(1))
    >>> pieces.breakpoints.tolist(), pieces.values.tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 1.0, 0.0, 1.0, 0.0])
    """
    bar = Bar(0, "pieces_of", progress, delay=2.0, unit="steps", even=False)
    _callable(fn)
    ends = curves.line(x0, x1).arrays
    checks.concrete("x0, x1", ends, "pieces are found")
    budget = float(checks.positive("memory", memory))
    narrow = all(isinstance(end, jax.Array) and end.dtype.itemsize < 8 for end in ends)
    closed, tree = _traced(fn, np.shape(ends[0]), narrow)
    points = np.stack([np.asarray(end).astype(np.float64) for end in ends])
    total = steps(closed.jaxpr, [True] * len(closed.out_avals))
    bar.resumed(0, total)
    parts: list[_Part] = []
    waiting = [(0.0, 1.0)]
    with bar:
        while waiting:
            begin, end = waiting.pop()
            found = sum(part.t.size - 1 for part in parts)

            def see(
                done: int, rows: int, found: int = found, part: tuple[float, float] = (begin, end)
            ) -> None:
                share = part[0] * total + (part[1] - part[0]) * done
                bar.update(int(share), f"{found + rows - 1} pieces")

            try:
                parts.append(_part(closed, points, begin, end, budget, see))
            except TooLarge:
                middle = (begin + end) / 2
                if end - begin < 2.0**-45:
                    raise ValueError(
                        f"memory={checks.shown(memory)} is too little for the breakpoints near "
                        f"t = {middle:.15g}, which lie closer than t can tell apart: raise it"
                    ) from None
                waiting += [(middle, end), (begin, middle)]
    return _joined_parts(parts, tree)


_MODES = ("use_running_average", "deterministic")  # False in a Flax layer in training mode


def _callable(fn: object) -> None:
    """Raise ValueError if `fn` is not callable, or a model in training mode."""
    if not callable(fn):
        fix = "give a function of one array"
        if "MLP" in {kind.__name__ for kind in type(fn).__mro__}:
            fix = "give its parameters to exact.pieces(net.init(key), curves.line(x0, x1))"
        elif hasattr(fn, "apply"):
            fix = "give lambda x: net.apply(params, x), with params = net.init(key)"
        elif isinstance(fn, tuple | list):
            fix += "; of pairs (W, b) use exact.pieces(params, curves.line(x0, x1))"
        raise ValueError(f"fn={checks.shown(fn)} is not callable: {fix}")
    nnx = sys.modules.get("flax.nnx")  # loaded if such a model exists
    if nnx is not None and isinstance(fn, nnx.Module):
        for path, module in nnx.iter_modules(fn):
            kind = type(module).__name__
            modes = [
                getattr(module, name, None) for name in ("use_running_average", "deterministic")
            ]
            if False in modes and not (kind == "Dropout" and not module.rate):
                name = ".".join(map(str, path)) or "itself"
                raise ValueError(
                    f"fn holds {kind} {name!r} in training mode, in which it changes with every "
                    "call: call model.eval() first"
                )


class _Part(NamedTuple):
    """Result on a part of the segment; ``outs`` are values and errors of each output."""

    t: Array
    changes: list[tuple[Equation, tuple[StateChanges, ...]]]
    outs: list[tuple[Array, Array]]
    dtype: str


def _part(
    closed: core.ClosedJaxpr,
    points: Array,
    begin: float,
    end: float,
    memory: float,
    see: Callable[[int, int], None],
) -> _Part:
    segment = Segment(begin, end, memory)
    ends = np.stack([(1 - t) * points[0] + t * points[1] for t in (begin, end)])
    start = segment.linear(ends, np.zeros(ends.shape[1:]), peak(points))
    with jax.enable_x64(True), np.errstate(all="ignore"):
        dtype = closed.jaxpr.invars[0].aval.dtype
        walk = Walk(segment, dtype, lambda done: see(done, segment.t.size))
        outs = walk.run(closed.jaxpr, closed.consts, [start], [True] * len(closed.out_avals), "")
        outputs = [_output(segment, i, segment.now(out)) for i, out in enumerate(outs)]
    return _Part(segment.t, segment.changes, outputs, str(walk.dtype))


def _joined_parts(parts: list[_Part], tree: PyTreeDef) -> FunctionPieces:
    """Join the parts. A joint is a breakpoint only if a state changes there."""
    counts = np.array([[sum(c.count for c in changes) for _, changes in p.changes] for p in parts])
    counts = counts.reshape(len(parts), -1).sum(axis=0)
    keep = [np.ones(part.t.size, bool) for part in parts]
    for number, (part, following) in enumerate(itertools.pairwise(parts)):
        pairs = zip(part.changes, following.changes, strict=True)
        at_joint = [
            sum(a.across(b) for a, b in zip(left, right, strict=True))
            for (_, left), (_, right) in pairs
        ]
        counts = counts + np.array(at_joint, int)
        keep[number][-1] = False
        keep[number + 1][0] = any(at_joint)
        for (before, slack), (after, other) in zip(part.outs, following.outs, strict=True):
            if (np.abs(before[-1] - after[0]) > 4 * ROUNDINGS * (slack + other)).any():
                raise ValueError(f"fn is discontinuous at t = {part.t[-1]:.6g}: {CONTINUOUS}")

    def rows(arrays: list[Array]) -> Array:
        return np.concatenate([a[k] for a, k in zip(arrays, keep, strict=True)])

    outs = range(len(parts[0].outs))
    values = [rows([part.outs[i][0] for part in parts]) for i in outs]
    errors = [np.max([part.outs[i][1] for part in parts], axis=0) for i in outs]
    crossings = [
        Crossing(equation.name, equation.place, int(count))
        for (equation, _), count in zip(parts[0].changes, counts, strict=True)
    ]
    return FunctionPieces(
        breakpoints=rows([part.t for part in parts]),
        values=jax.tree.unflatten(tree, values),
        crossings=tuple(crossings),
        dtype=parts[0].dtype,
        error=jax.tree.unflatten(tree, errors),
    )


def _traced(
    fn: Callable[[Any], Any], shape: tuple[int, ...], narrow: bool
) -> tuple[core.ClosedJaxpr, PyTreeDef]:
    """The jaxpr of `fn` and the tree of its output."""
    flag = double_enabled()
    tries = [(True, "float64"), (True, "float32"), (flag, "float32")]
    failure: TypeError | None = None
    for double, dtype in [(flag, "float32")] if narrow else tries:
        # Standard promotion: float64 input may be combined with float32 constants.
        with jax.enable_x64(double), jax.numpy_dtype_promotion("standard"):
            try:
                point = jax.ShapeDtypeStruct(shape, dtype)
                with warnings.catch_warnings():  # from running means, which are not used
                    warnings.filterwarnings("ignore", "scatter inputs have", FutureWarning)
                    closed, out = jax.make_jaxpr(fn, return_shape=True)(point)
            except TypeError as error:  # lax refuses to mix float64 with float32
                failure = failure or error
            except Exception as error:
                if not type(error).__module__.startswith("flax"):
                    raise
                raise ValueError(_flax_message(error, shape)) from error
            else:
                if not jax.tree.leaves(out):
                    raise ValueError(f"fn returns {out!r}: return an array, or a tree of them")
                return closed, jax.tree.structure(out)
    reason, fix = str(failure).partition("\n")[0], "give end points of the shape that fn takes"
    if isinstance(failure, jax.errors.JAXTypeError):
        reason = "NumPy, float(), int() or if on something that depends on x"
        fix = "write fn with jax.numpy, and jnp.where in place of if"
    raise ValueError(
        f"fn cannot be traced with an array of shape {shape}, that of x0 and x1 ({reason}): {fix}"
    ) from failure


def _flax_message(error: Exception, shape: tuple[int, ...]) -> str:
    """Error message for an error of Flax during tracing."""
    kind, reason = type(error).__name__, str(error).partition("\n")[0]
    fix = "give end points of the shape that the model takes"
    if kind in ("TraceContextError", "ModifyScopeVariableError"):
        fix = "a layer changes its state: call model.eval() first, or use train=False"
    elif kind == "CallCompactUnboundModuleError":
        fix = "give lambda x: module.apply(variables, x)"
    elif kind == "InvalidRngError":
        fix = "a layer draws random numbers: call model.eval() first, or use deterministic=True"
    return f"fn cannot be traced with an array of shape {shape} ({kind}, {reason[:90]}): {fix}"


def _output(segment: Segment, index: int, out: Value) -> tuple[Array, Array]:
    if isinstance(out, Steps):
        same = (out.values == out.values[:1]).all()
        if not same:
            raise ValueError(
                f"fn returns something that jumps along the segment (output {index}, a comparison "
                f"or a sign): {CONTINUOUS}"
            )
        out = np.asarray(out.values[0])
    if not isinstance(out, Linear):
        constant = real(out)
        rows = np.broadcast_to(constant, (segment.t.size, *constant.shape))
        out = Linear(rows, np.zeros(constant.shape), segment.version)
    if not np.isfinite(out.values).all():
        raise ValueError(
            f"fn returns NaN or infinity between x0 and x1 (output {index}): check its parameters"
        )
    return out.values, out.error
