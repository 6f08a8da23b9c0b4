"""The constructions of Pascanu, Montufar & Bengio 2013, each drawn and counted exactly.

Figures 1 to 4 are about one layer (``arrangements``), 5 to 9 about what layers do to one
another (``folds``). Every count is held against its formula.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from sims.findings import Fact, Findings
from sims.regions import arrangements, folds
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(arrangements.Sizes):
    """One of the paper's constructions, drawn and counted."""

    figure: Literal[1, 2, 3, 4, 5, 6, 7, 8, 9] = 2
    """Number of the figure."""


FIGURES = {**arrangements.FIGURES, **folds.FIGURES}


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return what was counted and what the formulas say."""
    counted = FIGURES[config.figure].counts(config)
    run.note(f"{len(counted)} counts")
    names, counts, expected = zip(*counted, strict=True)
    return xr.Dataset(
        {
            "found": (("case",), np.array(counts, np.int64)),
            "expected": (("case",), np.array(expected, np.int64)),
        },
        {"case": list(names)},
    )


def check(data: xr.Dataset, config: Config) -> Findings:
    """Hold every count against its formula."""
    columns = (data.case, data.found, data.expected)
    rows = list(zip(*(column.values.tolist() for column in columns), strict=True))
    facts = [Fact(name, a == b, f"{a:,} counted, {b:,} expected") for name, a, b in rows]
    return Findings([], [], {name: counts for name, counts, _ in rows}, facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the construction."""
    return FIGURES[config.figure].draw(config), ""
