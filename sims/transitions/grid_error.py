"""What a grid does not see: transitions and growth of length on a grid and exactly.

A circle through hard-tanh networks with large weights. On a grid coarser than the image both seem
to fall off with depth, which looks like physics; the exact pieces show that they do not. Beside the
curves: the grid that each layer would have needed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, curves, grid_needed, laws, plotting, results
from sims.config import Sampled
from sims.findings import Claim, Fact, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Sampled):
    """A circle through hard-tanh networks, exactly and on a grid."""

    width: int = 32
    """Units in each layer, and dimension of the input; |x|^2 is the same number."""
    depth: int = 8
    """Layers."""
    sigma_w: float = 8.0
    """Scale of the weights."""
    points: int = 1001
    """Points of the grid."""
    rtol: float = 0.01
    """Share of the transitions that a grid may miss."""
    max_points: int = 2**19 + 1
    """Of the finest grid that is tried."""
    looked_at: int = 5
    """Networks for which the grid that is needed is sought."""


_HOW = ("exact", "grid")


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return transitions and length ratios by method and layer, and the grids needed."""
    widths = (config.width,) * (config.depth + 1)
    net = MLP(widths, laws.Gaussian(config.sigma_w), laws.Zero(), "hard_tanh", dtype="float64")
    curve = curves.circle(*np.sqrt(config.width) * np.eye(2, config.width))
    key = jax.random.key(config.seed)
    parts = {}
    for how in _HOW:
        estimates = run.estimate(
            how,
            net,
            curve,
            key=key,
            draws=config.draws,
            probes=("transitions", "length_ratio"),
            method=how,
            points=config.points if how == "grid" else None,
        )
        parts[how] = results.dataset(estimates)
    data = results.concat(parts, "how")

    def needed(number: int) -> np.ndarray:
        with jax.enable_x64(True):
            params = net.init(jax.random.fold_in(key, number))
        params = tuple((np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in params)
        grids = grid_needed(
            params, curve, activation="hard_tanh", rtol=config.rtol, max_points=config.max_points
        )
        return np.where(grids.points == 0, np.inf, grids.points)

    points = run.samples("grids needed", needed, config.looked_at)
    data["needed"] = (("layer",), np.median(points, axis=0))
    return data


def check(data: xr.Dataset, config: Config) -> Findings:
    """See what the grid loses, layer by layer."""
    exact, grid = (data.sel(how=how) for how in _HOW)
    share = (grid.transitions / exact.transitions).values
    needed = data.needed.values
    factors = exact.length_ratio.values[1:]
    claims = [
        Claim(
            f"on {config.points} points deep layers lose transitions",
            bool(share[-1] < 0.8 < share[0]),
            f"seen {100 * share[0]:.0f} % in the first layer, {100 * share[-1]:.0f} % in the last",
        ),
        Claim(
            "exactly, growth does not fall off (each layer within 10 % of their mean)",
            bool(np.abs(factors / factors.mean() - 1).max() < 0.1),
            f"{factors.min():.2f} to {factors.max():.2f}; on the grid "
            f"{grid.length_ratio.values[1]:.2f} to {grid.length_ratio.values[-1]:.2f}",
        ),
        Claim(
            f"the grid needed for {100 * config.rtol:g} % grows with depth",
            bool(np.isfinite(needed).all() and needed[-1] > max(config.points, needed[0])),
            ", ".join(f"{n:.0f}" for n in needed),
        ),
    ]
    numbers = {
        "transitions_exact": exact.transitions.values,
        "transitions_grid": grid.transitions.values,
        "length_ratio_exact": exact.length_ratio.values,
        "length_ratio_grid": grid.length_ratio.values,
        "grid_needed": needed,
    }
    # On the same networks: each change between two points is a crossing at least.
    fewer = bool((grid.transitions <= exact.transitions).all())
    facts = [Fact("a grid sees no more transitions than there are", fewer, "in every layer")]
    return Findings([], claims, numbers, facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw both measures, and the grid needed."""
    figure, panels = plt.subplots(1, 3, figsize=(11.4, 3.9))
    names = {"exact": "exact", "grid": f"grid of {config.points} points"}
    for ax, name in zip(panels, ("transitions", "length_ratio"), strict=False):
        for i, how in enumerate(_HOW):
            cell = data.sel(how=how)
            style: Any = {"label": names[how], "color": plotting.COLOURS[i], "linewidth": 1.0}
            plotting.layers(results.estimate_of(cell, name), ax=ax, **style)
    panels[0].set_yscale("log")
    panels[0].set_ylabel("transitions of a layer")
    panels[1].set_ylabel("length above over length below")
    panels[1].set_ylim(bottom=0)
    panels[2].plot(data.layer, data.needed, "o-", color="black", markersize=3.5, linewidth=1)
    panels[2].axhline(config.points, color=plotting.COLOURS[1], linewidth=1, linestyle="--")
    panels[2].set_yscale("log", base=2)
    panels[2].set_ylabel(f"points needed for {100 * config.rtol:g} %")
    panels[0].legend(fontsize=8)
    for ax in panels:
        ax.set_xlabel("layer")
        ax.xaxis.get_major_locator().set_params(integer=True)
    return figure, "bars: 95 % intervals"
