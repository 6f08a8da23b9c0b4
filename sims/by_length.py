"""Transitions against length, layer by layer, for several widths and scales.

Raghu et al. 2017, figure 5: the number of transitions is proportional to the length. Beside each
cell stands the ratio that mean field gives: a unit crosses its thresholds as often as Rice's
formula says at variance q, a length element grows as ``sqrt(E phi'^2)``.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr import MLP, curves, laws, plotting, results, theory, verdict
from sims.inputs import on_the_sphere
from sims.run import Claim, Findings, Run, caption

_NAMES = ("expected_transitions", "length")


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return transitions and length by cell and layer, and mean field's ratio."""
    x0, x1 = on_the_sphere(config)
    x1 = x1 - x0 * (x0 @ x1) / (x0 @ x0)
    curve = curves.circle(x0, x1 * np.sqrt(x0.size / (x1 @ x1)))
    parts = []
    for width in sorted({w for w, _ in config.cells}):
        scales = np.array([s for w, s in config.cells if w == width], float)
        widths = (x0.size,) + (width,) * config.depth
        net = MLP(widths, laws.Gaussian(np.sqrt(scales)), laws.Zero(), "hard_tanh")
        made = run.estimate(
            f"width {width}",
            net,
            curve,
            key=jax.random.fold_in(jax.random.key(config.seed), width),
            draws=config.draws,
            probes=_NAMES,
            method="gram",
            points=config.points,
        )
        part = results.dataset(made, ("cell",))
        theirs = np.stack(
            [
                theory.transitions_over_length(
                    MLP(widths, laws.Gaussian(scale**0.5), laws.Zero(), "hard_tanh"), 1.0
                )
                for scale in scales
            ]
        )
        sizes = list(zip(widths, widths[1:], strict=False))
        factors = [theory.lipschitz_upper(np.sqrt(scales), k, i) for i, k in sizes]
        upper = 2 * np.pi * np.sqrt(x0.size) * np.cumprod(np.stack(factors, axis=-1), axis=-1)
        part["upper"] = (("cell", "layer"), upper)
        part["mean_field"] = (("cell", "layer"), theirs)
        place = {"width": ("cell", np.full(scales.size, width)), "scale": ("cell", scales)}
        parts.append(part.assign_coords(place))
    data = xr.concat(parts, "cell")
    for name in _NAMES:
        data[name].attrs |= parts[0][name].attrs
    return data


def check(data: xr.Dataset) -> Findings:
    """See how far transitions are from being proportional to length, and to mean field's ratio."""
    data = data.transpose("cell", "layer")
    found = (data.expected_transitions / data.length).values[:, 1:]
    spread = found.max(axis=1) / found.min(axis=1)
    over = found / data.mean_field.values[:, 1:]
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
        "transitions_over_length": found.mean(axis=1),
        "mean_field": data.mean_field.values[:, 1:].mean(axis=1),
    }
    length = results.estimate_of(data, "length")
    verdicts = [verdict(length, upper=data.upper.values, name="length <= composed upper bound")]
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset) -> Any:
    """Draw transitions against length, a point a layer, with mean field's line for each cell."""
    import matplotlib.pyplot as plt

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
    ax.set_title(f"{data.attrs['title']}\n{caption(data)}, bars: 95 % intervals", fontsize=9)
    return figure
