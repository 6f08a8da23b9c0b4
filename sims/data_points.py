"""Points that curves go through: examples of a data set, or random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxexpr import curves, datasets, measure
from sims.config import Data, EndPoints, Images


def end_points(config: Images | EndPoints) -> np.ndarray:
    """Return two points of length 1, shape ``(2, n)``, float64.

    Examples come from the test set where it has the numbers asked for, else (digits) from the
    training set.

    Raises
    ------
    ValueError
        for an example that the data set does not have.
    """
    if isinstance(config, EndPoints) and config.data == "random":
        points = np.random.default_rng(config.seed).normal(size=(2, config.dimension))
    else:
        images = datasets.load(config.data, "test").flat
        if max(config.indices) >= len(images):
            images = datasets.load(config.data, "train").flat
        if max(config.indices) >= len(images) or min(config.indices) < 0:
            raise ValueError(
                f"indices={config.indices}: {config.data} has examples 0 to {len(images) - 1}"
            )
        points = images[list(config.indices)].astype(np.float64)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def on_the_sphere(config: Images | EndPoints) -> tuple[np.ndarray, np.ndarray]:
    """Return two end points with ``|x|^2 = n``, where theory takes inputs to be."""
    points = end_points(config)
    return points[0] * np.sqrt(points.shape[1]), points[1] * np.sqrt(points.shape[1])


def circle_through(x0: np.ndarray, x1: np.ndarray) -> curves.Curve:
    """Return the circle ``|x|^2 = n`` in the plane of two points, from the first of them."""
    x1 = x1 - x0 * (x0 @ x1) / (x0 @ x0)
    return curves.circle(x0, x1 * np.sqrt(x0.size / (x1 @ x1)))


def three_examples(data: Data) -> np.ndarray:
    """Return the first three training examples with different labels, ``(3, n)``, float64."""
    train = datasets.load(data, "train")
    _, first = np.unique(train.labels, return_index=True)
    return train.flat[np.sort(first)[:3]].astype(np.float64)


def layers_of(architecture: str) -> tuple[int, ...]:
    """Return the widths of "LAYERSxUNITS": ``"3x16"`` is ``(16, 16, 16)``.

    Raises
    ------
    ValueError
        for anything else.
    """
    parts = architecture.split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
        raise ValueError(f"architectures holds {architecture!r}: write LAYERSxUNITS, such as 3x16")
    return (int(parts[1]),) * int(parts[0])


def line_ends(test: datasets.Dataset, lines: int, seed: int) -> np.ndarray:
    """Return pairs of examples of one class, then of two: ``(2, lines, 2, n)``, float64.

    No example is in two pairs, so lines are independent of one another.
    """
    order = np.random.default_rng(seed).permutation(len(test.labels))
    both = order[: order.size // 2 * 2].reshape(-1, 2)
    alike = test.labels[both[:, 0]] == test.labels[both[:, 1]]
    pairs = np.concatenate([both[alike][:lines], both[~alike][:lines]])
    return test.flat[pairs].astype(np.float64).reshape(2, lines, 2, -1)


def growth_of(params: Any, ends: np.ndarray) -> np.ndarray:
    """Return the mean growth factor of the layers after the first, ``(networks, kind * line)``."""
    flat = ends.reshape(-1, 2, ends.shape[-1]).astype(np.float32)
    options: Any = {"probes": "growth", "points": 30}
    growth = [measure(params, curves.line(x0, x1), **options)["growth"] for x0, x1 in flat]
    return np.stack(growth, axis=1)[..., 1:].mean(axis=-1)
