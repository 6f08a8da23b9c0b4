"""Test of a proven statement against an estimate.

A statement ``lower <= mean <= upper`` covers every layer and every cell of a sweep, so it consists
of many comparisons. It fails if one of them violates its bound by more than its one-sided quantile
of Student's t with Bonferroni correction: a true statement fails with probability at most `level`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.ensemble.statistics import Estimate

LEVEL = 1e-3
ROUNDING = 1e-6


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Result of the test.

    Attributes
    ----------
    name : the statement.
    holds : False if it is violated beyond its error somewhere.
    margin : least distance to a bound in standard errors of the mean; negative if violated.
    where : index of the comparison nearest to failing in the estimate's arrays.
    layer : number of its layer, counted from 1.
    mean, sem, bound : its mean, standard error and bound.
    allowed : the statement fails if the margin is below minus this number.
    comparisons : number of comparisons, by which the level is divided.
    level, n : the level, and the number of networks of that comparison.
    equality : whether the lower and the upper bound are equal.
    axis : name of the last axis.

    Printed, a statement *holds*, *agrees* (an equality within its error), is *unresolved* (within
    its error on the wrong side) or *FAILS*.

    Differences below a millionth of the bound count as equality: estimates are computed in float32.
    Where all n networks have the same number, its error is unknown, not 0: it is taken as the
    number or the bound, whichever is larger, divided by n.
    """

    name: str
    holds: bool
    margin: float
    where: tuple[int, ...]
    mean: float
    sem: float
    bound: float
    allowed: float
    comparisons: int
    level: float = LEVEL
    n: int = 0
    equality: bool = False
    axis: str = "layer"

    def __bool__(self) -> bool:
        return self.holds

    @property
    def layer(self) -> int | None:
        return self.where[-1] + 1 if self.where else None

    def __str__(self) -> str:
        if not self.comparisons:
            return f"no data    {self.name}"
        word = "FAILS" if not self.holds else "agrees" if self.equality else "holds"
        if word == "holds" and self.margin < 0:
            word = "unresolved"
        cell = f"cell {self.where[:-1]}, " if len(self.where) > 1 else ""
        return (
            f"{word:10} {self.name}: nearest in {cell}{self.axis} {self.layer}, "
            f"{self.mean:.5g} +- {self.sem:.2g} against {self.bound:.5g} "
            f"({self.margin:+.1f} standard errors)"
        )


@explained
def verdict(
    estimate: Estimate,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    name: str = "",
    *,
    level: float = LEVEL,
    axis: str = "layer",
) -> Verdict:
    """Test ``lower <= E[...] <= upper``.

    Parameters
    ----------
    estimate : estimate of the mean in the statement.
    lower, upper : bounds that broadcast to ``estimate.mean``: one for all, one for each layer, or
        one for each sweep cell and layer (a bound of sweep shape needs a last axis of 1).
    name : the statement in words.
    level : the largest probability that a true statement fails.
    axis : name of the last axis of the estimate, for the printed verdict.

    Returns
    -------
    A Verdict, true if the statement holds. Layers without data are not compared; with a single
    network no statement can be rejected (its error is unknown).

    Raises
    ------
    ValueError
        without any bound, for NaN in a bound, for a bound that does not broadcast, for a lower
        bound above the upper one, and for another object than an Estimate.
    """
    if lower is None and upper is None:
        raise ValueError("lower=None and upper=None: give the bound that the statement claims")
    level = checks.level(level)
    if not isinstance(estimate, Estimate):
        names = list(estimate) if isinstance(estimate, Mapping) else []
        one = f"made[{names[0]!r}]" if names else "what estimate returned for one probe"
        raise ValueError(f"estimate={checks.shown(estimate)}: give an Estimate, {one}")
    for place, text in (("name", name), ("axis", axis)):
        if not isinstance(text, str):
            raise ValueError(f"{place}={checks.shown(text)}: give a text")
    sides = [
        (sign, _checked_bound(side, bound, estimate.mean.shape))
        for side, bound, sign in (("lower", lower, 1.0), ("upper", upper, -1.0))
        if bound is not None
    ]
    if len(sides) == 2 and np.any(sides[0][1] - sides[1][1] > ROUNDING * np.abs(sides[1][1])):
        raise ValueError(
            f"lower={checks.shown(lower)} is above upper={checks.shown(upper)}: give lower <= upper"
        )
    compared = estimate.n > 0
    comparisons = int(compared.sum()) * len(sides)
    if comparisons == 0:
        return Verdict(name, True, np.inf, (), np.nan, np.inf, np.nan, 0.0, 0, level)

    gaps = np.stack([sign * (estimate.mean - bound) for sign, bound in sides])
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = np.stack([np.broadcast_to(np.abs(bound), gaps[0].shape) for _, bound in sides])
        # All networks are equal: one in n might still differ, by as much as the number itself.
        unknown_error = np.maximum(np.abs(estimate.mean), sizes) / estimate.n
        errors = np.where(estimate.sem > 0, estimate.sem, unknown_error)
        margins = np.where(np.abs(gaps) <= ROUNDING * sizes, 0.0, gaps / errors)
    margins = np.where(compared, margins, np.inf)
    allowed = _allowed(estimate.n, level / comparisons)
    # With few networks the tails are wide: the worst comparison is the one nearest to failing, not
    # the one with the least margin in standard errors.
    with np.errstate(invalid="ignore"):
        score = np.where(compared, margins / allowed, np.inf)
    worst = np.unravel_index(np.argmin(score), margins.shape)
    side, where = worst[0], tuple(int(i) for i in worst[1:])
    bound = float(np.broadcast_to(sides[side][1], estimate.mean.shape)[where])
    return Verdict(
        name=name,
        holds=bool(np.all(margins >= -allowed)),
        margin=float(margins[worst]),
        where=where,
        mean=float(estimate.mean[where]),
        sem=float(estimate.sem[where]),
        bound=bound,
        allowed=float(allowed[where]),
        comparisons=comparisons,
        level=level,
        n=int(estimate.n[where]),
        equality=len(sides) == 2 and bool(np.all(sides[0][1] == sides[1][1])),
        axis=axis,
    )


@explained
def judge(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Judge several statements together, corrected for their total number.

    Returns new verdicts, corrected for the comparisons of all, so that the level bounds the
    probability that any true statement among them fails.

    Raises
    ------
    ValueError
        if an item is no Verdict, or their levels differ.
    """
    if isinstance(verdicts, Verdict | Estimate | Mapping) or not isinstance(verdicts, Iterable):
        raise ValueError(
            f"verdicts={checks.shown(verdicts)}: give a list of what verdict(...) returned"
        )
    items = list(verdicts)
    for i, item in enumerate(items):
        if not isinstance(item, Verdict):
            raise ValueError(f"verdicts[{i}]={checks.shown(item)}: give a Verdict")
    if len({item.level for item in items}) > 1:
        raise ValueError(
            f"verdicts have levels {sorted({item.level for item in items})}: use one level for all"
        )
    total = sum(item.comparisons for item in items)
    judged = []
    for item in items:
        if item.comparisons:
            allowed = float(_allowed(np.asarray(item.n), item.level / total))
            holds = item.margin >= -allowed
            item = dataclasses.replace(item, holds=holds, allowed=allowed, comparisons=total)
        judged.append(item)
    return judged


def _allowed(n: ArrayLike, level: float) -> np.ndarray:
    """One-sided quantile of Student's t for means of n numbers; infinite below two."""
    from scipy.special import stdtrit

    n = np.asarray(n)
    quantile = stdtrit(np.maximum(n - 1, 1).astype(float), 1 - level)
    return np.where(n < 2, np.inf, quantile)


def _checked_bound(name: str, bound: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(checks.numeric(name, bound), np.float64)
    try:
        np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(
            f"{name} has shape {array.shape} and the estimate {shape}: give a number, one a layer, "
            "or one a cell with a last axis of 1"
        ) from None
    return array
