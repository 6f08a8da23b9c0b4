"""One step, one epoch, one test of one network: pure functions, without batches of networks."""

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
from jaxexpr.training.models import Normalised, by_place, hidden, weighted, with_hidden
from jaxexpr.training.regularise import Penalty

TOGETHER = 2000  # examples that are tested at once, and that running means begin with


class State(NamedTuple):
    """A network that is being trained.

    params, rest : of its Flax model: parameters, and all else (running means).
    optimiser : state of the optimiser.
    masks : which weights of the hidden layers are left, ``()`` if all are.
    loss, right : sum of the loss over the examples seen since the last record, without
        regularisation, and how many of them were classified as their labels say.
    """

    params: nnx.State
    rest: nnx.State
    optimiser: optax.OptState
    masks: tuple[jax.Array, ...]
    loss: jax.Array
    right: jax.Array


class PerNetwork(NamedTuple):
    """What stays as it is while a network is trained.

    key : of the order of its examples, and of wrong labels.
    train_layer : number of the one layer that is trained, 1 the first; 0 is all.
    label_noise : share of labels that are replaced.
    density : of the hidden layers when pruning is done.
    """

    key: jax.Array
    train_layer: jax.Array
    label_noise: jax.Array
    density: jax.Array


@dataclasses.dataclass(frozen=True)
class StepSpec:
    """What is static.

    graph : of the Flax model.
    optimiser : of Optax.
    batch, classes : sizes.
    freezes, noisy : whether one layer only is trained, and whether labels are replaced.
    prune : when weights go.
    """

    graph: nnx.GraphDef
    optimiser: optax.GradientTransformation
    batch: int
    classes: int
    freezes: bool = False
    noisy: bool = False
    prune: Prune | None = None


def begin_training(plan: StepSpec, model: nnx.Module, *, sparse: tuple[bool, ...]) -> State:
    """Return the state of an untrained model.

    sparse : of each hidden layer, whether weights that are 0 stay so.
    """
    parts: Any = nnx.split(model, nnx.Param, ...)
    _, params, rest = parts
    masks: tuple[jax.Array, ...] = ()
    if any(sparse) or plan.prune is not None:
        pairs = zip(hidden(params), sparse, strict=True)
        masks = tuple((w != 0) | (not keep) for (w, _), keep in pairs)
    start = plan.optimiser.init(params)
    zero = jnp.zeros((), jax.tree.leaves(params)[0].dtype)
    return State(params, rest, start, masks, zero, jnp.zeros((), jnp.int32))


def calibrated(
    plan: StepSpec, held: PerNetwork, params: nnx.State, rest: nnx.State, images: jax.Array
) -> nnx.State:
    """Return `rest` with the running means and variances of untrained batch normalisation.

    They are those of the first ``TOGETHER`` examples (all, if there are fewer) in the order in
    which the network will be shown them. Flax begins with means of 0 and variances of 1: with
    those, normalisation does nothing in inference before the first step, and little in the next.
    """
    model = nnx.merge(plan.graph, params, rest, copy=True)
    for stage in model.stages:
        if isinstance(stage, Normalised):
            stage.norm.momentum = 0.0  # forgets at once what it began with
    model.images(images[shown_in(held, 0, len(images))[:TOGETHER]])
    parts: Any = nnx.split(model, nnx.Param, ...)
    return parts[2]


def shown_in(held: PerNetwork, number: ArrayLike, count: int) -> jax.Array:
    """Return the order in which a network is shown its examples in an epoch, ``(count,)``."""
    return prng.permutation(prng.child(prng.seed(held.key), number, 1), count)


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
            made = jax.eval_shape(once, params)
    except TypeError as error:
        reason = str(error).partition("\n")[0][:100]
        fix = alone if "missing" in reason else rates
        raise ValueError(f"optimiser cannot do a step ({reason}): {fix}") from error
    if jax.tree.map(jnp.shape, made) != jax.tree.map(jnp.shape, params):
        raise ValueError(f"optimiser changes the shapes of parameters: {rates}")


def _of_layer(updates: nnx.State, layer: jax.Array) -> nnx.State:
    """Keep the updates of one hidden layer; of all if `layer` is 0."""
    numbers = {stage: n for n, stage in enumerate(weighted(updates), start=1)}

    def at(place: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
        number = numbers.get(place[1], -1) if place[0] == "stages" else -1
        return jnp.where((layer == 0) | (layer == number), leaf, 0)

    return by_place(at, updates)


def _masked_updates(params: nnx.State, masks: tuple[jax.Array, ...]) -> nnx.State:
    """Set weights of the hidden layers to 0 where their mask is False."""
    pairs = zip(hidden(params), masks, strict=True)
    return with_hidden(params, tuple((jnp.where(mask, w, 0), b) for (w, b), mask in pairs))


def objective(
    plan: StepSpec, params: nnx.State, rest: nnx.State, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, tuple[nnx.State, jax.Array, jax.Array]]:
    """Return loss with regularisation, and beside it what changed, the plain loss, and the hits."""
    model = nnx.merge(plan.graph, params, rest, copy=True)
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
    plan: StepSpec, held: PerNetwork, state: State, x: jax.Array, y: jax.Array, done: StepCount
) -> State:
    """One step of the optimiser on one minibatch.

    Parameters
    ----------
    x, y : examples ``(batch, ...)`` and labels ``(batch,)``.
    done : steps done before.
    """
    differentiate = jax.grad(objective, argnums=1, has_aux=True)
    gradient, (rest, loss, right) = differentiate(plan, state.params, state.rest, x, y)
    with jax.numpy_dtype_promotion("standard"):  # Optax counts on it
        updates, optimiser = plan.optimiser.update(gradient, state.optimiser, state.params)
    if plan.freezes:
        updates = _of_layer(updates, held.train_layer)
    params: Any = optax.apply_updates(state.params, updates)
    masks = state.masks
    if masks:
        params = _masked_updates(params, masks)
    if plan.prune is not None:
        due, prune = plan.prune.due(done + 1), plan.prune

        def cut(masks: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            left = prune.left(done + 1, held.density)
            # What is gone is 0, and so comes last.
            pairs = zip(hidden(params), masks, strict=True)
            return tuple(largest_weights(w, left) & mask for (w, _), mask in pairs)

        masks = lax.cond(due, cut, lambda masks: masks, masks)
        params = _masked_updates(params, masks)
    return State(params, rest, optimiser, masks, state.loss + loss, state.right + right)


def epoch(
    plan: StepSpec,
    held: PerNetwork,
    state: State,
    images: jax.Array,
    labels: jax.Array,
    number: StepCount,
    first: StepCount,
    last: StepCount,
) -> State:
    """Do the steps ``first, ..., last - 1`` of an epoch; all three numbers may be traced.

    The order of the examples is drawn anew for each epoch, from the key and its number alone;
    examples that do not fill a minibatch wait for another epoch.
    """
    count = len(images)
    order = shown_in(held, number, count)
    if plan.noisy:
        labels = wrong_labels(labels, held.label_noise, plan.classes, held.key)
    before = number * (count // plan.batch)

    def body(i: jax.Array, state: State) -> State:
        chosen = lax.dynamic_slice_in_dim(order, i * plan.batch, plan.batch)
        return step(plan, held, state, images[chosen], labels[chosen], before + i)

    return lax.fori_loop(first, last, body, state)


def tested(
    graph: nnx.GraphDef, params: nnx.State, rest: nnx.State, images: jax.Array, labels: jax.Array
) -> jax.Array:
    """Return the share of examples that the network classifies as their labels say, ``()``."""
    model = nnx.merge(graph, params, rest, copy=True)
    model.eval()
    graph, values = nnx.split(model)

    def right(both: tuple[jax.Array, jax.Array]) -> jax.Array:
        x, y = both
        return _classes(nnx.merge(graph, values, copy=True)(x[None]))[0] == y

    together = min(TOGETHER, len(images))
    return jnp.mean(lax.map(right, (images, labels), batch_size=together).astype(jnp.float32))
