"""Hanin & Rolnick 2019: their initialisation is He weights and biases N(0, 1e-6)."""

from __future__ import annotations

from typing import Any

_BRIEF = {"data": "digits", "draws": 4, "batch": 64, "epochs": 3}

FIGURES: dict[str, dict[str, Any]] = {
    "hanin_rolnick2019_fig1": {
        "title": "regions of a network of three layers of 64, in a plane through three examples",
        "script": "regions.planes",
        "settings": {
            "data": "digits", "widths": (64, 64, 64), "sigma_b": 1e-3, "panes": False,
            "volume": False,
        },
        "smoke": {"draws": 4, "widths": (16, 16, 16)},
        "paper": {"draws": 1000},
    },
    "hanin_rolnick2019_fig2": {
        "title": "regions of a network of two inputs, layer by layer",
        "script": "regions.planes",
        "settings": {"widths": (16, 16, 16), "sigma_b": 0.4, "draws": 200},
        "smoke": {"draws": 60, "widths": (8, 8, 8)},
        "paper": {"draws": 5000},
    },
    "hanin_rolnick2019_fig3": {
        "title": "the sawtooth, exact and with noise on its weights",
        "script": "regions.sawtooth",
        "settings": {"draws": 2000},
        "smoke": {"draws": 200, "depth": 5, "scales": (1e-3, 0.1**0.5)},
        "paper": {"draws": 20_000},
    },
    "hanin_rolnick2019_fig4": {
        "title": "graph of a network of one input, and its pieces by architecture",
        "script": "regions.pieces_1d",
        "settings": {"draws": 5000},
        "smoke": {"draws": 400, "architectures": ("1x8", "2x4")},
        "paper": {"draws": 100_000},
    },
    "hanin_rolnick2019_fig5": {
        "title": "regions along lines through the origin and an example, through training",
        "script": "training.lines",
        "settings": {"draws": 10},
        "smoke": _BRIEF | {"architectures": ("2x8", "1x16"), "lines": 10, "records": 8},
        "cpu": {"epochs": 30.0, "lines": 100},
        "paper": {"epochs": 40.0, "lines": 100, "draws": 20},
    },
    "hanin_rolnick2019_fig6": {
        "title": "distance to the nearest boundary, through training and against accuracy",
        "script": "training.distances",
        "settings": {"draws": 10},
        "smoke": _BRIEF | {"architectures": ("2x8", "1x16"), "points": 30, "records": 8},
        "cpu": {"epochs": 30.0, "points": 500},
        "paper": {"epochs": 40.0, "points": 2000, "draws": 20},
    },
    "hanin_rolnick2019_fig7": {
        "title": "histogram of distances to the nearest boundary, through training",
        "script": "training.distance_histogram",
        "settings": {"draws": 20},
        "smoke": _BRIEF | {"points": 100, "shown": (0.0, 1.0, 3.0)},
        "cpu": {"epochs": 30.0, "shown": (0.0, 1.0, 10.0, 30.0), "points": 10_000},
        "paper": {"epochs": 40.0, "shown": (0.0, 1.0, 10.0, 40.0), "points": 20_000},
    },
    "hanin_rolnick2019_fig8": {
        "title": "regions in the plane of three examples, through training",
        "script": "training.planes",
        "settings": {"draws": 10},
        "smoke": _BRIEF | {"widths": (8, 8), "records": 6},
        "cpu": {"epochs": 30.0},
        "paper": {"epochs": 40.0, "draws": 20},
    },
}  # fmt: skip
