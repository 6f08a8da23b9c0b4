"""Drawing: every function takes ``ax=None`` and returns the Axes; none computes a result."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxexpr.moments import Estimate

# Okabe & Ito's palette: told apart by colour-blind readers as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLE: Any = {
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.constrained_layout.use": True,
}


def axes(ax: Any = None, **options: Any) -> Any:
    """Return `ax`, or new axes in the package's style."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        return plt.subplots(**options)[1]


def curve_with_interval(
    x: Any, mean: Any, sem: Any, *, ax: Any = None, label: str = "", **line: Any
) -> Any:
    """Draw means joined by a line, with 95 % intervals as bars (1.96 standard errors)."""
    ax = axes(ax)
    error = np.where(np.isfinite(sem), 1.96 * np.asarray(sem), np.nan)
    options = {"marker": "o", "markersize": 3.5, "linewidth": 1.2, "capsize": 2} | line
    ax.errorbar(np.asarray(x), np.asarray(mean), yerr=error, label=label, **options)
    return ax


def layers(estimate: Estimate, *, ax: Any = None, label: str = "", **line: Any) -> Any:
    """Draw an estimate without a sweep against the number of the layer, with 95 % intervals.

    Raises ValueError for an estimate with a sweep: choose a cell first.
    """
    if estimate.mean.ndim != 1:
        raise ValueError(
            f"estimate has shape {estimate.mean.shape}: draw one cell of the sweep at a time"
        )
    number = np.arange(1, estimate.mean.size + 1)
    ax = curve_with_interval(number, estimate.mean, estimate.sem, ax=ax, label=label, **line)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("layer")
    ax.set_ylabel(estimate.name.replace("_", " "))
    return ax


def reference(
    x: Any, y: Any, *, ax: Any = None, label: str = "", kind: str = "lower", **line: Any
) -> Any:
    """Draw theory: a lower bound dashed, an upper one dash-dotted, an exact law solid and thin."""
    ax = axes(ax)
    style = {"lower": "--", "upper": "-.", "exact": "-", "rate": ":"}[kind]
    options = {"linestyle": style, "linewidth": 1.1, "zorder": 1.5} | line
    ax.plot(np.asarray(x), np.asarray(y), label=label, **options)
    return ax
