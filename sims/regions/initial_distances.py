"""Distances from random points to the nearest boundary, at initialisation.

Hanin & Rolnick 2019, the first epoch of figure 6: with He weights and tiny biases the mean distance
is close to a constant over the number of units, whatever the architecture.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import exact, plotting, theory, verdict
from sims.findings import Claim, Findings
from sims.regions import initial
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(initial.Architectures):
    """Distances to boundaries at initialisation, of points with the examples' mean and variance."""

    points: int = 100
    """Points for each network."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the mean distance by architecture, and its lower bound."""
    images = initial.images_of(config)
    mean, std = images.mean(axis=0), images.std(axis=0)

    def distances(params: initial.Params, examples: np.ndarray, number: int) -> np.ndarray:
        """Mean distance of random points in each network."""
        random = np.random.default_rng([config.seed, number])
        size = (initial.BATCH, config.points, images.shape[1])
        x = mean + std * random.standard_normal(size)
        nets = (tuple((W[i], b[i]) for W, b in params) for i in range(initial.BATCH))
        distances = [
            exact.distance_to_boundary(net, p).mean() for net, p in zip(nets, x, strict=True)
        ]
        return np.array(distances)[:, None]

    data = initial.measured(config, images, run, distances)
    nets = [config.network(name, images.shape[1]) for name in config.architectures]
    data["lower"] = (("net",), [float(theory.distance_lower(net)) for net in nets])
    return data


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the lower bound; look for one constant for all architectures."""
    distances, units = initial.estimate(data, config), data.units.values
    each = distances.mean * units
    bound = "distance >= 1 / (4 D)"
    verdicts = [verdict(distances, lower=data.lower.values, name=bound, axis="network no.")]
    claims = [
        Claim(
            "distance times units lies between 0.4 and 1.5",
            bool((each > 0.4).all() and (each < 1.5).all()),
            f"{each.min():.3f} to {each.max():.3f}",
        ),
        Claim(
            "one constant for all architectures (within a factor of 2)",
            float(each.max() / each.min()) < 2,
            f"largest over smallest {each.max() / each.min():.2f}",
        ),
    ]
    numbers = {
        "architecture": data.net.values.tolist(),
        "units": units,
        "found": distances.mean,
        "error": distances.sem,
        "distance_times_units": each,
    }
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw distances against the units, and the constant by architecture."""
    distances, units = initial.estimate(data, config), data.units.values.astype(float)
    figure, left, right = initial.panes(distances, units, units, data.net.values.tolist())
    x = np.geomspace(units.min() / 1.2, units.max() * 1.2, 50)
    for c, kind in ((0.4, "lower"), (1.5, "upper")):
        plotting.reference(x, c / x, ax=left, kind=kind, color="grey", label=f"{c} / units")
        right.axhline(c, color="grey", linestyle="--" if c < 1 else "-.", linewidth=1.1)
    left.set(ylabel="mean distance to the nearest boundary")
    left.legend()
    right.set(ylabel="distance x units", ylim=(0, 1.6))
    return figure, "bars: 95 % intervals"
