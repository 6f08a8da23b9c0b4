"""The sawtooth of Telgarsky, exact and with noise on its weights.

Hanin & Rolnick 2019, figure 3: a network of d layers of 2 units has 2^d linear pieces, and slight
noise on its weights and biases destroys most of them. Shown beside it: how many pieces survive at
each size of the noise, counted exactly over many networks. Very small noise adds pieces: where a
tooth ends at 0, the next layer touches its boundary without crossing it, and any shift makes it
cross or miss.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import Estimate, curves, exact, plotting, results, theory, verdict
from sims.config import Sampled
from sims.findings import Claim, Fact, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Sampled):
    """The sawtooth, exact and with noise on its weights and biases."""

    depth: int = 6
    """Layers of 2 units."""
    noise: float = 0.1**0.5
    """Standard deviation of the noise of the drawn network."""
    scales: tuple[float, ...] = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.1**0.5)
    """Noises over which pieces are counted."""
    shown: int = 0
    """Number of the noisy network that is drawn."""


_LINE = curves.line(np.zeros(1), np.ones(1))


def _joints(built: exact.Construction, params: Any, t: np.ndarray) -> np.ndarray:
    """Breakpoints and the values of the network's output there: its graph on [0, 1]."""
    z = t[:, None]
    for W, b in params:
        z = np.maximum(z @ W + b, 0)
    assert built.readout is not None
    return np.asarray((z @ built.readout[0] + built.readout[1])[:, 0])


def _pieces(t: np.ndarray, y: np.ndarray) -> int:
    """Linear pieces of a graph: runs of equal slope."""
    slope = np.diff(y) / np.diff(t)
    scale = np.abs(slope).max(initial=1e-300)
    return 1 + int((np.abs(np.diff(slope)) > 1e-9 * scale).sum())


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return both graphs, and numbers of linear pieces by noise."""
    built = exact.sawtooth(config.depth)
    t = exact.pieces(built.params, _LINE).breakpoints
    drawn = exact.noisy(built, config.noise, np.random.default_rng([config.seed, config.shown]))
    s = exact.pieces(drawn, _LINE).breakpoints
    samples = np.empty((config.draws, len(config.scales)))
    for column, scale in enumerate(config.scales):
        nets = [
            exact.noisy(built, scale, np.random.default_rng([config.seed, 1, i]))
            for i in range(config.draws)
        ]
        stacked = tuple(
            (np.stack([net[i][0] for net in nets]), np.stack([net[i][1] for net in nets]))
            for i in range(config.depth)
        )
        pieces = exact.pieces_batch(stacked, [_LINE] * config.draws)
        for i, (one, net) in enumerate(zip(pieces, nets, strict=True)):
            samples[i, column] = _pieces(one.breakpoints, _joints(built, net, one.breakpoints))
        run.note(f"noise {scale:g}: {samples[:, column].mean():.1f} pieces")
    estimates = {"pieces": Estimate.of(samples, "pieces")}
    data = results.dataset(estimates).rename(layer="noise").assign_coords(noise=list(config.scales))
    data["t"], data["y"] = (("joint",), t), (("joint",), _joints(built, built.params, t))
    data["t_noisy"] = (("noisy_joint",), s)
    data["y_noisy"] = (("noisy_joint",), _joints(built, drawn, s))
    return data


def check(data: xr.Dataset, config: Config) -> Findings:
    """Hold the exact count against 2^depth; look for the collapse."""
    depth = config.depth
    exactly = _pieces(data.t.values, data.y.values)
    noisy = _pieces(data.t_noisy.values, data.y_noisy.values)
    pieces = results.estimate_of(data, "pieces")
    most = theory.line_upper((1, *(2,) * depth))
    full = theory.telgarsky2015_lower(depth)
    facts = [
        Fact(f"{depth} layers of 2 units make 2^{depth} pieces", exactly == full, f"{exactly}"),
    ]
    verdicts = [
        verdict(pieces, upper=float(most), name="pieces <= (2 + 1)^depth", axis="noise no."),
    ]
    last = float(data.noise[-1])
    claims = [
        Claim(
            "noise destroys most pieces",
            pieces.mean[-1] < 0.5 * full,
            f"{pieces.mean[-1]:.1f} of {full} at noise {last:g}",
        ),
        Claim(
            "the drawn network has lost more than half",
            noisy < 0.5 * full,
            f"{noisy} of {full} at noise {config.noise:g}",
        ),
    ]
    numbers = {"noise": data.noise.values, "pieces": pieces.mean, "error": pieces.sem}
    return Findings(verdicts, claims, numbers | {"exact": exactly, "drawn": noisy}, facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the two graphs, and below them the pieces that survive."""
    figure = plt.figure(figsize=(8, 5.6))
    grid = figure.add_gridspec(2, 2)
    noisy = f"noise {config.noise:g}"
    for column, (suffix, title) in enumerate((("", "exact"), ("_noisy", noisy))):
        ax = figure.add_subplot(grid[0, column])
        t, y = data[f"t{suffix}"].values, data[f"y{suffix}"].values
        ax.plot(t, y, color=plotting.COLOURS[column], linewidth=1.1)
        ax.plot(t, y, ".", color="black", markersize=3)
        ax.set_title(f"{title}: {_pieces(t, y)} linear pieces", fontsize=9)
        ax.set_xlabel("x")
    ax = figure.add_subplot(grid[1, :])
    pieces = results.estimate_of(data, "pieces")
    plotting.curve_with_interval(data.noise.values, pieces, ax=ax, color=plotting.COLOURS[1])
    full = 2**config.depth
    ax.axhline(full, color="black", linestyle="--", linewidth=1)
    ax.annotate(f"{full}", (float(data.noise[-1]), full), (0, 4), textcoords="offset points")
    ax.set(xscale="log", ylim=(0, 1.15 * full))
    ax.set(xlabel="standard deviation of the noise", ylabel="linear pieces on [0, 1]")
    return figure, ""
