"""What configurations of several simulations share.

Each simulation has a ``Config`` of its own, a frozen dataclass beside its ``simulate``; every field
is a flag on the command line, with its docstring as help. Nothing heavy is imported here.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

Data = Literal["digits", "mnist", "fashion_mnist", "cifar10"]
DataOrRandom = Literal["digits", "mnist", "fashion_mnist", "cifar10", "random"]
HE = 2**0.5  # sigma_w of He's initialisation


@dataclasses.dataclass(frozen=True)
class Seeded:
    """A simulation with random numbers."""

    seed: int = 0
    """Seed of all random numbers."""


@dataclasses.dataclass(frozen=True)
class Sampled(Seeded):
    """A mean over random networks."""

    draws: int = 100
    """Networks of each kind."""


@dataclasses.dataclass(frozen=True)
class Images(Sampled):
    """A curve between two images of a data set."""

    data: Data = "digits"
    """Where the end points come from: two examples."""
    indices: tuple[int, int] = (100, 1000)
    """Which two examples (the papers' 101st and 1001st)."""


@dataclasses.dataclass(frozen=True)
class EndPoints(Sampled):
    """A curve between two examples of a data set, or between two random points."""

    data: DataOrRandom = "digits"
    """Where the end points come from: two examples, or two random points."""
    indices: tuple[int, int] = (100, 1000)
    """Which two examples (the papers' 101st and 1001st)."""
    dimension: int = 100
    """Dimension of random points (data="random")."""


@dataclasses.dataclass(frozen=True)
class Training(Sampled):
    """Networks that are trained on a data set."""

    data: Data = "mnist"
    """What is learnt."""
    epochs: float = 10.0
    """Passes through the training set."""
    batch: int = 128
    """Examples a step."""


@dataclasses.dataclass(frozen=True)
class HeTraining(Training):
    """Training from He weights and tiny biases, Hanin & Rolnick's initialisation."""

    sigma_w: float = HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = 1e-3
    """Standard deviation of the biases."""
