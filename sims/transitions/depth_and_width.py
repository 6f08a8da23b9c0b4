"""Transitions of a unit against depth and against width, hard-tanh and tanh.

Raghu et al. 2017, figure 2: an arc between two images, thresholds at -1 and 1. Drawn is the
expected number by the Kac-Rice formula given the layers below, which has the mean of the count, no
grid and less variance; for narrow networks the exact counts of hard-tanh stand beside it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, curves, expected_crossings, laws, plotting, results, theory, verdict
from sims.config import EndPoints
from sims.data_points import on_the_sphere
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(EndPoints):
    """Transitions of a unit by width, scale and depth, on an arc between points |x|^2 = n."""

    cells: tuple[tuple[int, float], ...] = (
        (50, 10), (100, 8), (500, 5), (700, 5), (700, 10), (1000, 10), (1000, 16),
    )  # fmt: skip
    """Width and sigma_w^2 of the networks in the left pane."""
    widths: tuple[int, ...] = (50, 100, 300, 500, 700, 1000)
    """Widths of the right pane."""
    scales: tuple[float, ...] = (5, 8, 10)
    """sigma_w^2 of the right pane."""
    layers: tuple[int, ...] = (2, 4, 8, 12)
    """Layers of the right pane."""
    depth: int = 14
    """Layers."""
    counted: tuple[tuple[int, float], ...] = ((50, 10), (100, 8))
    """Width and sigma_w^2 of the hard-tanh networks whose transitions are counted exactly."""
    counted_depth: int = 5
    """Their depth."""
    points: int = 40
    """Tangents, at which the expected number is taken."""


ACTIVATIONS = ("hard_tanh", "tanh")
EXPECTED = "expected"


def _network(n_in: int, width: int, depth: int, scales: Any, activation: str) -> MLP:
    widths = (n_in,) + (width,) * depth
    return MLP(widths, laws.Gaussian(np.sqrt(scales)), laws.Zero(), activation)


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return transitions a unit by activation, cell (width, scale) and layer."""
    curve = curves.arc(*on_the_sphere(config))
    n_in, key = curve.shape[0], jax.random.key(config.seed)
    cells = sorted({*config.cells, *((w, s) for w in config.widths for s in config.scales)})
    probe = expected_crossings(-1.0, 1.0, name=EXPECTED)
    parts = []
    for width in sorted({w for w, _ in cells}):
        scales = np.array([s for w, s in cells if w == width], float)
        both = {}
        for activation in ACTIVATIONS:
            estimates = run.estimate(
                f"{activation}, width {width}",
                _network(n_in, width, config.depth, scales, activation),
                curve,
                key=jax.random.fold_in(key, width),
                draws=config.draws,
                probes=probe,
                method="gram",
                points=config.points,
            )
            both[activation] = results.dataset(estimates, ("cell",))
        whole = results.concat(both, "activation")
        coordinates = {"width": ("cell", np.full(scales.size, width)), "scale": ("cell", scales)}
        parts.append(whole.assign_coords(coordinates))
    data = results.concat(parts, "cell")
    return xr.merge([data, _counted(config, curve, run)], compat="no_conflicts", join="outer")


def _counted(config: Config, curve: curves.Curve, run: Run) -> xr.Dataset:
    """Exact counts of narrow hard-tanh networks, as many layers as asked for."""
    rows = []
    for width, scale in config.counted:
        net = _network(curve.shape[0], width, config.counted_depth, float(scale), "hard_tanh")
        estimates = run.estimate(
            f"counted, width {width}, scale {scale}",
            net,
            curve,
            key=jax.random.fold_in(jax.random.key(config.seed + 1), width),
            draws=config.draws,
            probes="transitions",
        )["transitions"]
        rows.append((estimates.mean, estimates.sem, estimates.n))
    names = [f"{width},{scale:g}" for width, scale in config.counted]
    layers = np.arange(1, config.counted_depth + 1)
    values = np.array(rows).reshape(len(rows), 3, -1)
    dims = ("counted_cell", "layer")
    return xr.Dataset(
        {
            "counted": (dims, values[:, 0]),
            "counted_sem": (dims, values[:, 1]),
            "counted_n": (dims, values[:, 2]),
        },
        {"counted_cell": names, "layer": layers},
    )


def _cell(data: xr.Dataset, width: float, scale: float) -> xr.Dataset:
    matches = (data.width.values == width) & (data.scale.values == scale)
    return data.isel(cell=int(np.flatnonzero(matches)[0]))


def check(data: xr.Dataset, config: Config) -> Findings:
    """Hold counts against expectations; look at how transitions depend on depth and on width."""
    verdicts = []
    for name in data.counted_cell.values:
        width, scale = (float(x) for x in str(name).split(","))
        cell = _cell(data, width, scale).sel(activation="hard_tanh")
        counted = data.sel(counted_cell=name)
        known = np.isfinite(counted.counted.values)
        expected = results.estimate_of(cell, EXPECTED)
        apart = dataclasses.replace(
            expected,
            mean=(counted.counted.values - expected.mean)[known],
            sem=np.hypot(counted.counted_sem.values, expected.sem)[known],
            n=expected.n[known],
        )
        label = f"exact counts are those expected (Kac-Rice), width, sigma_w^2 = {name}"
        verdicts.append(verdict(apart, 0.0, 0.0, label))
    unit = data[EXPECTED] / data.width
    base = (unit.isel(layer=-1) / unit.isel(layer=0)) ** (1 / (data.sizes["layer"] - 1))
    hard = base.sel(activation="hard_tanh")
    narrow, wide = config.widths[0], config.widths[-1]
    ends = []
    for s in config.scales:
        low, high = (
            _cell(unit.to_dataset(name="unit"), w, s).unit.sel(activation="hard_tanh")
            for w in (narrow, wide)
        )
        ends += list((high / low).sel(layer=list(config.layers)).values)
    stretch = wide / narrow
    by_scale = [float(hard[data.scale.values == s].mean()) for s in np.unique(data.scale.values)]
    claims = [
        Claim(
            "transitions grow exponentially with depth, faster at larger scale",
            bool(np.all(np.diff(by_scale) > 0)) and by_scale[0] > 1,
            f"{by_scale[0]:.2f} to {by_scale[-1]:.2f} times a layer",
        ),
        Claim(
            "and slowly with width",
            max(ends) < stretch**0.5,
            f"at most {max(ends):.2f} times a unit while the width grows {stretch:g} times",
        ),
    ]
    numbers = {
        "width": data.width.values,
        "scale": data.scale.values,
        "base": {str(a): base.sel(activation=a).values for a in ACTIVATIONS},
        "transitions_a_unit_last_layer": {
            str(a): unit.sel(activation=a).isel(layer=-1).values for a in ACTIVATIONS
        },
        "counted": data.counted.values,
        "counted_error": data.counted_sem.values,
        "counted_cells": data.counted_cell.values,
    }
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw both panes: against depth for the paper's cells, against width for single layers."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.2, 4.9))
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.92, len(config.cells)))
    for colour, (width, scale) in zip(colours, config.cells, strict=True):
        cell = _cell(data, width, scale)
        for activation, style in zip(ACTIVATIONS, ("-", ":"), strict=True):
            one = cell.sel(activation=activation)
            label = f"w{width} scl{scale:g}" if style == "-" else None
            left.plot(
                data.layer, one[EXPECTED] / width, style, color=colour, linewidth=1.2, label=label
            )
    for name in data.counted_cell.values:
        units = int(str(name).partition(",")[0])
        counted = data.sel(counted_cell=name)
        plotting.curve_with_interval(
            data.layer,
            counted.counted / units,
            counted.counted_sem / units,
            counted.counted_n,
            ax=left,
            color="black",
            linewidth=0,
            elinewidth=1,
            label="exact counts" if name == data.counted_cell.values[0] else "",
        )
    x = data.layer.values.astype(float)
    narrow = min(w for w, _ in config.cells)
    rate = theory.raghu_transitions(1.0, 0.0, narrow)
    plotting.reference(
        x[:3], 0.3 * rate ** (x[:3] - 1), ax=left, kind="rate", color="grey",
        label=f"slope of Theorem 4's rate, w{narrow}",
    )  # fmt: skip
    left.plot([], [], ":", color="grey", label="tanh")
    left.set_xlabel("layer")
    colours = plt.get_cmap("plasma")(np.linspace(0, 0.85, len(config.scales)))
    for colour, scale in zip(colours, config.scales, strict=True):
        for layer, style in zip(config.layers, ("-", "--", "-.", ":"), strict=False):
            y = [
                float(_cell(data, w, scale)[EXPECTED].sel(activation="hard_tanh", layer=layer)) / w
                for w in config.widths
            ]
            label = f"layer {layer} scl{scale:g}"
            right.plot(config.widths, y, style, color=colour, marker="o", markersize=3, label=label)
    right.set_xlabel("width")
    right.set_xscale("log")
    for ax in (left, right):
        ax.set_yscale("log")
    left.legend(fontsize=7, ncols=2)
    right.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    left.set_ylabel("transitions of a unit")
    return figure, ""
