"""Presets of experiments of our own."""

from __future__ import annotations

import dataclasses
from typing import Literal

from sims.presets.base import Simulation, sized
from sims.presets.trained import Pruned


@dataclasses.dataclass(frozen=True)
class Phase:
    """The phase diagram of mean field, and finite networks along one row of it."""

    activation: Literal["tanh", "erf", "hard_tanh"] = "tanh"
    """Activation, smooth or not; bounded."""
    sigma_w: tuple[float, float] = (0.5, 4.0)
    """From and to, horizontally."""
    sigma_b: tuple[float, float] = (0.01, 2.0)
    """From and to, vertically."""
    cells: int = 60
    """Cells of the diagram in each direction."""
    row: float = 0.3
    """sigma_b of the measured networks."""
    measured: int = 15
    """How many sigma_w are measured."""
    widths: tuple[int, ...] = (16, 64, 512)
    """Widths of the measured networks."""
    depth: int = 12
    """Layers."""
    draws: int = 100
    """Networks of each width."""
    points: int = 8
    """Tangents."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Counted:
    """Counted and expected transitions on an arc."""

    widths: tuple[int, ...] = (16, 128, 512)
    """Widths."""
    depth: int = 4
    """Layers."""
    dimension: int = 16
    """Input dimension."""
    sigma_relu: float = 1.5
    """Scale of the weights of ReLU networks."""
    sigma_hard: float = 2.5
    """Scale of the weights of hard-tanh networks."""
    sigma_b: float = 0.3
    """Scale of the biases."""
    units: int = 40_000
    """Networks times width."""
    least: int = 120
    """Networks of each width, at least."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Grids:
    """A circle through hard-tanh networks, exactly and on a grid."""

    width: int = 32
    """Units in each layer, and dimension of the input; |x|^2 is the same number."""
    depth: int = 8
    """Layers."""
    sigma_w: float = 8.0
    """Scale of the weights."""
    points: int = 1001
    """Points of the grid."""
    within: float = 0.01
    """Share of the transitions that a grid may miss."""
    max_points: int = 2**19 + 1
    """Of the finest grid that is tried."""
    looked_at: int = 5
    """Networks for which the grid that is needed is sought."""
    draws: int = 40
    """Networks."""
    seed: int = 0
    """Seed of everything random."""


FIGURES = {
    "own_phase_diagram": Simulation(
        "order and chaos: mean field beside finite networks",
        "phase",
        sized(
            Phase(),
            {"cells": 12, "measured": 8, "widths": (16, 128), "depth": 8, "draws": 100},
            {},
            {"draws": 2000, "widths": (16, 64, 512, 4096), "measured": 30},
        ),
    ),
    "own_grids": Simulation(
        "what a grid does not see: hard-tanh, sigma_w = 8",
        "grids",
        sized(
            Grids(),
            {"width": 16, "depth": 4, "points": 129, "draws": 20, "looked_at": 2},
            {},
            {"draws": 1000, "looked_at": 50},
        ),
    ),
    "own_kac_rice": Simulation(
        "transitions counted exactly, and expected given the layers below",
        "counted",
        sized(
            Counted(),
            {"widths": (16,), "depth": 2, "units": 4000, "least": 100},
            {},
            {"units": 10_000_000, "widths": (16, 32, 64, 128, 256, 512), "depth": 6},
        ),
    ),
    "own_pruned_growth": Simulation(
        "growth in trained sparse networks, by density and by how they became sparse",
        "pruned",
        sized(
            Pruned(),
            {
                "data": "digits",
                "densities": (0.3, 1.0),
                "width": 16,
                "depth": 3,
                "draws": 6,
                "epochs": 6,
                "lines": 3,
                "batch": 64,
            },
            {},
            {"epochs": 30.0, "lines": 50, "draws": 20},
            {
                "epochs": 20.0,
                "lines": 50,
                "draws": 20,
                "densities": (0.1, 0.2, 0.35, 0.5, 0.75, 1.0),
            },
        ),
    ),
}
