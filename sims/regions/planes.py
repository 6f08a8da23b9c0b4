"""Regions of random ReLU networks in a plane: one drawn, many counted.

Raghu et al. 2017, figure 1 (regions are convex polygons, layer by layer); Hanin & Rolnick 2019,
figures 1, 2 and 8 (regions in a plane, about half the square of the number of units). Every count
is exact. Beside it: the upper bounds, and the integrals of the biases' densities that are the mean
perimeter and the mean number of crossings (Hanin & Rolnick, Theorem 3).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import (
    MLP,
    Estimate,
    Verdict,
    boundary_volume,
    exact,
    laws,
    plotting,
    results,
    theory,
    verdict,
)
from sims.config import HE, DataOrRandom, Sampled
from sims.data_points import three_examples
from sims.findings import Claim, Fact, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Sampled):
    """Regions in a plane: one network drawn, many counted."""

    data: DataOrRandom = "random"
    """random: the input is the plane. A data set: the plane through three examples of it, of
    different labels."""
    widths: tuple[int, ...] = (4, 4, 4)
    """Units in each hidden layer."""
    sigma_w: float = HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = 0.3
    """Standard deviation of the biases."""
    half_width: float = 0.0
    """Half the side of the square; 0 takes 1, or 1.25 times the radius of the examples' circle."""
    panes: bool = True
    """A pane for each layer, or the whole network in one."""
    volume: bool = True
    """Compare perimeters and crossings with the integrals of the biases' densities."""
    shown: int = 0
    """Number of the network that is drawn."""


_FAR = 1e3  # a square so much larger holds all but a few regions of the whole plane
_DRAWING = 2**32 - 1  # numbers from here down are those of networks that are drawn


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return counts, perimeters and crossings of many networks, and one network's parameters."""
    corners = None if config.data == "random" else three_examples(config.data)
    n_in = 2 if corners is None else corners.shape[1]
    net = MLP(
        (n_in, *config.widths),
        laws.Gaussian(config.sigma_w),
        laws.Gaussian(config.sigma_b),
        dtype="float64",
    )
    key = jax.random.key(config.seed)
    make = jax.jit(net.init)

    def params(number: int) -> list[tuple[np.ndarray, np.ndarray]]:
        with jax.enable_x64(True):
            drawn = make(jax.random.fold_in(key, number))
        return [(np.asarray(W), np.asarray(b)) for W, b in drawn]

    shown = params(_DRAWING - config.shown)
    square = _square(corners, config.half_width, shown)

    far = corners is not None

    def measure(number: int) -> np.ndarray:
        plane = exact.plane(params(number), *square)
        whole = exact.plane(plane.params, *square[:3], _FAR * square[3]).count if far else 0
        return np.r_[plane.counts, plane.perimeters, plane.crossings, whole]

    samples = run.samples("planes", measure, config.draws)
    counts, lengths = samples[:, : net.depth], samples[:, net.depth : -2]
    estimates = {
        "regions": Estimate.of(counts, "regions"),
        "perimeter": Estimate.of(lengths, "perimeter"),
    }
    if config.volume:
        options: dict[str, Any] = {"key": jax.random.key(config.seed + 1), "draws": 4000}
        origin, u, v, half = square
        set_ = (net, origin, np.stack([u, v]), half)
        estimates["volume"] = boundary_volume(*set_, **options)
        estimates["pairs"] = boundary_volume(*set_, codimension=2, **options)
        run.note("integrals of the densities: 4000 networks")
    data = results.dataset(estimates)
    data["crossings"] = (("draw",), samples[:, -2])
    data["whole_plane"] = (("draw",), samples[:, -1])
    data["count"] = (("draw", "layer"), counts)
    for index, (W, b) in enumerate(shown):
        data[f"W{index}"] = ((f"width{index}", f"width{index + 1}"), W)
        data[f"b{index}"] = ((f"width{index + 1}",), b)
    for name, array in zip(("origin", "u", "v"), square[:3], strict=True):
        data[name] = (("width0",), array)
    data.attrs["half_width"] = float(square[3])
    if corners is not None:
        data["examples"] = (("example", "width0"), corners)
    bounds = [
        min(theory.raghu2017_upper(2, w), theory.serra2018_upper(2, w))
        for w in (config.widths[: i + 1] for i in range(len(config.widths)))
    ]
    data["upper"] = (("layer",), np.array([float(bound) for bound in bounds]))
    return data


def _square(
    corners: np.ndarray | None, half_width: float, params: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    if corners is None:
        return np.zeros(2), np.eye(2)[0], np.eye(2)[1], half_width or 1.0
    p, q, r = corners
    plane = exact.plane_through(params, p, q, r, half_width=half_width or None)
    return plane.origin, plane.u, plane.v, plane.half_width


def _drawn(data: xr.Dataset, depth: int) -> exact.Plane:
    """The partition of the drawn network by its first layers."""
    params = [(data[f"W{i}"].values, data[f"b{i}"].values) for i in range(depth)]
    origin, u, v = (data[name].values for name in ("origin", "u", "v"))
    return exact.plane(params, origin, u, v, data.attrs["half_width"])


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the bounds and the integrals; look for half the square of the number of units."""
    regions = results.estimate_of(data, "regions")
    verdicts = [verdict(regions, upper=data.upper.values, name="regions <= Serra et al.'s bound")]
    depth = data.sizes["layer"]
    plane = _drawn(data, depth)
    most = data["count"].max("draw").values
    facts = [
        Fact(
            "no network has more regions than the bound",
            bool((most <= data.upper.values).all()),
            f"at most {most[-1]:.0f} of {data.upper.values[-1]:.0f}",
        ),
        Fact("regions are convex polygons", _convex(plane), f"all {plane.count} of the drawn one"),
        Fact(
            "regions fill the square",
            abs(float(plane.areas.sum()) / (2 * plane.half_width) ** 2 - 1) < 1e-9,
            f"areas add up to {plane.areas.sum():.6g}",
        ),
    ]
    units = sum(data.sizes[f"width{i + 1}"] for i in range(depth))
    whole = Estimate.of(data.whole_plane.values)
    per_pair = whole.mean[0] / (units**2 / 2)
    claims = []
    numbers: dict[str, Any] = {
        "units": units,
        "regions": regions.mean,
        "error": regions.sem,
        "upper": data.upper.values,
        "regions_of_the_drawn_network": plane.counts,
        "linear_regions_of_the_drawn_network": exact.linear_regions(plane).count,
        "perimeter": data.perimeter.values,
    }
    if "examples" in data:
        numbers |= {"whole_plane": whole.mean[0], "whole_plane_error": whole.sem[0]}
        claims.append(
            Claim(
                "the whole plane holds about half the square of the number of units (0.5 to 1.5)",
                0.5 < per_pair < 1.5,
                f"{whole.mean[0]:,.0f} +- {whole.sem[0]:.2g} regions of {units} units: "
                f"{per_pair:.3f} N^2 / 2",
            )
        )
    if "volume" in data:
        verdicts += _integrals(data)
    return Findings(verdicts, claims, numbers, facts)


def _integrals(data: xr.Dataset) -> list[Verdict]:
    """Theorem 3: the measured perimeter and crossings are integrals of densities, in the mean."""
    lengths, integral = (results.estimate_of(data, name) for name in ("perimeter", "volume"))
    pairs = results.estimate_of(data, "pairs")
    counted = Estimate.of(data.crossings.values, "crossings")
    total = (pairs.mean.sum(), pairs.sem.sum())  # layers are correlated: the widest case
    return [
        _equal(lengths, integral.mean, integral.sem, "perimeter is the integral of Theorem 3"),
        _equal(counted, *total, "crossings are the integral of Theorem 3, k = 2"),
    ]


def _equal(measured: Estimate, mean: Any, sem: Any, name: str) -> Verdict:
    """Judge that two means are equal; the error of both counts."""
    both = dataclasses.replace(measured, sem=np.hypot(measured.sem, sem))
    return verdict(both, mean, mean, name)


def _convex(plane: exact.Plane) -> bool:
    """Whether every corner of every polygon turns left, to rounding."""
    for polygon in plane.polygons:
        side = np.roll(polygon, -1, axis=0) - polygon
        after = np.roll(side, -1, axis=0)
        turn = side[:, 0] * after[:, 1] - side[:, 1] * after[:, 0]
        if turn.min() < -1e-12 * plane.half_width**2:
            return False
    return True


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the regions, a pane for each layer or one for all, boundaries thinner by layer."""
    depth = data.sizes["layer"]
    shown = range(1, depth + 1) if config.panes else [depth]
    size = 3.3 if len(shown) > 1 else 6.2
    figure, panels = plt.subplots(
        1, len(shown), figsize=(size * len(shown), size + 0.75), squeeze=False
    )
    for ax, layers in zip(panels[0], shown, strict=True):
        plane = _drawn(data, layers)
        plotting.regions(plane, ax=ax)
        ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
        ax.set_title(
            f"{layers} layer{'s' if layers > 1 else ''}: {plane.count:,} regions\n"
            f"mean {float(data.regions[layers - 1]):,.1f}, "
            f"at most {data.upper.values[layers - 1]:,.0f}",
            fontsize=9,
        )
        if "examples" in data:
            at = plane.coordinates(data.examples.values)
            ax.plot(*at.T, "o", color="white", markeredgecolor="black", markersize=7, zorder=5)
    units = "-".join(str(data.sizes[f"width{i}"]) for i in range(depth + 1))
    return figure, f"units {units}"
