"""Noise on the weights of one layer of a trained convolutional network.

Raghu et al. 2017, figure 6: noise harms most in the lowest layers. Magnitudes of noise are in units
of weights that a law of that scale draws.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import Estimate, datasets, laws, plotting, training
from sims.findings import Fact, Findings, claim_positive
from sims.running import Run
from sims.training import convnet


@dataclasses.dataclass(frozen=True)
class Config(convnet.ConvTraining):
    """Test accuracy under noise on one layer of a trained convolutional network."""

    magnitudes: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
    """Magnitudes of the noise."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the history of the networks, and their test accuracy under noise."""
    examples, test = convnet.standardised(config)
    fit = convnet.trained(config, config.network(examples.images.shape[1:]), examples, test, run)
    data = fit.dataset()
    data["noisy"] = (("noisy_layer", "magnitude", "network"), _noisy(fit, test, config, run))
    return data.assign_coords(magnitude=list(config.magnitudes))


def _noisy(fit: training.Fit, test: datasets.Dataset, config: Config, run: Run) -> np.ndarray:
    """Test accuracy under noise: ``(layers, magnitudes, networks)``."""
    networks = np.arange(config.draws, dtype=np.uint32)

    def measured(number: int) -> np.ndarray:
        def change(params: Any, magnitude: jax.Array, network: jax.Array) -> Any:
            key = jax.random.fold_in(jax.random.key(config.seed + 1), network)
            return training.add_noise(params, number + 1, laws.Gaussian(magnitude), key=key)

        shares = [
            fit.accuracy(test, change=change, args=np.float32(m), per_network_args=networks)
            for m in config.magnitudes
        ]
        return np.array(shares)

    return run.samples("noise", measured, len(fit.params(0)), config.draws)


def check(data: xr.Dataset, config: Config) -> Findings:
    """See that no noise changes nothing; look for lower layers that stand less."""
    noisy, magnitudes = data.noisy.values, data.magnitude.values
    last = data.test_accuracy.transpose("record", "network").values[-1]
    mean = noisy[:, magnitudes > 0].mean(axis=1)  # (layer, network)
    x = np.arange(len(mean)) - (len(mean) - 1) / 2
    same = bool(np.allclose(noisy[:, magnitudes == 0], last))
    facts = [Fact("noise of magnitude 0 changes nothing", same, f"{len(mean)} layers")]
    claims = [
        claim_positive("accuracy under noise rises with the layer (a layer)", x @ mean / (x @ x)),
        claim_positive("the last layer stands more noise than the first", mean[-1] - mean[0]),
        claim_positive(
            "the first layer stands less than the others (in their mean)",
            mean[1:].mean(axis=0) - mean[0],
        ),
    ]
    numbers = {"magnitude": magnitudes, "accuracy_by_layer": noisy.mean(axis=2)}
    return Findings([], claims, numbers | convnet.numbers(data), facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the test accuracy against the magnitude of the noise, a line a layer."""
    figure, ax = plt.subplots(figsize=(8.8, 4.5))
    for i, shares in enumerate(data.noisy.values):
        style: Any = {"label": f"layer {i + 1}", "color": plt.get_cmap("viridis")(i / 7)}
        plotting.curve_with_interval(data.magnitude.values, Estimate.of(shares.T), ax=ax, **style)
    ax.set(xlabel="magnitude of the noise", ylabel="test accuracy", ylim=(0, None))
    ax.legend(fontsize=8)
    return figure, convnet.details(data)
