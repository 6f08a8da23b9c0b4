"""Pascanu, Montufar & Bengio 2013: nothing random, so that presets differ in the table alone."""

from __future__ import annotations

from typing import Any


def _construction(title: str, figure: int, **settings: int) -> dict[str, Any]:
    script = "regions.constructions"
    return {"title": title, "script": script, "settings": {"figure": figure, **settings}}


FIGURES: dict[str, dict[str, Any]] = {
    "pascanu2013_fig1": _construction(
        "a rectifier network and the regions that its units make", 1, units=4, depth=2
    ),
    "pascanu2013_fig2": _construction(
        "regions of lines in general position, one line after the other", 2, units=12
    ),
    "pascanu2013_fig3": _construction(
        "an arrangement shrunk until all its regions meet the unit disc", 3, units=6
    ),
    "pascanu2013_fig4": _construction(
        "lines of which every run is the active set of a region", 4, units=5
    ),
    "pascanu2013_fig5": _construction("regions that one layer maps onto the same square", 5),
    "pascanu2013_fig6": _construction(
        "an arrangement repeated in several regions of the input", 6, units=4
    ),
    "pascanu2013_fig7": _construction("two absolute values fold the plane", 7, depth=1),
    "pascanu2013_fig8": _construction("the plane folded again and again", 8),
    "pascanu2013_fig9": _construction(
        "a function with a region for each copy of an arrangement", 9, units=4, depth=4
    ),
    "pascanu2013_table": {
        "title": "regions of deep and of shallow networks of as many units",
        "script": "regions.deep_or_shallow",
        "smoke": {"depths": (1, 2, 3)},
        "paper": {"depths": (1, 2, 3, 4, 5, 6, 7)},
    },
}
