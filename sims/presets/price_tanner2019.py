"""Presets of Price & Tanner 2019."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from sims.presets.base import Data, Simulation, sized
from sims.presets.trained import GrowthInTraining


@dataclasses.dataclass(frozen=True)
class Circle:
    """A circle through one network, and the growth of its length over many."""

    activation: Literal["relu", "tanh", "hard_tanh"] = "relu"
    """The activation."""
    shown: tuple[int, ...] = ()
    """Layers that are drawn, 0 the input; by default the input, half way, and the last."""
    width: int = 784
    """Units in each layer."""
    depth: int = 12
    """Number of layers."""
    sigma_w: float = 2.0
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    points: int = 2000
    """Points of the drawn curve."""
    draws: int = 200
    """Networks for the growth of the length."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Length of a line at every layer, for several densities."""

    data: Data = "digits"
    """Where the end points come from: two examples, normalised to length 1."""
    indices: tuple[int, int] = (100, 1000)
    """Which two examples (the papers' 101st and 1001st)."""
    width: int = 0
    """Units in each layer; 0 takes the input's dimension."""
    depth: int = 12
    """Number of layers."""
    sigma_w: float = 6.0
    """Standard deviation of the non-zero weights."""
    densities: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """Shares of weights that are not zero."""
    draws: int = 100
    """Networks."""
    method: Literal["tangent", "grid"] = "tangent"
    """Derivatives at midpoints, or the paper's polyline."""
    points: int = 30
    """Midpoints, or points of the polyline."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Growth:
    """Growth against sigma_w or against density, for three laws of the weights."""

    data: Data = "digits"
    """Where the end points come from: two examples, or two random points, of length 1."""
    indices: tuple[int, int] = (100, 1000)
    """Which two examples (the papers' 101st and 1001st)."""
    dimension: int = 500
    """Dimension of the random points (data="random")."""
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
    draws: int = 100
    """Networks for each law."""
    method: Literal["tangent", "grid"] = "tangent"
    """Derivatives at midpoints, or the paper's polyline."""
    points: int = 12
    """Midpoints, or points of the polyline."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class SubVector:
    """Norm of a random part of a fixed vector, against the share of entries that is kept."""

    vector: Literal["sphere", "first"] = "sphere"
    """Uniform on the unit sphere, or one entry 1 and the rest 0."""
    dimensions: tuple[int, ...] = (5, 50, 500)
    """Dimensions of the vector."""
    densities: tuple[float, ...] = (
        0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5,
        0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0,
    )  # fmt: skip
    """Shares of entries that are kept."""
    draws: int = 4000
    """Random parts."""
    seed: int = 0
    """Seed of everything random."""


def _growth(**fixed: Any) -> dict[str, Any]:
    few = {"limits": (1, 3, 7), "densities": (0.2, 0.5, 1.0)}
    smoke = {"depth": 3, "draws": 400, "dimension": 48, "planes": 5, "points": 6, **few}
    paper = {"method": "grid", "points": 10_000, "draws": 100}
    return sized(Growth(**fixed), smoke, {}, paper)


def _trained(view: Literal["classes", "paths"]) -> dict[str, Any]:
    return sized(
        GrowthInTraining(view=view),
        {"data": "digits", "sigmas": (1.0, 2.0), "width": 16, "depth": 4, "draws": 20,
         "epochs": 6, "lines": 3, "batch": 64},
        {},
        {"epochs": 60.0, "lines": 50, "draws": 50},
        {"lines": 50, "draws": 20},
    )  # fmt: skip


_RANDOM = {"data": "random"}

FIGURES = {
    "price_tanner2019_fig1": Simulation(
        "a circle through a ReLU network, seen in two dimensions",
        "circle",
        sized(
            Circle(), {"width": 32, "depth": 6, "points": 200, "draws": 400}, {}, {"draws": 1000}
        ),
    ),
    "price_tanner2019_fig2": Simulation(
        "length of a line at each layer, densities 0.1 to 0.9, sigma_w = 6",
        "lengths",
        sized(
            Lengths(),
            {"depth": 4, "draws": 400, "densities": (0.3, 0.9)},
            {},
            {"method": "grid", "points": 10_000},
        ),
    ),
    "price_tanner2019_fig3a": Simulation(
        "growth against sigma_w at density 0.5, three laws", "growth", _growth(vary="sigma")
    ),
    "price_tanner2019_fig3b": Simulation(
        "growth against density at sigma_w = 2, three laws", "growth", _growth(vary="density")
    ),
    "price_tanner2019_fig4a": Simulation(
        "norm of a random part of a vector on the sphere",
        "subvector",
        sized(SubVector(), {"draws": 200, "dimensions": (5, 50)}, {}, {"draws": 100_000}),
    ),
    "price_tanner2019_fig4b": Simulation(
        "norm of a random part of a vector with one entry",
        "subvector",
        sized(
            SubVector(vector="first"), {"draws": 200, "dimensions": (5, 50)}, {}, {"draws": 100_000}
        ),
    ),
    "price_tanner2019_fig5a": Simulation(
        "as 3a, a line between random points of R^500", "growth", _growth(vary="sigma", **_RANDOM)
    ),
    "price_tanner2019_fig5b": Simulation(
        "as 3b, a line between random points of R^500", "growth", _growth(vary="density", **_RANDOM)
    ),
    "price_tanner2019_fig5c": Simulation(
        "as 3a, semicircles in 100 planes of R^500",
        "growth",
        _growth(vary="sigma", curve="semicircles", **_RANDOM),
    ),
    "price_tanner2019_fig5d": Simulation(
        "as 3b, semicircles in 100 planes of R^500",
        "growth",
        _growth(vary="density", curve="semicircles", **_RANDOM),
    ),
    "price_tanner2019_fig6a": Simulation(
        "growth in trained networks: lines within classes and between them",
        "growth_in_training",
        _trained("classes"),
    ),
    "price_tanner2019_fig6b": Simulation(
        "growth in trained networks, line by line", "growth_in_training", _trained("paths")
    ),
}
