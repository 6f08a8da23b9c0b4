"""Is a model the chain of its matrix products? Compared product by product, in float64.

A model was called on points of its input space, and each of its products with a matrix of weights
was recorded, in the order of execution. It is a chain if the first product takes the input, each
other one takes the activation of the one before it, and the output is that of the last one. Each
link is compared on the values that went into the product below it, so that rounding does not add
up: NumPy computes ``h = z @ W + b`` from them, and what goes into the product above has to be
``f(h)`` within the rounding of ``h`` (``ROUNDINGS (fan_in + 8) eps`` times the sum of the sizes of
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
# Named where a model has them, so that the message can say which; they need not be known elsewhere.
OTHERS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    *((f.__name__, f) for f in (jax.nn.relu6, jax.nn.sigmoid, jax.nn.silu, jax.nn.softplus)),
    *((f.__name__, f) for f in (jax.nn.elu, jax.nn.selu, jax.nn.hard_swish)),
    *(("gelu", functools.partial(jax.nn.gelu, approximate=tanh)) for tanh in (True, False)),
)
Affine: TypeAlias = tuple[np.ndarray, np.ndarray]  # scale and shift, ``(fan_out,)`` each


@dataclasses.dataclass(frozen=True)
class Product:
    """A product of a vector with a matrix of weights, as a model carried it out.

    Attributes
    ----------
    name : of the layer, or of the parameters that made the weights.
    weights : ``(fan_in, fan_out)``.
    inputs : what it was given, ``(rows, fan_in)``.
    images : scales and shifts, ``(fan_out,)`` each, of what became of the product, entry by entry:
        with a bias, with a constant factor. One of them is the pre-activation.
    """

    name: str
    weights: np.ndarray
    inputs: np.ndarray
    images: Sequence[Affine]


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a model did on some points, each flattened to a row.

    Attributes
    ----------
    inputs, output : of the model, ``(rows, entries)``.
    products : in the order of execution.
    left : names of the parameters that entered neither a product nor a bias.
    narrow : whether the model rounds numbers that depend on its input to float32 or less. They are
        float64 here, but a constant such as a slope may have been rounded.
    otherwise : what to do with a model that is not a chain.
    """

    inputs: np.ndarray
    output: np.ndarray
    products: Sequence[Product]
    left: Sequence[str]
    narrow: bool = False
    otherwise: str = OTHERWISE


def points(size: int) -> np.ndarray:
    """Random inputs of sizes 1e-3 to 1e4: biases, slopes and saturation all show."""
    rng = np.random.default_rng(0)
    scales = np.logspace(*SCALES, ROWS)
    return rng.normal(size=(ROWS, size)) * scales[:, None]


def chained(
    found: Recorded, activation: str | Activation, readout: bool
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return ``params`` of the chain that the model is; refuse, by name, any other model."""
    activation = activations.get(activation)
    if found.left:
        names = ", ".join(map(repr, found.left[:3])) + (", ..." if found.left[3:] else "")
        raise ValueError(
            f"module holds {names}, not weights or biases of a fully connected layer that it uses: "
            f"{found.otherwise}"
        )
    products = found.products
    if not products:
        raise ValueError(f"module does not multiply by a matrix of weights: {found.otherwise}")
    numbers = (found.output, *(product.inputs for product in products))
    if not all(np.isfinite(values).all() for values in numbers):
        raise ValueError(
            "module makes NaN or infinity of an input of size 1e-3 to 1e4, so that it cannot be "
            f"compared with a chain: {found.otherwise}"
        )
    first = products[0].inputs
    if not _equal(first, found.inputs, 4 * EPS * np.abs(found.inputs)):
        raise ValueError(
            f"module changes its input before the first layer {products[0].name!r}: give that "
            f"layer's input to a module of the layers alone, or {found.otherwise}"
        )
    links = list(itertools.pairwise(products))
    images = [_chain_image(found, i, above, activation) for i, (_, above) in enumerate(links)]
    images.append(_last_of(found, activation, readout))
    layers = [
        (product.weights * scale, shift)
        for product, (scale, shift) in zip(products, images, strict=True)
    ]
    return as_params(layers, readout, "module", [product.name for product in products])


def _chain_image(found: Recorded, index: int, above: Product, activation: Activation) -> Affine:
    """Scale and shift of the pre-activation between a product and the next one."""
    product = found.products[index]
    for image in product.images:
        if _is(above.inputs, _hidden(product, image), activation, found.narrow):
            return image
    other = _found(above.inputs, product, found.narrow)
    if other is not None:
        raise ValueError(
            f"module has {other[0]} between {product.name!r} and {above.name!r} and "
            f"activation={checks.shown(activation.name)}: {other[1]}, if it has the same after "
            f"every hidden layer; otherwise {found.otherwise}"
        )
    for earlier in found.products[:index]:
        if any(
            _is(above.inputs, _hidden(earlier, image), activation, found.narrow)
            for image in earlier.images
        ):
            raise ValueError(
                f"module is not a chain: {above.name!r} takes the output of {earlier.name!r} and "
                f"not that of {product.name!r}, which is carried out between them (two heads or "
                f"branches): {found.otherwise}"
            )
    raise ValueError(
        f"module is not a chain with {activation.name} between its layers: {above.name!r} takes "
        f"something else than the activations of {product.name!r} (a skip connection, a "
        f"normalisation, a factor, another activation): {found.otherwise}"
    )


def _last_of(found: Recorded, activation: Activation, readout: bool) -> Affine:
    """Scale and shift of the last layer, whose output the model returns."""
    product, output = found.products[-1], found.output
    images = list(product.images)
    plain = [image for image in images if _is_last(output, _hidden(product, image))]
    bent = [i for i in images if _is(output, _hidden(product, i), activation, found.narrow)]
    if plain if readout else bent:
        return (plain if readout else bent)[-1]
    if bent or plain:
        raise ValueError(
            f"module returns {'the activations' if bent else 'the linear output'} of its last "
            f"layer {product.name!r} and readout={readout}: say readout={not readout}"
        )
    other = _found(output, product, found.narrow)
    if other is not None:
        raise ValueError(
            f"module has {other[0]} after its last layer {product.name!r}, and "
            f"activation={checks.shown(activation.name)} with readout={readout}: {other[1]} and "
            f"readout=False, if it has the same after every layer; otherwise {found.otherwise}"
        )
    raise ValueError(
        f"module returns something else than the output of its last layer {product.name!r} (a skip "
        f"connection, several heads, another activation): {found.otherwise}"
    )


@dataclasses.dataclass(frozen=True)
class _Hidden:
    """``h = z @ W + b`` and a bound on its rounding, ``(rows, fan_out)`` each."""

    values: np.ndarray
    error: np.ndarray


def _hidden(product: Product, image: tuple[np.ndarray, np.ndarray]) -> _Hidden:
    scale, shift = image
    values = product.inputs @ product.weights * scale + shift
    sizes = np.abs(product.inputs) @ np.abs(product.weights) * np.abs(scale) + np.abs(shift)
    return _Hidden(values, ROUNDINGS * (product.weights.shape[0] + 8) * EPS * sizes)


def _is(found: np.ndarray, hidden: _Hidden, activation: Activation, narrow: bool) -> bool:
    """Whether these are the activations of `hidden`."""
    expected = _entrywise(activation, hidden.values)
    rounding = 32 * EPS * (1 + np.abs(hidden.values)) + NARROW * narrow * np.abs(expected)
    return _equal(found, expected, activation.lipschitz * hidden.error + rounding)


def _is_last(output: np.ndarray, hidden: _Hidden) -> bool:
    """Whether this is a linear read-out, or what makes probabilities of one."""
    if _equal(output, hidden.values, hidden.error):
        return True
    error = 4 * hidden.error.max(axis=-1, keepdims=True) + 64 * EPS * (1 + np.abs(output))
    one = hidden.values.shape[-1] == 1  # softmax of one number says nothing of it
    last = (jax.nn.sigmoid,) if one else (jax.nn.softmax, jax.nn.log_softmax, jax.nn.sigmoid)
    return any(_equal(output, _activation_applied(f, hidden.values), error) for f in last)


def _equal(found: np.ndarray, expected: np.ndarray, within: np.ndarray) -> bool:
    return found.shape == expected.shape and bool((np.abs(found - expected) <= within).all())


def _activation_applied(function: Callable[[Any], Any], values: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        return np.asarray(function(jnp.asarray(values)), np.float64)


def _entrywise(function: Callable[[Any], Any], values: np.ndarray) -> np.ndarray:
    """The same entry by entry, a block at a time: compiled once for layers of all widths."""
    blocks = np.zeros((math.ceil(values.size / BLOCK), BLOCK))
    blocks.ravel()[: values.size] = values.ravel()
    found = np.stack([_activation_applied(function, block) for block in blocks])
    return found.ravel()[: values.size].reshape(values.shape)


def _found(values: np.ndarray, product: Product, narrow: bool) -> tuple[str, str] | None:
    """The activation that makes these values of the product: its name, and what to say then."""
    for image in product.images:
        hidden = _hidden(product, image)
        if values.shape != hidden.values.shape:
            continue
        for candidate in _candidates(values, hidden.values):
            if _is(values, hidden, candidate, narrow):
                return _said(candidate.name)
    return None


def _said(name: str) -> tuple[str, str]:
    if name in activations.NAMES:
        return ("no activation" if name == "linear" else name), f"say activation={name!r}"
    if name.startswith("leaky_relu"):
        return name, f"say activation=jaxexpr.activations.{name}"
    return name, f"give activation= the jaxexpr.Activation of {name}"


def _candidates(values: np.ndarray, hidden: np.ndarray) -> Iterator[Activation]:
    yield from activations.NAMES.values()
    below = np.argmin(hidden)  # a leaky slope shows where h is far below 0
    if hidden.ravel()[below] < 0:
        slope = float(values.ravel()[below] / hidden.ravel()[below])
        yield dataclasses.replace(activations.leaky_relu(slope), name=f"leaky_relu({slope:.12g})")
    for name, function in OTHERS:
        yield Activation(name, function, jnp.ones_like, None, None, 2.0)
