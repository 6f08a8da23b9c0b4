"""Price & Tanner 2019."""

from __future__ import annotations

from typing import Any

_LAWS: dict[str, Any] = {
    "script": "growth.weight_laws",
    "smoke": {
        "depth": 3, "draws": 400, "dimension": 48, "planes": 5, "points": 6,
        "limits": (1, 3, 7), "densities": (0.2, 0.5, 1.0),
    },
    "paper": {"method": "grid", "points": 10_000, "draws": 100},
}  # fmt: skip
_SIGMA, _DENSITY = {"vary": "sigma", "dimension": 500}, {"vary": "density", "dimension": 500}
_RANDOM = {"data": "random"}
_SEMICIRCLES = _RANDOM | {"curve": "semicircles"}
_SUBVECTOR: dict[str, Any] = {
    "script": "growth.subvector",
    "smoke": {"draws": 200, "dimensions": (5, 50)},
    "paper": {"draws": 100_000},
}
_TRAINED: dict[str, Any] = {
    "script": "training.growth",
    "smoke": {
        "data": "digits", "sigmas": (1.0, 2.0), "width": 16, "depth": 4, "draws": 20, "epochs": 6,
        "lines": 3, "batch": 64,
    },
    "cpu": {"lines": 50, "draws": 20},
    "paper": {"epochs": 60.0, "lines": 50, "draws": 50},
}  # fmt: skip

FIGURES: dict[str, dict[str, Any]] = {
    "price_tanner2019_fig1": {
        "title": "a circle through a ReLU network, seen in two dimensions",
        "script": "growth.circle",
        "settings": {"draws": 200},
        "smoke": {"width": 32, "depth": 6, "points": 200, "draws": 400},
        "paper": {"draws": 1000},
    },
    "price_tanner2019_fig2": {
        "title": "length of a line at each layer, densities 0.1 to 0.9, sigma_w = 6",
        "script": "growth.lengths",
        "smoke": {"depth": 4, "draws": 400, "densities": (0.3, 0.9)},
        "paper": {"method": "grid", "points": 10_000},
    },
    "price_tanner2019_fig3a": _LAWS
    | {"title": "growth against sigma_w at density 0.5, three laws", "settings": _SIGMA},
    "price_tanner2019_fig3b": _LAWS
    | {"title": "growth against density at sigma_w = 2, three laws", "settings": _DENSITY},
    "price_tanner2019_fig4a": _SUBVECTOR
    | {"title": "norm of a random part of a vector on the sphere", "settings": {"draws": 4000}},
    "price_tanner2019_fig4b": _SUBVECTOR
    | {
        "title": "norm of a random part of a vector with one entry",
        "settings": {"draws": 4000, "vector": "first"},
    },
    "price_tanner2019_fig5a": _LAWS
    | {"title": "as 3a, a line between random points of R^500", "settings": _SIGMA | _RANDOM},
    "price_tanner2019_fig5b": _LAWS
    | {"title": "as 3b, a line between random points of R^500", "settings": _DENSITY | _RANDOM},
    "price_tanner2019_fig5c": _LAWS
    | {"title": "as 3a, semicircles in 100 planes of R^500", "settings": _SIGMA | _SEMICIRCLES},
    "price_tanner2019_fig5d": _LAWS
    | {"title": "as 3b, semicircles in 100 planes of R^500", "settings": _DENSITY | _SEMICIRCLES},
    "price_tanner2019_fig6a": _TRAINED
    | {
        "title": "growth in trained networks: lines within classes and between them",
        "settings": {"epochs": 30.0, "draws": 10},
    },
    "price_tanner2019_fig6b": _TRAINED
    | {
        "title": "growth in trained networks, line by line",
        "settings": {"view": "paths", "epochs": 30.0, "draws": 10},
    },
}
