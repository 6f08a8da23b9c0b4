"""Length of a circular trajectory while a network is trained.

Raghu et al. 2017, figures 8 and 18: training lengthens the image of a circle, from sigma_w^2 = 2,
where it hardly grows at first. Figure 10: batch normalisation shortens it.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, ConvNet, Estimate, laws, plotting, theory, verdict
from sims.findings import Findings, claim_positive
from sims.running import Run
from sims.training import convnet


@dataclasses.dataclass(frozen=True)
class Config(convnet.ConvTraining):
    """Length of a circle at each stage of a network while it is trained."""

    norm: convnet.Norm = "none"
    """What follows c2, c5, fc1 and fc2 (or each layer of a fully connected network)."""
    network_type: Literal["conv", "mlp"] = "conv"
    """Convolutional, or fully connected."""
    width: int = 100
    """Units in each layer of a fully connected network."""
    depth: int = 8
    """Its layers."""
    activation: Literal["relu", "hard_tanh", "tanh"] = "relu"
    """Its activation; convolutional networks are ReLU."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the history of the networks, and the upper bound of their first lengths."""
    examples, test = convnet.standardised(config)
    shape = examples.images.shape[1:]
    widths = (int(np.prod(shape)), *(config.width,) * config.depth)
    mlp = MLP(widths, laws.Gaussian(config.scale**0.5), laws.Zero(), config.activation)
    net: MLP | ConvNet = mlp if config.network_type == "mlp" else config.network(shape)
    fit = convnet.trained(config, net, examples, test, run, config.norm)
    data = fit.dataset().rename(length_0="stage")
    data = data.assign_coords(stage=list(fit.last.model(0).names))
    relu = net.activation.name == "relu"
    factors = theory.per_layer(theory.second_moment_upper if relu else _lipschitz, net)
    data.attrs["input_length"] = convnet.circle(test, net).length()
    data["upper"] = (("depth",), data.attrs["input_length"] * np.cumprod(factors))
    return data


def _lipschitz(law: laws.Law, width: int, fan_in: int) -> np.ndarray:
    return theory.lipschitz_upper(law.std, width, fan_in)


def _stages(data: xr.Dataset) -> tuple[np.ndarray, list[str]]:
    """Lengths ``(record, network, stage)``, and names of the stages."""
    return data.length.transpose("record", "network", "stage").values, data.stage.values.tolist()


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the first lengths by their bound; look for longer ones after training."""
    length, names = _stages(data)
    # The bound is one of networks as their laws draw them: it ends where normalisation begins.
    norms = [i for i, name in enumerate(names) if name.startswith("bn")]
    drawn = [i for i, name in enumerate(names[: min(norms, default=None)])
             if not name.startswith("tr")]  # fmt: skip
    first, upper = Estimate.of(length[0][:, drawn], "length"), data.upper.values[: len(drawn)]
    verdicts = [verdict(first, upper=upper, name="at first: length <= composed upper bound")]
    ratio = np.log(np.maximum(length[-1], 1e-30) / np.maximum(length[0], 1e-30))
    claims = [
        claim_positive("training lengthens the trajectory in the last stage (log)", ratio[:, -1]),
        claim_positive("and on average over the stages (log)", ratio.mean(axis=1)),
    ]
    for record, name in (
        (-1, "normalisation shortens it, at the end (log, mean over these stages)"),
        (1, "and already at the first record of training"),
    ):
        if norms:
            shorter = [np.log(length[record][:, i - 1] / length[record][:, i]) for i in norms]
            claims.append(claim_positive(name, np.mean(shorter, axis=0)))
    numbers = {"stages": names, "length": length.mean(axis=1)}
    return Findings(verdicts, claims, numbers | convnet.numbers(data))


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the length at each stage, a line for each of six records."""
    figure, ax = plt.subplots(figsize=(8.8, 4.5))
    (length, names), epochs = _stages(data), data.epoch.values
    records = np.unique(np.round(np.linspace(0, len(epochs) - 1, 6)).astype(int))
    x, start = np.arange(len(names) + 1), float(data.attrs["input_length"])
    for j, i in enumerate(records):
        # The curve itself, whose length is known, and then the stages.
        lengths = np.c_[np.full(len(length[i]), start), length[i]]
        logs = Estimate.of(np.log(np.maximum(lengths, 1e-30)))
        colour = plt.get_cmap("rainbow_r")(j / max(len(records) - 1, 1))
        plotting.geometric_band(x, logs, ax=ax, label=f"epoch {epochs[i]:.3g}", color=colour)
    for at, name in enumerate(names, start=1):
        if name.startswith("bn"):
            ax.axvline(at, color="grey", linestyle=":", linewidth=1)
    ax.set(yscale="log", ylabel="trajectory length (geometric mean)")
    ax.set_xticks(x, ["in", *names])
    ax.legend(fontsize=8)
    return figure, convnet.details(data)
