"""One step, one epoch, one test of one network: pure functions, not batched over networks."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax
from jax.typing import ArrayLike

from jaxexpr import prng
from jaxexpr.training.interventions import Prune, StepCount, largest_weights, wrong_labels
from jaxexpr.training.models import Normalised, by_path, hidden, weighted, with_hidden
from jaxexpr.training.regularise import Penalty

TOGETHER = 2000  # examples tested at once; also those that the first running means are taken over


class State(NamedTuple):
    """State of the training of one network.

    params, rest : state of its Flax model: parameters, and all else (running means).
    optimiser : state of the optimiser.
    masks : True for weights of the hidden layers that are trained, ``()`` if all are.
    loss, right : sum of the loss, without regularisation, and number of correct classifications,
        over the examples seen since the last record.
    """

    params: nnx.State
    rest: nnx.State
    optimiser: optax.OptState
    masks: tuple[jax.Array, ...]
    loss: jax.Array
    right: jax.Array


class PerNetwork(NamedTuple):
    """Constants of the training of one network; each may differ between networks.

    key : JAX random key of the order of its examples, and of wrong labels.
    train_layer : number of the only layer that is trained, counted from 1; 0 trains all.
    label_noise : share of labels that are replaced.
    density : share of weights of the hidden layers that remain after pruning.
    """

    key: jax.Array
    train_layer: jax.Array
    label_noise: jax.Array
    density: jax.Array


@dataclasses.dataclass(frozen=True)
class StepSpec:
    """Static arguments of a step.

    graph : graph of the Flax model.
    optimiser : Optax optimiser.
    batch, classes : number of examples in a minibatch, and of classes.
    freezes, noisy : whether only one layer is trained, and whether labels are replaced.
    prune : schedule of pruning.
    """

    graph: nnx.GraphDef
    optimiser: optax.GradientTransformation
    batch: int
    classes: int
    freezes: bool = False
    noisy: bool = False
    prune: Prune | None = None


def begin_training(spec: StepSpec, model: nnx.Module, *, sparse: tuple[bool, ...]) -> State:
    """Return the state of an untrained model.

    sparse : for each hidden layer, whether weights that are 0 stay 0.
    """
    parts: Any = nnx.split(model, nnx.Param, ...)
    _, params, rest = parts
    masks: tuple[jax.Array, ...] = ()
    if any(sparse) or spec.prune is not None:
        pairs = zip(hidden(params), sparse, strict=True)
        masks = tuple((w != 0) | (not keep) for (w, _), keep in pairs)
    start = spec.optimiser.init(params)
    zero = jnp.zeros((), jax.tree.leaves(params)[0].dtype)
    return State(params, rest, start, masks, zero, jnp.zeros((), jnp.int32))


def calibrated(
    spec: StepSpec, per_network: PerNetwork, params: nnx.State, rest: nnx.State, images: jax.Array
) -> nnx.State:
    """Return `rest` with the running means and variances of untrained batch normalisation.

    They are computed on the first ``TOGETHER`` examples (all, if there are fewer) of the first
    epoch. Flax starts with means of 0 and variances of 1: with those, normalisation would do
    nothing in inference before the first step, and little after the next ones.
    """
    model = nnx.merge(spec.graph, params, rest, copy=True)
    for stage in model.stages:
        if isinstance(stage, Normalised):
            stage.norm.momentum = 0.0  # replaces the initial values at once
    model.images(images[shown_in(per_network, 0, len(images))[:TOGETHER]])
    parts: Any = nnx.split(model, nnx.Param, ...)
    return parts[2]


def shown_in(per_network: PerNetwork, number: ArrayLike, count: int) -> jax.Array:
    """Return the order of the examples in the epoch with index `number`, ``(count,)``."""
    return prng.permutation(prng.child(prng.seed(per_network.key), number, 1), count)


def steps_with(optimiser: optax.GradientTransformation, model: nnx.Module) -> None:
    """Refuse an optimiser that cannot do a step with the gradients and parameters of a model."""
    parts: Any = nnx.split(model, nnx.Param, ...)
    _, params, _ = parts

    def once(params: nnx.State) -> tuple[optax.Updates, optax.OptState]:
        return optimiser.update(params, optimiser.init(params), params)[0]

    alone = "give one that needs gradients and parameters alone, such as adam, sgd or muon"
    rates = "give numbers in it, not arrays; of several learning rates call train once for each"
    try:
        with jax.numpy_dtype_promotion("standard"):
            updates = jax.eval_shape(once, params)
    except TypeError as error:
        reason = str(error).partition("\n")[0][:100]
        fix = alone if "missing" in reason else rates
        raise ValueError(f"optimiser cannot do a step ({reason}): {fix}") from error
    if jax.tree.map(jnp.shape, updates) != jax.tree.map(jnp.shape, params):
        raise ValueError(f"optimiser changes the shapes of parameters: {rates}")


def _of_layer(updates: nnx.State, layer: jax.Array) -> nnx.State:
    """Set all updates but those of one hidden layer to 0; none if `layer` is 0."""
    numbers = {stage: n for n, stage in enumerate(weighted(updates), start=1)}

    def masked(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        number = numbers.get(path[1], -1) if path[0] == "stages" else -1
        return jnp.where((layer == 0) | (layer == number), leaf, 0)

    return by_path(masked, updates)


def _masked_updates(params: nnx.State, masks: tuple[jax.Array, ...]) -> nnx.State:
    """Set weights of the hidden layers to 0 where their mask is False."""
    pairs = zip(hidden(params), masks, strict=True)
    return with_hidden(params, tuple((jnp.where(mask, w, 0), b) for (w, b), mask in pairs))


def objective(
    spec: StepSpec, params: nnx.State, rest: nnx.State, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, tuple[nnx.State, jax.Array, jax.Array]]:
    """Loss with regularisation; also the new `rest`, the plain summed loss, and correct labels."""
    model = nnx.merge(spec.graph, params, rest, copy=True)
    logits = model(x)
    parts: Any = nnx.split(model, nnx.Param, ...)
    rest = parts[2]
    penalties = jax.tree.leaves(nnx.filter_state(rest, Penalty))
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    right = jnp.sum(_classes(logits) == y, dtype=jnp.int32)
    return jnp.mean(losses) + sum(penalties), (rest, jnp.sum(losses), right)


def _classes(logits: jax.Array) -> jax.Array:
    """Return the class of the largest logit of each row, ``(batch,)``, int32."""
    return lax.argmax(logits, 1, jnp.int32)


def step(
    spec: StepSpec,
    per_network: PerNetwork,
    state: State,
    x: jax.Array,
    y: jax.Array,
    done: StepCount,
) -> State:
    """Do one step of the optimiser on one minibatch.

    Parameters
    ----------
    x, y : examples ``(batch, ...)`` and labels ``(batch,)``.
    done : number of steps done before.
    """
    differentiate = jax.grad(objective, argnums=1, has_aux=True)
    gradient, (rest, loss, right) = differentiate(spec, state.params, state.rest, x, y)
    with jax.numpy_dtype_promotion("standard"):  # required by Optax
        updates, optimiser = spec.optimiser.update(gradient, state.optimiser, state.params)
    if spec.freezes:
        updates = _of_layer(updates, per_network.train_layer)
    params: Any = optax.apply_updates(state.params, updates)
    masks = state.masks
    if masks:
        params = _masked_updates(params, masks)
    if spec.prune is not None:
        due, prune = spec.prune.due(done + 1), spec.prune

        def cut(masks: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            density = prune.left(done + 1, per_network.density)
            # Pruned weights are 0, hence the smallest.
            pairs = zip(hidden(params), masks, strict=True)
            return tuple(largest_weights(w, density) & mask for (w, _), mask in pairs)

        masks = lax.cond(due, cut, lambda masks: masks, masks)
        params = _masked_updates(params, masks)
    return State(params, rest, optimiser, masks, state.loss + loss, state.right + right)


def epoch(
    spec: StepSpec,
    per_network: PerNetwork,
    state: State,
    images: jax.Array,
    labels: jax.Array,
    number: StepCount,
    first: StepCount,
    last: StepCount,
) -> State:
    """Do the steps ``first, ..., last - 1`` of an epoch; all three numbers may be traced.

    The order of the examples is drawn for each epoch from the key and the index `number` of the
    epoch. Examples that do not fill a minibatch are not used in this epoch.
    """
    count = len(images)
    order = shown_in(per_network, number, count)
    if spec.noisy:
        labels = wrong_labels(labels, per_network.label_noise, spec.classes, per_network.key)
    before = number * (count // spec.batch)

    def body(i: jax.Array, state: State) -> State:
        chosen = lax.dynamic_slice_in_dim(order, i * spec.batch, spec.batch)
        return step(spec, per_network, state, images[chosen], labels[chosen], before + i)

    return lax.fori_loop(first, last, body, state)


def tested(
    graph: nnx.GraphDef, params: nnx.State, rest: nnx.State, images: jax.Array, labels: jax.Array
) -> jax.Array:
    """Return the accuracy of the network on the examples, ``()``."""
    model = nnx.merge(graph, params, rest, copy=True)
    model.eval()
    graph, values = nnx.split(model)

    def right(example: tuple[jax.Array, jax.Array]) -> jax.Array:
        x, y = example
        return _classes(nnx.merge(graph, values, copy=True)(x[None]))[0] == y

    together = min(TOGETHER, len(images))
    return jnp.mean(lax.map(right, (images, labels), batch_size=together).astype(jnp.float32))
