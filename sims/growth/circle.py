"""A circle through a network, seen in two dimensions.

Price & Tanner 2019, figure 1 (ReLU) and Raghu et al. 2017, figure 3 (tanh): pre-activations of one
network, projected on their two directions of largest variance. Beside the picture stands the growth
of the circle's length over many networks, with the exact law of dense Gaussian ReLU layers, or with
mean field.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, curves, laws, project, results, theory, trajectory, verdict
from sims.config import Sampled
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Sampled):
    """A circle through one network, and the growth of its length over many."""

    activation: Literal["relu", "tanh", "hard_tanh"] = "relu"
    """The activation."""
    shown: tuple[int, ...] = ()
    """Layers that are drawn, 0 the input; by default the input, half way, and the last."""
    width: int = 784
    """Units in each layer."""
    depth: int = 12
    """Number of layers."""
    sigma_w: float = 2.0
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    points: int = 2000
    """Points of the drawn curve."""


_DRAWING = 2**32 - 1  # number of the network that is drawn, not among those that are averaged


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return projections of one circle, and its growth over many networks."""
    random = np.random.default_rng(config.seed).normal(size=(config.width, 2))
    x0, x1 = np.linalg.qr(random)[0].T
    radius = np.sqrt(config.width) if config.activation != "relu" else 1.0
    curve = curves.circle(radius * x0, radius * x1)
    widths = (config.width,) * (config.depth + 1)
    net = MLP(widths, laws.Gaussian(config.sigma_w), laws.Zero(), config.activation)
    key = jax.random.key(config.seed)
    params = net.init(jax.random.fold_in(key, _DRAWING))
    images = trajectory(params, curve, activation=config.activation, points=config.points)
    shown = config.shown or (0, config.depth // 2, config.depth)
    planes, share = zip(*(project(images[i]) for i in shown), strict=True)
    run.note("projections of one network")
    estimates = run.estimate(
        "growth",
        net,
        curve,
        key=key,
        draws=config.draws,
        probes=("growth", "length"),
        method="gram",
    )
    data = results.dataset(estimates)
    data["projection"] = (("panel", "point", "axis"), np.stack(planes))
    data["explained"] = (("panel",), np.array(share))
    data["shown"] = (("panel",), np.array(shown))
    if config.activation == "relu":
        exact = np.full(config.depth, theory.gaussian_growth(config.sigma_w, config.width))
        data["exact"] = (("layer",), exact)
    upper = theory.lipschitz_upper(config.sigma_w, config.width)
    data["upper"] = (("layer",), np.full(config.depth, upper))
    data["mean_field"] = (("layer",), theory.mean_field_growth(net, radius**2 / config.width))
    return data


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the exact law; say how far from a circle the last picture is."""
    growth = results.estimate_of(data, "growth")
    length = results.estimate_of(data, "length")
    share = data.explained.values
    numbers: dict[str, Any] = {"growth": growth.mean, "error": growth.sem, "explained": share}
    numbers["mean_field"] = data.mean_field.values
    verdicts, claims = [], []
    if "exact" in data:
        exact = data.exact.values
        composed = 2 * np.pi * theory.composed(list(exact))
        verdicts = [
            verdict(growth, exact, exact, "growth is the exact law of dense Gaussian layers"),
            verdict(length, composed, composed, "length is the composed exact law"),
        ]
        numbers["exact"] = exact
    else:
        upper = data.upper.values
        verdicts = [verdict(growth, upper=upper, name="growth <= bound of 1-Lipschitz activations")]
        off = float(np.abs(growth.mean / data.mean_field.values - 1).max())
        detail = f"largest distance {100 * off:.1f} %"
        claims.append(Claim("growth is mean field's within 6 %, each layer", off < 0.06, detail))
    claims += [
        Claim(
            "the circle leaves its plane with depth",
            bool(share[0] > 0.999 > share[-1]),
            f"two directions hold {', '.join(f'{k:.3f}' for k in share)} of the variance",
        )
    ]
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the three projections, coloured by the angle on the circle."""
    from matplotlib.collections import LineCollection

    several = data.sizes["panel"]
    columns = several if several <= 4 else -(-several // 2)
    rows = -(-several // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(3.2 * columns, 3.0 * rows + 0.6))
    for ax in panels.flat[several:]:
        ax.set_axis_off()
    for ax, panel in zip(panels.flat, data.panel.values, strict=False):
        xy = data.projection.sel(panel=panel).values
        pieces = np.stack([xy[:-1], xy[1:]], axis=1)
        lines = LineCollection(list(pieces), cmap="twilight", linewidths=1.1)
        lines.set_array(np.linspace(0, 2 * np.pi, len(pieces)))
        ax.add_collection(lines)
        ax.autoscale()
        ax.set_aspect("equal", adjustable="datalim")
        layer = int(data.shown[panel])
        ax.set_title("input" if layer == 0 else f"layer {layer}", fontsize=10)
        ax.set_xlabel(f"{100 * float(data.explained[panel]):.0f} % of the variance", fontsize=8.5)
        ax.tick_params(labelsize=7)
    return figure, "drawn are pre-activations of one network"
