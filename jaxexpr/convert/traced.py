"""Evaluate a JAX model at points, recording its products with matrices of weights.

Every equation of the model's jaxpr is evaluated at all points at once. Numbers that depend on the
input are float64 throughout: casts to lower precision are ignored, so that the model is treated as
a function over the reals. Numbers that do not depend on the input (parameters, and functions of
them alone) are computed as in the model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.typing import DTypeLike

from jaxexpr.convert.arrays import OTHERWISE
from jaxexpr.convert.chain import Product
from jaxexpr.exact.functions.evaluator import CALLS, array_of

# Primitives that change only the shape, if they keep the number of entries.
RESHAPES = ("reshape", "squeeze", "broadcast_in_dim", "expand_dims", "copy")
# Elementwise primitives computed in NumPy, without a compilation for each shape.
ENTRYWISE: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "ge": np.greater_equal,
    "gt": np.greater,
}


@dataclasses.dataclass(frozen=True)
class Fixed:
    """A value that does not depend on the input, and the names of its parameters."""

    value: Any
    origins: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class TracedImage:
    """``scale * product + shift``, entry by entry, of the product with this index."""

    product: int
    scale: np.ndarray
    shift: np.ndarray


@dataclasses.dataclass(frozen=True)
class Live:
    """A value that depends on the input, ``(rows,) + shape``; and its affine form, if known."""

    value: Any
    image: TracedImage | None = None


class Trace:
    """Evaluates a model's jaxpr and records its products.

    Attributes
    ----------
    origins : names of the parameters used in the weights and biases of products.
    narrow : whether the model itself rounds values that depend on the input to less than float64.
    """

    def __init__(self) -> None:
        self._products: list[Product] = []
        self._images: list[list[tuple[np.ndarray, np.ndarray]]] = []
        self.origins: set[str] = set()
        self.narrow = False

    @property
    def products(self) -> list[Product]:
        pairs = zip(self._products, self._images, strict=True)
        return [dataclasses.replace(product, images=images) for product, images in pairs]

    def run(
        self, jaxpr: core.Jaxpr, consts: Sequence[Any], arguments: Sequence[Fixed | Live]
    ) -> list[Fixed | Live]:
        """Return the outputs of a jaxpr."""
        values: dict[core.Var, Fixed | Live]
        values = dict(zip(jaxpr.constvars, map(Fixed, consts), strict=True))
        values |= zip(jaxpr.invars, arguments, strict=True)

        def read(atom: core.Literal | core.Var) -> Fixed | Live:
            if isinstance(atom, core.Literal):
                return Fixed(np.asarray(atom.val, array_of(atom).dtype))
            return values[atom]

        for equation in jaxpr.eqns:
            outputs = self._step(equation, [read(atom) for atom in equation.invars])
            for variable, value in zip(equation.outvars, outputs, strict=True):
                values[variable] = value
                dtype = array_of(variable).dtype
                if isinstance(value, Live) and _floats(dtype) and dtype.itemsize < 8:
                    self.narrow = True
        return [read(out) for out in jaxpr.outvars]

    def _step(self, equation: core.JaxprEqn, inputs: list[Any]) -> Sequence[Fixed | Live]:
        name, params = equation.primitive.name, equation.params
        if name in CALLS:
            return self.run(*_opened_equation(params[CALLS[name]]), inputs)
        if not any(isinstance(x, Live) for x in inputs):
            outs = equation.primitive.bind(*(x.value for x in inputs), **params)
            origins = frozenset[str]().union(*(x.origins for x in inputs))
            many = equation.primitive.multiple_results
            return [Fixed(out, origins) for out in (outs if many else [outs])]
        if name == "scan":
            return self._scan(params, inputs)
        if name == "cond" and isinstance(inputs[0], Fixed):
            branches = params["branches"]
            index = min(max(int(inputs[0].value), 0), len(branches) - 1)
            return self.run(*_opened_equation(branches[index]), inputs[1:])
        if name in ("while", "cond"):
            raise ValueError(
                f"module holds {name}, so that the input may decide which steps are taken: "
                f"{OTHERWISE}"
            )
        if name == "dot_general" and isinstance(inputs[0], Live) != isinstance(inputs[1], Live):
            product = self._product(params["dimension_numbers"], inputs)
            if product is not None:
                values = product.inputs @ product.weights
                shape = (len(values), *array_of(equation.outvars[0]).shape)
                return [Live(values.reshape(shape), self._unchanged(product))]
        outs = self._applied(equation, inputs)
        return [Live(outs[0], self._imaged(name, inputs, outs[0]))] + [Live(o) for o in outs[1:]]

    def _applied(self, equation: core.JaxprEqn, inputs: list[Any]) -> list[Any]:
        """Outputs of an equation on the rows; floating numbers are float64."""
        name, params = equation.primitive.name, dict(equation.params)
        shape = array_of(equation.outvars[0]).shape
        if name == "reduce_precision":
            return [inputs[0].value]
        if name == "convert_element_type" and _floats(params["new_dtype"]):
            return [np.asarray(inputs[0].value).astype(np.float64)]
        if params.get("preferred_element_type") is not None:
            params["preferred_element_type"] = None
        arrays = [np.asarray(x.value) for x in inputs]
        arrays = [x.astype(np.float64) if _floats(x.dtype) else x for x in arrays]
        whole = all(np.ndim(x.value) - isinstance(x, Live) in (len(shape), 0) for x in inputs)
        scalars = [isinstance(x, Live) and x.value.ndim == 1 for x in inputs]
        alike = whole and (not shape or not any(scalars))
        if name in ENTRYWISE and alike and all(x.dtype == np.float64 for x in arrays):
            return [ENTRYWISE[name](*arrays)]
        if name in RESHAPES and arrays[0].size == len(arrays[0]) * math.prod(shape):
            return [arrays[0].reshape(-1, *shape)]
        axes = [0 if isinstance(x, Live) else None for x in inputs]
        try:
            outs = jax.vmap(lambda *a: equation.primitive.bind(*a, **params), axes)(*arrays)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ValueError(
                f"module holds {name}, which cannot be followed step by step: {OTHERWISE}"
            ) from error
        return list(outs) if equation.primitive.multiple_results else [outs]

    def _product(self, numbers: tuple[Any, Any], inputs: list[Any]) -> Product | None:
        """Record the product of a vector with a matrix; None for any other product."""
        (sums, batches), live = numbers, int(isinstance(inputs[1], Live))
        live_axes, constant_axes = sums[live], sums[1 - live]
        shape, constant = inputs[live].value.shape[1:], inputs[1 - live]
        fan_in = math.prod(shape[i] for i in live_axes)
        if batches[0] or fan_in != math.prod(shape):
            if constant.origins:
                raise ValueError(
                    f"module applies {self._named(constant.origins)!r} to several vectors at once: "
                    f"give input_shape= of one input, or {OTHERWISE}"
                )
            return None
        matrix = np.asarray(constant.value).astype(np.float64)
        free = [i for i in range(matrix.ndim) if i not in constant_axes]
        weights = matrix.transpose(*constant_axes, *free).reshape(fan_in, -1)
        order = [
            0,
            *(i + 1 for i in live_axes),
            *(i + 1 for i in range(len(shape)) if i not in live_axes),
        ]
        rows = np.asarray(inputs[live].value).transpose(order).reshape(-1, fan_in)
        self.origins |= constant.origins
        product = Product(self._named(constant.origins), weights, rows, ())
        self._products.append(product)
        self._images.append([])
        return product

    def _unchanged(self, product: Product) -> TracedImage:
        """The last product as its own affine form, with scale 1 and shift 0."""
        one, zero = np.ones(product.weights.shape[1]), np.zeros(product.weights.shape[1])
        return self._added(TracedImage(len(self._products) - 1, one, zero), one, zero)

    def _named(self, origins: frozenset[str]) -> str:
        name = ", ".join(sorted({origin.rpartition(".")[0] or origin for origin in origins}))
        name = name or f"product {len(self._products) + 1}"
        uses = sum(product.name.split(" (")[0] == name for product in self._products)
        return f"{name} (use {uses + 1})" if uses else name

    def _imaged(
        self, name: str, inputs: list[Any], out: np.ndarray | jax.Array
    ) -> TracedImage | None:
        """Update the affine form of a product after a bias, a constant factor, or a reshape."""
        positions = [i for i, x in enumerate(inputs) if isinstance(x, Live) and x.image is not None]
        if len(positions) != 1 or len([x for x in inputs if isinstance(x, Live)]) != 1:
            return None
        position = positions[0]
        image = inputs[position].image
        scale, shift = image.scale, image.shift
        if not _floats(out.dtype) or math.prod(out.shape[1:]) != scale.size:
            return None
        if name in (*RESHAPES, "convert_element_type", "reduce_precision"):
            return None if inputs[0].image is None else image
        if name == "neg":
            return self._added(image, -scale, -shift)
        if name not in ("add", "sub", "mul", "div") or (name == "div" and position == 1):
            return None
        other = inputs[1 - position]
        constant = np.broadcast_to(np.asarray(other.value, np.float64), out.shape[1:]).ravel()
        if name in ("add", "sub"):
            self.origins |= other.origins
            if name == "add":
                return self._added(image, scale, shift + constant)
            sign = 1 if position == 0 else -1
            return self._added(image, sign * scale, sign * (shift - constant))
        if other.origins:  # a learned factor is a separate layer
            return None
        factor = constant if name == "mul" else 1 / constant
        return self._added(image, scale * factor, shift * factor)

    def _added(self, image: TracedImage, scale: np.ndarray, shift: np.ndarray) -> TracedImage:
        self._images[image.product].append((scale, shift))
        return TracedImage(image.product, scale, shift)

    def _scan(self, params: Mapping[str, Any], inputs: list[Any]) -> list[Any]:
        """A loop of a fixed number of iterations, one after the other."""
        jaxpr, consts = _opened_equation(params["jaxpr"])
        fixed, carried = params["num_consts"], params["num_carry"]
        carry = inputs[fixed : fixed + carried]
        rounds = list(range(params["length"]))
        stacks: list[list[Any]] = [[] for _ in jaxpr.outvars[carried:]]
        for i in reversed(rounds) if params["reverse"] else rounds:
            slices = [_entry_of_value(x, i) for x in inputs[fixed + carried :]]
            outs = self.run(jaxpr, consts, [*inputs[:fixed], *carry, *slices])
            carry = outs[:carried]
            for stack, out in zip(stacks, outs[carried:], strict=True):
                stack.append(out)
        return [*carry, *(_stacked(s[::-1] if params["reverse"] else s) for s in stacks)]


def _opened_equation(jaxpr: core.Jaxpr | core.ClosedJaxpr) -> tuple[core.Jaxpr, Sequence[Any]]:
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, core.ClosedJaxpr) else (jaxpr, ())


def _floats(dtype: DTypeLike) -> bool:
    return bool(jnp.issubdtype(dtype, np.floating))


def _entry_of_value(x: Fixed | Live, index: int) -> Fixed | Live:
    return Live(x.value[:, index]) if isinstance(x, Live) else Fixed(x.value[index], x.origins)


def _stacked(stack: list[Any]) -> Fixed | Live:
    rows = next((len(x.value) for x in stack if isinstance(x, Live)), None)
    if rows is None:
        origins = frozenset[str]().union(*(x.origins for x in stack))
        return Fixed(jnp.stack([jnp.asarray(x.value) for x in stack]), origins)
    values = [
        x.value if isinstance(x, Live) else jnp.broadcast_to(x.value, (rows, *np.shape(x.value)))
        for x in stack
    ]
    return Live(jnp.stack(values, axis=1))
