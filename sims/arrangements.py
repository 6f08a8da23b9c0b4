"""Figures of Pascanu et al. 2013 about one layer: lines, and the regions that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxexpr import exact, plotting, theory

Count = tuple[str, int, int]
RED = "#b5202c"


class Drawn(NamedTuple):
    """A figure: what is counted, as (name, found, expected), and how it is drawn."""

    counts: Callable[[Any], list[Count]]
    draw: Callable[[Any], Any]


def panels(count: int, size: float = 3.2, **options: Any) -> tuple[Any, Any]:
    """Return a figure with square panels in a row."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, count, figsize=(size * count, size + 0.6), squeeze=False, **options
    )
    return figure, axes[0]


def bare(ax: Any, title: str = "") -> None:
    """Take ticks and labels away."""
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    ax.grid(False)
    ax.set_title(title, fontsize=9)


def square(layers: Any, half: float = 1.0, middle: Any = (0.0, 0.0)) -> exact.Plane:
    """Regions of a network of two inputs in a square."""
    return exact.plane(layers, np.asarray(middle, float), [1.0, 0.0], [0.0, 1.0], half)


# Figure 1: a network.


def _network(config: Any) -> Any:
    random = np.random.default_rng(1)
    sizes = (2, *(config.units,) * config.depth, 1)
    layers = []
    for below, width in zip(sizes, sizes[1:], strict=False):
        W = random.normal(size=(below, width)) * np.sqrt(2 / below)
        layers.append((W, random.normal(size=width) * 0.4))
    return layers


def _network_counts(config: Any) -> list[Count]:
    layers = _network(config)[:-1]
    found = square(layers).count
    listed = exact.cells(layers, low=[-1, -1], high=[1, 1]).count
    units = config.units * config.depth
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 1501)] * 2), -1).reshape(-1, 2)
    z, patterns = grid, []
    for W, b in layers:
        patterns.append(z @ W + b > 0)
        z = np.maximum(z @ W + b, 0)
    seen = len(np.unique(np.packbits(np.concatenate(patterns, axis=1), axis=1), axis=0))
    return [
        (f"regions of {units} units, cut and listed", found, listed),
        ("patterns on a grid that are no regions", max(seen - found, 0), 0),
    ]


def _draw_network(config: Any) -> Any:
    layers = _network(config)
    figure, (left, right) = panels(2, 4.2)
    at = np.array([0.35, -0.2])
    z, values = at, [at]
    for W, b in layers[:-1]:
        z = np.maximum(z @ W + b, 0)
        values.append(z)
    values.append(z @ layers[-1][0] + layers[-1][1])
    places = [
        np.stack([np.full(len(v), float(i)), np.arange(len(v)) - (len(v) - 1) / 2], -1)
        for i, v in enumerate(values)
    ]
    largest = max(np.abs(W).max() for W, _ in layers)
    for below, above, (W, _), value in zip(places, places[1:], layers, values, strict=False):
        for i, p in enumerate(below):
            for j, q in enumerate(above):
                flows = value[i] != 0
                left.plot(
                    *zip(p, q, strict=True),
                    color=plotting.COLOURS[0 if W[i, j] > 0 else 1],
                    linewidth=0.4 + 2.2 * abs(W[i, j]) / largest,
                    alpha=0.8 if flows else 0.15,
                    zorder=1,
                )
    for i, (place, value) in enumerate(zip(places, values, strict=True)):
        hidden = 0 < i < len(places) - 1
        faces = ["#f3d9a4" if not hidden or v > 0 else "white" for v in value]
        left.scatter(*place.T, s=420, c=faces, edgecolors="black", zorder=2)
        for p, v in zip(place, value, strict=True):
            left.annotate(f"{v:.2f}", p, ha="center", va="center", fontsize=7, zorder=3)
    left.set(xlim=(-0.4, len(places) - 0.6))
    left.set_axis_off()
    left.set_title("rectifiers that are active at the marked input are filled", fontsize=9)
    found = square(layers[:-1])
    plotting.regions(found, ax=right)
    right.plot(*at, "o", color="white", markeredgecolor="black", markersize=8, zorder=6)
    bare(right, f"{found.count} regions of the input")
    return figure


# Figure 2: lines in general position.


def _lines(count: int, units: int) -> Any:
    """The first lines of an arrangement in general position."""
    W, b = exact.general_position(max(units, 2), 2)
    return [(W[:, :count], b[:count])]


def _line_counts(config: Any) -> list[Count]:
    return [
        (f"regions of {m} lines", square(_lines(m, config.units)).count, theory.zaslavsky(m, 2))
        for m in range(1, config.units + 1)
    ]


def _draw_lines(config: Any) -> Any:
    del config
    shown = (2, 3, 4, 5)
    figure, axes = panels(len(shown), 2.9)
    for ax, m in zip(axes, shown, strict=True):
        found = square(_lines(m, shown[-1]))
        plotting.regions(found, ax=ax, widths=[1.0])
        edges = found.adjacency
        for ends in found.cells.points[edges.vertices[edges.unit == m - 1]]:
            ax.plot(*ends.T, color=RED, linewidth=2.6, zorder=5)
        added = found.count - theory.zaslavsky(m - 1, 2)
        bare(ax, f"{m} lines: {found.count} regions,\nthe red line adds {added}")
    return figure


# Figure 3: all regions within reach of the unit disc.


def _wide(config: Any) -> tuple[Any, Any]:
    """Lines whose regions lie far apart, and the same ones shrunk and moved (Proposition 3)."""
    random = np.random.default_rng(3)
    angle = np.pi * (np.arange(config.units) + random.uniform(0, 0.6, config.units)) / config.units
    W = np.stack([np.cos(angle), np.sin(angle)])
    b = random.uniform(-3, 3, config.units)
    i, j = np.triu_indices(config.units, 1)
    corners = np.stack(
        [np.linalg.solve(W[:, [p, q]].T, -b[[p, q]]) for p, q in zip(i, j, strict=True)]
    )
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    reach = 1.15 * np.linalg.norm(corners - middle, axis=1).max()
    return [(W, b)], [(reach * W, b + middle @ W)]


def _disc_counts(config: Any) -> list[Count]:
    wide, shrunk = _wide(config)
    every = theory.zaslavsky(config.units, 2)
    met = int(exact.regions_in_ball(wide, np.zeros(2), 1.0))
    return [
        ("all regions", exact.cells(wide).count, every),
        ("regions that meet the disc, once shrunk",
         int(exact.regions_in_ball(shrunk, np.zeros(2), 1.0)), every),
        ("regions that miss it before", max(every - met, 1), every - met),
    ]  # fmt: skip


def _draw_disc(config: Any) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = panels(2, 4.0)
    reach = np.linalg.norm(_wide(config)[1][0][0], axis=0).max()
    for ax, layers, half, title in zip(
        axes, _wide(config), (1.2 * reach, 1.6), ("as it was", "shrunk and moved"), strict=True
    ):
        plotting.regions(square(layers, half), ax=ax, widths=[1.0])
        ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=RED, linewidth=2.2, zorder=5))
        met = int(exact.regions_in_ball(layers, np.zeros(2), 1.0))
        bare(ax, f"{title}: {met} of {theory.zaslavsky(config.units, 2)} regions meet the disc")
    return figure


# Figure 4: runs of units.


def _runs(config: Any) -> exact.Plane:
    """The arrangement of Proposition 4, seen so that all its crossings are in the square."""
    n = config.units
    W, b = exact.consecutive(n)
    # Crossings lie at (s + t, -s t). In the frame of the parabola's axis the picture is even.
    middle = np.array([n - 1.0, -((n - 1) ** 2) / 4])
    across = np.array([1.0, -(n - 1) / 2])
    return exact.plane([(W, b)], middle, across, [0.0, (n - 1) / 4], 1.15 * (n - 1))


def _active_sets(found: exact.Plane) -> list[tuple[int, ...]]:
    return [tuple(np.flatnonzero(row)) for row in found.patterns[0]]


def _run_counts(config: Any) -> list[Count]:
    found, n = _runs(config), config.units
    sets = set(_active_sets(found))
    runs = {tuple(range(i, j)) for i in range(n) for j in range(i + 1, n + 1)}
    return [
        ("regions", found.count, theory.zaslavsky(n, 2)),
        ("runs that are the active set of a region", len(runs & sets), n * (n + 1) // 2),
    ]


def _draw_runs(config: Any) -> Any:
    figure, (ax,) = panels(1, 6.0)
    found = _runs(config)
    plotting.regions(found, ax=ax, widths=[0.9])
    for centre, active, area in zip(found.centres, _active_sets(found), found.areas, strict=True):
        run = len(active) > 0 and active[-1] - active[0] + 1 == len(active)
        text = "".join(str(i + 1) for i in active) or "none"
        ax.annotate(
            text, centre, ha="center", va="center", zorder=6,
            fontsize=float(np.clip(4 + 3.2 * np.log10(1 + 60 * area), 4.5, 11)),
            fontweight="bold" if run else "normal", color="black" if run else "#555555",
        )  # fmt: skip
    bare(ax, "each region with its active units; runs of consecutive units in bold")
    return figure


FIGURES = {
    1: Drawn(_network_counts, _draw_network),
    2: Drawn(_line_counts, _draw_lines),
    3: Drawn(_disc_counts, _draw_disc),
    4: Drawn(_run_counts, _draw_runs),
}
