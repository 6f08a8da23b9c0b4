"""Flax models to train: the hidden layers of a network, a read-out, and layers between them.

The hidden layers are those of an ``MLP`` or a ``ConvNet``, drawn from its laws, so a trained
network is the same object as a random one: ``params`` of its hidden layers go into ``measure`` and
``exact`` as they are.
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
    """What stands between the layers of a network that is trained, and acts on activations.

    Parameters
    ----------
    kind : ``"batch"`` (batch normalisation), or ``"trajectory"``: the trajectory regularisation of
        Raghu et al. 2017, section 3.3.
    after : numbers of the layers that it follows, 1 the first; all with weights unless said.
    weight : factor of the trajectory regularisation in the loss.

    Raises
    ------
    ValueError
        naming the argument.

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
        """Numbers of the layers of `net` that it follows."""
        if self.after is None:
            return tuple(i for i, op in enumerate(net.ops, start=1) if hasattr(op, "fan_in"))
        for i, place in enumerate(self.after):
            if place > net.depth:
                raise ValueError(
                    f"after[{i}]={place} and net has {net.depth} layers: give 1 to {net.depth}"
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
    """A pool, on rows."""

    def __init__(self, op: PlacedPool) -> None:
        self.op = op

    def __call__(self, rows: jax.Array, inputs: jax.Array) -> jax.Array:
        windows = self.op.windows(rows)
        return jnp.mean(windows, axis=0) if self.op.kind == "mean" else jnp.max(windows, axis=0)


class Normalised(nnx.Module):
    """Batch normalisation of the units of a layer, or of the channels of an image, on rows."""

    def __init__(self, op: Placed, dtype: jnp.dtype) -> None:
        self.op = op
        # Short runs: the running means forget in ten steps what the first ones were.
        self.norm = nnx.BatchNorm(op.shape[-1], momentum=0.9, param_dtype=dtype, rngs=nnx.Rngs(0))
        # Flax holds them in float32 whatever the parameters are.
        self.norm.mean = nnx.BatchStat(jnp.zeros(op.shape[-1], dtype))
        self.norm.var = nnx.BatchStat(jnp.ones(op.shape[-1], dtype))

    def __call__(self, rows: jax.Array, inputs: jax.Array) -> jax.Array:
        with jax.numpy_dtype_promotion("standard"):  # Flax counts on it
            return self.norm(rows.reshape(-1, *self.op.shape)).reshape(rows.shape)


class Regularised(nnx.Module):
    """Trajectory regularisation of a layer, on rows."""

    def __init__(self, weight: float, dtype: jnp.dtype) -> None:
        self.layer = TrajectoryRegularisation(weight=weight, dtype=dtype)

    def __call__(self, rows: jax.Array, inputs: jax.Array) -> jax.Array:
        return self.layer(rows, inputs)


class Classifier(nnx.Module):
    """The hidden layers of a random network, and a linear read-out: a model for Flax and Optax.

    Parameters
    ----------
    net : an ``MLP`` or ``ConvNet`` without a sweep; its laws draw the hidden layers.
    classes : number of logits.
    key : of the draw. The hidden layers are those of ``net.init(key)``.
    normalisation : between its layers, if any.
    readout : law of the read-out's weights, divided by ``sqrt(fan_in)``; its biases start at 0.

    Raises
    ------
    ValueError
        naming the argument.

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
        places = () if between is None else between.places(net)
        left = list(net.init(key))
        stages: list[nnx.Module] = []
        for number, op in enumerate(net.ops, start=1):
            if isinstance(op, PlacedPool):
                stages.append(Pooling(op))
            else:
                stages.append(Weighted(op, net.activation, *left.pop(0)))
            if between is not None and number in places:
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
        """Images of a batch ``(batch, *input_shape)`` in all stages, ``(batch, units)`` each.

        Stages are named in ``names``: c a convolution, p a pool, fc fully connected, bn a batch
        normalisation, tr a trajectory regularisation.
        """
        inputs = x.reshape(x.shape[0], -1)
        found = [inputs]
        for stage in self.stages:
            found.append(stage(found[-1], inputs))
        return found[1:]

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
    """Return the stages with weights, in order, of the state of a ``Classifier``."""
    return [i for i in sorted(params["stages"]) if "kernel" in params["stages"][i]]


def hidden(params: nnx.State) -> Params:
    """``(W, b)`` of the hidden layers with weights, out of the state of a ``Classifier``."""
    stages = params["stages"]
    return tuple((stages[i]["kernel"][...], stages[i]["bias"][...]) for i in weighted(params))


def with_hidden(params: nnx.State, changed: Params) -> nnx.State:
    """Return the state of a ``Classifier`` with other ``(W, b)`` in its hidden layers."""
    pairs = dict(zip(weighted(params), changed, strict=True))

    def at(place: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        if place[0] != "stages" or place[1] not in pairs:
            return leaf
        return pairs[place[1]][0 if place[2] == "kernel" else 1]

    return by_place(at, params)


def by_place(
    function: Callable[[tuple[Any, ...], jax.Array], jax.Array], state: nnx.State
) -> nnx.State:
    """Map ``function(place, leaf)`` over a Flax state; a place is its keys, outermost first."""

    def at(path: jax.tree_util.KeyPath, leaf: jax.Array) -> jax.Array:
        return function(tuple(entry.key for entry in path if hasattr(entry, "key")), leaf)

    return jax.tree_util.tree_map_with_path(at, state)
