"""Random convolutional networks: images in, convolutions, pooling, fully connected layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxexpr import activations, laws
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.layers import Conv, Dense, Layer, PlacedPool, Pool
from jaxexpr.networks import Network
from jaxexpr.params import Params


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, init=False, repr=False)
class ConvNet(Network):
    """A random convolutional network.

    Parameters
    ----------
    input_shape : ``(height, width, channels)`` of an input.
    layers : ``Conv``, ``Pool`` and ``Dense``, starting at the input; results have each as a layer.
        The first ``Dense`` takes the image as one vector, and only ``Dense`` may follow it.
    weights, biases, activation, dtype : as for ``MLP``; a sequence of laws has one for each layer
        with weights. A convolution's fan_in is ``kernel^2 * channels``, and its kernels and biases
        are the same at all places. Pooling has no weights and no activation.

    Raises
    ------
    ValueError
        for kernels and pools that do not fit their image (the message names the layer), and as for
        ``MLP``.

    Examples
    --------
    >>> net = ConvNet((8, 8, 1), [Conv(4), Pool(2), Dense(10)], laws.Gaussian(1.5), laws.Zero())
    >>> net.widths
    (64, 256, 64, 10)
    >>> [W.shape for W, b in net.init(jax.random.key(0))]
    [(3, 3, 1, 4), (64, 10)]
    """

    @explained
    def __init__(
        self,
        input_shape: Sequence[int],
        layers: Sequence[Layer],
        weights: laws.Law | Sequence[laws.Law],
        biases: laws.Law | Sequence[laws.Law],
        activation: str | activations.Activation = "relu",
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        if not isinstance(input_shape, Sequence | np.ndarray) or len(input_shape) != 3:
            raise ValueError(
                f"input_shape={checks.shown(input_shape)}: give (height, width, channels)"
            )
        shape: tuple[int, ...] = tuple(checks.integer("input_shape", n) for n in input_shape)
        if not isinstance(layers, Sequence) or not layers:
            raise ValueError(
                f"layers={checks.shown(layers)}: give a sequence of Conv, Pool and Dense"
            )
        ops: list[Any] = []
        below = shape
        for i, layer in enumerate(layers):
            if not isinstance(layer, Conv | Pool | Dense):
                raise ValueError(
                    f"layers[{i}]={checks.shown(layer)} is not a layer: give Conv, Pool or Dense"
                )
            ops.append(layer.placed(f"layers[{i}]", below))
            below = ops[-1].shape
        if all(isinstance(op, PlacedPool) for op in ops):
            raise ValueError("layers hold no weights: give at least one Conv or Dense")
        self._describe(shape, tuple(ops), weights, biases, activation, dtype)

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """Return the output of the last layer for one input.

        A pure function, for gradients, for ``exact.pieces_of``, or to train.

        Parameters
        ----------
        params : as ``init`` returns them.
        x : one input, of shape ``input_shape``.

        Raises
        ------
        ValueError
            if `x` or `params` have wrong shapes.
        """
        if isinstance(params, np.ndarray | jax.Array):
            raise ValueError(f"params={checks.shown(params)}: give net.init(key) first, then x")
        if np.shape(x) != self.input_shape:
            raise ValueError(
                f"x has shape {np.shape(x)} and net.input_shape is {self.input_shape}: give one "
                "input; for many of them use jax.vmap(lambda x: net.apply(params, x))"
            )
        shapes = [op.weights_shape for op in self.ops if hasattr(op, "fan_in")]
        given = [np.shape(weights) for weights, _ in params]
        if given != shapes:
            raise ValueError(f"params hold W of shapes {given}: give {shapes}, as net.init(key)")
        rows, remaining = jnp.asarray(x).reshape(1, -1), list(params)
        for op in self.ops:
            if isinstance(op, PlacedPool):
                rows = _pooled(op, rows)
                continue
            weights, biases = remaining.pop(0)
            product = op.product(jnp.asarray(weights).reshape(op.fan_in, op.outputs))
            rows = self.activation(product(rows) + op.spread(jnp.asarray(biases))[None])
        return rows.reshape(self.ops[-1].shape)


def _pooled(op: PlacedPool, rows: jax.Array) -> jax.Array:
    windows = op.windows(rows)
    return jnp.mean(windows, axis=0) if op.kind == "mean" else jnp.max(windows, axis=0)


@explained
def cifar10_convnet(
    weights: laws.Law | Sequence[laws.Law],
    biases: laws.Law | Sequence[laws.Law],
    activation: str | activations.Activation = "relu",
    *,
    features: tuple[int, int] = (32, 64),
    dense: tuple[int, int] = (384, 192),
    input_shape: Sequence[int] = (32, 32, 3),
    dtype: DTypeLike = "float32",
) -> ConvNet:
    """The architecture of Raghu et al. 2017's CIFAR-10 experiments.

    Two convolutions, a pool, three convolutions, a pool and two fully connected layers (in, c1, c2,
    p1, c3, c4, c5, p2, fc1, fc2). The paper does not specify sizes: 3 x 3 kernels,
    2 x 2 max pools and the default sizes are choices of this package.

    Parameters
    ----------
    features : channels before and after the first pool.
    dense : units of the fully connected layers.
    input_shape : shape of an image; height and width are multiples of 4.
    weights, biases, activation, dtype : as for ``ConvNet``.

    Raises
    ------
    ValueError
        if `features`, `dense` or `input_shape` have another length, or sides are no multiples of 4.

    Examples
    --------
    >>> cifar10_convnet(laws.Gaussian(2.0), laws.Zero()).depth
    9
    """
    for name, pair in (("features", features), ("dense", dense)):
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise ValueError(f"{name}={checks.shown(pair)}: give two numbers, such as (32, 64)")
    shape = tuple(input_shape) if isinstance(input_shape, Sequence) else (input_shape,)
    if len(shape) != 3 or any(side % 4 for side in shape[:2]):
        raise ValueError(
            f"input_shape={shape}: give (height, width, channels), height and width multiples of 4"
        )
    low, high = (Conv(n) for n in features)
    layers: list[Layer] = [low, low, Pool(2), high, high, high, Pool(2)]
    layers += [Dense(n) for n in dense]
    return ConvNet(shape, layers, weights, biases, activation, dtype=dtype)
