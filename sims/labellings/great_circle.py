"""Labellings of points while the weights of one layer move on a great circle.

Raghu et al. 2017, figures 14 (against depth and width), 15 (layers swept) and 16 (against flips,
with the random walk). The sign of a unit of any layer above is a label; shown beside the counts are
the number of labellings there are, ``2^s``, and the random walk's exact expectation.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, dichotomies, laws, plotting, results, theory, verdict
from sims.config import Sampled
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Sampled):
    """Labellings of points while the weights of a layer move on a great circle, hard-tanh."""

    inputs: int = 15
    """Points that are labelled."""
    dimension: int = 64
    """Dimension of the points, random with |x|^2 = n."""
    widths: tuple[int, ...] = (2, 8, 32, 128)
    """Widths."""
    scale: float = 8.0
    """sigma_w^2."""
    depth: int = 12
    """Layers."""
    swept: tuple[int, ...] = (1,)
    """Layers whose weights move, one at a time."""
    readouts: int = 4
    """Units of each layer whose signs are labels."""
    method: Literal["exact", "grid"] = "grid"
    """Every flip, or a grid that is doubled."""
    points: int = 4097
    """Points of the grid at first."""
    refine: float = 0.04
    """The grid is doubled until counts move by less than this."""
    max_points: int = 2**16 + 1
    """Or until it has so many points."""
    view: Literal["depth", "width", "flips"] = "depth"
    """What the horizontal axis is."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return labellings and flips by width, layer swept and layer read out."""
    parts, grid = {}, {}
    if config.method == "grid":
        grid = {name: getattr(config, name) for name in ("points", "refine", "max_points")}
    for width in config.widths:
        rng = np.random.default_rng(config.seed)
        inputs = rng.normal(size=(config.inputs, config.dimension))
        inputs *= np.sqrt(config.dimension) / np.linalg.norm(inputs, axis=1, keepdims=True)
        widths = (config.dimension,) + (width,) * config.depth
        net = MLP(widths, laws.Gaussian(config.scale**0.5), laws.Zero(), "hard_tanh")
        estimates = run.do(
            dichotomies,
            f"width {width}",
            net,
            inputs,
            key=jax.random.fold_in(jax.random.key(config.seed), width),
            draws=config.draws,
            swept=config.swept,
            readouts=min(config.readouts, width),
            method=config.method,
            **grid,
        )
        part = results.dataset(estimates, ("swept",), {"swept": np.array(config.swept)})
        how = "every flip" if config.method == "exact" else f"{estimates['flips'].points} points"
        run.note(f"width {width}: {how}")
        part["points"] = ((), estimates["flips"].points)
        parts[width] = part
    data = results.concat(parts, "width")
    data["walk"] = (
        data.flips.dims,
        theory.random_walk(config.inputs, np.nan_to_num(data.flips.values)),
    )
    data["walk"] = data.walk.where(data.flips.notnull())
    return data


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the bounds; hold labellings against remaining depth and the random walk."""
    data = data.transpose("width", "swept", "layer")
    inputs = config.inputs
    counts = results.estimate_of(data, "dichotomies")
    known = np.isfinite(counts.mean)
    most = np.full(known.shape, 2.0**inputs)
    flips = np.where(known, np.nan_to_num(data.flips.values) + 1, 2.0**inputs)
    verdicts = [
        verdict(counts, upper=most, name="labellings <= 2^s"),
        verdict(counts, upper=flips, name="labellings <= flips + 1"),
    ]
    ratio = (data.dichotomies / data.walk).values
    off = data.dichotomies_discretisation / data.dichotomies
    largest = 100 * float(np.nanmax(np.nan_to_num(off.values)))
    numbers: dict[str, Any] = {
        "width": data.width.values,
        "swept": data.swept.values,
        "dichotomies": counts.mean,
        "error": counts.sem,
        "flips": data.flips.values,
        "over_random_walk": ratio,
        "discretisation": off.values,
        "points": data.points.values,
    }
    claims = [
        Claim(
            "grids have converged (to 5 %)",
            largest < 5,
            f"largest discretisation error {largest:.1f} %",
        ),
    ]
    least = np.nanmin(ratio, axis=(1, 2))
    shown = ", ".join(f"{r:.2f} at {w}" for r, w in zip(least, data.width.values, strict=True))
    if (data.width.values >= 100).any():
        wide = ratio[data.width.values >= 100]
        claims.append(
            Claim(
                "labellings follow the random walk (within a factor of 1.5, width >= 100)",
                bool(np.nanmax(np.abs(np.log(wide))) < np.log(1.5)),
                f"least labellings over the walk's by width: {shown}",
            )
        )
    saturated = (data.walk >= 0.99 * 2**inputs).values
    if saturated.any():
        share = float(counts.mean[saturated].min()) / 2**inputs
        claims.append(
            Claim(
                "labellings saturate where the random walk does (more than 95 % of 2^s)",
                share > 0.95,
                f"at least {100 * share:.1f} % of all",
            )
        )
    if data.sizes["swept"] > 1:
        claims.append(_remaining(data))
    if data.sizes["width"] > 1:
        claims.append(_deep_or_wide(data))
    return Findings(verdicts, claims, numbers)


def _remaining(data: xr.Dataset) -> Claim:
    """Labellings by remaining depth, for all layers swept: largest distance in standard errors."""
    worst, largest, compared = 0.0, 0.0, 0
    for width in data.width.values:
        cell = data.sel(width=width)
        for r in range(1, data.sizes["layer"]):
            rows = [
                (float(one.dichotomies), float(one.dichotomies_sem))
                for s in data.swept.values
                if s > 1 and s + r <= data.sizes["layer"]
                for one in [cell.sel(swept=s, layer=s + r)]
            ]
            for mean, error in rows[1:]:
                base, base_error = rows[0]
                worst = max(worst, abs(mean - base) / np.hypot(error, base_error))
                largest = max(largest, abs(mean / base - 1))
                compared += 1
    return Claim(
        "labellings depend on the remaining depth alone (layers above the first)",
        worst < 4 if compared else None,
        f"{compared} pairs at most {worst:.1f} standard errors apart, {100 * largest:.0f} %",
    )


def _deep_or_wide(data: xr.Dataset) -> Claim:
    """How labellings change with depth at a width of 32 or so, and with width at a middle depth."""
    first = data.isel(swept=0).dichotomies
    widths = data.width.values
    middle = widths[len(widths) // 2]
    deep = float(first.sel(width=middle).isel(layer=-1) / first.sel(width=middle).isel(layer=0))
    wide = float(first.isel(layer=-1, width=-1) / first.isel(layer=-1).sel(width=middle))
    more = widths[-1] / middle
    return Claim(
        "labellings grow with depth faster than with width",
        deep > wide,
        f"{deep:.3g} times from the first to the last layer at width {middle}; "
        f"{wide:.3g} times from there to a width {more:g} times as large",
    )


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw labellings against remaining depth, width, or flips."""
    figure, ax = plt.subplots(figsize=(6.6, 4.8))
    if config.view == "depth":
        for i, (width, swept) in enumerate(np.ndindex(data.sizes["width"], data.sizes["swept"])):
            cell = data.isel(width=width, swept=swept)
            x = data.layer.values - int(cell.swept)
            several = data.sizes["swept"] > 1
            label = f"layer {int(cell.swept)} swept" if several else f"$k$ = {int(cell.width)}"
            colour = plotting.COLOURS[i % len(plotting.COLOURS)]
            counts = results.estimate_of(cell, "dichotomies")
            plotting.curve_with_interval(x, counts, ax=ax, label=label, color=colour)
        ax.set_xlabel("remaining depth")
    elif config.view == "width":
        layers = data.layer.values[1::2] if data.sizes["layer"] > 5 else data.layer.values
        colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(layers)))
        for colour, layer in zip(colours, layers, strict=True):
            cell = data.isel(swept=0).sel(layer=layer)
            label = f"remaining depth {layer - 1}"
            numbers = (cell.dichotomies, cell.dichotomies_sem, cell.dichotomies_n)
            plotting.curve_with_interval(data.width, *numbers, ax=ax, label=label, color=colour)
        ax.set_xscale("log", base=2)
        ax.set_xlabel("width")
    else:
        _against_flips(data, ax, config.inputs)
    most, blue = 2.0**config.inputs, "#3b6fb6"
    ax.axhline(most, color=blue, linestyle="--", linewidth=1, label="all labellings")
    ax.set_yscale("log")
    ax.set_ylabel(f"labellings of {config.inputs} points")
    ax.legend(fontsize=8)
    low, high = int(data.points.min()), int(data.points.max())
    how = f"grids of {low} to {high} points" if low < high else f"grid of {high} points"
    how = how if high else "every flip"
    return figure, f"{how}, bars: 95 % intervals"


def _against_flips(data: xr.Dataset, ax: Any, inputs: int) -> None:
    for i, width in enumerate(data.width.values):
        cell = data.sel(width=width).isel(swept=0)
        flips, counts = (results.estimate_of(cell, name) for name in ("flips", "dichotomies"))
        style: Any = {"label": f"$k$ = {width}", "color": plotting.COLOURS[i]}
        plotting.against(flips, counts, ax=ax, **style)
    x = np.geomspace(1, max(float(data.flips.max()) * 3, 100), 300)
    plotting.reference(
        x, theory.random_walk(inputs, x), ax=ax, kind="exact", color="black", label="random walk"
    )
    plotting.reference(
        x, theory.flips_bound(inputs, x), ax=ax, kind="upper", color="grey", label="flips + 1"
    )
    ax.set_xscale("log")
    ax.set_xlabel("flips of a label")
