"""Flax models as ``params``: evaluated at points, and compared with a chain of their layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.x64 import double_enabled
from jaxexpr.activations import Activation
from jaxexpr.convert.arrays import OTHERWISE, as_array
from jaxexpr.convert.calls import called_with, not_called, shapes
from jaxexpr.convert.chain import Recorded, chained, points
from jaxexpr.convert.traced import Fixed, Live, Trace

if TYPE_CHECKING:
    from flax import linen, nnx


@explained
def from_flax(
    module: nnx.Module | linen.Module,
    variables: Mapping[str, Any] | None = None,
    *,
    readout: bool = True,
    activation: str | Activation = "relu",
    input_shape: int | Sequence[int] | None = None,
    call: Mapping[str, Any] | None = None,
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Convert a Flax model that is a chain of dense layers to ``params``.

    The model is traced, and evaluated at 256 random inputs of sizes 1e-3 to 1e4. Its products with
    matrices of weights are its layers, in the order of execution, whatever their names. The inputs
    of each layer are compared, in float64 and up to rounding, with ``activation(z @ W + b)`` of the
    previous one, and the output with the last one; any other model raises ValueError. The points
    cannot detect a difference on a set that contains none of them: one of measure zero, one beyond
    their sizes (a clip at 1e9), or a very small one (a unit that is almost nowhere negative).

    Parameters
    ----------
    module : a module of ``flax.nnx``, in inference mode (``module.eval()``), or of ``flax.linen``,
        with its `variables`. A layer may be used several times. A bias and a constant factor
        between a product and its activation become part of W and b.
    variables : for ``flax.linen``: the result of ``module.init``, or ``{"params": ...}``.
    readout : whether the last layer is a linear readout, omitted from the result; softmax,
        log_softmax or sigmoid may follow it. ``False``: the activation follows the last layer too.
    activation : the activation after every hidden layer, a name or an ``Activation``. Pass the same
        to the functions that measure the result.
    input_shape : shape of one input that is not a vector, such as ``(28, 28, 1)``; it is flattened
        in C order. The model is called with one input, then with a batch of one.
    call : further keyword arguments of the model's call, such as ``{"train": False}``.

    Returns
    -------
    A tuple of ``(W, b)``, NumPy float64. The model is treated as a function over the real
    numbers, as in ``exact.pieces_of``.

    Raises
    ------
    ValueError
        if the model is not such a chain (the message names the first layer that differs and, if
        recognised, its activation), has other parameters than those of dense layers
        (convolutions, normalisation, unused layers), is in training mode, or cannot be called.

    Examples
    --------
    >>> from flax import nnx
    >>> rngs = nnx.Rngs(0)
    >>> model = nnx.Sequential(nnx.Linear(2, 3, rngs=rngs), nnx.relu, nnx.Linear(3, 1, rngs=rngs))
    >>> [W.shape for W, b in from_flax(model)]
    [(2, 3)]
    """
    from flax import linen, nnx

    extra = called_with(call)
    if isinstance(module, nnx.Module):
        if variables is not None:
            raise ValueError("variables belong to flax.linen and module is of flax.nnx: leave out")
        model = _of_nnx(module, nnx, extra)
    elif isinstance(module, linen.Module):
        if not isinstance(variables, Mapping) or "params" not in variables:
            raise ValueError(
                f"variables={checks.shown(variables)}: give what module.init returned, with "
                "'params'"
            )
        model = _Model(
            lambda tree, x: module.apply(tree, x, **extra),
            variables,
            frozenset(_named({"params": variables["params"]})),
        )
    else:
        raise ValueError(f"module={checks.shown(module)} is not a Flax module: {OTHERWISE}")
    return chained(_recorded_flax(model, input_shape), activation, readout)


class _Model(NamedTuple):
    """``fn(tree, x)``, and the names of the leaves of `tree` that are parameters."""

    fn: Callable[[Any, Any], Any]
    tree: Any
    parameters: frozenset[str]


def _of_nnx(module: nnx.Module, nnx: ModuleType, extra: Mapping[str, Any]) -> _Model:
    for path, node in nnx.iter_graph(module):
        training = [
            getattr(node, "deterministic", None) is False,
            getattr(node, "use_running_average", None) is False,
        ]
        if isinstance(node, nnx.Module) and any(training):
            name = ".".join(map(str, path)) or "module"
            raise ValueError(
                f"module is in training mode ({name}, {type(node).__name__}): call module.eval()"
            )
    graph, *states = nnx.split(module, nnx.Param, ...)
    return _Model(
        lambda tree, x: nnx.merge(graph, *tree)(x, **extra),
        tuple(states),
        frozenset(_named((states[0],))),
    )


def _named(tree: object) -> dict[str, Any]:
    """Leaves by their names in error messages."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    names = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    return {name: leaf for name, (_, leaf) in zip(names, leaves, strict=True)}


def _shown_modules(name: str) -> str:
    """Name of a leaf without its collection and without the suffix ``.value``."""
    first, _, rest = name.partition(".")
    name = rest if first == "params" or first.isdecimal() else name
    return name.removesuffix(".value")


def _recorded_flax(model: _Model, input_shape: int | Sequence[int] | None) -> Recorded:
    named = _named(model.tree)
    checks.concrete("module", list(named.values()), "layers are taken")
    for name in model.parameters:
        as_array(_shown_modules(name), named[name])
    matrices = [np.shape(named[name]) for name in sorted(model.parameters)]
    shape, closed, leaves = _traced_model(model, shapes(matrices, input_shape), named)
    rows = points(int(np.prod(shape)))
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), np.errstate(all="ignore"):
        trace = Trace()
        fixed: list[Fixed | Live] = [
            Fixed(leaf, frozenset([_shown_modules(name)]))
            for name, leaf in zip(named, leaves, strict=True)
        ]
        inputs = [*fixed, Live(rows.reshape(len(rows), *shape))]
        (out,) = trace.run(closed.jaxpr, closed.consts, inputs)
        if not isinstance(out, Live):
            raise ValueError(f"module returns the same for every input: {OTHERWISE}")
        output = np.asarray(out.value, np.float64).reshape(len(rows), -1)
    unused = sorted({_shown_modules(name) for name in model.parameters} - trace.origins)
    return Recorded(rows, output, trace.products, unused, trace.narrow)


def _traced_model(
    model: _Model, tried: Sequence[tuple[int, ...]], named: Mapping[str, Any]
) -> tuple[tuple[int, ...], core.ClosedJaxpr, list[Any]]:
    """The first shape that the model accepts, its jaxpr, and the leaves of its arguments."""
    original, tree = jax.tree.flatten(model.tree)
    doubled = [_doubled(leaf) for leaf in original]
    failure: Exception | None = None
    for shape in tried:
        for double in (True, False):
            # Standard promotion: float64 input may be combined with float32 constants.
            with (
                jax.enable_x64(double or double_enabled()),
                jax.numpy_dtype_promotion("standard"),
                jax.numpy_rank_promotion("allow"),
                jax.default_matmul_precision("highest"),
            ):
                leaves = doubled if double else original
                point = jax.ShapeDtypeStruct(shape, np.float64 if double else np.float32)
                try:
                    closed, out = jax.make_jaxpr(
                        lambda flat, x: model.fn(jax.tree.unflatten(tree, flat), x),
                        return_shape=True,
                    )(leaves, point)
                except Exception as error:  # any error of a user's model for a wrong input
                    failure = failure or error
                    continue
                if len(jax.tree.leaves(out)) != 1:
                    raise ValueError(
                        f"module returns {len(jax.tree.leaves(out))} arrays (several heads?): "
                        f"{OTHERWISE}, a function of the input that returns one of them"
                    )
                return shape, closed, leaves
    other = [_shown_modules(n) for n in sorted(model.parameters) if np.ndim(named[n]) > 2]
    holds = f"; it holds {other[0]!r}, not of a dense layer: {OTHERWISE}" if other else ""
    raise not_called(tried, failure, holds)


def _doubled(leaf: object) -> object:
    floating = jnp.issubdtype(getattr(leaf, "dtype", np.int64), np.floating)
    return np.asarray(leaf).astype(np.float64) if floating else leaf
