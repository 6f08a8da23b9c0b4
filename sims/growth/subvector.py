"""Mean norm of a random part of a fixed vector, against the share of entries kept.

Price & Tanner 2019, figure 4 (appendix B): ``alpha |u| <= E |u_J| <= sqrt(alpha) |u|``. The
right-hand side is approached by flat vectors of high dimension, the left-hand side is attained by
a vector with a single entry.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import Estimate, plotting, results, verdict
from sims.config import Sampled
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Sampled):
    """Norm of a random part of a fixed vector, against the share of entries that is kept."""

    vector: Literal["sphere", "first"] = "sphere"
    """Uniform on the unit sphere, or one entry 1 and the rest 0."""
    dimensions: tuple[int, ...] = (5, 50, 500)
    """Dimensions of the vector."""
    densities: tuple[float, ...] = (
        0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5,
        0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0,
    )  # fmt: skip
    """Shares of entries that are kept."""


_AXIS = "dimension no."
_ROWS = 2000  # random parts held at a time


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the mean norm by density and dimension."""
    rng = np.random.default_rng(config.seed)
    densities = np.array(config.densities)
    samples = np.empty((config.draws, len(densities), len(config.dimensions)))
    for column, dimension in enumerate(config.dimensions):
        vector = np.zeros(dimension)
        vector[0] = 1.0
        if config.vector == "sphere":
            vector = rng.normal(size=dimension)
            vector /= np.linalg.norm(vector)
        for first in range(0, config.draws, _ROWS):
            rows = slice(first, min(first + _ROWS, config.draws))
            # One uniform number an entry serves all densities: the parts are nested.
            uniform = rng.random((rows.stop - rows.start, dimension))
            for i, density in enumerate(densities):
                samples[rows, i, column] = np.sqrt((uniform < density) @ vector**2)
        run.note(f"dimension {dimension}")
    norm = {"norm": Estimate.of(samples, "norm")}
    data = results.dataset(norm, ("density",), {"density": densities})
    return data.rename(layer="dimension").assign_coords(dimension=list(config.dimensions))


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge both bounds; for a vector with one entry, equality with the lower one."""
    data = data.transpose("density", "dimension")
    norm = results.estimate_of(data, "norm")
    density = data.density.values[:, None]
    verdicts = [
        verdict(norm, lower=density, name="E|u_J| >= alpha |u|", axis=_AXIS),
        verdict(norm, upper=np.sqrt(density), name="E|u_J| <= sqrt(alpha) |u|", axis=_AXIS),
    ]
    gap = float(np.abs(norm.mean[:, -1] / np.sqrt(density[:, 0]) - 1).max())
    numbers = {"density": data.density.values, "dimension": data.dimension.values}
    numbers |= {"norm": norm.mean, "error": norm.sem}
    if config.vector == "first":
        verdicts.append(verdict(norm, density, density, "one entry: E|u_J| = alpha", axis=_AXIS))
        return Findings(verdicts, [], numbers)
    last = int(data.dimension[-1])
    met = gap < 0.05 or last < 500
    text = f"within {100 * gap:.1f} % of sqrt(alpha) in dimension {last}"
    claim = Claim("flat vectors of high dimension approach sqrt(alpha)", met, text)
    return Findings(verdicts, [claim], numbers | {"largest_gap_to_root": gap})


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the mean norms between the two bounds."""
    figure, ax = plt.subplots(figsize=(5.6, 4.4))
    x = data.density.values
    for colour, dimension in zip(plotting.COLOURS, data.dimension.values, strict=False):
        cell = data.sel(dimension=dimension)
        plotting.curve_with_interval(
            x,
            cell.norm,
            cell.norm_sem,
            cell.norm_n,
            ax=ax,
            color=colour,
            label=f"dimension {dimension}",
        )
    plotting.reference(x, x, ax=ax, color="black", label=r"lower bound $\alpha$")
    plotting.reference(
        x, np.sqrt(x), ax=ax, kind="upper", color="black", label=r"upper $\sqrt{\alpha}$"
    )
    ax.set_xlabel(r"density $\alpha$")
    ax.set_ylabel(r"$E\,|u_J|\,/\,|u|$")
    ax.set_xlim(0, 1.02)
    ax.set_ylim(0, 1.05)
    ax.legend()
    return figure, ""
