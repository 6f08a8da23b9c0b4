"""Networks of one input: the graph of one, the pieces of many.

Hanin & Rolnick 2019, figure 4 and Theorem 1: the mean number of pieces on an interval is
proportional to the number of units and does not depend on how they are arranged. Judged: the
integral of the biases' densities (Theorem 3) is the mean number of breakpoints.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr import (
    MLP,
    Estimate,
    boundary_volume,
    curves,
    exact,
    laws,
    plotting,
    theory,
    verdict,
)
from sims.inputs import layers_of
from sims.run import Claim, Findings, Run, caption

_DRAWING = 2**32 - 1


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return one network's graph, and breakpoints by architecture."""
    half, key = config.half_width, jax.random.key(config.seed)
    line = curves.line([-half], [half])

    def network(widths: tuple[int, ...]) -> MLP:
        laws_ = (laws.Gaussian(config.sigma_w), laws.Gaussian(config.sigma_b))
        return MLP((1, *widths), *laws_, dtype="float64")

    net = network(config.widths)
    drawn = net.init(jax.random.fold_in(key, _DRAWING - config.shown))
    params = tuple((np.asarray(W), np.asarray(b)) for W, b in drawn)
    wide = curves.line([-3 * half], [3 * half])
    found = exact.pieces(params, wide)
    x = 3 * half * (2 * found.breakpoints - 1)
    z = x[:, None]
    for W, b in params:
        z = np.maximum(z @ W + b, 0)
    readout = np.random.default_rng(config.seed).normal(size=z.shape[1]) / np.sqrt(z.shape[1] / 2)

    counted, integral = [], []
    for name in config.architectures:
        net = network(layers_of(name))
        made = run.estimate(
            name, net, line, key=key, draws=config.draws, probes="pieces", method="exact"
        )["pieces"]
        counted.append((made.mean[-1] - 1, made.sem[-1]))
        volume = boundary_volume(
            net, [0.0], [[half]], key=jax.random.key(config.seed + 1), draws=config.draws
        )
        # The layers of one network are correlated: the widest case.
        integral.append((volume.mean.sum(), volume.sem.sum()))
    data = xr.Dataset(
        {
            "x": (("joint",), x),
            "y": (("joint",), z @ readout),
            "layer_of_joint": (("joint",), np.r_[0, found.layers, 0]),
            "breakpoints": (("net", "part"), np.array(counted)),
            "integral": (("net", "part"), np.array(integral)),
            "units": (("net",), [sum(layers_of(name)) for name in config.architectures]),
            "depth": (("net",), [len(layers_of(name)) for name in config.architectures]),
        },
        {"net": list(config.architectures), "part": ["mean", "sem"]},
    )
    data.attrs |= {"draws": config.draws, "half_width": half}
    return data


def _estimate(data: xr.Dataset) -> Estimate:
    """The counted breakpoints as an estimate, one entry for each architecture."""
    mean, sem = data.breakpoints.values.T
    return Estimate.from_moments(mean, sem, int(data.attrs["draws"]), "breakpoints")


def check(data: xr.Dataset) -> Findings:
    """Judge the integral and the universal bound; look for proportionality."""
    counted = _estimate(data)
    mean, sem = data.integral.values.T
    both = dataclasses.replace(counted, sem=np.hypot(counted.sem, sem))
    axis = "network no."
    upper = [theory.line_upper((1, *layers_of(name))) - 1 for name in data.net.values.tolist()]
    verdicts = [
        verdict(both, mean, mean, "breakpoints are the integral of Theorem 3", axis=axis),
        verdict(
            counted, upper=np.array(upper, float), name="breakpoints <= prod (n + 1) - 1", axis=axis
        ),
    ]
    each = counted.mean / data.units.values
    claims = [
        Claim(
            "proportional to the number of units, whatever their arrangement (factor of 2)",
            float(each.max() / each.min()) < 2,
            f"{each.min():.3f} to {each.max():.3f} a unit",
        )
    ]
    numbers = {
        "architecture": data.net.values.tolist(),
        "units": data.units.values,
        "breakpoints": counted.mean,
        "error": counted.sem,
        "breakpoints_a_unit": each,
        "integral": mean,
    }
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset) -> Any:
    """Draw the graph with its breakpoints by layer, and the breakpoints by number of units."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), width_ratios=(1.5, 1))
    x, y, layer = data.x.values, data.y.values, data.layer_of_joint.values
    left.plot(x, y, color="#666666", linewidth=1.1, zorder=1)
    for index in range(int(layer.max())):
        own = layer == index + 1
        left.plot(
            x[own], y[own], "o", markersize=4, color=plotting.COLOURS[index],
            label=f"layer {index + 1}: {own.sum()} breakpoints",
        )  # fmt: skip
    left.legend()
    left.set(xlabel="x", ylabel="output", title="one network")
    counted = _estimate(data)
    for depth in np.unique(data.depth.values):
        own = data.depth.values == depth
        colour = plotting.COLOURS[int(np.searchsorted(np.unique(data.depth.values), depth)) % 7]
        plotting.curve_with_interval(
            data.units.values[own],
            counted.mean[own],
            counted.sem[own],
            counted.n[own],
            ax=right,
            linestyle="none",
            markersize=6,
            color=colour,
            label=f"{depth} layer{'s' if depth > 1 else ''}",
        )
    right.plot(
        data.units.values, data.integral[:, 0], "+", color="black", markersize=11,
        label="integral of Theorem 3",
    )  # fmt: skip
    right.set(xlabel="units", ylabel="breakpoints", xlim=(0, None), ylim=(0, None))
    half = float(data.attrs["half_width"])
    right.set_title(f"mean on [-{half:g}, {half:g}]")
    right.legend()
    figure.suptitle(f"{data.attrs['title']}\n{caption(data)}", fontsize=9)
    return figure
