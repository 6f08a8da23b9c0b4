"""Regions along lines while networks are trained.

Hanin & Rolnick 2019, figure 5: the number of regions along the whole line through the origin and an
example, over the number of units, is close to 1 at first and stays within a small factor. Every
count is exact.
"""

from __future__ import annotations

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import curves, datasets, theory, training
from sims.findings import Claim, Fact, Findings
from sims.running import Run
from sims.training import architectures


@dataclasses.dataclass(frozen=True)
class Config(architectures.Architectures):
    """Regions along lines through the origin and an example, while networks are trained."""

    lines: int = 10
    """Lines through each network."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the mean number of regions of each network at each record, by architecture."""
    examples = datasets.load(config.data, "train")
    images = examples.flat.astype(np.float64)
    chosen = np.random.default_rng(config.seed).permutation(len(images))[: config.lines]
    origin = np.zeros(images.shape[1])
    tracker = training.track.regions([curves.line(origin, x, whole=True) for x in images[chosen]])
    upper = {"upper": lambda net: theory.line_upper((1, *net.widths[1:]))}
    data = architectures.trained(config, examples, run, tracker, upper)
    # The lines of one network are not independent of one another.
    data["regions"] = data.regions.mean("regions_0")
    return data


def _each(data: xr.Dataset) -> np.ndarray:
    """Regions a unit, ``(net, record, network)``."""
    return architectures.networks(data, "regions") / data.units.values[:, None, None].astype(float)


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the bound; look for one region a unit, and for growth before shrinking."""
    each = _each(data)
    worst = float((data.regions / data.upper).max())
    name, detail = "no network has more regions than prod (n + 1)", f"at most {worst:.2g}"
    facts = [Fact(name, worst <= 1, f"{detail} of the bound")]
    mean = each.mean(axis=2)
    clean, start = mean[data.noise.values == 0], mean[:, 0]
    claims = [
        Claim(
            "regions a unit: within a factor of 3 of one a unit, all the time",
            bool((clean > 0.3).all() and (clean < 3.0).all()),
            f"{clean.min():.2f} to {clean.max():.2f}",
        ),
        Claim(
            "close to one region a unit at first (0.8 to 1.2)",
            bool((abs(start - 1) < 0.2).all()),
            f"{start.min():.3f} to {start.max():.3f}",
        ),
        *architectures.claims_of_size(data, -each),  # regions are fewer while they are larger
    ]
    return Findings([], claims, architectures.numbers(data, each), facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw regions a unit through training."""
    figure, ax = plt.subplots(figsize=(8, 4.4))
    architectures.draw_through_training(data, list(_each(data)), ax)
    ax.axhline(1, color="grey", linewidth=1)
    ax.set(ylabel="regions along a line / units", ylim=(0, None))
    ax.legend(fontsize=7.5, loc="lower left")
    return figure, architectures.details(data)
