"""Flax models to train: the hidden layers of a network, normalisation between them, a readout.

The hidden layers are those of an ``MLP`` or a ``ConvNet``, drawn from its laws, so a trained
network has the same form as a random one: ``params`` of its hidden layers can be passed to
``measure`` and ``exact`` directly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import ArrayLike

from jaxexpr import activations, laws, prng
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation
from jaxexpr.layers import Placed, PlacedConv, PlacedDense, PlacedPool
from jaxexpr.networks import LayerSpec, Network
from jaxexpr.params import Params
from jaxexpr.training.regularise import TrajectoryRegularisation

CIFAR10_NORMS = (2, 6, 8, 9)  # after c2, c5, fc1 and fc2 of ``cifar10_convnet``


@explained
@dataclasses.dataclass(frozen=True)
class Normalisation:
    """Normalisation between the layers of a trained network, applied to activations.

    Parameters
    ----------
    kind : ``"batch"`` (batch normalisation), or ``"trajectory"``: the trajectory regularisation of
        Raghu et al. 2017, section 3.3.
    after : numbers of the layers that it follows, counted from 1; the default is all layers with
        weights.
    weight : factor of the trajectory regularisation in the loss.

    Raises
    ------
    ValueError
        if `kind` is unknown, `weight` is not positive, or `after` is not a sequence of integers
        >= 1.

    Examples
    --------
    >>> Normalisation("batch", after=(2, 6))
    Normalisation(kind='batch', after=(2, 6), weight=0.01)
    """

    kind: str
    after: tuple[int, ...] | None = None
    weight: float = 0.01

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, ("batch", "trajectory"))
        checks.positive("weight", self.weight)
        if self.after is None:
            return
        if np.ndim(self.after) != 1:
            raise ValueError(
                f"after={checks.shown(self.after)}: give numbers of layers, such as (2, 6)"
            )
        numbers = tuple(checks.integer(f"after[{i}]", n) for i, n in enumerate(self.after))
        object.__setattr__(self, "after", numbers)

    def places(self, net: Network) -> tuple[int, ...]:
        """Numbers of the layers of `net` that it follows, counted from 1."""
        if self.after is None:
            return tuple(i for i, op in enumerate(net.ops, start=1) if hasattr(op, "fan_in"))
        for i, number in enumerate(self.after):
            if number > net.depth:
                raise ValueError(
                    f"after[{i}]={number} and net has {net.depth} layers: give 1 to {net.depth}"
                )
        return self.after


class Weighted(nnx.Module):
    """A layer with weights and its activation, on rows ``(batch, units below)``."""

    def __init__(
        self,
        op: PlacedDense | PlacedConv,
        activation: Activation,
        weights: ArrayLike,
        biases: ArrayLike,
    ) -> None:
        self.op, self.activation = op, activation
        self.kernel, self.bias = nnx.Param(weights), nnx.Param(biases)

    def __call__(self, rows: jax.Array, inputs: jax.Array) -> jax.Array:
        weights = self.kernel[...].reshape(self.op.fan_in, self.op.outputs)
        product = self.op.product
        if isinstance(self.op, PlacedConv) and jax.default_backend() == "cpu":
            product = self.op.product_in_loops
        biases = self.op.spread(self.bias[...])
        return self.activation(product(weights)(rows) + biases[None])


class Pooling(nnx.Module):
    """A pooling layer, on rows."""

    def __init__(self, op: PlacedPool) -> None:
        self.op = op

    def __call__(self, rows: jax.Array, inputs: jax.Array) -> jax.Array:
        windows = self.op.windows(rows)
        return jnp.mean(windows, axis=0) if self.op.kind == "mean" else jnp.max(windows, axis=0)


class Normalised(nnx.Module):
    """Batch normalisation of the units of a layer, or of the channels of an image, on rows."""

    def __init__(self, op: Placed, dtype: jnp.dtype) -> None:
        self.op = op
        # Runs are short: the running means average over about ten steps.
        self.norm = nnx.BatchNorm(op.shape[-1], momentum=0.9, param_dtype=dtype, rngs=nnx.Rngs(0))
        # Flax holds them in float32 whatever the parameters are.
        self.norm.mean = nnx.BatchStat(jnp.zeros(op.shape[-1], dtype))
        self.norm.var = nnx.BatchStat(jnp.ones(op.shape[-1], dtype))

    def __call__(self, rows: jax.Array, inputs: jax.Array) -> jax.Array:
        with jax.numpy_dtype_promotion("standard"):  # required by Flax
            return self.norm(rows.reshape(-1, *self.op.shape)).reshape(rows.shape)


class Regularised(nnx.Module):
    """Trajectory regularisation of a layer, on rows."""

    def __init__(self, weight: float, dtype: jnp.dtype) -> None:
        self.layer = TrajectoryRegularisation(weight=weight, dtype=dtype)

    def __call__(self, rows: jax.Array, inputs: jax.Array) -> jax.Array:
        return self.layer(rows, inputs)


class Classifier(nnx.Module):
    """The hidden layers of a random network, and a linear readout: a model for Flax and Optax.

    Parameters
    ----------
    net : an ``MLP`` or ``ConvNet`` without a sweep; its laws draw the hidden layers.
    classes : number of logits.
    key : JAX random key of the weights. The hidden layers are those of ``net.init(key)``.
    normalisation : between its layers, if any.
    readout : law of the readout's weights, divided by ``sqrt(fan_in)``; its biases start at 0.

    Raises
    ------
    ValueError
        if `net` is no network or has a sweep, or another argument is invalid; the message names it.

    Examples
    --------
    >>> from jaxexpr import MLP, laws
    >>> net = MLP((4, 8, 8), laws.Gaussian(1.5), laws.Zero())
    >>> between = Normalisation("batch", after=(1,))
    >>> model = Classifier(net, 3, key=jax.random.key(0), normalisation=between)
    >>> model.names
    ('fc1', 'bn1', 'fc2')
    >>> model(jnp.ones((5, 4))).shape
    (5, 3)
    """

    @explained
    def __init__(
        self,
        net: Network,
        classes: int,
        *,
        key: jax.Array,
        normalisation: Normalisation | None = None,
        readout: laws.Law | None = None,
    ) -> None:
        if not isinstance(net, Network) or net.sweep_shape:
            raise ValueError(
                f"net={checks.shown(net)}: give an MLP or a ConvNet without arrays in its laws"
            )
        classes = checks.integer("classes", classes)
        between, dtype = as_normalisation(normalisation), jnp.dtype(net.dtype)
        normalised_layers = () if between is None else between.places(net)
        layers = list(net.init(key))
        stages: list[nnx.Module] = []
        for number, op in enumerate(net.ops, start=1):
            if isinstance(op, PlacedPool):
                stages.append(Pooling(op))
            else:
                stages.append(Weighted(op, net.activation, *layers.pop(0)))
            if between is not None and number in normalised_layers:
                batch = between.kind == "batch"
                stages.append(
                    Normalised(op, dtype) if batch else Regularised(between.weight, dtype)
                )
        self.stages = nnx.List(stages)
        self.names = _names(stages)
        self.input_shape = net.input_shape
        law = laws.Gaussian(1.0) if readout is None else laws.as_law("readout", readout)
        spec, below = LayerSpec(law, laws.Zero()), net.widths[-1]
        unit = spec.draw_unit(prng.seed(key), net.depth, below, classes, dtype)
        self.readout = Weighted(
            PlacedDense(below, classes),
            activations.get("linear"),
            spec.weight_scale(below, dtype) * unit,
            jnp.zeros(classes, dtype),
        )

    def images(self, x: jax.Array) -> list[jax.Array]:
        """Outputs of all stages for a batch ``(batch, *input_shape)``, ``(batch, units)`` each.

        ``names`` has the names of the stages: c a convolution, p a pooling layer, fc a fully
        connected layer, bn a batch normalisation, tr a trajectory regularisation.
        """
        inputs = x.reshape(x.shape[0], -1)
        images = [inputs]
        for stage in self.stages:
            images.append(stage(images[-1], inputs))
        return images[1:]

    def __call__(self, x: jax.Array) -> jax.Array:
        """Logits ``(batch, classes)``."""
        return self.readout(self.images(x)[-1], x)


def as_normalisation(value: object) -> Normalisation | None:
    """Return `value` if it is a ``Normalisation`` or None."""
    if value is not None and not isinstance(value, Normalisation):
        raise ValueError(
            f"normalisation={checks.shown(value)}: give training.Normalisation('batch') or "
            "Normalisation('trajectory')"
        )
    return value


def _names(stages: list[Any]) -> tuple[str, ...]:
    short: dict[type, str] = {Normalised: "bn", Regularised: "tr", Pooling: "p"}
    count: dict[str, int] = {}
    names = []
    for stage in stages:
        kind = short.get(type(stage))
        if kind is None:
            kind = "c" if isinstance(stage.op, PlacedConv) else "fc"
        count[kind] = count.get(kind, 0) + 1
        names.append(f"{kind}{count[kind]}")
    return tuple(names)


def weighted(params: nnx.State) -> list[Any]:
    """Return the indices of the stages with weights, in order, in the state of a ``Classifier``."""
    return [i for i in sorted(params["stages"]) if "kernel" in params["stages"][i]]


def hidden(params: nnx.State) -> Params:
    """``(W, b)`` of the hidden layers with weights, from the state of a ``Classifier``."""
    stages = params["stages"]
    return tuple((stages[i]["kernel"][...], stages[i]["bias"][...]) for i in weighted(params))


def with_hidden(params: nnx.State, changed: Params) -> nnx.State:
    """Return the state of a ``Classifier`` with the ``(W, b)`` of its hidden layers replaced."""
    pairs = dict(zip(weighted(params), changed, strict=True))

    def replace(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        if path[0] != "stages" or path[1] not in pairs:
            return leaf
        return pairs[path[1]][0 if path[2] == "kernel" else 1]

    return by_path(replace, params)


def by_path(
    function: Callable[[tuple[Any, ...], jax.Array], jax.Array], state: nnx.State
) -> nnx.State:
    """Map ``function(path, leaf)`` over a Flax state; a path is its keys, outermost first."""

    def call(path: jax.tree_util.KeyPath, leaf: jax.Array) -> jax.Array:
        return function(tuple(entry.key for entry in path if hasattr(entry, "key")), leaf)

    return jax.tree_util.tree_map_with_path(call, state)
