"""What a simulation finds: proven statements that hold or fail, claims that are seen or not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

import jaxexpr


@dataclasses.dataclass(frozen=True)
class Claim:
    """Something that a paper says and does not prove, with numbers.

    met : whether it was seen; None if the errors leave it open.
    """

    name: str
    met: bool | None
    detail: str

    def __str__(self) -> str:
        word = "unresolved" if self.met is None else "seen      " if self.met else "NOT SEEN  "
        return f"{word} {self.name}: {self.detail}"


@dataclasses.dataclass(frozen=True)
class Fact:
    """A proven statement about one network, held against exact numbers: it holds or it does not."""

    name: str
    holds: bool
    detail: str

    def __str__(self) -> str:
        return f"{'holds     ' if self.holds else 'FAILS     '} {self.name}: {self.detail}"


@dataclasses.dataclass
class Findings:
    """What a simulation found."""

    verdicts: list[jaxexpr.Verdict]
    claims: list[Claim]
    numbers: dict[str, Any]
    facts: list[Fact] = dataclasses.field(default_factory=list)


def claim_positive(
    name: str, differences: npt.ArrayLike, detail: str = "", of: str = "networks"
) -> Claim:
    """Claim that numbers that are independent of one another are positive on average.

    Unresolved if 0 lies in the 95 % interval of their mean (Student's t).

    Parameters
    ----------
    differences : one for each network, ``(n,)``, or for each of what `of` names.
    """
    mean = jaxexpr.Estimate.of(np.asarray(differences, np.float64))
    low, high = (float(side[0]) for side in mean.interval())
    met = True if low > 0 else False if high < 0 else None
    numbers = f"{mean.mean[0]:.3g}, 95 % interval {low:.3g} to {high:.3g}, {mean.n[0]} {of}"
    return Claim(name, met, f"{detail}{': ' if detail else ''}{numbers}")


def rise_and_fall(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much numbers first rise, and fall after that; both ``(networks,)``.

    One half of the networks says at which record the other half is highest, so that noise alone
    neither rises nor falls on average.

    Parameters
    ----------
    numbers : ``(records, networks)``.
    """
    rise, fall = np.empty((2, numbers.shape[1]))
    for part in (0, 1):
        top = int(np.argmax(numbers[:, 1 - part :: 2].mean(axis=1)))
        half = numbers[:, part::2]
        rise[part::2], fall[part::2] = half[top] - half[0], half[top] - half[-1]
    return rise, fall
