"""Transitions against length, layer by layer, for several widths and scales.

Raghu et al. 2017, figure 5: the number of transitions is proportional to the length. Beside each
cell stands the ratio that mean field gives: a unit crosses its thresholds as often as Rice's
formula says at variance q, a length element grows as ``sqrt(E phi'^2)``.
"""

from __future__ import annotations

import dataclasses

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, laws, plotting, results, theory, verdict
from sims.config import EndPoints
from sims.data_points import circle_through, on_the_sphere
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(EndPoints):
    """Transitions against length on a circle, hard-tanh."""

    cells: tuple[tuple[int, float], ...] = (
        (32, 8), (32, 64), (128, 4), (128, 16), (512, 8), (512, 64),
    )  # fmt: skip
    """Width and sigma_w^2."""
    depth: int = 8
    """Layers."""
    points: int = 30
    """Tangents."""


_NAMES = ("expected_transitions", "length")


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return transitions and length by cell and layer, and mean field's ratio."""
    curve = circle_through(*on_the_sphere(config))
    (n_in,) = curve.shape
    parts = []
    for width in sorted({w for w, _ in config.cells}):
        scales = np.array([s for w, s in config.cells if w == width], float)
        widths = (n_in,) + (width,) * config.depth
        net = MLP(widths, laws.Gaussian(np.sqrt(scales)), laws.Zero(), "hard_tanh")
        estimates = run.estimate(
            f"width {width}",
            net,
            curve,
            key=jax.random.fold_in(jax.random.key(config.seed), width),
            draws=config.draws,
            probes=_NAMES,
            method="gram",
            points=config.points,
        )
        part = results.dataset(estimates, ("cell",))
        nets = [MLP(widths, laws.Gaussian(s**0.5), laws.Zero(), "hard_tanh") for s in scales]
        ratios = np.stack([theory.transitions_over_length(net, 1.0) for net in nets])
        sizes = list(zip(widths, widths[1:], strict=False))
        factors = [theory.lipschitz_upper(np.sqrt(scales), k, i) for i, k in sizes]
        upper = curve.length() * np.cumprod(np.stack(factors, axis=-1), axis=-1)
        part["upper"] = (("cell", "layer"), upper)
        part["mean_field"] = (("cell", "layer"), ratios)
        coordinates = {"width": ("cell", np.full(scales.size, width)), "scale": ("cell", scales)}
        parts.append(part.assign_coords(coordinates))
    return results.concat(parts, "cell")


def check(data: xr.Dataset, config: Config) -> Findings:
    """See how far transitions are from being proportional to length, and to mean field's ratio."""
    data = data.transpose("cell", "layer")
    ratio = (data.expected_transitions / data.length).values[:, 1:]
    spread = ratio.max(axis=1) / ratio.min(axis=1)
    over = ratio / data.mean_field.values[:, 1:]
    wide = data.width.values >= 100
    x, y = np.log(data.length.values[:, 1:]), np.log(data.expected_transitions.values[:, 1:])
    x, y = (v - v.mean(axis=1, keepdims=True) for v in (x, y))
    slope = (x * y).sum(axis=1) / (x * x).sum(axis=1)
    claims = [
        Claim(
            "transitions are proportional to length (log-log slope 1 within 5 %)",
            bool(np.abs(slope - 1).max() < 0.05),
            f"slopes {slope.min():.3f} to {slope.max():.3f}",
        ),
        Claim(
            "with one factor for all layers above the first (within 10 %)",
            bool(spread.max() < 1.1),
            f"varies by {100 * (spread.max() - 1):.1f} %",
        ),
    ]
    if wide.any():
        off = float(np.abs(over[wide] - 1).max())
        claims.append(
            Claim(
                "the factor is mean field's (within 5 %, width >= 100)",
                off < 0.05,
                f"largest distance {100 * off:.1f} %",
            )
        )
    numbers = {
        "width": data.width.values,
        "scale": data.scale.values,
        "slope": slope,
        "transitions_over_length": ratio.mean(axis=1),
        "mean_field": data.mean_field.values[:, 1:].mean(axis=1),
    }
    length = results.estimate_of(data, "length")
    verdicts = [verdict(length, upper=data.upper.values, name="length <= composed upper bound")]
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw transitions against length, a point a layer, with mean field's line for each cell."""
    figure, ax = plt.subplots(figsize=(6.4, 5.0))
    for i in range(data.sizes["cell"]):
        cell, colour = data.isel(cell=i), plotting.COLOURS[i % len(plotting.COLOURS)]
        label = rf"$k$ = {int(cell.width)}, $\sigma_w^2$ = {float(cell.scale):g}"
        length, transitions = (
            results.estimate_of(cell, name) for name in ("length", "expected_transitions")
        )
        plotting.against(length, transitions, ax=ax, color=colour, label=label)
        ends = np.array([float(cell.length.min()), float(cell.length.max())])
        factor = float(cell.mean_field[-1])
        plotting.reference(ends, ends * factor, ax=ax, kind="exact", color=colour, alpha=0.6)
    plotting.reference([], [], ax=ax, kind="exact", color="grey", label="mean field")
    ax.set(xscale="log", yscale="log", xlabel="length", ylabel="transitions of a layer")
    ax.legend(fontsize=8)
    return figure, "bars: 95 % intervals"
