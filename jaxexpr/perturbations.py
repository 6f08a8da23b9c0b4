"""How far a small perturbation that is put in at one layer grows in the layers above.

Raghu et al. 2017, section 3.1: noise in lower layers is amplified by all layers above it, so its
growth depends on the remaining depth. Here the perturbation is infinitesimal and in a random
direction of a layer's post-activations: no step size, no cancellation.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr import checks, noise
from jaxexpr.exactly import drawing
from jaxexpr.moments import Estimate
from jaxexpr.networks import MLP
from jaxexpr.probes import Number
from jaxexpr.products import dot
from jaxexpr.propagation import norms
from jaxexpr.runner import gather

NAMES = ("perturbation", "log_perturbation")
DIRECTION = 3  # kind of the draw of a direction


def perturbations(
    net: MLP,
    point: Any,
    *,
    key: jax.Array,
    draws: int,
    target: float | None = None,
    extend: Mapping[str, Estimate] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
    batch: int | None = None,
    memory: float | None = None,
    progress: bool | None = None,
    title: str = "networks",
) -> dict[str, Estimate]:
    """Measure the growth of perturbations put in at every layer, above every layer.

    Parameters
    ----------
    net : arrays in its laws are a sweep.
    point : the input at which it is perturbed, ``(n_in,)``.
    draws, key, target, extend, checkpoint, chunk, batch, memory, progress, title : as for
        ``estimate``.

    Returns
    -------
    ``{"perturbation": Estimate, "log_perturbation": Estimate}``, means of shape
    ``net.sweep_shape + (depth, depth)``: entry ``[j, l]`` is the mean of ``|dz_l| / |dz_j|``, or of
    its logarithm, with dz_j a random direction in the output of layer j; NaN for l < j. In the
    mean of logarithms, networks in which the perturbation dies are left out (``n`` counts).

    Raises
    ------
    ValueError
        for a point of another space, and as ``estimate``.

    >>> from jaxexpr import laws
    >>> net = MLP((4, 64, 64, 64), laws.Gaussian(2.0), laws.Zero(), "relu")
    >>> grown = perturbations(net, np.ones(4), key=jax.random.key(0), draws=200)["perturbation"]
    >>> bool(abs(grown.mean[0, 2] - 1.4**2) < 0.1)  # two layers, sigma_w / sqrt(2) each
    True
    """
    if not isinstance(net, MLP):
        raise ValueError(f"net={checks.shown(net)} is no network: give jaxexpr.MLP(...)")
    point = checks.numeric("point", point)
    if np.shape(point) != (net.widths[0],):
        raise ValueError(
            f"point has shape {np.shape(point)}: give a point ({net.widths[0]},) of the input space"
        )
    checks.held("point", point, net.dtype)
    return gather(
        Perturbed(),
        net,
        point,
        key=key,
        draws=draws,
        target=target,
        extend=extend,
        checkpoint=checkpoint,
        chunk=chunk,
        batch=batch,
        memory=memory,
        progress=progress,
        title=title,
    )


@dataclasses.dataclass(frozen=True)
class Perturbed:
    """The job: one random direction for each layer, sent through all layers above."""

    @property
    def names(self) -> list[str]:
        return list(NAMES)

    def how(self, name: str) -> tuple[str, int]:
        return "tangent", 1

    @property
    def identity(self) -> Any:
        return "perturbations"

    def bytes(self, net: Any) -> float:
        size = np.dtype(net.dtype).itemsize
        return float(size * (2 * net.widest + 4 * net.depth * max(net.widths)))

    def kept(self, net: Any) -> int:
        return 2 * int(net.depth) ** 2

    def wider(self, needed: Any, net: Any, budget: float) -> None:
        return None

    def within(self, net: Any, budget: float) -> Perturbed:
        return self

    def finer(self) -> None:
        return None

    def look(self, net: Any, key: jax.Array, data: jax.Array) -> dict[str, Any]:
        dtype = jnp.dtype(net.dtype)
        seed = noise.seed(key)
        z, moving = data[None], jnp.zeros((0, net.widths[0]), dtype)
        log, rows = jnp.zeros(0, dtype), []
        for i, (fan_in, width) in enumerate(zip(net.widths, net.widths[1:], strict=False)):
            weights, biases = drawing(seed, fan_in, width, dtype)((i, net.layer(i)))
            products = dot(jnp.concatenate([z, moving]), weights)
            h = products[:1] + biases[None]
            z = net.activation(h)
            # Directions are kept at length 1, their growth as a logarithm: no depth overflows.
            moving = net.activation.derivative(h) * products[1:]
            lengths = norms(moving)
            alive = lengths > 0
            moving = moving / jnp.where(alive, lengths, 1)[:, None]
            log = jnp.where(alive, log + jnp.log(jnp.where(alive, lengths, 1)), -jnp.inf)
            fresh = noise.normal(
                noise.words(noise.child(seed, i, DIRECTION), (1, width)).second, dtype
            )
            moving = jnp.concatenate([moving, fresh / norms(fresh)[:, None]])
            log = jnp.concatenate([log, jnp.zeros(1, dtype)])
            rows.append(jnp.pad(log, (0, net.depth - 1 - i), constant_values=jnp.nan))
        logs = jnp.stack(rows, axis=1)
        zero, none = jnp.zeros(logs.shape, jnp.int32), jnp.zeros_like(logs)
        unknown = jnp.full_like(logs, jnp.nan)
        whole = jnp.ones(logs.shape, bool)
        alive = jnp.where(jnp.isneginf(logs), jnp.nan, logs)
        # 2**exponent apart: growth in deep networks leaves the range of floats.
        bits = logs / np.asarray(np.log(2), dtype)
        exponent = jnp.where(jnp.isfinite(bits), jnp.floor(bits), 0)
        value = jnp.exp2(bits - exponent)
        return {
            NAMES[0]: (Number(value, exponent.astype(jnp.int32)), unknown, none, whole),
            NAMES[1]: (Number(alive, zero), unknown, none, whole),
        }
