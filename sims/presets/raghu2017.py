"""Presets of Raghu et al. 2017."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from sims.presets.base import Data, Planes, Simulation, sized
from sims.presets.price_tanner2019 import Circle
from sims.presets.trained import ConvTraining, OneLayer


@dataclasses.dataclass(frozen=True)
class Transitions:
    """Transitions of a unit by width, scale and depth, on an arc between two images."""

    data: Data = "digits"
    """Where the end points come from: two examples, or two random points, with |x|^2 = n."""
    indices: tuple[int, int] = (100, 1000)
    """Which two examples."""
    dimension: int = 100
    """Dimension of random points (data="random")."""
    cells: tuple[tuple[int, float], ...] = (
        (50, 10), (100, 8), (500, 5), (700, 5), (700, 10), (1000, 10), (1000, 16),
    )  # fmt: skip
    """Width and sigma_w^2 of the networks in the left pane."""
    widths: tuple[int, ...] = (50, 100, 300, 500, 700, 1000)
    """Widths of the right pane."""
    scales: tuple[float, ...] = (5, 8, 10)
    """sigma_w^2 of the right pane."""
    layers: tuple[int, ...] = (2, 4, 8, 12)
    """Layers of the right pane."""
    depth: int = 14
    """Layers."""
    counted: tuple[tuple[int, float], ...] = ((50, 10), (100, 8))
    """Width and sigma_w^2 of the hard-tanh networks whose transitions are counted exactly."""
    counted_depth: int = 5
    """Their depth."""
    draws: int = 30
    """Networks of each kind."""
    points: int = 40
    """Tangents, at which the expected number is taken."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Trajectories:
    """Length and growth of a trajectory by width, scale and layer."""

    data: Data = "random"
    """Where the end points come from: two random points (a circle), or two examples (an arc)."""
    indices: tuple[int, int] = (100, 1000)
    """Which two examples."""
    dimension: int = 32
    """Dimension of random points."""
    activation: Literal["relu", "hard_tanh"] = "hard_tanh"
    """The activation."""
    widths: tuple[int, ...] = (32,)
    """Widths."""
    scales: tuple[float, ...] = (0.5, 1.0, 4.0, 16.0, 64.0)
    """sigma_w^2."""
    pairs: bool = False
    """Widths and scales go together, one by one; else every width has every scale."""
    sigma_b: float = 0.0
    """Scale of the biases."""
    depth: int = 12
    """Layers."""
    view: Literal["layer", "width", "scale"] = "layer"
    """What the horizontal axis is."""
    draws: int = 400
    """Networks of each width."""
    points: int = 16
    """Tangents."""
    narrow: int = 0
    """Widths up to this, where tangents are heavy-tailed, have more networks: `many`."""
    many: int = 2000
    """Networks of each narrow width."""
    exact: int = 0
    """Widths up to this are measured on exact pieces, which miss no stretch that moves."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Convolutions:
    """Length of an arc between two images in the conv net of the CIFAR-10 experiments."""

    data: Data = "digits"
    """Where the two images come from; |x|^2 = n."""
    indices: tuple[int, int] = (100, 1000)
    """Which two examples."""
    scales: tuple[float, ...] = (5, 8, 12, 16, 20, 32)
    """sigma_w^2."""
    sigma_b: float = 0.1
    """Scale of the biases."""
    features: tuple[int, int] = (16, 32)
    """Channels before and after the first pool."""
    dense: tuple[int, int] = (128, 64)
    """Units of the fully connected layers."""
    draws: int = 40
    """Networks."""
    points: int = 10
    """Tangents."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class ByLength:
    """Transitions against length on a circle, hard-tanh."""

    data: Data = "random"
    """Where the circle's plane comes from: two random points, or two examples."""
    indices: tuple[int, int] = (100, 1000)
    """Which two examples."""
    dimension: int = 64
    """Dimension of random points."""
    cells: tuple[tuple[int, float], ...] = (
        (32, 8), (32, 64), (128, 4), (128, 16), (512, 8), (512, 64),
    )  # fmt: skip
    """Width and sigma_w^2."""
    depth: int = 8
    """Layers."""
    draws: int = 100
    """Networks of each width."""
    points: int = 30
    """Tangents."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Labellings:
    """Labellings of points while the weights of a layer move on a great circle, hard-tanh."""

    inputs: int = 15
    """Points that are labelled."""
    dimension: int = 64
    """Dimension of the points, random with |x|^2 = n."""
    widths: tuple[int, ...] = (2, 8, 32, 128)
    """Widths."""
    scale: float = 8.0
    """sigma_w^2."""
    depth: int = 12
    """Layers."""
    swept: tuple[int, ...] = (1,)
    """Layers whose weights move, one at a time."""
    readouts: int = 4
    """Units of each layer whose signs are labels."""
    method: Literal["exact", "grid"] = "grid"
    """Every flip, or a grid that is doubled."""
    points: int = 4097
    """Points of the grid at first."""
    refine: float = 0.04
    """The grid is doubled until counts move by less than this."""
    max_points: int = 2**16 + 1
    """Or until it has so many points."""
    view: Literal["depth", "width", "flips"] = "depth"
    """What the horizontal axis is."""
    draws: int = 10
    """Networks of each width."""
    seed: int = 0
    """Seed of everything random."""


_PANES: dict[str, dict[str, Any]] = {
    "a": {"scales": (0.5, 1.0, 4.0, 16.0, 64.0), "widths": (32,)},
    "b": {"scales": (4.0,), "widths": (1, 4, 16, 64, 256)},
    "c": {
        "scales": (1.0, 16.0, 64.0),
        "widths": (8, 16, 32, 64, 128, 256, 512),
        "draws": 120,  # of which exact pieces at width 8 take a second each
        "view": "width",
        "narrow": 32,
        "exact": 8,
    },
    "d": {
        "scales": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0),
        "widths": (2, 32, 512),
        "view": "scale",
        "narrow": 32,
        "exact": 2,
    },
}
_SEEN = {
    "a": "length at each layer by sigma_w^2, hard-tanh, k = 32",
    "b": "length at each layer by width, hard-tanh, sigma_w^2 = 4",
    "c": "growth against width, hard-tanh",
    "d": "growth against sigma_w^2, hard-tanh",
}
_PAIRS: dict[str, Any] = {
    "activation": "relu",
    "pairs": True,
    "data": "digits",
    "widths": (50, 1000, 50, 500, 100, 700, 300, 700),
    "scales": (3, 3, 5, 5, 8, 8, 10, 10),
    "depth": 14,
    "draws": 100,
}
_FEW: dict[str, Any] = {"widths": (4, 8), "depth": 3, "draws": 3, "points": 65}


def _pane(name: str) -> Simulation:
    base = Trajectories(**_PANES[name])
    few = {"widths": base.widths[:2], "depth": 3, "draws": 100, "many": 100, "dimension": 16}
    return Simulation(
        _SEEN[name], "trajectories", sized(base, few, {}, {"draws": 5000, "many": 20_000})
    )


def _labellings(
    title: str,
    smoke: dict[str, Any],
    paper: dict[str, Any],
    cpu: dict[str, Any] | None = None,
    **fixed: Any,
) -> Simulation:
    base = Labellings(**fixed)
    finer = {"refine": 0.01, "max_points": 2**18 + 1, "draws": 50}
    return Simulation(title, "labellings", sized(base, _FEW | smoke, {}, finer | paper, cpu))


def _learning(title: str, **fixed: Any) -> Simulation:
    base = ConvTraining(**fixed)
    brief = {"data": "digits", "features": (4, 8), "dense": (16, 8), "width": 16, "depth": 3,
             "examples": 600, "tested": 200, "epochs": 4, "batch": 64, "records": 4, "points": 20,
             "magnitudes": (0.0, 0.5, 2.0), "draws": 3}  # fmt: skip
    whole = {"examples": 0, "tested": 0, "points": 1000, "draws": 5}
    paper = {"features": (32, 64), "dense": (384, 192), "epochs": 200.0}
    cpu = (
        {"examples": 0, "tested": 0, "epochs": 10.0, "draws": 20}
        if base.network == "mlp"
        else {"examples": 20_000, "tested": 2_000, "epochs": 4.0, "draws": 6}
    )
    return Simulation(title, "convolutions_in_training", sized(base, brief, {}, whole | paper, cpu))


_WIDE = {"widths": (2, 8, 32, 128, 512), "depth": 18}

FIGURES = {
    "raghu2017_fig1": Simulation(
        "regions of a 2-4-4-4 ReLU network, layer by layer",
        "planes",
        sized(
            Planes(widths=(4, 4, 4), sigma_w=2.0, sigma_b=0.5, shown=11),
            {"draws": 100},
            {},
            {"draws": 10_000},
        ),
    ),
    "raghu2017_fig2": Simulation(
        "transitions of a unit against depth and width, hard-tanh and tanh",
        "transitions",
        sized(
            Transitions(),
            {
                "cells": ((8, 10), (16, 5)),
                "widths": (8, 16, 32),
                "scales": (5, 10),
                "layers": (2, 3),
                "depth": 4,
                "counted": ((8, 10),),
                "counted_depth": 2,
                "draws": 100,
                "points": 20,
            },
            {},
            {"draws": 1000, "counted_depth": 8},
        ),
    ),
    "raghu2017_fig3": Simulation(
        "a circle through a tanh network, layer by layer",
        "circle",
        sized(
            Circle(
                activation="tanh",
                width=100,
                depth=7,
                sigma_w=2.0,
                shown=(0, 1, 2, 3, 4, 5, 6, 7),
                points=4000,
            ),
            {"width": 64, "depth": 3, "points": 200, "shown": (0, 1, 3)},
            {},
            {"draws": 10_000},
        ),
    ),
    "raghu2017_fig4": Simulation(
        "length in an untrained convolutional network, by sigma_w^2",
        "convolutions",
        sized(
            Convolutions(),
            {"features": (4, 8), "dense": (16, 8), "draws": 60, "scales": (5, 16), "points": 3},
            {},
            {"features": (32, 64), "dense": (384, 192), "draws": 200, "points": 30},
        ),
    ),
    "raghu2017_fig5": Simulation(
        "transitions against length, hard-tanh",
        "by_length",
        sized(
            ByLength(),
            {"cells": ((32, 8), (32, 64)), "depth": 3, "dimension": 16},
            {},
            {"draws": 5000, "depth": 12},
        ),
    ),
    "raghu2017_fig12": Simulation(
        "length at each layer by width and sigma_w^2, ReLU",
        "trajectories",
        sized(
            Trajectories(**_PAIRS),
            {"widths": (16, 32), "scales": (3, 5), "depth": 3},
            {},
            {"draws": 5000},
        ),
    ),
    **{f"raghu2017_fig13{name}": _pane(name) for name in _PANES},
    "raghu2017_fig14a": _labellings("labellings against remaining depth, by width", {}, _WIDE),
    "raghu2017_fig14b": _labellings(
        "labellings against width, by remaining depth", {}, _WIDE, view="width"
    ),
    "raghu2017_fig15": _labellings(
        "labellings against remaining depth, by the layer swept",
        {"widths": (8,), "depth": 4, "swept": (1, 2)},
        {"widths": (128,), "depth": 16},
        widths=(64,),
        swept=(1, 3, 5, 7),
    ),
    "raghu2017_fig16": _labellings(
        "labellings against flips, beside the random walk",
        {},
        _WIDE,
        {
            "widths": (8, 32, 128),
            "scale": 64.0,
            "depth": 11,
            "points": 2**20 + 1,
            "max_points": 2**20 + 1,
            "draws": 3,
        },
        view="flips",
        scale=16.0,
        depth=9,
    ),
    "raghu2017_fig7": Simulation(
        "training exactly one layer: accuracy by the layer, MNIST",
        "one_layer",
        sized(
            OneLayer(),
            {"data": "digits", "examples": 0, "width": 16, "depth": 4, "epochs": 15, "batch": 64},
            {},
            {"examples": 0, "epochs": 500.0, "draws": 10},
            {"examples": 0, "epochs": 30.0},
        ),
    ),
    "raghu2017_fig17": Simulation(
        "training exactly one layer: accuracy by the layer, CIFAR-10",
        "one_layer",
        sized(
            OneLayer(data="cifar10", width=200, depth=8, epochs=6.0, draws=3),
            {"data": "digits", "examples": 0, "width": 16, "depth": 4, "epochs": 15, "batch": 64},
            {},
            {"examples": 0, "epochs": 500.0, "draws": 10},
            {"examples": 20_000, "epochs": 20.0},
        ),
    ),
    "raghu2017_fig6": _learning(
        "noise on one layer of a trained convolutional network: accuracy by the layer", view="noise"
    ),
    "raghu2017_fig8": _learning("length of a circle in a convolutional network, through training"),
    "raghu2017_fig9": _learning(
        "scales of the weights of a convolutional network, through training", view="scale"
    ),
    "raghu2017_fig10": _learning(
        "length of a circle in a convolutional network with batch norm, through training",
        norm="batch",
    ),
    "raghu2017_fig11": _learning(
        "trajectory regularisation, batch norm, and neither, through training", view="compare"
    ),
    "raghu2017_fig18": _learning(
        "length of a circle in a fully connected network, through training",
        data="mnist",
        network="mlp",
        activation="hard_tanh",
        examples=0,
        tested=0,
        epochs=3.0,
        draws=10,
    ),
}
