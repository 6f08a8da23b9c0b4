"""Length of a trajectory at each layer, and its growth, by width and by scale of the weights.

Raghu et al. 2017, figures 12 (ReLU) and 13 (hard-tanh). Inputs have ``|x|^2 = n``. Judged are the
composed statements, the explicit lower bound ``c B_1 ... B_d l(x)`` with c computed from the curve
and the upper bound; growth layer by layer is drawn beside its own bounds, mean field, and for ReLU
the exact law. Lengths are means over tangents, which no fineness of the image escapes; but in the
narrowest networks of figures 13c and d, whose units are saturated almost everywhere, tangents miss
the short stretches that still move, and lengths are those of the exact pieces. These two figures
show ``E[l_{d+1} / l_d]``, the ratio of the lengths in one network, over the networks that have one:
those in whose layer d the curve has not shrunk to points.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, curves, laws, plotting, results, theory, verdict
from sims.config import EndPoints
from sims.data_points import circle_through, on_the_sphere
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(EndPoints):
    """Length and growth by width, scale and layer, of a circle or (two examples) an arc."""

    activation: Literal["relu", "hard_tanh"] = "hard_tanh"
    """The activation."""
    widths: tuple[int, ...] = (32,)
    """Widths."""
    scales: tuple[float, ...] = (0.5, 1.0, 4.0, 16.0, 64.0)
    """sigma_w^2."""
    pairs: bool = False
    """Widths and scales go together, one by one; else every width has every scale."""
    sigma_b: float = 0.0
    """Scale of the biases."""
    depth: int = 12
    """Layers."""
    view: Literal["layer", "width", "scale"] = "layer"
    """What the horizontal axis is."""
    points: int = 16
    """Tangents."""
    narrow: int = 0
    """Widths up to this, where tangents are heavy-tailed, have more networks: `many`."""
    many: int = 2000
    """Networks of each narrow width."""
    exact: int = 0
    """Widths up to this are measured on exact pieces, which miss no stretch that moves."""


_PROBES = ("length", "growth")
_RATIO = {"layer": "growth", "width": "length_ratio", "scale": "length_ratio"}


def _curve(config: Config) -> curves.Curve:
    ends = on_the_sphere(config)
    return circle_through(*ends) if config.data == "random" else curves.arc(*ends)


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return length and growth by cell (width, scale) and layer, with theory beside them."""
    curve = _curve(config)
    n_in = curve.shape[0]
    length, share = curve.length(), theory.turning_share(curve)
    both = [(w, s) for w in config.widths for s in config.scales]
    cells = list(zip(config.widths, config.scales, strict=True)) if config.pairs else both
    parts = []
    for width in sorted({width for width, _ in cells}):
        scales = np.array([s for w, s in cells if w == width])
        widths = (n_in,) + (width,) * config.depth
        biases = laws.Gaussian(config.sigma_b) if config.sigma_b else laws.Zero()
        pieces = width <= config.exact
        # The stretches that still move get shorter in each layer, by the scale of the weights.
        dtype = "float64" if pieces else "float32"
        net = MLP(widths, laws.Gaussian(np.sqrt(scales)), biases, config.activation, dtype=dtype)
        ratio = _RATIO[config.view]
        estimates = run.estimate(
            f"width {width}",
            net,
            curve,
            key=jax.random.fold_in(jax.random.key(config.seed), width),
            draws=config.many if config.exact < width <= config.narrow else config.draws,
            probes=("length", ratio),
            method="exact" if pieces else "gram",
            points=None if pieces else config.points,
        )
        by_probe = {"length": estimates["length"], "growth": estimates[ratio]}
        part = results.dataset(by_probe, ("cell",))
        for name, factors in _theory(widths, np.sqrt(scales), config).items():
            part[name] = (("cell", "layer"), factors)
        part = part.assign_coords(
            width=("cell", np.full(scales.size, width)), scale=("cell", scales)
        )
        parts.append(part)
    data = results.concat(parts, "cell")
    data.attrs |= {"input_length": length, "turning_share": share}
    return data


def _theory(widths: tuple[int, ...], sigmas: np.ndarray, config: Config) -> dict[str, np.ndarray]:
    """Factors of every cell and layer: lower and upper bound, mean field."""
    phi, b = config.activation, config.sigma_b
    pairs = list(zip(widths, widths[1:], strict=False))
    upper = theory.lipschitz_upper
    factors = {
        "lower": [theory.raghu_lower(sigmas, b, k, phi, fan_in=i) for i, k in pairs],
        "upper": [upper(sigmas, k, i) for i, k in pairs],
        "rate": [theory.raghu_rate(sigmas, b, k, phi) for _, k in pairs],
    }
    if phi == "relu":
        law = laws.Gaussian(sigmas)
        factors["upper"] = [theory.second_moment_upper(law, k, i) for i, k in pairs]
        factors["exact"] = [theory.gaussian_growth(sigmas, k, i) for i, k in pairs]
    stacked = {name: np.stack(of_layer, axis=-1) for name, of_layer in factors.items()}
    nets = [MLP(widths, laws.Gaussian(s), laws.Gaussian(b), phi) for s in sigmas]
    stacked["mean_field"] = np.stack([theory.mean_field_growth(net, 1.0) for net in nets])
    return stacked


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the composed bounds, and for ReLU the exact law; hold growth against mean field."""
    data = data.transpose("cell", "layer")
    length, growth = (results.estimate_of(data, name) for name in _PROBES)
    start = data.attrs["input_length"]
    # In a narrow network with large weights hardly any unit is not saturated: a mean of 400 draws
    # of which a few are not 0 has no error to judge by.
    known = length.sem < 0.5 * length.mean
    lower = start * data.attrs["turning_share"] * np.cumprod(data.lower.values, axis=1)
    lower = np.where(known, lower, 0.0)
    upper = start * np.cumprod(data.upper.values, axis=1)
    verdicts = [
        verdict(length, lower=lower, name="length >= c B^d l(x), Raghu et al. with constants"),
        verdict(length, upper=upper, name="length <= composed upper bound"),
    ]
    if "exact" in data:
        exact = data.exact.values
        verdicts.append(verdict(growth, exact, exact, "growth is the exact law"))
    ratio = data.growth / data.mean_field
    numbers: dict[str, Any] = {
        "width": data.width.values,
        "scale": data.scale.values,
        "growth_last_layer": growth.mean[:, -1],
        "error_last_layer": growth.sem[:, -1],
        "networks_last_layer": growth.n[:, -1],
        "mean_field_last_layer": data.mean_field.values[:, -1],
        "largest_distance_from_mean_field": np.abs(ratio.values - 1).max(axis=1),
        "turning_share": data.attrs["turning_share"],
        "cells_and_layers_not_judged": int((~known).sum()),
    }
    claims = []
    wide = data.width.values >= 500
    if wide.any():
        off = float(np.abs(ratio.values[wide] - 1).max())
        claims.append(
            Claim(
                "growth of wide layers (500 and more) is mean field's within 3 %, each layer",
                off < 0.03,
                f"largest distance {100 * off:.2f} %",
            )
        )
    claims += _shapes(data, config.view)
    return Findings(verdicts, claims, numbers)


def _shapes(data: xr.Dataset, view: str) -> list[Claim]:
    """What the papers' figures show by eye."""
    growth = (
        data.growth.values[:, 1:].mean(axis=1) if data.sizes["layer"] > 1 else data.growth[:, 0]
    )
    error = data.growth_sem.values[:, 1:].mean(axis=1)
    width, scale = data.width.values, data.scale.values
    chosen = scale >= 4  # below, hard-tanh lengths shrink or stand still
    claims = []
    if view == "layer" and chosen.any():
        logs = np.log(data.length.values[chosen])
        x = np.arange(logs.shape[1]) - (logs.shape[1] - 1) / 2
        rest = logs - logs.mean(1)[:, None] - np.outer(logs @ x / (x @ x), x)
        fit = 1 - (rest**2).sum(1) / ((logs - logs.mean(1)[:, None]) ** 2).sum(1)
        grows = width[chosen] >= 16
        if grows.any():
            least = float(fit[grows].min())
            name = "length is exponential in depth (R^2 > 0.99; width >= 16, sigma_w^2 >= 4)"
            claims.append(Claim(name, least > 0.99, f"least R^2 {least:.4f}"))
    for name, axis, fixed in (("scale", scale, width), ("width", width, scale)):
        steps: list[bool] = []
        for value in np.unique(fixed):
            cells = (fixed == value) & (width >= 16)  # narrower ones die, and are noise
            order = np.argsort(axis[cells])
            slack = 3 * np.hypot(error[cells][order][1:], error[cells][order][:-1])
            steps += list(np.diff(growth[cells][order]) > -slack)
        if steps:
            up = 100 * float(np.mean(steps))
            detail = f"in {up:.0f} % of steps, within 3 standard errors"
            claims.append(Claim(f"growth rises with the {name}", up > 99, detail))
    return claims


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw lengths against the layer, or growth against width or scale."""
    figure, ax = plt.subplots(figsize=(6.8, 5.0))
    if config.view == "layer":
        _by_layer(data, ax)
    else:
        _by_cell(data, ax, config.view)
    more = f"{config.many} of widths from {config.exact + 1} to {config.narrow}, "
    return figure, f"{more if config.narrow else ''}bars: 95 % intervals"


def _by_layer(data: xr.Dataset, ax: Any) -> None:
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, data.sizes["cell"]))
    start = data.attrs["input_length"]
    for colour, index in zip(colours, range(data.sizes["cell"]), strict=True):
        cell = data.isel(cell=index)
        label = rf"$k$ = {int(cell.width)}, $\sigma_w^2$ = {float(cell.scale):g}"
        length = results.estimate_of(cell, "length")
        plotting.layers(length, ax=ax, color=colour, label=label, linewidth=0.9)
        wide = start * np.cumprod(cell.mean_field.values)
        plotting.reference(data.layer, wide, ax=ax, kind="exact", color=colour, alpha=0.55)
        low = start * data.attrs["turning_share"] * np.cumprod(cell.lower.values)
        plotting.reference(
            data.layer, np.where(low > 0, low, np.nan), ax=ax, color=colour, alpha=0.5
        )
        high = start * np.cumprod(cell.upper.values)
        plotting.reference(data.layer, high, ax=ax, kind="upper", color=colour, alpha=0.35)
    for kind, label in (
        ("exact", "mean field"),
        ("lower", "explicit lower bound, composed"),
        ("upper", "upper bound, composed"),
    ):
        plotting.reference([], [], ax=ax, color="grey", kind=kind, label=label)
    ax.set_yscale("log")
    least = float(data.length.min())
    ax.set_ylim(least / 30, float(data.length.max()) * 30)
    ax.set_ylabel("expected length")
    ax.legend(fontsize=7.5, ncols=2)


def _by_cell(data: xr.Dataset, ax: Any, view: str) -> None:
    """Growth in the last layer, whose lengths have settled, with the bounds of one layer."""
    other = "scale" if view == "width" else "width"
    values, dead = np.unique(data[other].values), 0
    for i, value in enumerate(values):
        cells = data.isel(cell=np.flatnonzero(data[other].values == value)).sortby(view)
        x, colour = cells[view].values, plotting.COLOURS[i]
        last = cells.isel(layer=-1)
        name = rf"$\sigma_w^2$ = {value:g}" if other == "scale" else f"$k$ = {value:g}"
        numbers = (last.growth.values, last.growth_sem.values, last.growth_n.values)
        plotting.curve_with_interval(x, *numbers, ax=ax, label=name, color=colour, linewidth=0.8)
        none = x[~np.isfinite(numbers[0])]
        dead += none.size
        at_the_foot: Any = {"transform": ax.get_xaxis_transform(), "clip_on": False}
        ax.plot(none, np.full(none.size, 0.03), "x", color=colour, markersize=7, **at_the_foot)
        plotting.reference(x, last.lower, ax=ax, color=colour, alpha=0.8)
        plotting.reference(x, last.upper, ax=ax, kind="upper", color=colour, alpha=0.6)
        plotting.reference(x, last.mean_field, ax=ax, kind="exact", color=colour, alpha=0.6)
        plotting.reference(x, last.rate, ax=ax, kind="rate", color=colour, alpha=0.8)
    for kind, label in (
        ("exact", "mean field"),
        ("lower", "explicit bound, one layer (drawn only)"),
        ("upper", "upper bound"),
        ("rate", "rate without its constant"),
    ):
        plotting.reference([], [], ax=ax, color="grey", kind=kind, label=label)
    if dead:
        ax.plot([], [], "x", color="grey", markersize=7, label="no unit survives in any network")
    ax.axhline(1, color="grey", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(bottom=max(0.1, 0.5 * float(data.growth.min())))
    ax.set_xlabel("width" if view == "width" else r"$\sigma_w^2$")
    ax.set_ylabel(r"growth  $E\,[\,l^{(d+1)}\,/\,l^{(d)}\,]$  where $l^{(d)} > 0$, last layer")
    ax.legend(fontsize=7.5)
