"""Transitions of a unit against depth and against width, hard-tanh and tanh.

Raghu et al. 2017, figure 2: an arc between two images, thresholds at -1 and 1. Drawn is the
expected number by the Kac-Rice formula given the layers below, which has the mean of the count, no
grid and less variance; for narrow networks the exact counts of hard-tanh stand beside it.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr import MLP, curves, expected_crossings, laws, plotting, results, theory, verdict
from sims.inputs import on_the_sphere
from sims.run import Claim, Findings, Run, caption

ACTIVATIONS = ("hard_tanh", "tanh")
EXPECTED = "expected"


def _network(n_in: int, width: int, depth: int, scales: Any, activation: str) -> MLP:
    widths = (n_in,) + (width,) * depth
    return MLP(widths, laws.Gaussian(np.sqrt(scales)), laws.Zero(), activation)


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return transitions a unit by activation, cell (width, scale) and layer."""
    curve = curves.arc(*on_the_sphere(config))
    n_in, key = curve.shape[0], jax.random.key(config.seed)
    cells = sorted({*config.cells, *((w, s) for w in config.widths for s in config.scales)})
    probe = expected_crossings(-1.0, 1.0, name=EXPECTED)
    parts = []
    for width in sorted({w for w, _ in cells}):
        scales = np.array([s for w, s in cells if w == width], float)
        both = []
        for activation in ACTIVATIONS:
            made = run.estimate(
                f"{activation}, width {width}",
                _network(n_in, width, config.depth, scales, activation),
                curve,
                key=jax.random.fold_in(key, width),
                draws=config.draws,
                probes=probe,
                method="gram",
                points=config.points,
            )
            part = results.dataset(made, ("cell",)).expand_dims(activation=[activation])
            both.append(part)
        whole = xr.concat(both, "activation")
        place = {"width": ("cell", np.full(scales.size, width)), "scale": ("cell", scales)}
        parts.append(whole.assign_coords(place))
    data = xr.concat(parts, "cell")
    data[EXPECTED].attrs |= parts[0][EXPECTED].attrs
    return xr.merge([data, _counted(config, curve, run)], compat="no_conflicts", join="outer")


def _counted(config: Any, curve: curves.Curve, run: Run) -> xr.Dataset:
    """Exact counts of narrow hard-tanh networks, as many layers as asked for."""
    rows = []
    for width, scale in config.counted:
        net = _network(curve.shape[0], width, config.counted_depth, float(scale), "hard_tanh")
        made = run.estimate(
            f"counted, width {width}, scale {scale}",
            net,
            curve,
            key=jax.random.fold_in(jax.random.key(config.seed + 1), width),
            draws=config.draws,
            probes="transitions",
        )["transitions"]
        rows.append((made.mean, made.sem, made.n))
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
    here = (data.width.values == width) & (data.scale.values == scale)
    return data.isel(cell=int(np.flatnonzero(here)[0]))


def check(data: xr.Dataset) -> Findings:
    """Hold counts against expectations; look at how transitions depend on depth and on width."""
    config = json.loads(data.attrs["config"])
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
    narrow, wide = config["widths"][0], config["widths"][-1]
    ends = []
    for s in config["scales"]:
        low, high = (
            _cell(unit.to_dataset(name="unit"), w, s).unit.sel(activation="hard_tanh")
            for w in (narrow, wide)
        )
        ends += list((high / low).sel(layer=config["layers"]).values)
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


def draw(data: xr.Dataset) -> Any:
    """Draw both panes: against depth for the paper's cells, against width for single layers."""
    import matplotlib.pyplot as plt

    config = json.loads(data.attrs["config"])
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.2, 4.9))
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.92, len(config["cells"])))
    for colour, (width, scale) in zip(colours, config["cells"], strict=True):
        cell = _cell(data, width, scale)
        for activation, style in zip(ACTIVATIONS, ("-", ":"), strict=True):
            one = cell.sel(activation=activation)
            left.plot(
                data.layer,
                one[EXPECTED] / width,
                style,
                color=colour,
                linewidth=1.2,
                label=f"w{width} scl{scale:g}" if style == "-" else None,
            )
    for name in data.counted_cell.values:
        width, scale = (float(x) for x in str(name).split(","))
        counted = data.sel(counted_cell=name)
        plotting.curve_with_interval(
            data.layer,
            counted.counted / width,
            counted.counted_sem / width,
            counted.counted_n,
            ax=left,
            color="black",
            linewidth=0,
            elinewidth=1,
            label="exact counts" if name == data.counted_cell.values[0] else "",
        )
    x = data.layer.values.astype(float)
    narrow = min(w for w, _ in config["cells"])
    rate = theory.raghu_transitions(1.0, 0.0, narrow)
    plotting.reference(
        x[:3], 0.3 * rate ** (x[:3] - 1), ax=left, kind="rate", color="grey",
        label=f"slope of Theorem 4's rate, w{narrow}",
    )  # fmt: skip
    left.plot([], [], ":", color="grey", label="tanh")
    left.set_xlabel("layer")
    colours = plt.get_cmap("plasma")(np.linspace(0, 0.85, len(config["scales"])))
    for colour, scale in zip(colours, config["scales"], strict=True):
        for layer, style in zip(config["layers"], ("-", "--", "-.", ":"), strict=False):
            y = [
                float(_cell(data, w, scale)[EXPECTED].sel(activation="hard_tanh", layer=layer)) / w
                for w in config["widths"]
            ]
            label = f"layer {layer} scl{scale:g}"
            right.plot(
                config["widths"], y, style, color=colour, marker="o", markersize=3, label=label
            )
    right.set_xlabel("width")
    right.set_xscale("log")
    for ax in (left, right):
        ax.set_yscale("log")
    left.legend(fontsize=7, ncols=2)
    right.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    left.set_ylabel("transitions of a unit")
    figure.suptitle(f"{data.attrs['title']}\n{caption(data)}", fontsize=9)
    return figure
