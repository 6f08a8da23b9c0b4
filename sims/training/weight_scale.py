"""Scales of the weights of a convolutional network while it is trained.

Raghu et al. 2017, figure 9: from sigma_w^2 = 2 the scales of the weights grow.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import Estimate, plotting, verdict
from sims.findings import Findings, claim_positive
from sims.running import Run
from sims.training import convnet


@dataclasses.dataclass(frozen=True)
class Config(convnet.ConvTraining):
    """Scales of the weights of a convolutional network through training."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the history of the networks."""
    examples, test = convnet.standardised(config)
    net = config.network(examples.images.shape[1:])
    fit = convnet.trained(config, net, examples, test, run)
    return fit.dataset().rename(weight_scale_0="layer")


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the first scales by their law; look for growth."""
    variance = data.weight_scale.transpose("record", "network", "layer").values ** 2
    drawn, name = float(config.scale), "at first: the law's variance"
    verdicts = [verdict(Estimate.of(variance[0], "sigma_w^2"), drawn, drawn, name)]
    gain = variance[-1] - variance[0]
    least = gain[:, int(np.argmin(gain.mean(axis=0)))]
    claims = [
        claim_positive(
            "the scaled variance of the weights grows, in the mean over layers", gain.mean(1)
        ),
        claim_positive("in the layer where it grows least", least),
    ]
    return Findings(verdicts, claims, {"variance": variance.mean(axis=1), **convnet.numbers(data)})


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the scaled variance against the epoch, a line a layer."""
    figure, ax = plt.subplots(figsize=(8.8, 4.5))
    variance = data.weight_scale.transpose("layer", "record", "network").values ** 2
    for i, numbers in enumerate(variance):
        style: Any = {"label": f"layer {i + 1}", "color": plt.get_cmap("viridis")(i / 7)}
        plotting.curve_with_interval(data.epoch.values, Estimate.of(numbers.T), ax=ax, **style)
    ax.set(xlabel="epoch", ylabel="fan_in * mean(W^2)")
    ax.legend(fontsize=8)
    return figure, convnet.details(data)
