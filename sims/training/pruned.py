"""Growth in trained sparse networks, by density and by how they came to be sparse.

Price & Tanner 2019 bound the growth of random sparse networks and name trained sparse ones as open.
Here networks are trained three ways to one density of their hidden layers: drawn sparse and kept
so, pruned step by step while they are trained (Zhu & Gupta 2017), and pruned in one shot in the
middle of training. Lines between test examples of different classes are sent through them, beside
random sparse networks of the scales and densities that training ended with, for which the paper's
bound holds.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, Estimate, datasets, laws, plotting, theory, training, verdict
from sims.config import Training
from sims.data_points import growth_of, line_ends
from sims.findings import Claim, Fact, Findings, claim_positive
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Training):
    """Growth in trained sparse networks, by how they came to be sparse."""

    densities: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    """Share of weights that are left."""
    sigma_w: float = 2.0
    """Initial standard deviation of the weights that are not 0."""
    width: int = 64
    """Units in each layer."""
    depth: int = 6
    """Layers."""
    lines: int = 10
    """Lines between examples of two classes."""


WAYS = ("drawn sparse", "pruned gradually", "pruned in one shot")


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return growth, scale and accuracy by way, density and network."""
    examples = datasets.load(config.data, "train")
    test = datasets.load(config.data, "test")
    densities = np.array(config.densities)
    widths = (examples.flat.shape[1], *(config.width,) * config.depth)
    dense = laws.Gaussian(config.sigma_w)
    steps = round(config.epochs * (len(examples.labels) // config.batch))
    every = max(steps // 40, 1)
    prunes = {
        "pruned gradually": training.Prune(densities, steps // 10, steps * 6 // 10, every),
        "pruned in one shot": training.Prune(densities, steps // 2, steps // 2),
    }
    ends = line_ends(test, config.lines, config.seed)[1]
    shape = (densities.size, config.draws)
    columns: dict[str, list[np.ndarray]] = {
        name: [] for name in ("growth", "random", "scale", "density", "accuracy", "expected")
    }
    for way in WAYS:
        law = laws.Sparse(dense, densities) if way == WAYS[0] else dense
        fit = run.train(
            way,
            MLP(widths, law, laws.Zero()),
            examples,
            config,
            test_data=test,
            intervention=training.Intervention(prune=prunes.get(way)),
            trackers=[training.track.weight_scale(), training.track.density()],
        )
        left = fit.history["density"][-1]
        scale = fit.history["weight_scale"][-1] / np.sqrt(np.maximum(left, 1e-9))
        columns["growth"].append(growth_of(fit.last.params, ends).reshape(*shape, -1))
        columns["accuracy"].append(fit.history["test_accuracy"][-1])
        columns["scale"].append(scale)
        columns["density"].append(left)
        random, expected = _random(config, widths, scale.mean(1), left.mean(1), ends)
        columns["random"].append(random)
        columns["expected"].append(expected)
    axes = ("way", "wanted", "network")
    return xr.Dataset(
        {
            "growth": ((*axes, "line"), np.stack(columns["growth"])),
            "random": ((*axes, "line"), np.stack(columns["random"])),
            "scale": ((*axes, "layer"), np.stack(columns["scale"])),
            "density": ((*axes, "layer"), np.stack(columns["density"])),
            "accuracy": (axes, np.stack(columns["accuracy"])),
            "lower": (("way", "wanted"), np.stack(columns["expected"])),
        },
        {"way": list(WAYS), "wanted": densities},
    )


def _random(
    config: Config, widths: Any, scale: np.ndarray, left: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Growth in random sparse networks of these scales and densities, and its lower bound."""
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(config.seed + 1), i))(
        np.arange(config.draws, dtype=np.uint32)
    )
    growths, bounds = [], []
    for scales, shares in zip(scale, left, strict=True):
        each = [
            laws.Sparse(laws.Gaussian(float(s)), float(a))
            for s, a in zip(scales, np.clip(shares, 0, 1), strict=True)
        ]
        params = jax.vmap(MLP(widths, each, laws.Zero()).init)(keys)
        growths.append(growth_of(params, ends).reshape(config.draws, -1))
        bounds.append(
            np.mean([float(theory.price_tanner_lower(law, config.width)) for law in each[1:]])
        )
    return np.stack(growths), np.array(bounds)


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the bound on random networks; see what training adds."""
    growth, random = (data[name].values.mean(axis=3) for name in ("growth", "random"))
    wanted, left = data.wanted.values, data.density.values
    verdicts = [
        verdict(
            Estimate.of(random[i].T, "growth"), lower=data.lower.values[i], axis="density no.",
            name=f"random networks like those {way}: growth >= the sparse lower bound",
        )
        for i, way in enumerate(WAYS)
    ]  # fmt: skip
    # A drawn density varies, by binomial law; a pruned one is what was asked for.
    off = np.abs(left[1:] - wanted[None, :, None, None]).max()
    facts = [
        Fact("pruned networks have the density that was asked for", bool(off < 1e-2),
             f"all layers within {off:.2g}"),
    ]  # fmt: skip
    claims = []
    x = np.log(wanted) - np.log(wanted).mean()
    for i, way in enumerate(WAYS):
        slope = x @ growth[i] / (x @ x)
        claims.append(claim_positive(f"{way}: growth rises with the density", slope))
    thin = int(np.argmin(wanted))
    for i, way in enumerate(WAYS):
        gap = growth[i, thin] - random[i, thin]
        name = f"{way}, density {wanted[thin]:g}: growth above that of random networks like them"
        claims.append(claim_positive(name, gap))
    accuracy = data.accuracy.values
    least = accuracy.mean(axis=2)[:, thin].min()
    claims.append(
        Claim("the sparsest networks keep 90 % test accuracy", bool(least > 0.9),
              f"{100 * least:.1f} % at density {wanted[thin]:g}")
    )  # fmt: skip
    numbers = {
        "ways": list(WAYS),
        "density": wanted,
        "growth": growth.mean(axis=2),
        "error": growth.std(axis=2, ddof=1) / growth.shape[2] ** 0.5,
        "growth_random": random.mean(axis=2),
        "lower_bound": data.lower.values,
        "scale_of_what_is_left": data.scale.values[..., 1:].mean(axis=(2, 3)),
        "accuracy": accuracy.mean(axis=2),
        "least_accuracy": accuracy.min(axis=2),
        "networks": growth.shape[2],
    }
    return Findings(verdicts, claims, numbers, facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw growth, scale and accuracy against the density."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.5, 4.1))
    x = data.wanted.values
    for i, way in enumerate(WAYS):
        colour = plotting.COLOURS[i]
        for name, line in (("growth", "-"), ("random", ":")):
            mean = Estimate.of(data[name].values[i].mean(axis=2).T)
            style: Any = {"color": colour, "linestyle": line}
            label = way if name == "growth" else ""
            plotting.curve_with_interval(x, mean, ax=left, label=label, **style)
        left.plot(x, data.lower.values[i], "--", color=colour, linewidth=0.8)
        scale = Estimate.of(data.scale.values[i][..., 1:].mean(axis=2).T)
        plotting.curve_with_interval(x, scale, ax=middle, color=colour)
        share = Estimate.of(data.accuracy.values[i].T)
        plotting.curve_with_interval(x, share, ax=right, color=colour)
    left.plot([], [], ":", color="grey", label="random, same scales")
    left.plot([], [], "--", color="grey", linewidth=0.8, label="lower bound for these")
    left.set(xlabel="density", ylabel="growth factor a layer")
    left.legend()
    middle.set(xlabel="density", ylabel="sigma_w of the weights that are left")
    right.set(xlabel="density", ylabel="test accuracy")
    return figure, "of each density and way, 95 % intervals"
