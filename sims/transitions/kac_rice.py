"""Counted transitions beside their expectation given the layers below, and the two variances.

The Kac-Rice formula is exact for Gaussian layers above any fixed curve, so the means agree; summed
in place of the count it has the smaller variance (Rao-Blackwell). The same networks give both.
"""

from __future__ import annotations

import dataclasses

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, curves, laws, plotting, results, verdict
from sims.config import Seeded
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Seeded):
    """Counted and expected transitions on an arc."""

    widths: tuple[int, ...] = (16, 128, 512)
    """Widths."""
    depth: int = 4
    """Layers."""
    dimension: int = 16
    """Input dimension."""
    sigma_relu: float = 1.5
    """Scale of the weights of ReLU networks."""
    sigma_hard: float = 2.5
    """Scale of the weights of hard-tanh networks."""
    sigma_b: float = 0.3
    """Scale of the biases."""
    units: int = 40_000
    """Networks times width."""
    least: int = 120
    """Networks of each width, at least."""


ACTIVATIONS = ("hard_tanh", "relu")
_NAMES = ("transitions", "expected_transitions")


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return counts and expectations by activation, width and layer."""
    parts = {}
    for activation, sigma in zip(ACTIVATIONS, (config.sigma_hard, config.sigma_relu), strict=True):
        by_width = {}
        for width in config.widths:
            net = MLP(
                (config.dimension,) + (width,) * config.depth,
                laws.Gaussian(sigma),
                laws.Gaussian(config.sigma_b),
                activation,
            )
            ends = np.sqrt(config.dimension) * np.eye(2, config.dimension)
            estimates = run.estimate(
                f"{activation}, width {width}",
                net,
                curves.arc(*ends),
                key=jax.random.fold_in(jax.random.key(config.seed), width),
                draws=max(config.units // width, config.least),
                probes=_NAMES,
            )
            by_width[width] = results.dataset(estimates)
        parts[activation] = results.concat(by_width, "width")
    return results.concat(parts, "activation")


def _both(data: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Distance of the means in standard errors, and the ratio of the variances."""
    counted, expected = (data[name] for name in _NAMES)
    sem_counted, sem_expected = (data[f"{name}_sem"] for name in _NAMES)
    distance = abs(counted - expected) / (sem_counted**2 + sem_expected**2) ** 0.5
    return distance, (sem_counted / sem_expected) ** 2


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge that the means agree; say how much smaller the variance is."""
    order = ("activation", "width", "layer")
    distance, gain = (x.transpose(*order) for x in _both(data))
    # The first layer's expectation is a number without variance.
    later = gain.isel(layer=slice(1, None))
    relative = (data.transitions_sem / data.transitions).transpose(*order)
    counted, expected = (results.estimate_of(data.transpose(*order), name) for name in _NAMES)
    apart = counted - expected
    verdicts = [verdict(apart, 0.0, 0.0, "counted transitions are those expected (Kac-Rice)")]
    claims = [
        Claim(
            "the expectation has the smaller variance",
            bool((later > 1).all()),
            f"{float(later.min()):.1f} to {float(later.max()):.1f} times in layers 2 and above",
        ),
    ]
    numbers = {
        "width": data.width.values,
        "activation": data.activation.values,
        "transitions": data.transitions.transpose(*order).values,
        "expected": data.expected_transitions.transpose(*order).values,
        "distance_in_standard_errors": distance.values,
        "variance_ratio": later.values,
    }
    numbers["largest_relative_error"] = float(relative.max())
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the ratio of the means with its interval, and the ratio of the variances."""
    figure, panels = plt.subplots(2, 2, figsize=(9.2, 6.4), sharex=True, height_ratios=(1.3, 1))
    _, gain = _both(data)
    for column, activation in zip(panels.T, data.activation.values, strict=True):
        top, bottom = column
        for i, width in enumerate(data.width.values):
            cell = data.sel(activation=activation, width=width)
            ratio = cell.transitions / cell.expected_transitions
            error = np.hypot(cell.transitions_sem, cell.expected_transitions_sem)
            n = np.minimum(cell.transitions_n, cell.expected_transitions_n)
            beside = 0.06 * (i - data.sizes["width"] / 2)
            plotting.curve_with_interval(
                data.layer + beside, ratio, error / cell.expected_transitions, n, ax=top,
                color=plotting.COLOURS[i], linewidth=0, elinewidth=1, label=f"$k$ = {width}",
            )  # fmt: skip
            later = gain.sel(activation=activation, width=width).isel(layer=slice(1, None))
            bottom.plot(
                later.layer, later, "o-", color=plotting.COLOURS[i], markersize=3.5, linewidth=1
            )
        top.axhline(1, color="black", linewidth=0.9)
        bottom.axhline(1, color="black", linewidth=0.9)
        top.set_title(str(activation), fontsize=9)
        bottom.set_xlabel("layer")
        bottom.xaxis.get_major_locator().set_params(integer=True)
        bottom.set_ylim(bottom=0)
    panels[0, 0].set_ylabel("counted / expected")
    panels[1, 0].set_ylabel("variance of the count\nover that of the expectation")
    panels[0, 0].legend(fontsize=8)
    return figure, f"{config.units} networks times width, bars: 95 % intervals"
