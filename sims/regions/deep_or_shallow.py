"""Regions of deep and of shallow networks with as many units.

Pascanu et al. 2013, Sections 5 and 6: with n_0 = 2 a shallow network of 8 units has at most 37
regions and two layers of 4 have 44; 79 against 176 of 12 units; and so on. Every entry is counted
exactly in a network that reaches it, and held against its formula; beside it the regions per
parameter, the bound of Theorem 1 and the least upper bound for the deep network.
"""

from __future__ import annotations

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import exact, plotting, theory
from sims.findings import Fact, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config:
    """Deep against shallow networks of as many units."""

    n_in: int = 2
    """Inputs; the deep network has layers of 2 n_in units."""
    depths: tuple[int, ...] = (1, 2, 3, 4, 5)
    """Numbers of layers."""
    outputs: int = 1
    """Output units, for the number of parameters."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return exact counts, formulas and bounds by depth."""
    n, rows = config.n_in, []
    for depth in config.depths:
        widths, units = (2 * n,) * depth, 2 * n * depth
        deep = exact.pascanu2013_folding(n, depth)
        low, high = deep.box
        W, b = exact.general_position(units, n)
        shallow = exact.cells([(W, b)], low=-np.ones(n), high=np.ones(n)).count
        counted = exact.cells(deep.params, low=low, high=high).count
        rows.append(
            {
                "depth": depth,
                "units": units,
                "shallow": shallow,
                "deep": counted,
                "shallow_formula": theory.zaslavsky(units, n),
                "deep_formula": theory.pascanu2013_folding_lower(n, depth),
                "theorem1": theory.pascanu2013_lower(n, widths),
                "upper": theory.serra2018_upper(n, widths),
                "shallow_parameters": theory.parameters(n, (units,), config.outputs),
                "deep_parameters": theory.parameters(n, widths, config.outputs),
            }
        )
        run.note(f"{units} units: {shallow} shallow, {counted} deep")
    names = [key for key in rows[0] if key != "depth"]
    return xr.Dataset(
        {key: (("depth",), np.array([row[key] for row in rows], np.int64)) for key in names},
        {"depth": [row["depth"] for row in rows]},
    )


def check(data: xr.Dataset, config: Config) -> Findings:
    """Hold counts against formulas and bounds."""
    facts = []
    for kind in ("shallow", "deep"):
        counts, formula = data[kind].values, data[f"{kind}_formula"].values
        text = ", ".join(map(str, counts.tolist()))
        facts.append(
            Fact(f"{kind} networks reach their formula", bool((counts == formula).all()), text)
        )
    deep = data.deep.values
    facts += [
        Fact(
            "the deep construction has no fewer regions than Theorem 1's",
            bool((deep >= data.theorem1.values).all()),
            ", ".join(map(str, data.theorem1.values.tolist())),
        ),
        Fact(
            "and no more than Serra et al.'s bound",
            bool((deep <= data.upper.values).all()),
            ", ".join(map(str, data.upper.values.tolist())),
        ),
    ]
    more = data.depth.values > 1
    facts.append(
        Fact(
            "deep beats shallow from two layers on",
            bool((deep[more] > data.shallow.values[more]).all()),
            "; ".join(
                f"{d} against {s}"
                for s, d in zip(data.shallow.values[more], deep[more], strict=True)
            ),
        )
    )
    return Findings([], [], {str(name): data[name].values for name in data}, facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the table, and regions per parameter by depth."""
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7.4, 6.4), height_ratios=(1, 1.7))
    labels = {
        "units": "units",
        "shallow": "shallow, exact",
        "deep": "deep, exact",
        "theorem1": "Theorem 1",
        "upper": "upper bound, deep",
        "shallow_parameters": "parameters, shallow",
        "deep_parameters": "parameters, deep",
    }
    cells = [[f"{int(v):,}" for v in data[name].values] for name in labels]
    heads = [f"{d} layer{'s' if d > 1 else ''}" for d in data.depth.values]
    top.set_axis_off()
    table = top.table(
        cells, rowLabels=list(labels.values()), colLabels=heads, loc="center", edges="horizontal"
    )
    table.auto_set_font_size(False)
    table.set_fontsize(8.5)
    table.scale(1, 1.25)
    x = data.depth.values
    for i, kind in enumerate(("shallow", "deep")):
        ratio = data[kind].values / data[f"{kind}_parameters"].values
        bottom.plot(x, ratio, "o-", color=plotting.COLOURS[i], label=kind)
    bottom.set(yscale="log", xticks=x, xlabel="layers of the deep network")
    bottom.set_ylabel("regions per parameter")
    bottom.legend()
    return figure, f"{config.n_in} inputs, layers of {2 * config.n_in}"
