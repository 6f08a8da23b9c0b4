"""Raghu et al. 2017."""

from __future__ import annotations

from typing import Any

_WIDTHS = {"widths": (2, 8, 32, 128, 512), "depth": 18}
_FEW = {"widths": (4, 8), "depth": 3, "draws": 3, "points": 65}
_FINER = {"refine": 0.01, "max_points": 2**18 + 1, "draws": 50}
_ONE_LAYER = {"data": "digits", "examples": 0, "width": 16, "depth": 4, "epochs": 15, "batch": 64}


def _trajectories(title: str, **settings: Any) -> dict[str, Any]:
    shrunk = {"widths": settings["widths"][:2], "depth": 3, "draws": 100, "many": 100}
    return {
        "title": title,
        "script": "growth.trajectories",
        "settings": {"data": "random", "dimension": 32, "draws": 400} | settings,
        "smoke": shrunk | {"dimension": 16},
        "paper": {"draws": 5000, "many": 20_000},
    }


def _labellings(title: str, **entry: Any) -> dict[str, Any]:
    return {
        "title": title,
        "script": "labellings.great_circle",
        **entry,
        "settings": {"draws": 10} | entry.get("settings", {}),
        "smoke": _FEW | entry.get("smoke", {}),
        "paper": _FINER | entry.get("paper", _WIDTHS),
    }


def _learning(title: str, script: str, **settings: Any) -> dict[str, Any]:
    """An experiment with the convolutional network of the CIFAR-10 experiments."""
    brief = {"data": "digits", "features": (4, 8), "dense": (16, 8), "examples": 600,
             "tested": 200, "epochs": 4, "batch": 64, "records": 4, "points": 20,
             "draws": 3}  # fmt: skip
    return {
        "title": title,
        "script": script,
        "settings": {"data": "cifar10", "epochs": 2.0, "draws": 4} | settings,
        "smoke": brief,
        "cpu": {"examples": 20_000, "tested": 2_000, "epochs": 4.0, "draws": 6},
        "paper": {"examples": 0, "tested": 0, "points": 1000, "draws": 5,
                  "features": (32, 64), "dense": (384, 192), "epochs": 200.0},
    }  # fmt: skip


_NOISE = _learning(
    "noise on one layer of a trained convolutional network: accuracy by the layer", "training.noise"
)
_CONNECTED = _learning(
    "length of a circle in a fully connected network, through training",
    "training.length",
    data="mnist", network_type="mlp", activation="hard_tanh", examples=0, tested=0, epochs=3.0,
    draws=10,
)  # fmt: skip

FIGURES: dict[str, dict[str, Any]] = {
    "raghu2017_fig1": {
        "title": "regions of a 2-4-4-4 ReLU network, layer by layer",
        "script": "regions.planes",
        "settings": {"sigma_w": 2.0, "sigma_b": 0.5, "shown": 11, "draws": 500},
        "smoke": {"draws": 100},
        "paper": {"draws": 10_000},
    },
    "raghu2017_fig2": {
        "title": "transitions of a unit against depth and width, hard-tanh and tanh",
        "script": "transitions.depth_and_width",
        "settings": {"draws": 30},
        "smoke": {
            "cells": ((8, 10), (16, 5)), "widths": (8, 16, 32), "scales": (5, 10),
            "layers": (2, 3), "depth": 4, "counted": ((8, 10),), "counted_depth": 2, "draws": 100,
            "points": 20,
        },
        "paper": {"draws": 1000, "counted_depth": 8},
    },
    "raghu2017_fig3": {
        "title": "a circle through a tanh network, layer by layer",
        "script": "growth.circle",
        "settings": {
            "activation": "tanh", "width": 100, "depth": 7, "shown": (0, 1, 2, 3, 4, 5, 6, 7),
            "points": 4000, "draws": 200,
        },
        "smoke": {"width": 64, "depth": 3, "points": 200, "shown": (0, 1, 3)},
        "paper": {"draws": 10_000},
    },
    "raghu2017_fig4": {
        "title": "length in an untrained convolutional network, by sigma_w^2",
        "script": "growth.convolutions",
        "settings": {"draws": 40},
        "smoke": {
            "features": (4, 8), "dense": (16, 8), "draws": 60, "scales": (5, 16), "points": 3,
        },
        "paper": {"features": (32, 64), "dense": (384, 192), "draws": 200, "points": 30},
    },
    "raghu2017_fig5": {
        "title": "transitions against length, hard-tanh",
        "script": "transitions.against_length",
        "settings": {"data": "random", "dimension": 64},
        "smoke": {"cells": ((32, 8), (32, 64)), "depth": 3, "dimension": 16},
        "paper": {"draws": 5000, "depth": 12},
    },
    "raghu2017_fig12": _trajectories(
        "length at each layer by width and sigma_w^2, ReLU",
        data="digits", activation="relu", pairs=True, depth=14, draws=100,
        widths=(50, 1000, 50, 500, 100, 700, 300, 700), scales=(3, 3, 5, 5, 8, 8, 10, 10),
    )
    | {
        "smoke": {"widths": (16, 32), "scales": (3, 5), "depth": 3},
        "paper": {"draws": 5000},
    },
    "raghu2017_fig13a": _trajectories(
        "length at each layer by sigma_w^2, hard-tanh, k = 32", widths=(32,),
    ),
    "raghu2017_fig13b": _trajectories(
        "length at each layer by width, hard-tanh, sigma_w^2 = 4",
        scales=(4.0,), widths=(1, 4, 16, 64, 256),
    ),
    "raghu2017_fig13c": _trajectories(
        "growth against width, hard-tanh",
        scales=(1.0, 16.0, 64.0), widths=(8, 16, 32, 64, 128, 256, 512), view="width",
        draws=120,  # of which exact pieces at width 8 take a second each
        narrow=32, exact=8,
    ),
    "raghu2017_fig13d": _trajectories(
        "growth against sigma_w^2, hard-tanh",
        scales=(0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0), widths=(2, 32, 512), view="scale",
        narrow=32, exact=2,
    ),
    "raghu2017_fig14a": _labellings("labellings against remaining depth, by width"),
    "raghu2017_fig14b": _labellings(
        "labellings against width, by remaining depth", settings={"view": "width"}
    ),
    "raghu2017_fig15": _labellings(
        "labellings against remaining depth, by the layer swept",
        settings={"widths": (64,), "swept": (1, 3, 5, 7)},
        smoke={"widths": (8,), "depth": 4, "swept": (1, 2)},
        paper={"widths": (128,), "depth": 16},
    ),
    "raghu2017_fig16": _labellings(
        "labellings against flips, beside the random walk",
        settings={"view": "flips", "scale": 16.0, "depth": 9},
        cpu={
            "widths": (8, 32, 128), "scale": 64.0, "depth": 11, "points": 2**20 + 1,
            "max_points": 2**20 + 1, "draws": 3,
        },
    ),
    "raghu2017_fig7": {
        "title": "training exactly one layer: accuracy by the layer, MNIST",
        "script": "training.one_layer",
        "settings": {"epochs": 30.0, "draws": 5},
        "smoke": _ONE_LAYER,
        "cpu": {"examples": 0},
        "paper": {"examples": 0, "epochs": 500.0, "draws": 10},
    },
    "raghu2017_fig17": {
        "title": "training exactly one layer: accuracy by the layer, CIFAR-10",
        "script": "training.one_layer",
        "settings": {"data": "cifar10", "width": 200, "depth": 8, "epochs": 6.0, "draws": 3},
        "smoke": _ONE_LAYER,
        "cpu": {"examples": 20_000, "epochs": 20.0},
        "paper": {"examples": 0, "epochs": 500.0, "draws": 10},
    },
    "raghu2017_fig6": _NOISE | {"smoke": _NOISE["smoke"] | {"magnitudes": (0.0, 0.5, 2.0)}},
    "raghu2017_fig8": _learning(
        "length of a circle in a convolutional network, through training", "training.length"
    ),
    "raghu2017_fig9": _learning(
        "scales of the weights of a convolutional network, through training",
        "training.weight_scale",
    ),
    "raghu2017_fig10": _learning(
        "length of a circle in a convolutional network with batch norm, through training",
        "training.length",
        norm="batch",
    ),
    "raghu2017_fig11": _learning(
        "trajectory regularisation, batch norm, and neither, through training",
        "training.regularisers",
    ),
    "raghu2017_fig18": _CONNECTED
    | {
        "smoke": _CONNECTED["smoke"] | {"width": 16, "depth": 3},
        "cpu": {"examples": 0, "tested": 0, "epochs": 10.0, "draws": 20},
    },
}  # fmt: skip
