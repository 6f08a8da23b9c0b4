"""Flax models as ``params``: called on points, and compared with the chain of their layers."""

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
from jaxexpr._core.precision import double_enabled
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
    """Return ``params`` of a Flax model that is a chain of dense layers.

    The model is traced, and called on 256 random inputs of sizes 1e-3 to 1e4. Its products with
    matrices of weights are its layers, in the order of execution: neither names nor the order of
    a dictionary count. What goes into each of them is compared, in float64 and to rounding, with
    ``activation(z @ W + b)`` of the one before, and the output with the last one; any other model
    is refused. The points cannot show a difference on a set that they miss: one of measure zero,
    one beyond the sizes that they reach (a clip at 1e9), one so small that no point lies in it (a
    unit that is below 0 almost nowhere).

    Parameters
    ----------
    module : of ``flax.nnx``, in inference (``module.eval()``), or of ``flax.linen``, with its
        `variables`. A layer may be used several times. A bias and a constant factor between a
        product and its activation become part of W and b.
    variables : of ``flax.linen``: what ``module.init`` returned, or ``{"params": ...}``.
    readout : whether the last layer is a linear read-out, which is left out of the result; softmax,
        log_softmax or sigmoid may follow it. ``False``: the activation follows the last layer too.
    activation : the one after every hidden layer, a name or an ``Activation``. Say the same where
        the result is measured.
    input_shape : of one input, where it is not a vector: ``(28, 28, 1)``. It is flattened
        in C order. The model is called with one input, then with a batch of one.
    call : what the model's call takes beside the input, such as ``{"train": False}``.

    Returns
    -------
    A tuple of ``(W, b)``, NumPy float64. The model's own arithmetic counts as that of the real
    numbers, as in ``exact.pieces_of``.

    Raises
    ------
    ValueError
        naming the first layer that differs and, if it is known, the activation found in its place;
        the parameters that are not those of dense layers (convolutions, normalisation, layers that
        are not used); a module that is in training mode or cannot be called.

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
    """Leaves by the names that a message calls them."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    names = (jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves)
    return {name: leaf for name, (_, leaf) in zip(names, leaves, strict=True)}


def _shown_modules(name: str) -> str:
    """A leaf's name without the collection that it is in, and without the box around it."""
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
    left = sorted({_shown_modules(name) for name in model.parameters} - trace.origins)
    return Recorded(rows, output, trace.products, left, trace.narrow)


def _traced_model(
    model: _Model, tried: Sequence[tuple[int, ...]], named: Mapping[str, Any]
) -> tuple[tuple[int, ...], core.ClosedJaxpr, list[Any]]:
    """The first shape with which the model can be called, its jaxpr, and the leaves it takes."""
    own, tree = jax.tree.flatten(model.tree)
    doubled = [_doubled(leaf) for leaf in own]
    failure: Exception | None = None
    for shape in tried:
        for double in (True, False):
            # Promotion is the standard one: it is here that float64 meets float32 constants.
            with (
                jax.enable_x64(double or double_enabled()),
                jax.numpy_dtype_promotion("standard"),
                jax.numpy_rank_promotion("allow"),
                jax.default_matmul_precision("highest"),
            ):
                leaves = doubled if double else own
                point = jax.ShapeDtypeStruct(shape, np.float64 if double else np.float32)
                try:
                    closed, out = jax.make_jaxpr(
                        lambda flat, x: model.fn(jax.tree.unflatten(tree, flat), x),
                        return_shape=True,
                    )(leaves, point)
                except Exception as error:  # whatever a user's model says of a wrong input
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
