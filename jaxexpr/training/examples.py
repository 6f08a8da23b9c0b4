"""Checked training and test examples."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr.networks import Network


class Examples(NamedTuple):
    """Images ``(N, *input_shape)`` and their classes ``(N,)``, int32."""

    images: np.ndarray
    labels: np.ndarray


def as_examples(
    name: str, value: tuple[ArrayLike, ArrayLike], net: Network, *, classes: int | None = None
) -> Examples:
    """Return checked examples, reshaped to the input shape of a network.

    Raises
    ------
    ValueError
        if `value` is no pair ``(images, labels)``, if images are not finite or have another size
        than an input, or if labels are not one integer >= 0 for each image, below `classes` where
        that is given.
    """
    try:
        images, labels = value
    except (TypeError, ValueError):
        raise ValueError(f"{name}={checks.shown(value)}: give (images, labels)") from None
    images = checks.numeric(f"{name}[0]", images)
    shape, size = np.shape(images), math.prod(net.input_shape)
    if len(shape) < 2 or shape[0] == 0 or math.prod(shape[1:]) != size:
        raise ValueError(
            f"{name}[0] has shape {shape} and net takes inputs of shape {net.input_shape}: give "
            f"(N,) + {net.input_shape}, or {size} numbers an example"
        )
    labels = np.asarray(labels)
    if labels.shape != shape[:1] or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"{name}[1] has shape {labels.shape} and type {labels.dtype}: give one whole number "
            f"for each of the {shape[0]} examples"
        )
    largest = int(labels.max())
    if labels.min() < 0 or (classes is not None and largest >= classes):
        bad = int(labels.min()) if labels.min() < 0 else largest
        allowed = "from 0 on" if classes is None else f"from 0 to {classes - 1}"
        raise ValueError(f"{name}[1] holds the label {bad}: give classes {allowed}")
    return Examples(np.asarray(images).reshape(-1, *net.input_shape), labels.astype(np.int32))
