"""What an entry of the catalogue is, and what several papers share.

Nothing heavy is imported here, so that help and lists appear at once. A preset is an instance of
a module's configuration; every field is a flag on the command line.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

PRESETS = ("smoke", "quick", "paper")
Data = Literal["digits", "mnist", "fashion_mnist", "cifar10", "random"]


class Simulation(NamedTuple):
    """An entry of the catalogue."""

    title: str
    module: str
    presets: dict[str, Any]


def sized(base: Any, smoke: dict[str, Any], quick: dict[str, Any], paper: Any) -> dict[str, Any]:
    """Return the three presets: the base with these fields changed."""
    sizes = {"smoke": smoke, "quick": quick, "paper": paper}
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
