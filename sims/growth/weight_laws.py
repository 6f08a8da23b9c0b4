"""Growth against the scale or the density of the weights, for three laws.

Price & Tanner 2019, figures 3 and 5. The paper's claims: the lower bound holds, growth is linear
in sigma_w, it crosses 1 near density 0.5 for sigma_w = 2 and is about 1.4 in a dense network, and
the three laws coincide. Shown beside it: the root of the exact second moment, which bounds all
three from above, the exact law of the dense Gaussian network, and 95 % intervals.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, Verdict, curves, laws, plotting, results, theory, verdict
from sims.config import EndPoints
from sims.data_points import end_points
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(EndPoints):
    """Growth against sigma_w or against density, for three laws of the weights."""

    curve: Literal["line", "semicircles"] = "line"
    """Straight, or bent into semicircles in random planes."""
    planes: int = 100
    """How many planes."""
    vary: Literal["sigma", "density"] = "sigma"
    """What the horizontal axis is."""
    limits: tuple[int, ...] = (1, 2, 3, 5, 7, 10, 14, 18, 24, 34)
    """Limits C of the discrete law; sigma_w = sqrt(C (C + 1) / 3) for all three laws."""
    densities: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    """Densities, if they vary."""
    limit: int = 3
    """C where densities vary: 3 is sigma_w = 2."""
    density: float = 0.5
    """Density where sigma varies."""
    width: int = 0
    """Units in each layer; 0 takes the input's dimension."""
    depth: int = 12
    """Number of layers."""
    method: Literal["tangent", "grid"] = "tangent"
    """Derivatives at midpoints, or the paper's polyline."""
    points: int = 12
    """Midpoints, or points of the polyline."""


LAWS = ("gaussian", "uniform", "discrete")
_BIAS = 0.01


def _law(name: str, limits: np.ndarray) -> laws.Law:
    """Return the law of this name with the standard deviation of the discrete law of `limits`."""
    sigma = np.sqrt(limits * (limits + 1) / 3)
    if name == "gaussian":
        return laws.Gaussian(sigma)
    return laws.Uniform(np.sqrt(3) * sigma) if name == "uniform" else laws.DiscreteUniform(limits)


def _biases(name: str) -> laws.Law:
    kinds = {"gaussian": laws.Gaussian, "uniform": laws.Uniform, "discrete": laws.TwoPoint}
    return kinds[name](_BIAS)


def _curve(config: Config) -> curves.Curve:
    x0, x1 = end_points(config)
    if config.curve == "line":
        return curves.line(x0, x1)
    key = jax.random.fold_in(jax.random.key(config.seed), 2**31)
    return curves.semicircles(key, x0, x1, planes=config.planes)


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return growth by law, cell and layer, with the bounds beside it."""
    curve = _curve(config)
    n_in = curve.shape[0]
    widths = (n_in,) + (config.width or n_in,) * config.depth
    sigma_varies = config.vary == "sigma"
    limits = np.array(config.limits if sigma_varies else [config.limit], float)
    densities = np.array([config.density] if sigma_varies else config.densities, float)
    axis = _axis(config)
    values = np.sqrt(limits * (limits + 1) / 3) if sigma_varies else densities

    parts = {}
    for name in LAWS:
        weights = laws.Sparse(_law(name, limits), densities)
        net = MLP(widths, weights, _biases(name))
        estimates = run.estimate(
            name,
            net,
            curve,
            key=jax.random.key(config.seed),
            draws=config.draws,
            probes=("growth", "growth_squared"),
            method=config.method,
            points=config.points,
        )
        part = results.dataset(estimates, (axis,), {axis: values})
        for bound, factor in _BOUNDS.items():
            part[bound] = ((axis, "layer"), theory.per_layer(factor, net))
        parts[name] = part
        overall = part.growth.mean("layer")
        ends = f"{float(values[0]):.3g} to {float(values[-1]):.3g}"
        run.note(f"{name}: growth {overall[0]:.3f} to {overall[-1]:.3f} for {axis} {ends}")
    data = results.concat(parts, "law")
    sigma = np.sqrt(limits * (limits + 1) / 3)
    dense = [theory.gaussian_growth(sigma, k, i) for i, k in zip(widths, widths[1:], strict=False)]
    data["dense_gaussian"] = ((axis, "layer"), np.stack(dense, -1) + np.zeros((len(values), 1)))
    return data


_BOUNDS = {
    "lower": theory.price_tanner_lower,
    "sharp": theory.price_tanner_sharp,
    "upper": theory.second_moment_upper,
}


def _overall(data: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean over layers, and an error that holds however the layers are correlated."""
    return data.growth.mean("layer"), data.growth_sem.mean("layer")


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the bounds and look for what the paper claims."""
    axis = _axis(config)
    data = data.transpose("law", axis, "layer")
    growth = results.estimate_of(data, "growth")
    verdicts = [
        verdict(growth, lower=data.lower.values, name="growth >= Price & Tanner's bound"),
        verdict(growth, lower=data.sharp.values, name="growth >= the bound with E sqrt(A)"),
        verdict(growth, upper=data.upper.values, name="growth <= root of the second moment"),
    ]
    if growth.method == "tangent":
        exact = data.upper.values**2
        squared = results.estimate_of(data, "growth_squared")
        verdicts.append(verdict(squared, exact, exact, "mean squared growth is the exact one"))
    mean, sem = _overall(data)
    spread = float(((mean.max("law") - mean.min("law")) / mean.mean("law")).max())
    claims = [
        Claim(
            "the three laws coincide (within 2 %)",
            spread < 0.02,
            f"largest relative difference {100 * spread:.2f} %",
        )
    ]
    numbers: dict[str, Any] = {
        axis: data[axis].values,
        **{f"growth_{law}": mean.sel(law=law).values for law in LAWS},
        **{f"error_{law}": sem.sel(law=law).values for law in LAWS},
        "largest_relative_difference_between_laws": spread,
    }
    if axis == "sigma_w":
        claims.append(_linear(mean))
    else:
        judged, crossing = _dense(data, mean, config.limit)
        verdicts += judged
        claims += crossing
    return Findings(verdicts, claims, numbers)


def _linear(mean: xr.DataArray) -> Claim:
    slope = mean / mean.sigma_w
    off = float((slope.max("sigma_w") / slope.min("sigma_w") - 1).max())
    return Claim(
        "growth is proportional to sigma_w (within 2 %)",
        off < 0.02,
        f"growth / sigma_w = {float(slope.mean()):.4f}, varies by {100 * off:.2f} %",
    )


def _dense(data: xr.Dataset, mean: xr.DataArray, limit: int) -> tuple[list[Verdict], list[Claim]]:
    verdicts: list[Verdict] = []
    claims = []
    if float(data.density[-1]) == 1.0:
        end = data.sel(law="gaussian").isel(density=-1)
        exact = end.dense_gaussian.values
        gaussian = results.estimate_of(end, "growth")
        name = "dense Gaussian growth is the exact law"
        if gaussian.method == "tangent":
            verdicts.append(verdict(gaussian, exact, exact, name))
        if limit == 3:
            last = float(mean.isel(density=-1).mean())
            detail = f"measured {last:.4f}"
            claims.append(
                Claim("growth is about 1.41 at density 1", abs(last - 1.41) < 0.03, detail)
            )
    if limit == 3:
        values = mean.mean("law").values
        where = float(np.interp(1.0, values, data.density.values))
        met = bool(values[0] < 1 < values[-1]) and abs(where - 0.5) < 0.05
        claims.append(Claim("growth crosses 1 near density 0.5", met, f"at density {where:.3f}"))
    return verdicts, claims


def _axis(config: Config) -> str:
    return "sigma_w" if config.vary == "sigma" else "density"


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw growth, averaged over the layers, and below it its ratio to the second moment's root.

    The three laws fall on one line; in the lower panel they stand beside one another.
    """
    axis = _axis(config)
    mean, sem = _overall(data)
    x = data[axis].values
    upper = data.upper.mean("layer")
    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(6.4, 6.6), sharex=True, height_ratios=(2.2, 1)
    )
    beside = 0.012 * (x[-1] - x[0])
    for i, (law, marker) in enumerate(zip(LAWS, ("o", "s", "^"), strict=True)):
        line = {"color": plotting.COLOURS[i], "marker": marker}
        y, error, root = (part.sel(law=law) for part in (mean, sem, upper))
        n = data.growth_n.sel(law=law).min("layer")
        style = {"linewidth": 0.7, "markersize": 7 - 2 * i} | line
        plotting.curve_with_interval(x, y, error, n, ax=top, label=f"sparse {law}", **style)
        lower = data.lower.sel(law=law).mean("layer")
        plotting.reference(x, lower, ax=top, label=f"lower bound, {law}", color=line["color"])
        plotting.curve_with_interval(
            x + (i - 1) * beside,
            y / root,
            error / root,
            n,
            ax=bottom,
            linewidth=0,
            elinewidth=1,
            **line,
        )
    first = upper.sel(law="gaussian")
    black = {"color": "black", "kind": "upper"}
    plotting.reference(x, first, ax=top, label="root of the second moment", **black)
    bottom.axhline(1, color="black", linestyle="-.", linewidth=1.1)
    if axis == "density":
        top.axhline(1, color="grey", linewidth=0.8)
        if x[-1] == 1:
            exact = float(data.dense_gaussian.isel(density=-1).mean())
            star = {"color": "black", "markersize": 11, "zorder": 5, "linestyle": "none"}
            top.plot(1, exact, "*", label="exact, dense Gaussian", **star)
            bottom.plot(1, exact / float(first[-1]), "*", **star)
    top.set_ylabel(r"growth  $E\,[\,|dz^{(d+1)}|\,/\,|dz^{(d)}|\,]$")
    top.set_ylim(bottom=0)
    top.set_xlim(left=0)
    top.legend(loc="upper left")
    bottom.set_ylabel("ratio to the root\nof the second moment")
    bottom.set_xlabel(r"$\sigma_w$" if axis == "sigma_w" else r"density $\alpha$")
    how = f"{config.method}, {config.points} points"
    return figure, f"{how}, bars: 95 % intervals (widest case)"
