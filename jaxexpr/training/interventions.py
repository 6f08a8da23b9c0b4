"""Changes to a network or to labels: noise, pruning, wrong labels, frozen layers.

All of them are pure functions of one network's arrays. Layers with weights are counted from 1;
pools are not counted.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxexpr import laws, prng
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.params import Params, pairs_of

StepCount: TypeAlias = int | jax.Array  # also the index of an epoch; may be traced


def _numbered(name: str, layer: int, count: int) -> int:
    number = checks.integer(name, layer)
    if number > count:
        raise ValueError(f"{name}={number} and the network has {count} layers: give 1 to {count}")
    return number


def fan_in(weights: ArrayLike) -> int:
    """Inputs of a unit: all axes of W but the last."""
    return int(np.prod(np.shape(weights)[:-1]))


@explained
def add_noise(params: Params, layer: int, law: laws.Law, *, key: jax.Array) -> Params:
    """Add noise to the weights of one layer; its biases and all other layers are unchanged.

    The noise is scaled as weights of that law are: it is divided by ``sqrt(fan_in)``, so
    ``Gaussian(0.25)`` has the same size in every layer relative to weights of ``Gaussian(sigma_w)``
    (Raghu et al. 2017, figure 6, whose text does not define the magnitude of the noise).

    Parameters
    ----------
    params : ``(W, b)`` of each layer; W ``(fan_in, fan_out)``, or of a convolution.
    layer : 1 to the number of layers.
    law : law of the noise; its parameters may be traced.
    key : JAX random key of the noise.

    Raises
    ------
    ValueError
        if `layer` is out of range, or `law` is not a law.

    Examples
    --------
    >>> from jaxexpr import MLP
    >>> params = MLP((4, 8, 8), laws.Gaussian(1.5), laws.Zero()).init(jax.random.key(0))
    >>> noisy = add_noise(params, 2, laws.Gaussian(0.1), key=jax.random.key(1))
    >>> bool((noisy[0][0] == params[0][0]).all()), bool((noisy[1][0] == params[1][0]).any())
    (True, False)
    """
    checks.random_key("key", key)
    params = pairs_of(params)
    law = laws.as_law("law", law)
    index = _numbered("layer", layer, len(params)) - 1
    weights, biases = params[index]
    weights = jnp.asarray(weights)
    inputs = fan_in(weights)
    words = prng.words(prng.child(prng.seed(key), index, 2), (inputs, weights.shape[-1]))
    draw = laws.unit_of(law, words, weights.dtype) * (
        jnp.asarray(law.scale, weights.dtype) / inputs**0.5
    )
    changed = list(params)
    changed[index] = (weights + draw.reshape(weights.shape), biases)
    return tuple(changed)


def largest_weights(weights: jax.Array, density: ArrayLike) -> jax.Array:
    """Mask of W's shape: True at the ``round(density * n)`` largest of its n entries in size.

    Among equal entries the first ones are taken.
    """
    flat = jnp.abs(weights).reshape(-1)
    rank = jnp.argsort(jnp.argsort(-flat, stable=True), stable=True)
    count = jnp.round(jnp.asarray(density, jnp.float32) * flat.size).astype(jnp.int32)
    return (rank < count).reshape(weights.shape)


@explained
def prune(params: Params, density: ArrayLike) -> Params:
    """Set the smallest weights of each layer to 0, so that the share `density` of them remains.

    Magnitude pruning in one shot, layer by layer; biases are unchanged.

    Parameters
    ----------
    params : ``(W, b)`` of each layer.
    density : share of weights that remain, in [0, 1]; one number, which may be traced.

    Raises
    ------
    ValueError
        if `density` is outside [0, 1] or not one number.

    Examples
    --------
    >>> (W, b), = prune([(np.array([[3.0, -1.0], [0.5, -2.0]]), np.zeros(2))], 0.5)
    >>> W.tolist()
    [[3.0, 0.0], [0.0, -2.0]]
    """
    checks.fraction("density", density)
    if np.ndim(density) != 0:
        raise ValueError(f"density={checks.shown(density)}: give one number")
    params = pairs_of(params)
    return tuple(
        (jnp.where(largest_weights(jnp.asarray(w), density), jnp.asarray(w), 0), b)
        for w, b in params
    )


@explained
@dataclasses.dataclass(frozen=True)
class Prune:
    """Magnitude pruning during training.

    From step `begin` to step `end` the density of each hidden layer falls from 1 by the cubic
    schedule of Zhu & Gupta 2017, ``d + (1 - d) (1 - (t - begin) / (end - begin))^3``; every `every`
    steps, and at `end`, the smallest weights are set to 0. Pruned weights stay 0. With
    ``begin == end`` pruning is done in one shot, and training continues with the other weights.

    Parameters
    ----------
    density : share of weights that remain at the end, in [0, 1]; an array is a sweep.
    begin, end : steps after which pruning begins and ends, 1 or more.
    every : steps between two prunings.

    Raises
    ------
    ValueError
        if `density` is outside [0, 1], or a number of steps is no integer in its range.

    Examples
    --------
    >>> Prune(0.1, begin=100, end=500)
    Prune(density=0.1, begin=100, end=500, every=100)
    """

    density: Any
    begin: int
    end: int
    every: int = 100

    def __post_init__(self) -> None:
        checks.fraction("density", self.density)
        checks.integer("begin", self.begin)
        checks.integer("end", self.end, minimum=self.begin)
        checks.integer("every", self.every)

    def due(self, done: StepCount) -> bool | jax.Array:
        """Whether weights are pruned after `done` steps."""
        inside = (done >= self.begin) & (done <= self.end)
        return inside & (((done - self.begin) % self.every == 0) | (done == self.end))

    def left(self, done: StepCount, density: float | jax.Array) -> float | jax.Array:
        """Density after `done` steps, where `density` is the final one."""
        span = max(self.end - self.begin, 1)
        rest = (self.end - done) / span if self.end > self.begin else 0.0
        return density + (1 - density) * rest**3


@explained
@dataclasses.dataclass(frozen=True)
class Intervention:
    """Changes to networks, or to their labels, during training.

    Parameters
    ----------
    train_layer : number of the only layer with weights that is trained, counted from 1; all others,
        and the readout layer, are frozen. 0 trains all. An array is a sweep.
    label_noise : share of the labels that are replaced by random ones, see ``wrong_labels``. An
        array is a sweep.
    prune : magnitude pruning.

    Raises
    ------
    ValueError
        if `train_layer` is no integer >= 0, `label_noise` is outside [0, 1], or `prune` is no
        ``Prune``.

    Examples
    --------
    >>> Intervention(label_noise=0.5)
    Intervention(train_layer=None, label_noise=0.5, prune=None)
    """

    train_layer: Any = None
    label_noise: Any = None
    prune: Prune | None = None

    def __post_init__(self) -> None:
        if self.train_layer is not None:
            numbers = np.asarray(self.train_layer)
            if not np.issubdtype(numbers.dtype, np.integer) or numbers.min(initial=0) < 0:
                raise ValueError(
                    f"train_layer={checks.shown(self.train_layer)}: give the number of a layer "
                    "with weights, 1 the first, or 0 for all"
                )
        if self.label_noise is not None:
            checks.fraction("label_noise", self.label_noise)
        if self.prune is not None and not isinstance(self.prune, Prune):
            raise ValueError(f"prune={checks.shown(self.prune)}: give Prune(density, begin, end)")


@explained
def wrong_labels(labels: jax.Array, fraction: ArrayLike, classes: int, key: jax.Array) -> jax.Array:
    """Replace labels, each with probability `fraction`, by a class drawn from all of them.

    So ``fraction * (1 - 1 / classes)`` of the labels are wrong, and 1 makes them independent of
    the examples (as in Zhang et al. 2017). Which labels are replaced depends only on `key` and on
    the index of the example; a larger fraction replaces the same ones and more.

    Raises
    ------
    ValueError
        if `fraction` is outside [0, 1], or labels or `classes` are not integers.

    Examples
    --------
    >>> import jax
    >>> wrong_labels(jnp.arange(4), 0.0, 4, jax.random.key(0)).tolist()
    [0, 1, 2, 3]
    """
    labels, fraction = jnp.asarray(labels), checks.fraction("fraction", fraction)
    checks.integer("classes", classes)
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise ValueError(f"labels are of type {labels.dtype}: give whole numbers from 0 on")
    words = prng.words(prng.child(prng.seed(checks.random_key("key", key)), 0, 0), labels.shape)
    drawn = jnp.floor(prng.unit_interval(words.second, jnp.float32) * classes)
    chosen = prng.unit_interval(words.first, jnp.float32) < fraction
    return jnp.where(chosen, drawn.astype(labels.dtype), labels)
