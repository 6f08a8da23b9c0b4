"""Presets of simulations that train networks, of all papers."""

from __future__ import annotations

import dataclasses
from typing import Literal

from sims.presets.base import Data

_HE = 2**0.5
_TINY = 1e-3  # biases of variance 1e-6


@dataclasses.dataclass(frozen=True)
class InTraining:
    """Regions along lines, or distances to boundaries, while networks are trained."""

    data: Data = "mnist"
    """What is learnt."""
    what: Literal["lines", "distances"] = "lines"
    """Regions along whole lines through the origin and an example, or distances of points."""
    architectures: tuple[str, ...] = ("2x32", "4x16", "4x32", "6x32", "3x64")
    """Networks, LAYERSxUNITS."""
    label_noise: float = 0.5
    """Share of random labels of a further run of the last architecture; 0 is none."""
    sigma_w: float = _HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = _TINY
    """Standard deviation of the biases."""
    epochs: float = 10.0
    """Passes through the training set."""
    batch: int = 128
    """Examples a step."""
    records: int = 24
    """Looks at the networks, closer at first."""
    lines: int = 10
    """Lines through each network."""
    points: int = 100
    """Points of each kind (distances)."""
    draws: int = 10
    """Networks of each kind."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class PlanesInTraining:
    """Regions in the plane of three examples while a network is trained."""

    data: Data = "mnist"
    """What is learnt."""
    widths: tuple[int, ...] = (64, 64, 64)
    """Units in each hidden layer."""
    sigma_w: float = _HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = _TINY
    """Standard deviation of the biases."""
    epochs: float = 10.0
    """Passes through the training set."""
    batch: int = 128
    """Examples a step."""
    records: int = 20
    """Looks at the networks, closer at first."""
    draws: int = 10
    """Networks; the first is drawn."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class HistogramInTraining:
    """Distances to the nearest boundary while a network is trained: their whole law."""

    data: Data = "mnist"
    """What is learnt, and whose mean and variance the points have."""
    widths: tuple[int, ...] = (16, 16, 16, 16)
    """Units in each hidden layer."""
    sigma_w: float = _HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = _TINY
    """Standard deviation of the biases."""
    epochs: float = 10.0
    """Passes through the training set."""
    batch: int = 128
    """Examples a step."""
    shown: tuple[float, ...] = (0.0, 0.5, 2.0, 10.0)
    """Epochs that are drawn."""
    points: int = 2000
    """Points for each network."""
    draws: int = 20
    """Networks."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class GrowthInTraining:
    """Growth of lines between examples in trained networks, and in random ones."""

    data: Data = "mnist"
    """What is learnt, and between whose test examples the lines run."""
    sigmas: tuple[float, ...] = (1.0, 1.5, 2.0, 2.5, 3.0)
    """Initial standard deviations of the weights, before the division by sqrt(fan_in)."""
    width: int = 32
    """Units in each layer."""
    depth: int = 10
    """Layers."""
    epochs: float = 30.0
    """Passes through the training set."""
    batch: int = 128
    """Examples a step."""
    lines: int = 10
    """Lines within classes, and as many between classes."""
    view: Literal["classes", "paths"] = "classes"
    """Means over lines, or line by line."""
    draws: int = 10
    """Networks of each scale."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class Pruned:
    """Growth in trained sparse networks, by how they came to be sparse."""

    data: Data = "mnist"
    """What is learnt, and between whose test examples the lines run."""
    densities: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0)
    """Share of weights that are left."""
    sigma_w: float = 2.0
    """Initial standard deviation of the weights that are not 0."""
    width: int = 64
    """Units in each layer."""
    depth: int = 6
    """Layers."""
    epochs: float = 5.0
    """Passes through the training set."""
    batch: int = 128
    """Examples a step."""
    lines: int = 10
    """Lines between examples of two classes."""
    draws: int = 6
    """Networks of each kind and density."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class OneLayer:
    """Training exactly one layer, hard-tanh."""

    data: Data = "mnist"
    """What is learnt."""
    examples: int = 10_000
    """Training examples; 0 is all."""
    width: int = 100
    """Units in each layer."""
    depth: int = 9
    """Layers; the second to the last are trained, one at a time."""
    scale: float = 1.0
    """sigma_w^2."""
    epochs: float = 30.0
    """Passes through the examples."""
    batch: int = 128
    """Examples a step."""
    draws: int = 5
    """Networks for each layer."""
    seed: int = 0
    """Seed of everything random."""


@dataclasses.dataclass(frozen=True)
class ConvTraining:
    """A convolutional network, or a fully connected one, while it is trained."""

    data: Data = "cifar10"
    """What is learnt."""
    view: Literal["noise", "length", "scale", "compare"] = "length"
    """Accuracy under noise on one layer; lengths; scales of the weights; regularisers."""
    norm: Literal["none", "batch", "trajectory"] = "none"
    """What follows c2, c5, fc1 and fc2 (or each layer of a fully connected network)."""
    network: Literal["conv", "mlp"] = "conv"
    """Which network."""
    features: tuple[int, int] = (16, 32)
    """Channels before and after the first pool."""
    dense: tuple[int, int] = (128, 64)
    """Units of the fully connected layers."""
    width: int = 100
    """Units in each layer of a fully connected network."""
    depth: int = 8
    """Its layers."""
    activation: Literal["relu", "hard_tanh", "tanh"] = "relu"
    """Its activation; convolutional networks are ReLU."""
    scale: float = 2.0
    """sigma_w^2."""
    examples: int = 10_000
    """Training examples; 0 is all."""
    tested: int = 1_000
    """Test examples; 0 is all."""
    epochs: float = 2.0
    """Passes through the examples."""
    batch: int = 128
    """Examples a step."""
    records: int = 12
    """Looks at the networks."""
    points: int = 50
    """Tangents along the circle."""
    magnitudes: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
    """Magnitudes of the noise."""
    draws: int = 4
    """Networks."""
    seed: int = 0
    """Seed of everything random."""
