"""Check whether a model is a chain of its matrix products, product by product, in float64.

A model was called on points of its input space, and each of its products with a matrix of weights
was recorded, in the order of execution. It is a chain if the first product takes the input, each
other one takes the activation of the one before it, and the output is that of the last one. Each
link is checked on the recorded inputs of the lower product, so that rounding does not accumulate:
NumPy computes ``h = z @ W + b`` from them, and the inputs of the upper product must equal ``f(h)``
within the rounding errors of ``h`` (``ROUNDINGS (fan_in + 8) eps`` times the sum of the sizes of
its terms) and of f.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr.activations import Activation
from jaxexpr.convert.arrays import OTHERWISE, as_params

ROUNDINGS = 8
EPS = float(np.finfo(np.float64).eps)
NARROW = float(np.finfo(np.float32).eps)
ROWS, SCALES = 256, (-3, 4)
BLOCK = 4096
# Recognised only to name them in error messages.
OTHERS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    *((f.__name__, f) for f in (jax.nn.relu6, jax.nn.sigmoid, jax.nn.silu, jax.nn.softplus)),
    *((f.__name__, f) for f in (jax.nn.elu, jax.nn.selu, jax.nn.hard_swish)),
    *(("gelu", functools.partial(jax.nn.gelu, approximate=tanh)) for tanh in (True, False)),
)
Affine: TypeAlias = tuple[np.ndarray, np.ndarray]  # scale and shift, ``(fan_out,)`` each


@dataclasses.dataclass(frozen=True)
class Product:
    """A product of a vector with a matrix of weights, recorded in a call of a model.

    Attributes
    ----------
    name : name of the layer, or of the parameters that the weights are computed from.
    weights : ``(fan_in, fan_out)``.
    inputs : its inputs, ``(rows, fan_in)``.
    images : scales and shifts, ``(fan_out,)`` each, of the product after adding a bias or
        multiplying by a constant. One of them gives the pre-activation.
    """

    name: str
    weights: np.ndarray
    inputs: np.ndarray
    images: Sequence[Affine]


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Record of a model's call on points, each flattened to a row.

    Attributes
    ----------
    inputs, output : inputs and output of the model, ``(rows, entries)``.
    products : its products in the order of execution.
    left : names of the parameters used in neither a product nor a bias.
    narrow : whether the model rounds numbers that depend on its input to float32 or less. The
        record is in float64, but a constant such as a slope may have been rounded.
    otherwise : advice for a model that is not a chain, for error messages.
    """

    inputs: np.ndarray
    output: np.ndarray
    products: Sequence[Product]
    left: Sequence[str]
    narrow: bool = False
    otherwise: str = OTHERWISE


def points(size: int) -> np.ndarray:
    """Random inputs of sizes 1e-3 to 1e4, to detect biases, slopes and saturation."""
    rng = np.random.default_rng(0)
    scales = np.logspace(*SCALES, ROWS)
    return rng.normal(size=(ROWS, size)) * scales[:, None]


def chained(
    record: Recorded, activation: str | Activation, readout: bool
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return ``params`` of a model that is a chain; raise ValueError for any other model."""
    activation = activations.get(activation)
    if record.left:
        names = ", ".join(map(repr, record.left[:3])) + (", ..." if record.left[3:] else "")
        raise ValueError(
            f"module holds {names}, not weights or biases of a fully connected layer that it uses: "
            f"{record.otherwise}"
        )
    products = record.products
    if not products:
        raise ValueError(f"module does not multiply by a matrix of weights: {record.otherwise}")
    numbers = (record.output, *(product.inputs for product in products))
    if not all(np.isfinite(values).all() for values in numbers):
        raise ValueError(
            "module makes NaN or infinity of an input of size 1e-3 to 1e4, so that it cannot be "
            f"compared with a chain: {record.otherwise}"
        )
    first = products[0].inputs
    if not _equal(first, record.inputs, 4 * EPS * np.abs(record.inputs)):
        raise ValueError(
            f"module changes its input before the first layer {products[0].name!r}: give that "
            f"layer's input to a module of the layers alone, or {record.otherwise}"
        )
    links = list(itertools.pairwise(products))
    images = [_chain_image(record, i, above, activation) for i, (_, above) in enumerate(links)]
    images.append(_last_image(record, activation, readout))
    layers = [
        (product.weights * scale, shift)
        for product, (scale, shift) in zip(products, images, strict=True)
    ]
    return as_params(layers, readout, "module", [product.name for product in products])


def _chain_image(record: Recorded, index: int, above: Product, activation: Activation) -> Affine:
    """Scale and shift of the pre-activation between a product and the next one."""
    product = record.products[index]
    for image in product.images:
        if _matches(above.inputs, _hidden(product, image), activation, record.narrow):
            return image
    other = _recognised(above.inputs, product, record.narrow)
    if other is not None:
        raise ValueError(
            f"module has {other[0]} between {product.name!r} and {above.name!r} and "
            f"activation={checks.shown(activation.name)}: {other[1]}, if it has the same after "
            f"every hidden layer; otherwise {record.otherwise}"
        )
    for earlier in record.products[:index]:
        if any(
            _matches(above.inputs, _hidden(earlier, image), activation, record.narrow)
            for image in earlier.images
        ):
            raise ValueError(
                f"module is not a chain: {above.name!r} takes the output of {earlier.name!r} and "
                f"not that of {product.name!r}, which is carried out between them (two heads or "
                f"branches): {record.otherwise}"
            )
    raise ValueError(
        f"module is not a chain with {activation.name} between its layers: {above.name!r} takes "
        f"something else than the activations of {product.name!r} (a skip connection, a "
        f"normalisation, a factor, another activation): {record.otherwise}"
    )


def _last_image(record: Recorded, activation: Activation, readout: bool) -> Affine:
    """Scale and shift of the last layer; its output must be that of the model."""
    product, output = record.products[-1], record.output
    images = list(product.images)
    linear = [image for image in images if _matches_output(output, _hidden(product, image))]
    activated = [
        i for i in images if _matches(output, _hidden(product, i), activation, record.narrow)
    ]
    if linear if readout else activated:
        return (linear if readout else activated)[-1]
    if activated or linear:
        raise ValueError(
            f"module returns {'the activations' if activated else 'the linear output'} of its last "
            f"layer {product.name!r} and readout={readout}: say readout={not readout}"
        )
    other = _recognised(output, product, record.narrow)
    if other is not None:
        raise ValueError(
            f"module has {other[0]} after its last layer {product.name!r}, and "
            f"activation={checks.shown(activation.name)} with readout={readout}: {other[1]} and "
            f"readout=False, if it has the same after every layer; otherwise {record.otherwise}"
        )
    raise ValueError(
        f"module returns something else than the output of its last layer {product.name!r} (a skip "
        f"connection, several heads, another activation): {record.otherwise}"
    )


@dataclasses.dataclass(frozen=True)
class _Hidden:
    """``h = z @ W + b`` and a bound on its rounding error, ``(rows, fan_out)`` each."""

    values: np.ndarray
    error: np.ndarray


def _hidden(product: Product, image: tuple[np.ndarray, np.ndarray]) -> _Hidden:
    scale, shift = image
    values = product.inputs @ product.weights * scale + shift
    sizes = np.abs(product.inputs) @ np.abs(product.weights) * np.abs(scale) + np.abs(shift)
    return _Hidden(values, ROUNDINGS * (product.weights.shape[0] + 8) * EPS * sizes)


def _matches(values: np.ndarray, hidden: _Hidden, activation: Activation, narrow: bool) -> bool:
    """Whether `values` are the activations of `hidden`."""
    expected = _entrywise(activation, hidden.values)
    rounding = 32 * EPS * (1 + np.abs(hidden.values)) + NARROW * narrow * np.abs(expected)
    return _equal(values, expected, activation.lipschitz * hidden.error + rounding)


def _matches_output(output: np.ndarray, hidden: _Hidden) -> bool:
    """Whether `output` is a linear readout, or a softmax, log_softmax or sigmoid of one."""
    if _equal(output, hidden.values, hidden.error):
        return True
    error = 4 * hidden.error.max(axis=-1, keepdims=True) + 64 * EPS * (1 + np.abs(output))
    one = hidden.values.shape[-1] == 1  # the softmax of one number is always 1
    last = (jax.nn.sigmoid,) if one else (jax.nn.softmax, jax.nn.log_softmax, jax.nn.sigmoid)
    return any(_equal(output, _activation_applied(f, hidden.values), error) for f in last)


def _equal(values: np.ndarray, expected: np.ndarray, within: np.ndarray) -> bool:
    return values.shape == expected.shape and bool((np.abs(values - expected) <= within).all())


def _activation_applied(function: Callable[[Any], Any], values: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        return np.asarray(function(jnp.asarray(values)), np.float64)


def _entrywise(function: Callable[[Any], Any], values: np.ndarray) -> np.ndarray:
    """Apply an elementwise function in blocks: compiled once for layers of all widths."""
    blocks = np.zeros((math.ceil(values.size / BLOCK), BLOCK))
    blocks.ravel()[: values.size] = values.ravel()
    outputs = np.stack([_activation_applied(function, block) for block in blocks])
    return outputs.ravel()[: values.size].reshape(values.shape)


def _recognised(values: np.ndarray, product: Product, narrow: bool) -> tuple[str, str] | None:
    """Activation that maps the product to `values`: its name, and advice for the message."""
    for image in product.images:
        hidden = _hidden(product, image)
        if values.shape != hidden.values.shape:
            continue
        for candidate in _candidates(values, hidden.values):
            if _matches(values, hidden, candidate, narrow):
                return _advice(candidate.name)
    return None


def _advice(name: str) -> tuple[str, str]:
    if name in activations.NAMES:
        return ("no activation" if name == "linear" else name), f"say activation={name!r}"
    if name.startswith("leaky_relu"):
        return name, f"say activation=jaxexpr.activations.{name}"
    return name, f"give activation= the jaxexpr.Activation of {name}"


def _candidates(values: np.ndarray, hidden: np.ndarray) -> Iterator[Activation]:
    yield from activations.NAMES.values()
    below = np.argmin(hidden)  # the negative slope follows from the smallest h
    if hidden.ravel()[below] < 0:
        slope = float(values.ravel()[below] / hidden.ravel()[below])
        yield dataclasses.replace(activations.leaky_relu(slope), name=f"leaky_relu({slope:.12g})")
    for name, function in OTHERS:
        yield Activation(name, function, jnp.ones_like, None, None, 2.0)
