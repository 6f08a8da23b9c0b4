"""Drawing: every function takes ``ax=None`` and returns the Axes; none computes a result."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxexpr.moments import Estimate

# Okabe & Ito's palette: told apart by colour-blind readers as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Of regions: light enough for boundaries to stand out, and no two ends alike.
PASTEL = (
    "#264d73", "#3b7ea1", "#7fb7be", "#cfe3d8", "#f7f1e1", "#f3d9a4", "#eba86c", "#d9705c",
    "#a3455f",
)  # fmt: skip
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


def regions(
    plane: Any,
    *,
    ax: Any = None,
    labels: Any = None,
    colours: Any = None,
    widths: Any = None,
    ink: str = "#1d2433",
) -> Any:
    """Draw the regions of a plane: a colour for each, boundaries thinner from layer to layer.

    Parameters
    ----------
    plane : from ``exact.plane`` or ``exact.plane_through``.
    labels : whole numbers ``(count,)``; regions with one label have one colour. By default every
        region has its own. ``exact.linear_regions(plane).of_cell`` colours linear regions.
    colours : a sequence of colours, or a Matplotlib colour map, in place of our own.
    widths : of the boundaries of each layer, in points, ``(depth,)``; 0 leaves a layer's out.
    ink : colour of the boundaries.

    Raises
    ------
    ValueError
        if `labels` or `widths` are of another size.
    """
    from matplotlib import colors
    from matplotlib.collections import LineCollection, PolyCollection

    depth = plane.counts.size
    labels = np.arange(plane.count) if labels is None else np.asarray(labels)
    if labels.shape != (plane.count,):
        raise ValueError(
            f"labels has shape {labels.shape}: give one for each region, shape ({plane.count},)"
        )
    if widths is None:
        # As wide as leaves room between them: the mean region is about count^(-1/2) wide.
        finest = np.clip(14 / np.sqrt(plane.count), 0.12, 0.9)
        widths = finest * np.geomspace(3.0, 1.0, depth) if depth > 1 else [2 * finest]
    widths = np.asarray(widths, float)
    if widths.shape != (depth,):
        raise ValueError(f"widths has shape {widths.shape}: give one for each layer, ({depth},)")
    if ax is None:
        ax = axes(figsize=(5, 5))
    # Steps of the golden ratio: regions that were made one after the other, which often are
    # neighbours, get colours that are far apart.
    shade = (labels * 0.6180339887498949 + 0.35) % 1.0
    if colours is None or not callable(colours):
        colours = colors.LinearSegmentedColormap.from_list("regions", colours or PASTEL)
    faces = colours(shade)
    cells = PolyCollection(plane.polygons, facecolors=faces, edgecolors=faces, linewidths=0.2)
    ax.add_collection(cells)
    found = plane.adjacency
    ends = plane.cells.points[found.vertices]
    for layer in np.flatnonzero(widths)[::-1]:
        lines = LineCollection(
            ends[found.layer == layer],
            colors=ink,
            linewidths=widths[layer],
            capstyle="round",
            alpha=0.95 if layer == 0 else 0.8,
            zorder=2 + (depth - layer) / depth,
        )
        ax.add_collection(lines)
    half = plane.half_width
    ax.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xlabel="a", ylabel="b")
    ax.set(xticks=[-half, 0, half], yticks=[-half, 0, half])
    ax.grid(False)
    return ax
