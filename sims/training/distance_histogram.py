"""Distances to the nearest boundary while networks are trained: their whole law.

Hanin & Rolnick 2019, figure 7: logarithms of distances from random points to the nearest boundary
at several times of training. They vary over many orders of magnitude, and training changes their
distribution little, with a slight skew towards larger regions. Judged, before training: no more
points lie within r of a boundary than ``2 r D`` (the proof of Theorem 2), and the mean distance is
at least ``1 / (4 D)``. Every distance is exact.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, Estimate, datasets, laws, plotting, theory, training, verdict
from sims.config import HeTraining
from sims.findings import Claim, Findings, claim_positive
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(HeTraining):
    """Distances to the nearest boundary while a network is trained: their distribution."""

    widths: tuple[int, ...] = (16, 16, 16, 16)
    """Units in each hidden layer."""
    shown: tuple[float, ...] = (0.0, 0.5, 2.0, 10.0)
    """Epochs that are drawn."""
    points: int = 2000
    """Points for each network."""


_EDGES = np.linspace(-9, 2, 111)


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the share of distances in each class, of each network at each record."""
    examples = datasets.load(config.data, "train")
    images = examples.flat.astype(np.float64)
    weights, biases = laws.Gaussian(config.sigma_w), laws.Gaussian(config.sigma_b)
    net = MLP((images.shape[1], *config.widths), weights, biases)
    x = np.random.default_rng(config.seed).standard_normal((config.points, images.shape[1]))
    x = images.mean(axis=0) + images.std(axis=0) * x
    tracker = training.track.distances(x)

    def classes(now: Any) -> dict[str, np.ndarray]:
        distances = tracker(now)["distance"]
        logs = np.clip(np.log10(np.maximum(distances, 1e-300)), _EDGES[0], _EDGES[-1])
        shares = [np.histogram(row, _EDGES)[0] / row.size for row in logs]
        return {"shares": np.array(shares), "mean": distances.mean(1), "mean_log": logs.mean(1)}

    fit = run.train(
        "networks",
        net,
        examples,
        config,
        trackers=[classes],
        record_at=list(config.shown),
    )
    data = fit.dataset()
    data.attrs["density"] = float(theory.boundary_upper(net).sum())
    return data


def _shares(data: xr.Dataset) -> np.ndarray:
    """Share of distances in each class, ``(record, network, class)``."""
    return np.asarray(data.shares.transpose("record", "network", "shares_0").values)


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the law of small distances; look for orders of magnitude, and for little change."""
    density, r = float(data.attrs["density"]), 10 ** _EDGES[1:]
    below = np.cumsum(_shares(data), axis=2)
    means, logs = (data[n].transpose("record", "network").values for n in ("mean", "mean_log"))
    first = Estimate.of(means[0], "distance")
    lower = 1 / (4 * density)
    verdicts = [
        verdict(
            Estimate.of(below[0], "share"), upper=np.minimum(2 * r * density, 1.0),
            name="at first: P(distance <= r) <= 2 r D", axis="radius no.",
        ),
        verdict(first, lower=lower, name="at first: mean distance >= 1 / (4 D)"),
    ]  # fmt: skip
    quantiles = [
        [float(np.interp(q, shares, _EDGES[1:])) for q in (0.001, 0.5, 0.999)]
        for shares in below.mean(axis=1)
    ]
    widths = [high - low for low, _, high in quantiles]
    medians = [middle for _, middle, _ in quantiles]
    claims = [
        Claim(
            "distances vary over orders of magnitude (three, between their 0.1 % ends), always",
            min(widths) > 3,
            f"{min(widths):.2f} to {max(widths):.2f} orders",
        ),
        Claim(
            "training changes the distribution little (its median by less than a factor of 3)",
            max(medians) - min(medians) < np.log10(3),
            f"medians 10^{min(medians):.2f} to 10^{max(medians):.2f}",
        ),
        claim_positive("in the end distances are larger than at first (log10)", logs[-1] - logs[0]),
    ]
    accuracy = data.test_accuracy.values[-1]
    numbers = {
        "epoch": data.epoch.values,
        "mean_distance": means.mean(axis=1),
        "mean_distance_times_units": means.mean(axis=1) * sum(config.widths),
        "lower_bound_at_first": lower,
        "log10_quantiles_0.1_50_99.9_percent": quantiles,
        "networks": means.shape[1],
        "test_accuracy": accuracy.mean(),
        "least_test_accuracy": accuracy.min(),
    }
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the histograms, and the distribution functions beside the bound."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9))
    shares, r = _shares(data), 10 ** _EDGES[1:]
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(shares)))
    for distances, epoch, colour in zip(shares, data.epoch.values, colours, strict=True):
        label = f"epoch {epoch:.3g}"
        left.stairs(distances.mean(axis=0) / np.diff(_EDGES), _EDGES, color=colour, label=label)
        share = np.cumsum(distances.mean(axis=0))
        right.plot(r[share > 0], share[share > 0], color=colour, label=label)
    bound = np.minimum(2 * r * data.attrs["density"], 1.0)
    plotting.reference(r, bound, ax=right, kind="upper", color="grey", label="2 r D, epoch 0")
    left.set(xlabel="log10 distance to the nearest boundary", ylabel="density", xlim=(-6, 1))
    right.set(xscale="log", yscale="log", ylim=(1e-5, 1.5), xlim=(1e-6, 10))
    right.set(xlabel="r", ylabel="P(distance <= r)")
    left.legend()
    right.legend(loc="lower right")
    accuracy = data.test_accuracy.values[-1]
    return figure, f"test accuracy in the end at least {100 * accuracy.min():.1f} %"
