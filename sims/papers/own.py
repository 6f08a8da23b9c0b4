"""Experiments beyond the papers."""

from __future__ import annotations

from typing import Any

_INITIAL: dict[str, Any] = {
    "settings": {"draws": 1000},
    "smoke": {"architectures": ("1x16", "2x8"), "draws": 150},
    "paper": {"draws": 10_000},
}

FIGURES: dict[str, dict[str, Any]] = {
    "own_phase_diagram": {
        "title": "order and chaos: mean field beside finite networks",
        "script": "growth.phase_diagram",
        "smoke": {"cells": 12, "measured": 8, "widths": (16, 128), "depth": 8, "draws": 100},
        "paper": {"draws": 2000, "widths": (16, 64, 512, 4096), "measured": 30},
    },
    "own_grids": {
        "title": "what a grid does not see: hard-tanh, sigma_w = 8",
        "script": "transitions.grid_error",
        "settings": {"draws": 40},
        "smoke": {"width": 16, "depth": 4, "points": 129, "draws": 20, "looked_at": 2},
        "paper": {"draws": 1000, "looked_at": 50},
    },
    "own_kac_rice": {
        "title": "transitions counted exactly, and expected given the layers below",
        "script": "transitions.kac_rice",
        "smoke": {"widths": (16,), "depth": 2, "units": 4000, "least": 100},
        "paper": {"units": 10_000_000, "widths": (16, 32, 64, 128, 256, 512), "depth": 6},
    },
    "own_pruned_growth": {
        "title": "growth in trained sparse networks, by density and by how they became sparse",
        "script": "training.pruned",
        "settings": {"draws": 6, "epochs": 5.0},
        "smoke": {
            "data": "digits", "densities": (0.3, 1.0), "width": 16, "depth": 3, "draws": 6,
            "epochs": 6, "lines": 3, "batch": 64,
        },
        "cpu": {
            "epochs": 20.0, "lines": 50, "draws": 20,
            "densities": (0.1, 0.2, 0.35, 0.5, 0.75, 1.0),
        },
        "paper": {"epochs": 30.0, "lines": 50, "draws": 20},
    },
    "own_initial_regions": _INITIAL
    | {
        "title": "regions along lines through the origin and an example, at initialisation",
        "script": "regions.initial_lines",
    },
    "own_initial_distances": _INITIAL
    | {
        "title": "distance to the nearest boundary, at initialisation",
        "script": "regions.initial_distances",
        "smoke": _INITIAL["smoke"] | {"points": 20},
    },
}  # fmt: skip
