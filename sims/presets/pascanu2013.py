"""Presets of Pascanu, Montufar & Bengio 2013."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from sims.presets.base import Simulation, sized


@dataclasses.dataclass(frozen=True)
class Construction:
    """One of the paper's constructions, drawn and counted."""

    figure: Literal[1, 2, 3, 4, 5, 6, 7, 8, 9] = 2
    """Number of the figure."""
    units: int = 6
    """Lines or units of the arrangement."""
    depth: int = 3
    """Layers of a deep construction."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Deep against shallow networks of as many units."""

    n_in: int = 2
    """Inputs; the deep network has layers of 2 n_in units."""
    depths: tuple[int, ...] = (1, 2, 3, 4, 5)
    """Numbers of layers."""
    outputs: int = 1
    """Output units, for the number of parameters."""


def _figure(number: Any, **changes: int) -> dict[str, Construction]:
    return sized(Construction(figure=number, **changes), {}, {}, {})


FIGURES = {
    "pascanu2013_fig1": Simulation(
        "a rectifier network and the regions that its units make",
        "constructions",
        _figure(1, units=4, depth=2),
    ),
    "pascanu2013_fig2": Simulation(
        "regions of lines in general position, one line after the other",
        "constructions",
        _figure(2, units=12),
    ),
    "pascanu2013_fig3": Simulation(
        "an arrangement shrunk until all its regions meet the unit disc",
        "constructions",
        _figure(3, units=6),
    ),
    "pascanu2013_fig4": Simulation(
        "lines of which every run is the active set of a region",
        "constructions",
        _figure(4, units=5),
    ),
    "pascanu2013_fig5": Simulation(
        "regions that one layer maps onto the same square",
        "constructions",
        _figure(5, units=6),
    ),
    "pascanu2013_fig6": Simulation(
        "an arrangement repeated in several regions of the input",
        "constructions",
        _figure(6, units=4, depth=3),
    ),
    "pascanu2013_fig7": Simulation(
        "two absolute values fold the plane", "constructions", _figure(7, depth=1)
    ),
    "pascanu2013_fig8": Simulation(
        "the plane folded again and again", "constructions", _figure(8, depth=3)
    ),
    "pascanu2013_fig9": Simulation(
        "a function with a region for each copy of an arrangement",
        "constructions",
        _figure(9, units=4, depth=4),
    ),
    "pascanu2013_table": Simulation(
        "regions of deep and of shallow networks of as many units",
        "deep_or_shallow",
        sized(Table(), {"depths": (1, 2, 3)}, {}, {"depths": (1, 2, 3, 4, 5, 6, 7)}),
    ),
}
