"""Presets of Hanin & Rolnick 2019: their initialisation, He weights and biases N(0, 1e-6)."""

from __future__ import annotations

import dataclasses
from typing import Literal

from sims.presets.base import Data, Planes, Simulation, sized
from sims.presets.trained import HistogramInTraining, InTraining, PlanesInTraining

_HE, _TINY = 2**0.5, 1e-3


@dataclasses.dataclass(frozen=True)
class Sawtooth:
    """The sawtooth, exact and with noise on its weights and biases."""

    depth: int = 6
    """Layers of 2 units."""
    noise: float = 0.1**0.5
    """Standard deviation of the noise of the drawn network."""
    scales: tuple[float, ...] = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.1**0.5)
    """Noises over which pieces are counted."""
    draws: int = 2000
    """Noisy networks for each scale."""
    shown: int = 0
    """Number of the noisy network that is drawn."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Graph:
    """A network of one input: its graph, and the pieces of many, by architecture."""

    widths: tuple[int, ...] = (16, 16, 16)
    """Units in each hidden layer of the drawn network."""
    architectures: tuple[str, ...] = ("1x12", "1x24", "1x48", "2x12", "4x6", "2x24", "4x12", "6x8")
    """Layers x units of the networks that are counted."""
    sigma_w: float = _HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = 0.3
    """Standard deviation of the biases."""
    half_width: float = 1.0
    """Pieces are counted on [-half_width, half_width]."""
    draws: int = 5000
    """Networks of each architecture."""
    shown: int = 0
    """Number of the network that is drawn."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Initial:
    """Regions along lines, or distances to boundaries, at initialisation, by architecture."""

    what: Literal["lines", "distances"] = "lines"
    """Regions along whole lines through the origin and an example, or distances of points with the
    examples' mean and variance to the nearest boundary."""
    data: Data = "digits"
    """The examples."""
    architectures: tuple[str, ...] = (
        "1x64", "2x16", "2x32", "2x64", "3x32", "4x16", "4x32", "4x64", "6x16", "6x32", "8x16",
    )  # fmt: skip
    """Layers x units."""
    sigma_w: float = _HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = _TINY
    """Standard deviation of the biases."""
    draws: int = 1000
    """Networks of each architecture, each with its own line or its own points."""
    points: int = 100
    """Points for each network (distances)."""
    seed: int = 0
    """Seed of everything random."""


_FEW = {"architectures": ("1x16", "2x8"), "draws": 150}
_BRIEF = {"data": "digits", "draws": 4, "batch": 64, "epochs": 3}

FIGURES = {
    "hanin_rolnick2019_fig1": Simulation(
        "regions of a network of three layers of 64, in a plane through three examples",
        "planes",
        sized(
            Planes(
                data="digits",
                widths=(64, 64, 64),
                sigma_b=_TINY,
                panes=False,
                volume=False,
                draws=100,
            ),
            {"draws": 4, "widths": (16, 16, 16)},
            {},
            {"draws": 1000},
        ),
    ),
    "hanin_rolnick2019_fig2": Simulation(
        "regions of a network of two inputs, layer by layer",
        "planes",
        sized(
            Planes(widths=(16, 16, 16), sigma_b=0.4, draws=200),
            {"draws": 60, "widths": (8, 8, 8)},
            {},
            {"draws": 5000},
        ),
    ),
    "hanin_rolnick2019_fig3": Simulation(
        "the sawtooth, exact and with noise on its weights",
        "sawtooth",
        sized(
            Sawtooth(),
            {"draws": 200, "depth": 5, "scales": (1e-3, 0.1**0.5)},
            {},
            {"draws": 20_000},
        ),
    ),
    "hanin_rolnick2019_fig4": Simulation(
        "graph of a network of one input, and its pieces by architecture",
        "graph",
        sized(
            Graph(),
            {"draws": 400, "architectures": ("1x8", "2x4")},
            {},
            {"draws": 100_000},
        ),
    ),
    "hanin_rolnick2019_fig5": Simulation(
        "regions along lines through the origin and an example, through training",
        "in_training",
        sized(
            InTraining(),
            _BRIEF | {"architectures": ("2x8", "1x16"), "lines": 10, "records": 8},
            {},
            {"epochs": 40.0, "lines": 100, "draws": 20},
            {"epochs": 30.0, "lines": 100},
        ),
    ),
    "hanin_rolnick2019_fig6": Simulation(
        "distance to the nearest boundary, through training and against accuracy",
        "in_training",
        sized(
            InTraining(what="distances"),
            _BRIEF | {"architectures": ("2x8", "1x16"), "points": 30, "records": 8},
            {},
            {"epochs": 40.0, "points": 2000, "draws": 20},
            {"epochs": 30.0, "points": 500},
        ),
    ),
    "hanin_rolnick2019_fig7": Simulation(
        "histogram of distances to the nearest boundary, through training",
        "histogram",
        sized(
            HistogramInTraining(),
            _BRIEF | {"points": 100, "shown": (0.0, 1.0, 3.0)},
            {},
            {"epochs": 40.0, "shown": (0.0, 1.0, 10.0, 40.0), "points": 20_000},
            {"epochs": 30.0, "shown": (0.0, 1.0, 10.0, 30.0), "points": 10_000},
        ),
    ),
    "hanin_rolnick2019_fig8": Simulation(
        "regions in the plane of three examples, through training",
        "planes_in_training",
        sized(
            PlanesInTraining(),
            _BRIEF | {"widths": (8, 8), "records": 6},
            {},
            {"epochs": 40.0, "draws": 20},
            {"epochs": 30.0},
        ),
    ),
}

INITIAL = {
    "own_initial_regions": Simulation(
        "regions along lines through the origin and an example, at initialisation",
        "initial",
        sized(Initial(what="lines"), _FEW, {}, {"draws": 10_000}),
    ),
    "own_initial_distances": Simulation(
        "distance to the nearest boundary, at initialisation",
        "initial",
        sized(Initial(what="distances"), {**_FEW, "points": 20}, {}, {"draws": 10_000}),
    ),
}
