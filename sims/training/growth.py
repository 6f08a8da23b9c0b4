"""Growth of trajectories in trained networks, beside random ones.

Price & Tanner 2019, figures 6a and 6b: networks of 10 ReLU layers, of several initial sigma_w, are
trained on images; then lines between two examples, of one class or of two, are sent through them.
The mean growth factor of the hidden layers is drawn against the sigma_w that the weights have after
training: for pairs of one class and of two (6a), and for single lines (6b), beside random networks.
The paper reports that growth stays roughly linear in sigma_w, is larger between classes, and, other
than in random networks, depends on the line.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, Estimate, datasets, laws, plotting, theory, training, verdict
from sims.config import Training
from sims.data_points import growth_of, line_ends
from sims.findings import Claim, Findings, claim_positive
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Training):
    """Growth of lines between test examples in trained networks, and in random ones."""

    sigmas: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0)
    """Initial standard deviations of the weights, before the division by sqrt(fan_in)."""
    width: int = 32
    """Units in each layer."""
    depth: int = 10
    """Layers."""
    lines: int = 10
    """Lines within classes, and as many between classes."""
    view: Literal["classes", "paths"] = "classes"
    """Means over lines, or line by line."""


_KINDS = ("one class", "two classes")
_FEW = 12  # lines of a kind that are drawn with their intervals


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return growth of each line in each network, trained and random, and the scales after."""
    examples = datasets.load(config.data, "train")
    test = datasets.load(config.data, "test")
    sigma = np.array(config.sigmas)
    widths = (examples.flat.shape[1], *(config.width,) * config.depth)
    net = MLP(widths, laws.Gaussian(sigma), laws.Zero())
    fit = run.train(
        "networks",
        net,
        examples,
        config,
        test_data=test,
        # Then sigma_w does not move the scale of what random networks put out.
        readout=laws.Gaussian((2**0.5 / sigma) ** config.depth),
        trackers=[training.track.weight_scale()],
    )
    ends = line_ends(test, config.lines, config.seed)
    shape = (len(sigma), config.draws)
    trained = growth_of(fit.last.params, ends).reshape(*shape, *ends.shape[:2])
    run.note(f"growth of {2 * config.lines} lines in the trained networks")
    after = fit.history["weight_scale"][-1]
    # Random networks of the same scales, layer by layer: those that training ended with.
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(config.seed + 1), i))(
        np.arange(config.draws, dtype=np.uint32)
    )
    random = [
        growth_of(
            jax.vmap(MLP(widths, [laws.Gaussian(s) for s in scales], laws.Zero()).init)(keys), ends
        ).reshape(config.draws, *ends.shape[:2])
        for scales in after.mean(axis=1)
    ]
    run.note("growth in random networks of the same scales")
    axes = ("sigma", "network", "kind", "line")
    data = xr.Dataset(
        {
            "trained": (axes, trained),
            "random": (axes, np.stack(random)),
            "after": (("sigma", "network"), after[..., 1:].mean(axis=-1)),
            "scales": (("sigma", "layer"), after.mean(axis=1)),
            "accuracy": (("sigma", "network"), fit.history["test_accuracy"][-1]),
        },
        {"sigma": sigma, "kind": list(_KINDS)},
    )
    return data


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the random networks by their exact law; look for what the paper reports."""
    trained, random = (data[name].values for name in ("trained", "random"))
    x, y = data.after.values.mean(axis=1), trained.mean(axis=(1, 2, 3))
    straight = float(np.corrcoef(x, y)[0, 1] ** 2)
    accuracy = data.accuracy.values
    missed = int((accuracy < 0.95).sum())
    claims = [
        Claim("growth is roughly linear in sigma_w (r^2 > 0.9)", straight > 0.9,
              f"r^2 = {straight:.3f} over {x.size} scales"),
        Claim("all networks have more than 95 % test accuracy", missed == 0,
              f"{accuracy.size - missed} of {accuracy.size}, least {100 * accuracy.min():.1f} %"),
    ]  # fmt: skip
    by_network, by_line = trained.mean(axis=(0, 3)), trained.mean(axis=(0, 1)).T  # (_, kind)
    between = "growth is larger between classes than within one"
    claims += [
        claim_positive(f"{between}, on these lines", by_network[:, 1] - by_network[:, 0]),
        claim_positive(
            f"{between}, in these networks", by_line[:, 1] - by_line[:, 0], of="pairs of lines"
        ),
    ]
    lines = trained.mean(axis=0).reshape(trained.shape[1], -1)  # (network, line)
    # Half of the networks say which lines grow most and least; the others how much.
    order = np.argsort(lines[::2].mean(axis=0))
    gap = lines[1::2][:, order[-1]] - lines[1::2][:, order[0]]
    claims.append(claim_positive("in trained networks growth depends on the line", gap))
    spread = {name: _spread(data[name].values) for name in ("trained", "random")}
    least = min(a / b for a, b in zip(spread["trained"], spread["random"], strict=True))
    claims.append(
        Claim(
            "and far less in random ones (spread over lines less than half)",
            least > 2,
            f"spread in trained over that in random networks at least {least:.2f}",
        )
    )
    numbers = {
        "sigma_before": data.sigma.values,
        "sigma_after": x,
        "growth_trained": y,
        "growth_random": random.mean(axis=(1, 2, 3)),
        "growth_one_class": trained[:, :, 0].mean(axis=(1, 2)),
        "growth_two_classes": trained[:, :, 1].mean(axis=(1, 2)),
        "standard_deviation_over_lines_over_mean": spread,
        "accuracy": accuracy.mean(axis=1),
        "least_accuracy": accuracy.min(axis=1),
        "below_95_percent": missed,
    }
    law = [
        np.mean([theory.gaussian_growth(float(s), config.width) for s in scales[1:]])
        for scales in data.scales.values
    ]
    # The lines of one network share its weights: a mean over them is one number.
    mean = Estimate.of(random.mean(axis=(2, 3)).T, "growth")
    exact = verdict(
        mean, law, law, "random networks: growth is that of their law", axis="scale no."
    )
    return Findings([exact], claims, numbers)


def _spread(growth: np.ndarray) -> list[float]:
    """Standard deviation over lines of the mean over networks, over the mean; by scale."""
    lines = growth.mean(axis=1).reshape(len(growth), -1)
    return [float(x) for x in lines.std(axis=1, ddof=1) / lines.mean(axis=1)]


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw growth against the scale after training."""
    figure, ax = plt.subplots(figsize=(8.2, 4.6))
    x = data.after.values.mean(axis=1)
    if config.view == "classes":
        for i, kind in enumerate(_KINDS):
            for name, marker, line in (("trained", "o", "-"), ("random", "s", "--")):
                mean = Estimate.of(data[name].values[:, :, i].mean(axis=2).T)
                style: Any = {"marker": marker, "linestyle": line, "color": plotting.COLOURS[i]}
                label = f"{name}, lines {('within', 'between')[i]} {kind}"
                plotting.curve_with_interval(x, mean, ax=ax, label=label, **style)
    else:
        _lines(ax, x, data)
    ax.set(xlabel="sigma_w after training (mean of layers 2 on)", ylabel="growth factor a layer")
    ax.legend()
    accuracy = data.accuracy.values
    many = config.view == "paths" and data.line.size > _FEW
    over = "means over them, a line each" if many else "95 % intervals over them"
    reached = f"{(accuracy >= 0.95).sum()} of {accuracy.size} above 95 % test accuracy"
    return figure, f"of each scale, {over}; {reached}"


def _lines(ax: Any, x: np.ndarray, data: xr.Dataset) -> None:
    """Draw each line's growth; intervals where there is room for them."""
    for i, kind in enumerate(_KINDS):
        where = ("within one class", "between two classes")[i]
        for name, dashes in (("trained", "-"), ("random", ":")):
            lines = data[name].sel(kind=kind).values
            for j in range(lines.shape[2]):
                mean = Estimate.of(lines[:, :, j].T)
                label = f"trained, {where}" if name == "trained" else "random" if i == 0 else ""
                style: Any = {
                    "color": plotting.COLOURS[i] if name == "trained" else "black",
                    "linestyle": dashes,
                    "linewidth": 0.8,
                    "label": label if j == 0 else "",
                }
                if lines.shape[2] > _FEW:
                    ax.plot(x, mean.mean, alpha=0.6, **style)
                else:
                    plotting.curve_with_interval(x, mean, ax=ax, **style)
