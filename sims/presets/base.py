"""What an entry of the catalogue is, and what several papers share.

Nothing heavy is imported here, so that help and lists appear at once. A preset is an instance of
a module's configuration; every field is a flag on the command line.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

# Modules whose networks are trained: their claims are about one run, and may well not be seen.
TRAINING = (
    "in_training", "histogram", "planes_in_training", "growth_in_training", "pruned", "one_layer",
    "convolutions_in_training",
)  # fmt: skip
PRESETS = ("smoke", "quick", "cpu", "paper")
Data = Literal["digits", "mnist", "fashion_mnist", "cifar10", "random"]


class Simulation(NamedTuple):
    """An entry of the catalogue."""

    title: str
    module: str
    presets: dict[str, Any]


def sized(
    base: Any,
    smoke: dict[str, Any],
    quick: dict[str, Any],
    paper: dict[str, Any],
    cpu: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the presets: the base with these fields changed.

    cpu : the largest that fits an hour on two cores, where that is more than quick.
    """
    sizes = {"smoke": smoke, "quick": quick, "cpu": quick if cpu is None else cpu, "paper": paper}
    return {name: dataclasses.replace(base, **changes) for name, changes in sizes.items()}


@dataclasses.dataclass(frozen=True)
class Planes:
    """Regions in a plane: one network drawn, many counted."""

    data: Data = "random"
    """random: the input is the plane. A data set: the plane through three examples of it, of
    different labels."""
    widths: tuple[int, ...] = (4, 4, 4)
    """Units in each hidden layer."""
    sigma_w: float = 2**0.5
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = 0.3
    """Standard deviation of the biases."""
    half_width: float = 0.0
    """Half the side of the square; 0 takes 1, or 1.25 times the radius of the examples' circle."""
    panes: bool = True
    """A pane for each layer, or the whole network in one."""
    volume: bool = True
    """Compare perimeters and crossings with the integrals of the biases' densities."""
    draws: int = 500
    """Networks that are counted."""
    shown: int = 0
    """Number of the network that is drawn."""
    seed: int = 0
    """Seed of everything random."""
