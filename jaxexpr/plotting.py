"""Drawing: every function takes ``ax=None`` and returns the Axes; none computes a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import absent, explained
from jaxexpr.ensemble.statistics import Estimate, error_bar
from jaxexpr.exact.planes.result import Plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # Matplotlib is loaded by what draws

# Palette of Okabe & Ito, distinguishable for colour-blind readers.
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


def axes(ax: Axes | None = None, **options: Any) -> Axes:
    """Return `ax`, or new axes in the package's style."""
    if ax is not None:
        if not hasattr(ax, "errorbar"):
            raise ValueError(
                f"ax={checks.shown(ax)}: give Matplotlib Axes, as from plt.subplots()[1], or none"
            )
        return ax
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        return plt.subplots(**options)[1]


@explained
def curve_with_interval(
    x: ArrayLike,
    mean: ArrayLike | Estimate,
    sem: ArrayLike | None = None,
    n: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    label: str = "",
    **line: Any,
) -> Axes:
    """Draw means joined by a line, with 95 % intervals as bars, by Student's t.

    Parameters
    ----------
    x : abscissas, ``(k,)``.
    mean : an estimate of shape ``(k,)``, or means, together with `sem` and `n`.
    sem : standard errors of the means, ``(k,)``.
    n : number of networks of each mean, a number or ``(k,)``. A mean of one network has no bar.

    Raises
    ------
    ValueError
        for entries that are not numeric, and for shapes that do not fit.
    """
    arrays: tuple[Any, Any, Any] = mean, sem, n
    if isinstance(mean, Estimate) and sem is None and n is None:
        arrays = mean.mean, mean.sem, mean.n
    for name, value in zip(("mean", "sem", "n"), arrays, strict=True):
        if np.asarray(value).dtype.kind not in "biuf":
            raise ValueError(f"{name}={checks.shown(value)} is not numeric: give an array")
    means, errors, counts = map(np.asarray, arrays)
    if np.shape(x) != means.shape or {errors.shape, counts.shape} - {(), means.shape}:
        raise ValueError(
            f"x, mean, sem and n have shapes {np.shape(x)}, {means.shape}, {errors.shape} and "
            f"{counts.shape}: give an x, an error and a number of networks for each mean"
        )
    ax = axes(ax)
    options: dict[str, Any] = {
        "marker": "o",
        "markersize": 3.5,
        "linewidth": 1.2,
        "capsize": 2,
    } | line
    ax.errorbar(np.asarray(x), means, yerr=_bars(errors, counts), label=label, **options)
    return ax


def _bars(sem: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Half the widths of 95 % intervals; NaN, which draws no bar, where they are unknown."""
    width = error_bar(sem, n)
    return np.where(np.isfinite(width), width, np.nan)


@explained
def against(
    x: Estimate, y: Estimate, *, ax: Axes | None = None, label: str = "", **line: Any
) -> Axes:
    """Draw one estimate against another, one point for each layer, with 95 % intervals of both."""
    ax = axes(ax)
    options: dict[str, Any] = {"marker": "o", "markersize": 4, "linestyle": "none"} | line
    bars: dict[str, Any] = {"xerr": _bars(x.sem, x.n), "yerr": _bars(y.sem, y.n)}
    ax.errorbar(x.mean, y.mean, **bars, label=label, **options)
    return ax


@explained
def geometric_band(
    x: ArrayLike, logs: Estimate, *, ax: Axes | None = None, label: str = "", **line: Any
) -> Axes:
    """Draw geometric means joined by a line, in the band of their 95 % intervals.

    Parameters
    ----------
    x : abscissas, ``(k,)``.
    logs : estimate of the logarithms, of shape ``(k,)``.
    """
    ax = axes(ax)
    options: dict[str, Any] = {"marker": "o", "markersize": 3} | line
    (drawn,) = ax.plot(np.asarray(x), np.exp(logs.mean), label=label, **options)
    bars = _bars(logs.sem, logs.n)
    low, high = np.exp(logs.mean - bars), np.exp(logs.mean + bars)
    ax.fill_between(np.asarray(x), low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)
    return ax


@explained
def layers(estimate: Estimate, *, ax: Axes | None = None, label: str = "", **line: Any) -> Axes:
    """Draw an estimate without a sweep against the number of the layer, with 95 % intervals.

    Raises
    ------
    ValueError
        for an estimate with a sweep: choose a sweep cell first.
    """
    if not isinstance(estimate, Estimate):
        several = isinstance(estimate, Mapping)
        fix = "give one of its Estimates" if several else "give what estimate returned for a probe"
        raise ValueError(f"estimate={checks.shown(estimate)} is not an Estimate: {fix}")
    if estimate.mean.ndim != 1:
        raise ValueError(
            f"estimate has shape {estimate.mean.shape}: give one cell of the sweep, "
            "results.estimate_of(results.dataset({name: estimate}, ['sigma']).isel(sigma=3), name)"
        )
    number = np.arange(1, estimate.mean.size + 1)
    ax = curve_with_interval(number, estimate, ax=ax, label=label, **line)
    locator: Any = ax.xaxis.get_major_locator()
    locator.set_params(integer=True)
    ax.set_xlabel("layer")
    ax.set_ylabel(estimate.name.replace("_", " "))
    return ax


@explained
def reference(
    x: ArrayLike,
    y: ArrayLike,
    *,
    ax: Axes | None = None,
    label: str = "",
    kind: str = "lower",
    **line: Any,
) -> Axes:
    """Draw theory: a lower bound dashed, an upper one dash-dotted, exact laws solid, a rate dotted.

    Raises
    ------
    ValueError
        if `kind` is not one of these four.
    """
    styles = {"lower": "--", "upper": "-.", "exact": "-", "rate": ":"}
    style = styles[checks.one_of("kind", kind, styles)]
    ax = axes(ax)
    options: dict[str, Any] = {"linestyle": style, "linewidth": 1.1, "zorder": 1.5} | line
    ax.plot(np.asarray(x), np.asarray(y), label=label, **options)
    return ax


@explained
def regions(
    plane: Plane,
    *,
    ax: Axes | None = None,
    labels: ArrayLike | None = None,
    colours: Sequence[Any] | Callable[..., Any] | None = None,
    widths: ArrayLike | None = None,
    ink: str = "#1d2433",
) -> Axes:
    """Draw the regions of a plane: a colour for each, boundaries thinner from layer to layer.

    Parameters
    ----------
    plane : from ``exact.plane`` or ``exact.plane_through``.
    labels : integers ``(count,)``; regions with equal labels have equal colours. By default all
        labels differ. ``exact.linear_regions(plane).of_cell`` colours linear regions.
    colours : a sequence of colours, or a Matplotlib colour map; there is a default one.
    widths : line widths of the boundaries of each layer, in points, ``(depth,)``; 0 hides them.
    ink : colour of the boundaries.

    Raises
    ------
    ValueError
        if `labels` or `widths` have another size.
    """
    from matplotlib import colors
    from matplotlib.collections import LineCollection, PolyCollection

    if not (hasattr(plane, "polygons") and hasattr(plane, "adjacency")):
        raise ValueError(f"plane={checks.shown(plane)}: give what exact.plane returned")
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
    # Steps of the golden ratio: regions with consecutive indices, which are often neighbours, get
    # very different colours.
    shade = (labels * 0.6180339887498949 + 0.35) % 1.0
    if isinstance(colours, str):
        raise ValueError(
            f"colours={colours!r}: give a list of colours, or matplotlib.colormaps[{colours!r}]"
        )
    if colours is None or not callable(colours):
        colours = colors.LinearSegmentedColormap.from_list("regions", colours or PASTEL)
    faces = colours(shade)
    cells = PolyCollection(plane.polygons, facecolors=faces, edgecolors=faces, linewidths=0.2)
    ax.add_collection(cells)
    adjacency = plane.adjacency
    ends = plane.cells.points[adjacency.vertices]
    for layer in np.flatnonzero(widths)[::-1]:
        lines = LineCollection(
            ends[adjacency.layer == layer + 1],
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


if not TYPE_CHECKING:
    _NAMES = "against axes curve_with_interval geometric_band layers reference regions"
    __getattr__ = absent(__name__, _NAMES.split())
