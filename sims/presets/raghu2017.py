"""Presets of Raghu et al. 2017."""

from __future__ import annotations

from sims.presets.base import Planes, Simulation, sized

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
}
