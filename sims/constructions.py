"""The constructions of Pascanu, Montufar & Bengio 2013, each drawn and counted exactly.

Figures 1 to 4 are about one layer (``sims/arrangements.py``), 5 to 9 about what layers do to one
another (``sims/folds.py``). Every count is held against its formula.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import xarray as xr

from sims import arrangements, folds
from sims.run import Fact, Findings, Run

FIGURES = {**arrangements.FIGURES, **folds.FIGURES}


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return what was counted and what the formulas say."""
    counted = FIGURES[config.figure].counts(config)
    run.note(f"{len(counted)} counts")
    names, found, expected = zip(*counted, strict=True)
    return xr.Dataset(
        {
            "found": (("case",), np.array(found, np.int64)),
            "expected": (("case",), np.array(expected, np.int64)),
        },
        {"case": list(names)},
    )


def check(data: xr.Dataset) -> Findings:
    """Hold every count against its formula."""
    rows = list(
        zip(
            data.case.values.tolist(),
            data.found.values.tolist(),
            data.expected.values.tolist(),
            strict=True,
        )
    )
    facts = [Fact(name, a == b, f"{a:,} counted, {b:,} expected") for name, a, b in rows]
    return Findings([], [], {name: found for name, found, _ in rows}, facts)


def draw(data: xr.Dataset) -> Any:
    """Draw the construction."""
    config = SimpleNamespace(**json.loads(data.attrs["config"]))
    figure = FIGURES[config.figure].draw(config)
    figure.suptitle(data.attrs["title"], fontsize=10)
    return figure
