"""Distances to the nearest boundary while networks are trained.

Hanin & Rolnick 2019, figure 6: the mean distance times the number of units stays between about 0.4
and 1.5; drawn against the epoch and against the accuracy. Every distance is exact.
"""

from __future__ import annotations

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import Estimate, datasets, theory, training, verdict
from sims.findings import Claim, Findings
from sims.running import Run
from sims.training import architectures

_POINTS = {"distance": "random points", "distance_train": "training", "distance_test": "test"}


@dataclasses.dataclass(frozen=True)
class Config(architectures.Architectures):
    """Distances of points to the nearest boundary, while networks are trained."""

    points: int = 100
    """Points of each kind: random ones, training examples, test examples."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the mean distance of each network at each record, by architecture."""
    examples, test = (datasets.load(config.data, part) for part in ("train", "test"))
    random = np.random.default_rng(config.seed)
    images = examples.flat.astype(np.float64)
    x = random.standard_normal((config.points, images.shape[1]))
    some = random.permutation(len(test.labels))[: config.points]
    sets = (
        images.mean(axis=0) + images.std(axis=0) * x,
        images[random.permutation(len(images))[: config.points]],
        test.flat[some].astype(np.float64),
    )
    tracker = training.track.distances(np.concatenate(sets))
    lower = {"lower": theory.distance_lower}
    data = architectures.trained(config, examples, run, tracker, lower)
    # The points of one network are not independent of one another.
    kinds = np.split(np.arange(len(_POINTS) * config.points), len(_POINTS))
    means = {
        name: data.distance.isel(distance_0=at).mean("distance_0")
        for name, at in zip(_POINTS, kinds, strict=True)
    }
    return data.assign(means)


def _constant(data: xr.Dataset, name: str = "distance") -> np.ndarray:
    """Distance times units, ``(net, record, network)``."""
    return architectures.networks(data, name) * data.units.values[:, None, None].astype(float)


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the lower bound; look for one constant, and for growth before shrinking."""
    each = _constant(data)
    first = Estimate.of(architectures.networks(data, "distance")[:, 0].T)
    name = "at first: distance >= 1 / (4 D)"
    verdicts = [verdict(first, lower=data.lower.values, name=name, axis="network no.")]
    clean = each.mean(axis=2)[data.noise.values == 0]
    claims = [
        Claim(
            "distance times units: between 0.4 and 1.5, all the time",
            bool((clean > 0.4).all() and (clean < 1.5).all()),
            f"{clean.min():.2f} to {clean.max():.2f}",
        ),
        *architectures.claims_of_size(data, each),
    ]
    numbers = architectures.numbers(data, each)
    for key in list(_POINTS)[1:]:
        numbers[f"constant_{key}"] = _constant(data, key).mean(axis=2)
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the distance, and the constant against the epoch and against the accuracy."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.4))
    each = _constant(data)
    distance = list(architectures.networks(data, "distance"))
    architectures.draw_through_training(data, distance, left)
    architectures.draw_through_training(data, list(each), middle)
    accuracy = architectures.networks(data, "test_accuracy").mean(axis=2)
    for i, label in enumerate(data.net.values.tolist()):
        style = architectures.style(data, i, label)
        right.plot(accuracy[i], each[i].mean(axis=1), marker="o", linewidth=1, **style)
    left.set(ylabel="distance to the nearest boundary", yscale="log")
    middle.set(ylabel="distance x units", ylim=(0, None))
    right.set(xlabel="test accuracy", ylabel="distance x units", ylim=(0, None))
    for c in (0.4, 1.5):
        for ax in (middle, right):
            ax.axhline(c, color="grey", linestyle=":", linewidth=1)
    right.legend(fontsize=7.5, loc="upper left")
    return figure, architectures.details(data)
