"""Networks of one input: the graph of one, the pieces of many.

Hanin & Rolnick 2019, figure 4 and Theorem 1: the mean number of pieces on an interval is
proportional to the number of units and does not depend on how they are arranged. Judged: the
integral of the biases' densities (Theorem 3) is the mean number of breakpoints.
"""

from __future__ import annotations

import dataclasses

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

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
from sims.config import HE, Sampled
from sims.data_points import layers_of
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Sampled):
    """A network of one input: its graph, and the pieces of many, by architecture."""

    widths: tuple[int, ...] = (16, 16, 16)
    """Units in each hidden layer of the drawn network."""
    architectures: tuple[str, ...] = ("1x12", "1x24", "1x48", "2x12", "4x6", "2x24", "4x12", "6x8")
    """Layers x units of the networks that are counted."""
    sigma_w: float = HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = 0.3
    """Standard deviation of the biases."""
    half_width: float = 1.0
    """Pieces are counted on [-half_width, half_width]."""
    shown: int = 0
    """Number of the network that is drawn."""


_DRAWING = 2**32 - 1


def simulate(config: Config, run: Run) -> xr.Dataset:
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
    pieces = exact.pieces(params, wide)
    x = 3 * half * (2 * pieces.breakpoints - 1)
    z = x[:, None]
    for W, b in params:
        z = np.maximum(z @ W + b, 0)
    readout = np.random.default_rng(config.seed).normal(size=z.shape[1]) / np.sqrt(z.shape[1] / 2)

    counted, integral = [], []
    for name in config.architectures:
        net = network(layers_of(name))
        estimate = run.estimate(
            name, net, line, key=key, draws=config.draws, probes="pieces", method="exact"
        )["pieces"]
        counted.append((estimate.mean[-1] - 1, estimate.sem[-1]))
        volume = boundary_volume(
            net, [0.0], [[half]], key=jax.random.key(config.seed + 1), draws=config.draws
        )
        # The layers of one network are correlated: the widest case.
        integral.append((volume.mean.sum(), volume.sem.sum()))
    data = xr.Dataset(
        {
            "x": (("joint",), x),
            "y": (("joint",), z @ readout),
            "layer_of_joint": (("joint",), np.r_[0, pieces.layers, 0]),
            "breakpoints": (("net", "part"), np.array(counted)),
            "integral": (("net", "part"), np.array(integral)),
            "units": (("net",), [sum(layers_of(name)) for name in config.architectures]),
            "depth": (("net",), [len(layers_of(name)) for name in config.architectures]),
        },
        {"net": list(config.architectures), "part": ["mean", "sem"]},
    )
    return data


def _estimate(data: xr.Dataset, config: Config) -> Estimate:
    """The counted breakpoints as an estimate, one entry for each architecture."""
    mean, sem = data.breakpoints.values.T
    return Estimate.from_moments(mean, sem, config.draws, "breakpoints")


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the integral and the universal bound; look for proportionality."""
    counted = _estimate(data, config)
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


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the graph with its breakpoints by layer, and the breakpoints by number of units."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), width_ratios=(1.5, 1))
    x, y, layer = data.x.values, data.y.values, data.layer_of_joint.values
    left.plot(x, y, color="#666666", linewidth=1.1, zorder=1)
    for index in range(int(layer.max())):
        chosen = layer == index + 1
        left.plot(
            x[chosen], y[chosen], "o", markersize=4, color=plotting.COLOURS[index],
            label=f"layer {index + 1}: {chosen.sum()} breakpoints",
        )  # fmt: skip
    left.legend()
    left.set(xlabel="x", ylabel="output", title="one network")
    counted = _estimate(data, config)
    for depth in np.unique(data.depth.values):
        chosen = data.depth.values == depth
        colour = plotting.COLOURS[int(np.searchsorted(np.unique(data.depth.values), depth)) % 7]
        plotting.curve_with_interval(
            data.units.values[chosen],
            counted.mean[chosen],
            counted.sem[chosen],
            counted.n[chosen],
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
    half = config.half_width
    right.set_title(f"mean on [-{half:g}, {half:g}]")
    right.legend()
    return figure, ""
