"""Growth against the scale or the density of the weights, for three laws.

Price & Tanner 2019, figures 3 and 5. The paper's claims: the lower bound holds, growth is linear
in sigma_w, it crosses 1 near density 0.5 for sigma_w = 2 and is about 1.4 in a dense network, and
the three laws coincide. Shown beside it: the root of the exact second moment, which bounds all
three from above, the exact law of the dense Gaussian network, and 95 % intervals.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr import MLP, laws, plotting, results, theory, verdict
from sims.inputs import curve_through
from sims.run import Claim, Findings, Run, caption

LAWS = ("gaussian", "uniform", "discrete")
_BIAS = 0.01


def _law(name: str, limits: np.ndarray) -> laws.Law:
    """Return the law of this name with the standard deviation of the discrete law of `limits`."""
    sigma = np.sqrt(limits * (limits + 1) / 3)
    if name == "gaussian":
        return laws.Gaussian(sigma)
    return laws.Uniform(np.sqrt(3) * sigma) if name == "uniform" else laws.DiscreteUniform(limits)


def _biases(name: str) -> laws.Law:
    found = {"gaussian": laws.Gaussian, "uniform": laws.Uniform, "discrete": laws.TwoPoint}
    return found[name](_BIAS)


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return growth by law, cell and layer, with the bounds beside it."""
    curve = curve_through(config)
    n_in = curve.shape[0]
    widths = (n_in,) + (config.width or n_in,) * config.depth
    sigma_varies = config.vary == "sigma"
    limits = np.array(config.limits if sigma_varies else [config.limit], float)
    densities = np.array([config.density] if sigma_varies else config.densities, float)
    axis = "sigma_w" if sigma_varies else "density"
    values = np.sqrt(limits * (limits + 1) / 3) if sigma_varies else densities

    parts = []
    for name in LAWS:
        weights = laws.Sparse(_law(name, limits), densities)
        net = MLP(widths, weights, _biases(name))
        made = run.estimate(
            name,
            net,
            curve,
            key=jax.random.key(config.seed),
            draws=config.draws,
            probes=("growth", "growth_squared"),
            method=config.method,
            points=config.points,
        )
        part = results.dataset(made, (axis,), {axis: values})
        for bound, factor in _BOUNDS.items():
            part[bound] = ((axis, "layer"), theory.per_layer(factor, net))
        parts.append(part.expand_dims(law=[name]))
        overall = part.growth.mean("layer")
        ends = f"{float(values[0]):.3g} to {float(values[-1]):.3g}"
        run.note(f"{name}: growth {overall[0]:.3f} to {overall[-1]:.3f} for {axis} {ends}")
    data = xr.concat(parts, "law")
    data.growth.attrs |= parts[0].growth.attrs
    data.growth_squared.attrs |= parts[0].growth_squared.attrs
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


def check(data: xr.Dataset) -> Findings:
    """Judge the bounds and look for what the paper claims."""
    axis = _axis(data)
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
        found, crossing = _dense(data, mean)
        verdicts += found
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


def _dense(data: xr.Dataset, mean: xr.DataArray) -> tuple[list[Any], list[Claim]]:
    limit = json.loads(data.attrs["config"])["limit"] if "config" in data.attrs else 3
    verdicts, claims = [], []
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


def _axis(data: xr.Dataset) -> str:
    return "sigma_w" if "sigma_w" in data.dims else "density"


def draw(data: xr.Dataset) -> Any:
    """Draw growth, averaged over the layers, and below it its ratio to the second moment's root.

    The three laws fall on one line; in the lower panel they stand beside one another.
    """
    import matplotlib.pyplot as plt

    axis = _axis(data)
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
    figure.suptitle(
        f"{data.attrs['title']}\n{caption(data)}, bars: 95 % intervals (widest case)", fontsize=9
    )
    return figure
