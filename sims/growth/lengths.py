"""Length of a line at every layer of sparse Gaussian networks.

Price & Tanner 2019, figure 2. The claims: the expected length grows exponentially with depth,
slower at lower density. Shown beside it: the composed lower bound and the composed root of the
exact second moment.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, curves, laws, plotting, results, theory, verdict
from sims.config import EndPoints
from sims.data_points import end_points
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(EndPoints):
    """Length of a line at every layer, for several densities."""

    width: int = 0
    """Units in each layer; 0 takes the input's dimension."""
    depth: int = 12
    """Number of layers."""
    sigma_w: float = 6.0
    """Standard deviation of the non-zero weights."""
    densities: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """Shares of weights that are not zero."""
    method: Literal["tangent", "grid"] = "tangent"
    """Derivatives at midpoints, or the paper's polyline."""
    points: int = 30
    """Midpoints, or points of the polyline."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the length by density and layer, with its composed bounds."""
    curve = curves.line(*end_points(config))
    n_in = curve.shape[0]
    widths = (n_in,) + (config.width or n_in,) * config.depth
    densities = np.array(config.densities, float)
    weights = laws.Sparse(laws.Gaussian(config.sigma_w), densities)
    net = MLP(widths, weights, laws.Gaussian(0.01))
    estimates = run.estimate(
        "lengths",
        net,
        curve,
        key=jax.random.key(config.seed),
        draws=config.draws,
        probes=("length", "growth"),
        method=config.method,
        points=config.points,
    )
    data = results.dataset(estimates, ("density",), {"density": densities})
    start = curve.length()
    bounds = {"lower": theory.price_tanner_lower, "upper": theory.second_moment_upper}
    for name, factor in bounds.items():
        data[name] = (("density", "layer"), start * np.cumprod(theory.per_layer(factor, net), -1))
    return data


def _slopes(data: xr.Dataset, values: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Growth a layer by least squares of log length on depth, and the share it explains."""
    logs = np.log(values.transpose("layer", "density").values)
    x = data.layer.values - data.layer.values.mean()
    slope = x @ logs / (x @ x)
    rest = logs - logs.mean(0) - np.outer(x, slope)
    return np.exp(slope), 1 - (rest**2).sum(0) / ((logs - logs.mean(0)) ** 2).sum(0)


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the composed bounds; look for exponential growth with a slope set by the density."""
    data = data.transpose("density", "layer")
    length = results.estimate_of(data, "length")
    verdicts = [
        verdict(length, lower=data.lower.values, name="length >= composed Price & Tanner bound"),
        verdict(length, upper=data.upper.values, name="length <= composed root of second moment"),
    ]
    base, explained = _slopes(data, data.length)
    root, _ = _slopes(data, data.upper)
    claims = [
        Claim(
            "length is exponential in depth (R^2 > 0.99 at every density)",
            bool((explained > 0.99).all()),
            f"least R^2 {explained.min():.4f}",
        ),
        Claim(
            "the base grows with the density",
            bool((np.diff(base) > 0).all()),
            f"{base[0]:.3f} to {base[-1]:.3f} a layer "
            f"(second moment: {root[0]:.3f} to {root[-1]:.3f})",
        ),
    ]
    numbers = {"density": data.density.values, "base": base, "explained": explained}
    numbers |= {"length_at_last_layer": data.length[:, -1].values}
    return Findings(
        verdicts, claims, numbers | {"error_at_last_layer": data.length_sem[:, -1].values}
    )


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the lengths on a logarithmic axis, with intervals and the composed bounds."""
    figure, ax = plt.subplots(figsize=(6.4, 4.8))
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, data.sizes["density"]))
    for colour, density in zip(colours, data.density.values, strict=True):
        cell = data.sel(density=density)
        plotting.layers(
            results.estimate_of(cell, "length"),
            ax=ax,
            color=colour,
            label=rf"$\alpha$ = {density:g}",
            linewidth=0.9,
        )
        plotting.reference(data.layer, cell.lower, ax=ax, color=colour, alpha=0.7)
        plotting.reference(data.layer, cell.upper, ax=ax, kind="upper", color=colour, alpha=0.5)
    plotting.reference([], [], ax=ax, color="grey", label="lower bound")
    plotting.reference([], [], ax=ax, color="grey", kind="upper", label="root of second moment")
    ax.set_yscale("log")
    ax.set_ylabel("expected length")
    ax.legend(ncols=2)
    return figure, f"{config.method}, {config.points} points"
