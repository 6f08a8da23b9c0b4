"""Regions along lines through the origin and an example, at initialisation.

Hanin & Rolnick 2019, the first epoch of figure 5: with He weights and tiny biases their number is
close to the number of units, whatever the architecture.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import curves, exact, plotting, theory, verdict
from sims.data_points import layers_of
from sims.findings import Claim, Findings
from sims.regions import initial
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(initial.Architectures):
    """Regions along lines at initialisation, by architecture; each network has its own line."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the regions of the first layer and of all layers, by architecture."""
    return initial.measured(config, initial.images_of(config), run, _regions)


def _regions(params: initial.Params, examples: np.ndarray, number: int) -> np.ndarray:
    """Regions met by the first layer and by all of them, along the whole line."""
    lines = [curves.line(np.zeros(x.size), x, whole=True) for x in examples]
    regions = exact.pieces_batch(tuple(params), lines)
    return np.array([[one.counts[0], one.counts[-1]] for one in regions])


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge what is proven; look for one region a unit."""
    first, regions = (initial.estimate(data, config, number) for number in (0, -1))
    units, names, axis = data.units.values, data.net.values.tolist(), "network no."
    each = regions.mean / units
    widths = np.array([layers_of(name)[0] for name in names], float)
    most = np.array([theory.line_upper((1, *layers_of(name))) for name in names], float)
    verdicts = [
        verdict(
            first, widths + 1, widths + 1, "each unit of the first layer is crossed once", axis=axis
        ),
        verdict(regions, upper=most, name="regions <= prod (n + 1)", axis=axis),
    ]
    claims = [
        Claim(
            "regions along a line are close to the number of units (0.5 to 1.5 a unit)",
            bool((each > 0.5).all() and (each < 1.5).all()),
            f"{each.min():.3f} to {each.max():.3f} a unit",
        )
    ]
    numbers = {"architecture": names, "units": units, "found": regions.mean, "error": regions.sem}
    return Findings(verdicts, claims, numbers | {"regions_a_unit": each})


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw regions against the units, and regions a unit by architecture."""
    regions, units = initial.estimate(data, config), data.units.values.astype(float)
    figure, left, right = initial.panes(regions, units, 1 / units, data.net.values.tolist())
    x = np.geomspace(units.min() / 1.2, units.max() * 1.2, 50)
    plotting.reference(x, x, ax=left, kind="exact", color="grey", label="one region a unit")
    left.set(ylabel="regions along a line")
    left.legend()
    highest = 1.15 * max(float((regions.mean / units).max()), 1.0)
    right.set(ylabel="regions / units", ylim=(0, highest))
    right.axhline(1, color="grey", linewidth=1.1)
    return figure, "bars: 95 % intervals"
