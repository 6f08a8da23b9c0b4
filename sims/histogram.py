"""Distances to the nearest boundary at initialisation, their whole law.

Hanin & Rolnick 2019, the first panel of figure 7: logarithms of distances from random points to the
nearest boundary, which vary over many orders of magnitude. Judged: no more points lie within r of a
boundary than ``2 r D`` (the proof of Theorem 2), and the mean distance is at least ``1 / (4 D)``.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr import MLP, Estimate, datasets, exact, laws, plotting, theory, verdict
from sims.run import Claim, Findings, Run, caption

_EDGES = np.linspace(-9, 2, 111)


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return the share of distances in each class, for many networks."""
    images = datasets.load(config.data, "train").flat.astype(np.float64)
    laws_ = (laws.Gaussian(config.sigma_w), laws.Gaussian(config.sigma_b))
    net = MLP((images.shape[1], *config.widths), *laws_, dtype="float64")
    key = jax.random.key(config.seed)
    make = jax.jit(net.init)

    def measure(number: int) -> np.ndarray:
        with jax.enable_x64(True):
            drawn = make(jax.random.fold_in(key, number))
        params = tuple((np.asarray(W), np.asarray(b)) for W, b in drawn)
        random = np.random.default_rng([config.seed, number])
        x = random.standard_normal((config.points, images.shape[1]))
        x = images.mean(axis=0) + images.std(axis=0) * x
        found = exact.distance_to_boundary(params, x)
        logs = np.clip(np.log10(np.maximum(found, 1e-300)), _EDGES[0], _EDGES[-1])
        return np.r_[np.histogram(logs, _EDGES)[0] / config.points, found.mean()]

    samples = run.samples("distances", measure, config.draws)
    data = xr.Dataset({"samples": (("draw", "class"), samples)})
    data.attrs |= {
        "density": float(theory.boundary_upper(net).sum()),
        "units": net.units,
        "gradient": np.sqrt(theory.gradient_second_moment(net)).tolist(),
    }
    return data


def _below(data: xr.Dataset) -> np.ndarray:
    """Share of points nearer than each edge, by network, ``(draws, edges - 1)``."""
    return np.asarray(np.cumsum(data.samples.values[:, :-1], axis=1))


def check(data: xr.Dataset) -> Findings:
    """Judge the law of small distances; look for many orders of magnitude."""
    density, r = float(data.attrs["density"]), 10 ** _EDGES[1:]
    below = _below(data)
    share = Estimate.of(below, "share")
    mean = Estimate.of(data.samples.values[:, -1], "distance")
    lower = 1 / (4 * density)
    verdicts = [
        verdict(
            share, upper=np.minimum(2 * r * density, 1.0), name="P(distance <= r) <= 2 r D",
            axis="radius no.",
        ),
        verdict(mean, lower=lower, name="mean distance >= 1 / (4 D)"),
    ]  # fmt: skip
    shares = below.mean(axis=0)
    low, middle, high = (float(np.interp(q, shares, _EDGES[1:])) for q in (0.001, 0.5, 0.999))
    claims = [
        Claim(
            "distances vary over orders of magnitude (three, between their 0.1 % ends)",
            high - low > 3,
            f"10^{low:.2f} to 10^{high:.2f}, median 10^{middle:.2f}",
        )
    ]
    numbers = {
        "mean_distance": mean.mean[0],
        "error": mean.sem[0],
        "mean_distance_times_units": mean.mean[0] * data.attrs["units"],
        "lower_bound": lower,
        "log10_quantiles_0.1_50_99.9_percent": [low, middle, high],
    }
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset) -> Any:
    """Draw the histogram, and the distribution function beside its tangent at 0."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9))
    heights = data.samples.values[:, :-1].mean(axis=0) / np.diff(_EDGES)
    left.stairs(heights, _EDGES, fill=True, color=plotting.COLOURS[5])
    left.stairs(heights, _EDGES, color=plotting.COLOURS[0])
    left.set(xlabel="log10 distance to the nearest boundary", ylabel="density", xlim=(-6, 1))
    r = 10 ** _EDGES[1:]
    share = Estimate.of(_below(data))
    seen = share.mean > 0
    right.plot(r[seen], share.mean[seen], color=plotting.COLOURS[0], label="measured")
    few = seen & (share.mean < 0.02) & (share.mean > 20 * share.sem.min())
    slope = np.median(share.mean[few] / r[few]) if few.any() else np.nan
    right.plot(r, slope * r, ":", color="black", label=rf"proportional, ${slope:.3g}\,r$")
    mean = data.samples.values[:, -1].mean()
    right.axvline(mean, color="grey", linewidth=1, label=f"mean {mean:.3g}")
    right.set(xscale="log", yscale="log", ylim=(1e-5, 1.5), xlim=(1e-6, 10))
    right.set(xlabel="r", ylabel="P(distance <= r)")
    right.legend(loc="lower right")
    figure.suptitle(f"{data.attrs['title']}\n{caption(data)}", fontsize=9)
    return figure
