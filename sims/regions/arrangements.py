"""Figures of Pascanu et al. 2013 about one layer: lines, and the regions that they make."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxexpr import exact, plotting, theory

Count = tuple[str, int, int]
Layers = Sequence[tuple[np.ndarray, np.ndarray]]
RED = "#b5202c"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How large a construction is."""

    units: int = 6
    """Lines or units of the arrangement."""
    depth: int = 3
    """Layers of a deep construction."""


class Drawn(NamedTuple):
    """A figure: what is counted, as (name, found, expected), and how it is drawn."""

    counts: Callable[[Sizes], list[Count]]
    draw: Callable[[Sizes], Figure]


def panels(count: int, size: float = 3.2, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure with square panels in a row."""
    figure, axes = plt.subplots(
        1, count, figsize=(size * count, size + 0.6), squeeze=False, **options
    )
    return figure, list(axes[0])


def bare(ax: Axes, title: str = "") -> None:
    """Take ticks and labels away."""
    ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    ax.grid(False)
    ax.set_title(title, fontsize=9)


def square(
    layers: Layers, half: float = 1.0, middle: tuple[float, float] = (0.0, 0.0)
) -> exact.Plane:
    """Regions of a network of two inputs in a square."""
    return exact.plane(layers, np.asarray(middle, float), [1.0, 0.0], [0.0, 1.0], half)


# Figure 1: a network.


def _network(sizes: Sizes) -> Layers:
    random = np.random.default_rng(1)
    widths = (2, *(sizes.units,) * sizes.depth, 1)
    layers = []
    for below, width in itertools.pairwise(widths):
        W = random.normal(size=(below, width)) * np.sqrt(2 / below)
        layers.append((W, random.normal(size=width) * 0.4))
    return layers


def _network_counts(sizes: Sizes) -> list[Count]:
    layers = _network(sizes)[:-1]
    count = square(layers).count
    listed = exact.cells(layers, low=[-1, -1], high=[1, 1]).count
    units = sizes.units * sizes.depth
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 1501)] * 2), -1).reshape(-1, 2)
    z, patterns = grid, []
    for W, b in layers:
        patterns.append(z @ W + b > 0)
        z = np.maximum(z @ W + b, 0)
    met = len(np.unique(np.packbits(np.concatenate(patterns, axis=1), axis=1), axis=0))
    return [
        (f"regions of {units} units, cut and listed", count, listed),
        ("patterns on a grid that are no regions", max(met - count, 0), 0),
    ]


def _draw_network(sizes: Sizes) -> Figure:
    layers = _network(sizes)
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
    for i, (positions, value) in enumerate(zip(places, values, strict=True)):
        hidden = 0 < i < len(places) - 1
        faces = ["#f3d9a4" if not hidden or v > 0 else "white" for v in value]
        left.scatter(positions[:, 0], positions[:, 1], s=420, c=faces, edgecolors="black", zorder=2)
        for p, v in zip(positions, value, strict=True):
            left.annotate(f"{v:.2f}", p, ha="center", va="center", fontsize=7, zorder=3)
    left.set(xlim=(-0.4, len(places) - 0.6))
    left.set_axis_off()
    left.set_title("rectifiers that are active at the marked input are filled", fontsize=9)
    plane = square(layers[:-1])
    plotting.regions(plane, ax=right)
    right.plot(*at, "o", color="white", markeredgecolor="black", markersize=8, zorder=6)
    bare(right, f"{plane.count} regions of the input")
    return figure


# Figure 2: lines in general position.


def _lines(count: int, units: int) -> Layers:
    """The first lines of an arrangement in general position."""
    W, b = exact.general_position(max(units, 2), 2)
    return [(W[:, :count], b[:count])]


def _line_counts(sizes: Sizes) -> list[Count]:
    return [
        (f"regions of {m} lines", square(_lines(m, sizes.units)).count, theory.zaslavsky(m, 2))
        for m in range(1, sizes.units + 1)
    ]


def _draw_lines(sizes: Sizes) -> Figure:
    del sizes
    shown = (2, 3, 4, 5)
    figure, axes = panels(len(shown), 2.9)
    for ax, m in zip(axes, shown, strict=True):
        plane = square(_lines(m, shown[-1]))
        plotting.regions(plane, ax=ax, widths=[1.0])
        edges = plane.adjacency
        for ends in plane.cells.points[edges.vertices[edges.unit == m - 1]]:
            ax.plot(*ends.T, color=RED, linewidth=2.6, zorder=5)
        added = plane.count - theory.zaslavsky(m - 1, 2)
        bare(ax, f"{m} lines: {plane.count} regions,\nthe red line adds {added}")
    return figure


# Figure 3: all regions within reach of the unit disc.


def _wide(sizes: Sizes) -> tuple[Layers, Layers]:
    """Lines whose regions lie far apart, and the same ones shrunk and moved (Proposition 3)."""
    random = np.random.default_rng(3)
    angle = np.pi * (np.arange(sizes.units) + random.uniform(0, 0.6, sizes.units)) / sizes.units
    W = np.stack([np.cos(angle), np.sin(angle)])
    b = random.uniform(-3, 3, sizes.units)
    i, j = np.triu_indices(sizes.units, 1)
    corners = np.stack(
        [np.linalg.solve(W[:, [p, q]].T, -b[[p, q]]) for p, q in zip(i, j, strict=True)]
    )
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    reach = 1.15 * np.linalg.norm(corners - middle, axis=1).max()
    return [(W, b)], [(reach * W, b + middle @ W)]


def _disc_counts(sizes: Sizes) -> list[Count]:
    wide, shrunk = _wide(sizes)
    every = theory.zaslavsky(sizes.units, 2)
    met = int(exact.regions_in_ball(wide, np.zeros(2), 1.0))
    return [
        ("all regions", exact.cells(wide).count, every),
        ("regions that meet the disc, once shrunk",
         int(exact.regions_in_ball(shrunk, np.zeros(2), 1.0)), every),
        ("regions that miss it before", max(every - met, 1), every - met),
    ]  # fmt: skip


def _draw_disc(sizes: Sizes) -> Figure:
    figure, axes = panels(2, 4.0)
    reach = np.linalg.norm(_wide(sizes)[1][0][0], axis=0).max()
    for ax, layers, half, title in zip(
        axes, _wide(sizes), (1.2 * reach, 1.6), ("as it was", "shrunk and moved"), strict=True
    ):
        plotting.regions(square(layers, half), ax=ax, widths=[1.0])
        ax.add_patch(plt.Circle((0, 0), 1, fill=False, color=RED, linewidth=2.2, zorder=5))
        met = int(exact.regions_in_ball(layers, np.zeros(2), 1.0))
        bare(ax, f"{title}: {met} of {theory.zaslavsky(sizes.units, 2)} regions meet the disc")
    return figure


# Figure 4: runs of units.


def _runs(sizes: Sizes) -> exact.Plane:
    """The arrangement of Proposition 4, seen so that all its crossings are in the square."""
    n = sizes.units
    W, b = exact.consecutive(n)
    # Crossings lie at (s + t, -s t). In the frame of the parabola's axis the picture is even.
    middle = np.array([n - 1.0, -((n - 1) ** 2) / 4])
    across = np.array([1.0, -(n - 1) / 2])
    return exact.plane([(W, b)], middle, across, [0.0, (n - 1) / 4], 1.15 * (n - 1))


def _active_sets(plane: exact.Plane) -> list[tuple[int, ...]]:
    return [tuple(np.flatnonzero(row)) for row in plane.patterns[0]]


def _run_counts(sizes: Sizes) -> list[Count]:
    plane, n = _runs(sizes), sizes.units
    sets = set(_active_sets(plane))
    runs = {tuple(range(i, j)) for i in range(n) for j in range(i + 1, n + 1)}
    return [
        ("regions", plane.count, theory.zaslavsky(n, 2)),
        ("runs that are the active set of a region", len(runs & sets), n * (n + 1) // 2),
    ]


def _draw_runs(sizes: Sizes) -> Figure:
    figure, (ax,) = panels(1, 6.0)
    plane = _runs(sizes)
    plotting.regions(plane, ax=ax, widths=[0.9])
    for centre, active, area in zip(plane.centres, _active_sets(plane), plane.areas, strict=True):
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
