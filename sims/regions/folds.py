"""Figures of Pascanu et al. 2013 about layers on layers: regions mapped onto one, and folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jaxexpr import exact, plotting, theory
from jaxexpr.exact.arrangements import grouped
from sims.regions.arrangements import RED, Count, Drawn, Sizes, bare, panels, square

# Figure 5: boxes in several regions, mapped onto one square.


def _flag(count: int = 400) -> np.ndarray:
    """Points of [-1, 1]^2 that make a letter F, so that turns and mirrors show."""
    stem = np.stack([np.full(count, -0.5), np.linspace(-0.7, 0.7, count)], -1)
    bars = [
        np.stack([np.linspace(-0.5, end, count), np.full(count, at)], -1)
        for end, at in ((0.6, 0.7), (0.3, 0.05))
    ]
    return np.concatenate([stem, *bars])


def _through(group: Any, points: np.ndarray) -> np.ndarray:
    (V, d), (U, c) = group.layer, group.readout
    return np.asarray(np.maximum(points @ V + d, 0) @ U + c)


def _map_counts(sizes: Sizes) -> list[Count]:
    group = grouped(2, sizes.units)
    corners = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    hits = 0
    for centre, stretch in zip(group.centre, group.stretch, strict=True):
        hits += int(np.abs(_through(group, centre + stretch * corners) - corners).max() < 1e-9)
    p = sizes.units // 2
    plane = square([group.layer], 1.0)
    patterns = [tuple(np.flatnonzero(row)) for row in plane.patterns[0]]
    pairs = sum((2 * i, 2 * i + 1) in patterns for i in range(p))
    return [
        ("boxes that are mapped onto the square", hits, p),
        ("regions in which just one group of two units is active", pairs, p),
    ]


def _draw_map(sizes: Sizes) -> Figure:
    group = grouped(2, sizes.units)
    figure, (whole, *zooms, image) = panels(2 + len(group.centre), 2.9)
    plane = square([group.layer])
    plotting.regions(plane, ax=whole, widths=[0.9])
    rim = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1], [-1, -1.0]])
    boxes = zip(zooms, group.centre, group.stretch, strict=True)
    for i, (zoom, centre, stretch) in enumerate(boxes):
        half, colour = 1.6 * np.abs(stretch), plotting.COLOURS[i % 7]
        near = exact.plane([group.layer], centre, [half[0], 0.0], [0.0, half[1]])
        plotting.regions(near, ax=zoom, colours=["#ffffff", "#f0efe8"], widths=[0.9])
        sign = np.sign(stretch) / 1.6
        zoom.plot(*(sign * rim).T, color=colour, linewidth=1.8, zorder=5)
        zoom.plot(*(sign * _flag()).T, ".", color=colour, markersize=2.5, zorder=5)
        bare(zoom, f"only units {2 * i + 1} and {2 * i + 2} are active")
        whole.plot(*centre, "o", mfc=colour, mec="white", markersize=8, zorder=6, clip_on=False)
        at = _through(group, centre + stretch * _flag())
        image.plot(*at.T, ".", color=colour, markersize=9 - 3.5 * i)
    bare(whole, "input: three boxes, marked")
    image.plot(*rim.T, color="black", linewidth=1.2)
    image.set(xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), aspect="equal")
    bare(image, "their images: one square")
    return figure


# Figure 6: the arrangement of the last layer, repeated (Theorem 1).


def _copies(sizes: Sizes) -> exact.Construction:
    return exact.pascanu2013(2, (sizes.units,) * sizes.depth)


def _box_plane(built: exact.Construction, box: np.ndarray) -> exact.Plane:
    half = (box[1] - box[0]) / 2
    return exact.plane(built.params, (box[0] + box[1]) / 2, [half[0], 0.0], [0.0, half[1]])


def _copy_counts(sizes: Sizes) -> list[Count]:
    built = _copies(sizes)
    counts = [_box_plane(built, box).count for box in built.boxes]
    bound = theory.pascanu2013_lower(2, (sizes.units,) * sizes.depth)
    each = theory.zaslavsky(sizes.units, 2)
    rows = [(f"regions in box {i + 1}", count, each) for i, count in enumerate(counts)]
    return [*rows, ("regions in all boxes", sum(counts), bound)]


def _draw_copies(sizes: Sizes) -> Figure:
    built = _copies(sizes)
    boxes = built.boxes[:3]
    figure, (whole, *rest) = panels(1 + len(boxes), 3.3)
    plane = square(built.params)
    plotting.regions(plane, ax=whole)
    for box in built.boxes:
        rim = box[[0, 0, 1, 1, 0], 0], box[[0, 1, 1, 0, 0], 1]
        whole.plot(*rim, color=RED, linewidth=1.4, zorder=6)
        whole.plot(*box.mean(axis=0), "o", mfc="none", color=RED, markersize=9, zorder=6)
    bare(whole, f"{plane.count} regions in all; {len(built.boxes)} boxes")
    for i, (ax, box) in enumerate(zip(rest, boxes, strict=True)):
        inside = _box_plane(built, box)
        plotting.regions(inside, ax=ax)
        bare(ax, f"inside box {i + 1}: {inside.count} regions")
    return figure


# Figures 7 and 8: folds.


def _fold_counts(sizes: Sizes) -> list[Count]:
    rows = []
    for depth in range(1, sizes.depth + 1):
        built = exact.folding(2, depth)
        plane = square(built.params)
        rows.append((f"activation regions after {depth} folds", plane.count, 4**depth))
        rows.append((f"linear regions after {depth} folds",
                     exact.linear_regions(plane).count, 4**depth))  # fmt: skip
        rows.append((f"regions of the whole plane after {depth} folds",
                     exact.cells(built.params).count, 4**depth))  # fmt: skip
    return rows


def _grid(half: float = 1.0, count: int = 501) -> np.ndarray:
    axis = np.linspace(-half, half, count)
    return np.stack(np.meshgrid(axis, axis), -1)


def _folded(built: exact.Construction, points: np.ndarray) -> np.ndarray:
    z = points.reshape(-1, 2)
    for W, b in built.params:
        z = np.maximum(z @ W + b, 0)
    assert built.readout is not None
    return (z @ built.readout[0] + built.readout[1]).reshape(points.shape)


def _draw_fold(sizes: Sizes) -> Figure:
    del sizes
    figure, axes = panels(3, 3.4)
    built, grid = exact.folding(2, 1), _grid()
    values = _folded(built, grid)
    for ax, value, title in (
        (axes[0], values[..., 0], r"$g_1 = 2\,|x_1| - 1$: two rectifiers"),
        (axes[1], values[..., 1], r"$g_2 = 2\,|x_2| - 1$: two rectifiers"),
    ):
        ax.contourf(*np.moveaxis(grid, -1, 0), value, 24, cmap="cividis")
        bare(ax, title)
        ax.set_aspect("equal")
    plane = square(built.params)
    plotting.regions(plane, ax=axes[2], colours=["#ffffff", "#f0efe8"])
    letter = 0.5 + 0.4 * _flag()
    for i, mirror in enumerate(([1, 1], [-1, 1], [1, -1], [-1, -1])):
        axes[2].plot(*(letter * mirror).T, ".", color=plotting.COLOURS[i], markersize=1.5)
    bare(axes[2], "four regions that the layer cannot tell apart")
    return figure


def _draw_folds(sizes: Sizes) -> Figure:
    figure, axes = panels(sizes.depth, 3.3)
    grid = _grid()
    for depth, ax in enumerate(axes, 1):
        built = exact.folding(2, depth)
        image = (_folded(built, grid) + 1) / 2
        colour = np.stack([0.25 + 0.7 * image[..., 0], 0.35 + 0.5 * image[..., 1],
                           0.75 - 0.45 * image[..., 0]], -1)  # fmt: skip
        ax.imshow(np.clip(colour, 0, 1), extent=(-1, 1, -1, 1), origin="lower")
        plane = square(built.params)
        edges = plane.adjacency
        for layer in range(1, depth + 1):
            for ends in plane.cells.points[edges.vertices[edges.layer == layer]]:
                ax.plot(*ends.T, color="white", linewidth=3.1 - 0.7 * layer)
        word = "fold" if depth == 1 else "folds"
        bare(ax, f"{depth} {word}: {plane.count} regions with one image")
    return figure


# Figure 9: a function with many regions.


def _deep_counts(sizes: Sizes) -> list[Count]:
    rows = []
    for depth in range(1, sizes.depth + 1):
        built = exact.pascanu2013_folding(2, depth)
        plane = square(built.params)
        bound = theory.pascanu2013_folding_lower(2, depth)
        rows.append((f"activation regions, {depth} layers of 4", plane.count, bound))
        rows.append((f"linear regions, {depth} layers of 4",
                     exact.linear_regions(plane).count, bound))  # fmt: skip
    return rows


def _draw_deep(sizes: Sizes) -> Figure:
    del sizes
    figure, axes = panels(3, 3.6)
    grid = _grid(count=901)
    for depth, ax in enumerate(axes, 1):
        built = exact.pascanu2013_folding(2, depth)
        z = grid.reshape(-1, 2)
        for W, b in built.params:
            z = np.maximum(z @ W + b, 0)
        value = (z @ np.array([1.0, -1.6, 1.3, -0.7])).reshape(grid.shape[:2])
        ax.imshow(value, extent=(-1, 1, -1, 1), origin="lower", cmap="cividis")
        plane = square(built.params)
        for ends in plane.cells.points[plane.adjacency.vertices]:
            ax.plot(*ends.T, color="white", linewidth=0.5)
        word = "layer" if depth == 1 else "layers"
        bare(ax, f"{depth} {word} of 4: {plane.count} linear regions")
        ax.set(xlim=(-1, 1), ylim=(-1, 1))
    return figure


FIGURES = {
    5: Drawn(_map_counts, _draw_map),
    6: Drawn(_copy_counts, _draw_copies),
    7: Drawn(_fold_counts, _draw_fold),
    8: Drawn(_fold_counts, _draw_folds),
    9: Drawn(_deep_counts, _draw_deep),
}
