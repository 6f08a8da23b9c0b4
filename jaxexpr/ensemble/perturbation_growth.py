"""Growth of a small perturbation of each layer in all layers above.

Raghu et al. 2017, section 3.1: noise in lower layers is amplified by all layers above it, so its
growth depends on the remaining depth. Here the perturbation is infinitesimal, in a random
direction of a layer's post-activations: there is no step size and no cancellation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Unpack

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxexpr import prng
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.linalg import dot, norms, power_of_two
from jaxexpr._core.shapes import Array, Bool, Float, Int, Key
from jaxexpr._core.transforms import scan
from jaxexpr.ensemble.options import RunOptions
from jaxexpr.ensemble.runner import run_task
from jaxexpr.ensemble.statistics import Estimate
from jaxexpr.ensemble.tasks import Task
from jaxexpr.measurement.exact_pass import Index, drawing
from jaxexpr.measurement.observe import Observation, Observed
from jaxexpr.networks import MLP, LayerSpec, Network
from jaxexpr.probes.base import Number

Point = Float[Array, "n_in"] | Float[np.ndarray, "n_in"]
# At a layer: the point's image and its exponent, directions, and logarithms of their growth.
State = tuple[Float[Array, "1 _"], Int[Array, ""], Float[Array, "depth _"], Float[Array, "depth"]]

NAMES = ("perturbation", "log_perturbation")
DIRECTION = 3  # index of the random stream of the directions


@explained
def perturbations(
    net: MLP,
    point: ArrayLike,
    *,
    key: Key[Array, ""],
    draws: int,
    **options: Unpack[RunOptions],
) -> dict[str, Estimate]:
    """Measure the growth of a small perturbation of each layer in all layers above.

    Parameters
    ----------
    net : arrays in its laws are a sweep.
    point : the input at which the network is perturbed, ``(n_in,)``.
    key, draws : as for ``estimate``.
    options : see ``RunOptions``; `refine` does not apply.

    Returns
    -------
    ``{"perturbation": Estimate, "log_perturbation": Estimate}``, means of shape
    ``net.sweep_shape + (depth, depth)``: entry ``[j, l]`` is the mean of ``|dz_l| / |dz_j|``, or of
    its logarithm, with dz_j a random direction in the output of layer j; NaN for l < j. The mean of
    logarithms leaves out networks in which the perturbation vanishes (``n`` counts the others).

    Raises
    ------
    ValueError
        if `net` is not an ``MLP``, `point` is not in its input space, or `refine` is given; and as
        ``estimate``.

    Examples
    --------
    >>> from jaxexpr import laws
    >>> net = MLP((4, 64, 64, 64), laws.Gaussian(2.0), laws.Zero(), "relu")
    >>> grown = perturbations(net, np.ones(4), key=jax.random.key(0), draws=200)["perturbation"]
    >>> bool(abs(grown.mean[0, 2] - 1.4**2) < 0.1)  # two layers, sigma_w / sqrt(2) each
    True
    """
    if not isinstance(net, MLP):
        raise ValueError(
            f"net={checks.shown(net)}: perturbations are of fully connected random networks; give "
            "jaxexpr.MLP(...)"
        )
    checks.on_host("perturbations", "jax.jvp of your own network", net, point, key)
    point = checks.numeric("point", point)
    if np.shape(point) != (net.widths[0],):
        raise ValueError(
            f"point has shape {np.shape(point)}: give a point ({net.widths[0]},) of the input space"
        )
    checks.held("point", point, net.dtype)
    if options.get("refine") is not None:
        raise ValueError(
            f"refine={options['refine']}: a derivative at one point has no grid; leave it out"
        )
    point = np.asarray(point, net.dtype)
    return run_task(Perturbed(), net, point, key=key, draws=draws, **options)


@dataclasses.dataclass(frozen=True)
class Perturbed(Task):
    """The task of ``perturbations``: one random direction per layer, followed upwards."""

    def shapes(self, net: Network, data: Point) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(NAMES, (net.depth, net.depth))

    def method_of(self, name: str) -> tuple[str, int]:
        return "tangent", 1

    def bytes(self, net: Network, data: Point) -> float:
        size = np.dtype(net.dtype).itemsize
        return float(size * (2 * net.widest + 4 * net.depth * max(net.widths)))

    @property
    def fingerprint_parts(self) -> object:
        return "perturbations"

    def observe(self, net: Network, key: Key[Array, ""], data: Float[Array, "n_in"]) -> Observed:
        dtype, depth = jnp.dtype(net.dtype), net.depth
        seed = prng.seed(key)
        # One row per perturbed layer, a unit vector from that layer on. Growth is stored as a
        # logarithm, and points of homogeneous networks are scaled by powers of two, so that
        # nothing overflows.
        state: State = (
            data[None],
            jnp.zeros((), jnp.int32),
            jnp.zeros((depth, net.widths[0]), dtype),
            jnp.full((depth,), jnp.nan, dtype),
        )
        rows = []
        for run in net.runs():
            draw = drawing(seed, run.op.fan_in, run.op.outputs, dtype)

            def body(
                state: State,
                step: tuple[Index, LayerSpec],
                draw: Callable[[tuple[Index, LayerSpec]], tuple[Array, Array]] = draw,
            ) -> tuple[State, tuple[Float[Array, "depth"], Bool[Array, "depth"]]]:
                z, exponent, directions, log_growth = state
                weights, biases = draw(step)
                products = dot(jnp.concatenate([z, directions]), weights)
                h = products[:1] + biases[None] * power_of_two(-exponent, dtype)
                z = net.activation(h)
                directions = net.activation.derivative(h) * products[1:]
                if net.activation.homogeneous:
                    largest = jnp.max(jnp.abs(z))
                    shift = jnp.where(largest > 0, jnp.frexp(largest)[1], 0).astype(jnp.int32)
                    z = z * power_of_two(-shift, dtype)
                    exponent = jnp.where(largest > 0, exponent + shift, 0)
                lengths = norms(directions)
                nonzero = lengths != 0
                directions = directions / jnp.where(nonzero, lengths, 1)[:, None]
                growth = jnp.where(nonzero, jnp.log(jnp.where(nonzero, lengths, 1)), -jnp.inf)
                words = prng.words(prng.child(seed, step[0], DIRECTION), (1, z.shape[1]))
                new_direction = prng.normal(words.second, dtype)
                is_this_layer = jnp.arange(depth, dtype=jnp.int32) == step[0]
                directions = jnp.where(
                    is_this_layer[:, None],
                    new_direction / norms(new_direction)[:, None],
                    directions,
                )
                log_growth = jnp.where(is_this_layer, 0, log_growth + growth)
                finite = jnp.isfinite(jnp.sum(jnp.abs(z)) + jnp.sum(lengths))
                finite = finite | (jnp.arange(depth, dtype=jnp.int32) > step[0])
                return (z, exponent, directions, log_growth), (log_growth, finite)

            indices = range(run.first, run.first + run.layers)
            if run.layers == 1:
                state, both = body(state, (run.first, net.layer(run.first)))
                rows.append(jax.tree.map(lambda x: x[None], both))
            else:
                specs = jax.tree.map(lambda *x: jnp.stack(x), *(net.layer(i) for i in indices))
                steps = (jnp.asarray(indices, jnp.int32), specs)
                state, both = scan(body, state, steps, seed)
                rows.append(both)
        logs, finite = (jnp.concatenate(x).T for x in zip(*rows, strict=True))
        finite_logs = jnp.where(jnp.isneginf(logs), jnp.nan, logs)
        # With a separate exponent: growth in deep networks exceeds the range of floats.
        log2 = logs / np.asarray(np.log(2), dtype)
        exponent = jnp.where(jnp.isfinite(log2), jnp.floor(log2), 0)
        value = Number(jnp.exp2(log2 - exponent), exponent.astype(jnp.int32))
        log_observation = Observation.of(finite_logs, coarser=0.0)._replace(finite=finite)
        return Observed(
            dict(zip(NAMES, (log_observation._replace(number=value), log_observation), strict=True))
        )
