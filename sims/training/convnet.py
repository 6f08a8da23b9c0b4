"""The CIFAR-10 convolutional network while it is trained: what its measurements share.

Raghu et al. 2017, sections 3.1 to 3.3. Sizes that the text leaves open are ours; each image has
mean 0 and ``|x|^2 = n``, the scale at which the theory of such networks takes its inputs.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import xarray as xr

from jaxexpr import ConvNet, cifar10_convnet, curves, datasets, laws, training
from sims.config import Training
from sims.running import Run

Norm = Literal["none", "batch", "trajectory"]


@dataclasses.dataclass(frozen=True)
class ConvTraining(Training):
    """The convolutional network of the CIFAR-10 experiments while it is trained."""

    features: tuple[int, int] = (16, 32)
    """Channels before and after the first pool."""
    dense: tuple[int, int] = (128, 64)
    """Units of the fully connected layers."""
    scale: float = 2.0
    """sigma_w^2."""
    examples: int = 10_000
    """Training examples; 0 is all."""
    tested: int = 1_000
    """Test examples; 0 is all."""
    records: int = 12
    """Looks at the networks."""
    points: int = 50
    """Tangents along the circle."""

    def network(self, shape: tuple[int, ...]) -> ConvNet:
        """Return the random network of images of this shape."""
        return cifar10_convnet(
            laws.Gaussian(self.scale**0.5), laws.Zero(), features=self.features, dense=self.dense,
            input_shape=shape if len(shape) == 3 else (*shape, 1),
        )  # fmt: skip


def standardised(config: ConvTraining) -> tuple[datasets.Dataset, datasets.Dataset]:
    """Return the first training and test examples, each image with mean 0 and ``|x|^2 = n``."""

    def first(part: Literal["train", "test"], count: int) -> datasets.Dataset:
        data = datasets.load(config.data, part)
        images = data.images[: count or None]
        axes = tuple(range(1, images.ndim))
        images = images - images.mean(axis=axes, keepdims=True)
        images /= np.maximum(images.std(axis=axes, keepdims=True), 1e-3)
        return datasets.Dataset(images, data.labels[: count or None])

    return first("train", config.examples), first("test", config.tested)


def circle(test: datasets.Dataset, net: Any) -> curves.Curve:
    """Return the circle through two test images of different classes."""
    other = int(np.flatnonzero(test.labels != test.labels[0])[0])
    ends = test.images[[0, other]].astype(np.float64).reshape(2, *net.input_shape)
    return curves.circle(*ends)


def trained(
    config: ConvTraining,
    net: Any,
    examples: datasets.Dataset,
    test: datasets.Dataset,
    run: Run,
    norm: Norm = "none",
) -> training.Fit:
    """Train networks, with lengths of the circle and scales of the weights at each record."""
    layers = training.CIFAR10_NORMS if isinstance(net, ConvNet) else range(1, net.depth + 1)
    return run.train(
        norm,
        net,
        examples,
        config,
        test_data=test,
        normalisation=None if norm == "none" else training.Normalisation(norm, tuple(layers)),
        trackers=[
            training.track.lengths(circle(test, net), points=config.points),
            training.track.weight_scale(),
        ],
        record_at=config.records,
    )


def numbers(data: xr.Dataset) -> dict[str, Any]:
    """Return the numbers to quote of every such training."""
    accuracy = data.test_accuracy.transpose("record", ..., "network").values[-1]
    return {
        "epoch": data.epoch.values,
        "networks": data.sizes["network"],
        "test_accuracy": accuracy.mean(axis=-1),
        "least_test_accuracy": accuracy.min(axis=-1),
    }


def details(data: xr.Dataset) -> str:
    """Return what the caption says of accuracy."""
    end = 100 * data.test_accuracy.isel(record=-1)
    accuracy = f"{float(end.mean()):.1f} % (least {float(end.min()):.1f} %)"
    return f"95 % intervals over them; test accuracy in the end {accuracy}"
