"""Trajectory regularisation, batch normalisation, and neither, in a convolutional network.

Raghu et al. 2017, figure 11: trajectory regularisation in place of batch normalisation does as
well, and both do better than neither.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import Estimate, plotting, results
from sims.findings import Claim, Fact, Findings, claim_positive
from sims.running import Run
from sims.training import convnet

_NAMES: dict[convnet.Norm, str] = {
    "none": "neither", "batch": "batch norm", "trajectory": "trajectory regularisation",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Config(convnet.ConvTraining):
    """Accuracy of a convolutional network through training, by regulariser."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the history of the networks by regulariser."""
    examples, test = convnet.standardised(config)
    net = config.network(examples.images.shape[1:])
    fits = {norm: convnet.trained(config, net, examples, test, run, norm) for norm in _NAMES}
    # Stages of the network, along which lengths are, differ from kind to kind.
    return results.concat({norm: fit.dataset()[_KEPT] for norm, fit in fits.items()}, "kind")


_KEPT = ["test_accuracy", "train_accuracy"]


def _accuracy(data: xr.Dataset) -> np.ndarray:
    """Test accuracy, ``(kind, record, network)``."""
    return np.asarray(data.test_accuracy.transpose("kind", "record", "network").values)


def check(data: xr.Dataset, config: Config) -> Findings:
    """See that both regularisers beat neither, and are comparable."""
    accuracy = _accuracy(data)
    first, end = (dict(zip(_NAMES, accuracy[:, record], strict=True)) for record in (0, -1))
    apart = np.abs(first["trajectory"] - first["none"]).max()
    facts = [
        Fact(
            "before training trajectory regularisation changes nothing",
            bool(apart < 5e-3),
            f"test accuracies differ by {apart:.2g}",
        )
    ]
    gap = Estimate.of(end["batch"] - end["trajectory"])
    low, high = (float(side[0]) for side in gap.interval())
    inside, outside = low > -0.05 and high < 0.05, low > 0.05 or high < -0.05
    claims = [
        *(
            claim_positive(
                f"{_NAMES[kind]} beats neither", end[kind] - end["none"], "test accuracy"
            )
            for kind in ("batch", "trajectory")
        ),
        Claim(
            "the two are comparable (within 5 % of test accuracy)",
            True if inside else False if outside else None,
            f"batch norm ahead by {gap.mean[0]:.3g}, 95 % interval {low:.3g} to {high:.3g}",
        ),
    ]
    numbers = {"kinds": list(_NAMES), "through_training": accuracy.mean(axis=2)}
    return Findings([], claims, numbers | convnet.numbers(data), facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the test accuracy against the epoch, a line a regulariser."""
    figure, ax = plt.subplots(figsize=(8.8, 4.5))
    for i, (name, accuracy) in enumerate(zip(_NAMES.values(), _accuracy(data), strict=True)):
        style: Any = {"label": name, "color": plotting.COLOURS[i]}
        plotting.curve_with_interval(data.epoch.values, Estimate.of(accuracy.T), ax=ax, **style)
    ax.set(xlabel="epoch", ylabel="test accuracy")
    ax.legend(fontsize=8)
    return figure, convnet.details(data)
