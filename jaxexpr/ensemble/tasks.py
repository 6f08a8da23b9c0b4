"""What is measured in each of many networks: the jobs that the runner runs.

A job is static and hashable: all that is traced, the network's numbers and what it is measured
along, comes to it as an argument.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

import jax
import numpy as np


class Job(Hashable, Protocol):
    """What the runner asks of a job."""

    @property
    def names(self) -> list[str]:
        """Names of the numbers, in order."""

    def how(self, name: str) -> tuple[str, int]:
        """Method and points of a number."""

    @property
    def identity(self) -> Any:
        """All that tells this job's numbers from those of another."""

    @property
    def exact(self) -> bool:
        """Whether some numbers come from exact pieces."""

    def bytes(self, net: Any) -> float:
        """Memory of one network, one cell of a sweep."""

    def kept(self, net: Any) -> int:
        """Numbers that one network, one cell of a sweep, leaves."""

    def look(self, net: Any, key: jax.Array, data: Any) -> dict[str, Any]:
        """Draw one network and measure it.

        Returns ``{name: (number, coarser - fine, dead segments, whether it is finite)}``; and under
        ``ROOM``, of a job whose arrays may be too small, what was needed.
        """

    def wider(self, needed: np.ndarray, net: Any, budget: float) -> Job | None:
        """The job with room for what was needed; ``None`` if there was enough."""

    def within(self, net: Any, budget: float) -> Job:
        """The job cut into parts where its arrays would not fit the budget."""

    def finer(self) -> Job | None:
        """The job at twice the points; ``None`` if it has no discretisation error."""
