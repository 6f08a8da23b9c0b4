"""A circle through a ReLU network, seen in two dimensions.

Price & Tanner 2019, figure 1: pre-activations at the input, half way and at the last layer. The
picture is one network; beside it stands the growth of the circle's length over many networks,
which the exact law of dense Gaussian layers predicts.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr import MLP, curves, laws, results, theory, trajectory, verdict
from sims.run import Claim, Findings, Run, caption

_DRAWING = 2**32 - 1  # number of the network that is drawn, not among those that are averaged


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return projections of one circle, and its growth over many networks."""
    random = np.random.default_rng(config.seed).normal(size=(config.width, 2))
    x0, x1 = np.linalg.qr(random)[0].T
    curve = curves.circle(x0, x1)
    net = MLP((config.width,) * (config.depth + 1), laws.Gaussian(config.sigma_w), laws.Zero())
    key = jax.random.key(config.seed)
    params = net.init(jax.random.fold_in(key, _DRAWING))
    images = trajectory(params, curve, points=config.points)
    shown = (0, config.depth // 2, config.depth)
    planes, kept = zip(*(_principal(images[i]) for i in shown), strict=True)
    run.note("projections of one network")
    made = run.estimate(
        "growth",
        net,
        curve,
        key=key,
        draws=config.draws,
        probes=("growth", "length"),
        method="gram",
    )
    data = results.dataset(made)
    data["projection"] = (("panel", "point", "axis"), np.stack(planes))
    data["explained"] = (("panel",), np.array(kept))
    data["shown"] = (("panel",), np.array(shown))
    data["exact"] = (
        ("layer",),
        np.full(config.depth, theory.gaussian_growth(config.sigma_w, config.width)),
    )
    return data


def _principal(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Project on the two directions of largest variance; return their share of it too."""
    centred = points - points.mean(0)
    _, sizes, axes = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    return centred @ axes[:2].T, float((sizes[:2] ** 2).sum() / (sizes**2).sum())


def check(data: xr.Dataset) -> Findings:
    """Judge the exact law; say how far from a circle the last picture is."""
    growth = results.estimate_of(data, "growth")
    length = results.estimate_of(data, "length")
    exact = data.exact.values
    composed = 2 * np.pi * theory.composed(list(exact))
    verdicts = [
        verdict(growth, exact, exact, "growth is the exact law of dense Gaussian layers"),
        verdict(length, composed, composed, "length is the composed exact law"),
    ]
    kept = data.explained.values
    claims = [
        Claim(
            "the circle leaves its plane with depth",
            bool(kept[0] > 0.999 > kept[1]) and bool(kept[-1] < 0.999),
            f"two directions hold {', '.join(f'{k:.3f}' for k in kept)} of the variance",
        )
    ]
    numbers = {"growth": growth.mean, "error": growth.sem, "exact": exact, "explained": kept}
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset) -> Any:
    """Draw the three projections, coloured by the angle on the circle."""
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection

    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.6))
    for ax, panel in zip(panels, data.panel.values, strict=True):
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
    figure.suptitle(
        f"{data.attrs['title']}: pre-activations of one network\n{caption(data)}", fontsize=9
    )
    return figure
