"""Compare a count of regions with all counting bounds that apply."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.activations import Activation, get
from jaxexpr.theory import regions
from jaxexpr.theory.arrangements import breakpoints_of

ROUNDING = 1e-9  # relative rounding error of a mean


class Estimated(Protocol):
    """A mean number of regions and its standard error, such as an ``Estimate``."""

    @property
    def mean(self) -> ArrayLike: ...

    @property
    def sem(self) -> ArrayLike: ...


@dataclasses.dataclass(frozen=True)
class Bound:
    """One row of a ``RegionTable``.

    Attributes
    ----------
    name : the function of ``jaxexpr.theory``.
    side : ``"upper"``, a bound for every network, or ``"lower"``, reached by a construction.
    value : the bound, a Python int; ``None`` if it does not apply.
    counts : the kind of regions. An upper bound on activation regions also holds for linear
        regions; a lower bound on linear regions also holds for activation regions.
    note : the reason why it does not apply, or a remark.
    """

    name: str
    side: str
    value: int | None
    counts: str
    note: str = ""

    @property
    def applies(self) -> bool:
        return self.value is not None


@dataclasses.dataclass(frozen=True)
class RegionTable:
    """Bounds on a number of regions, and optionally a count; prints as a table.

    Attributes
    ----------
    n_in, widths, activation : the network's sizes and the name of its activation.
    dim : dimension of the set on which regions are counted.
    zero_bias : whether all biases are 0.
    of : the kind of regions counted, ``"activation"`` or ``"linear"``.
    count, sem : the count, or a mean over networks and its standard error; ``None`` if not given.
    bounds : all bounds; those that do not apply have a reason.

    ``table["serra2018_upper"]`` is one row.
    """

    n_in: int
    widths: tuple[int, ...]
    activation: str
    dim: int
    zero_bias: bool
    of: str
    count: int | float | None
    sem: float | None
    bounds: tuple[Bound, ...]

    def __getitem__(self, name: str) -> Bound:
        name = checks.one_of("name", name, (b.name for b in self.bounds))
        return next(b for b in self.bounds if b.name == name)

    @property
    def upper(self) -> int:
        """The smallest upper bound: no network of these sizes has more regions."""
        return min(b.value for b in self.bounds if b.side == "upper" and b.value is not None)

    @property
    def reached(self) -> int:
        """The largest lower bound, reached by a construction of these sizes; at least 1."""
        lower = (b.value for b in self.bounds if b.side == "lower" and b.value is not None)
        return max(lower, default=1)

    @property
    def holds(self) -> bool:
        """Whether the count is at most every upper bound; True without a count.

        A bound for every network is a bound for their mean, so the standard error is not used.
        Lower bounds are not compared: they are about the best network, not about this one.
        """
        return self.count is None or self.count <= _with_slack(self.upper, self.count)

    def __str__(self) -> str:
        sizes = "-".join(map(str, (self.n_in, *self.widths)))
        where = {1: "along a line", 2: "in a plane"}.get(self.dim, f"in {self.dim} dimensions")
        bias = ", zero bias" if self.zero_bias else ""
        head = f"{self.of} regions {where}, {self.activation} {sizes}{bias}"
        if self.count is not None:
            error = f" +- {self.sem:.2g}" if self.sem is not None else ""
            head += f": {_shown_number(self.count)}{error}"
        lines = [head]
        for side, title in (
            ("upper", "at most (every network)"),
            ("lower", "at least, for the best network (a construction reaches it)"),
        ):
            lines.append(f"  {title}")
            for bound in (b for b in self.bounds if b.side == side):
                value = "-" if bound.value is None else _shown_number(bound.value)
                words = [bound.counts, self._against(bound), bound.note]
                if bound.value is None:
                    words = ["does not apply", bound.note]
                text = "; ".join(word for word in words if word)
                lines.append(f"    {bound.name:26} {value:>14}  {text}")
        return "\n".join(lines)

    def _against(self, bound: Bound) -> str:
        if self.count is None or bound.value is None:
            return ""
        if bound.side == "upper":
            return "holds" if self.count <= _with_slack(bound.value, self.count) else "FAILS"
        return "the count reaches it" if self.count >= bound.value else "the count is below"


@explained
def region_bounds(
    n_in: int,
    widths: Iterable[int],
    activation: str | Activation = "relu",
    *,
    count: float | np.integer | Estimated | None = None,
    of: str = "activation",
    dim: int | None = None,
    zero_bias: bool = False,
) -> RegionTable:
    """Compare a count of regions with all counting bounds that apply.

    Parameters
    ----------
    n_in, widths : inputs, and hidden layers ``(n_1, ..., n_L)``.
    activation : piecewise linear, a name or an ``Activation``.
    count : an exact count, or an estimate: an object with one number in each of ``.mean`` and
        ``.sem``. By default there are only bounds.
    of : the kind of regions counted, ``"activation"`` or ``"linear"``.
    dim : dimension of the affine subspace on which regions are counted: 1 for a line or a segment,
        2 for a plane or a polygon in it; by default `n_in`. The restriction of a network to it is a
        network with `dim` inputs, and so are the bounds.
    zero_bias : whether all biases are 0.

    Returns
    -------
    A ``RegionTable``: ``print`` it; ``.upper``, ``.reached``, ``.holds`` and rows by name.

    Raises
    ------
    ValueError
        if a size is no integer >= 1, `activation` is not piecewise linear, `dim` is above `n_in`,
        or `count` is no number >= 1.

    Examples
    --------
    >>> table = region_bounds(2, (4, 4), count=38)
    >>> table.upper, table.reached, table.holds
    (121, 44, True)
    >>> region_bounds(2, (4, 4), count=122).holds
    False
    """
    n_in, sizes = checks.network_sizes(n_in, widths)
    phi = get(activation)
    breakpoints = breakpoints_of(phi)
    checks.one_of("of", of, ("activation", "linear"))
    dim = n_in if dim is None else checks.integer("dim", dim)
    if dim > n_in:
        raise ValueError(f"dim={dim} exceeds n_in={n_in}: a flat set has no more dimensions")
    mean, sem = _as_count(count)
    bounds = (
        *_upper_bounds(n_in, sizes, phi, breakpoints, dim, bool(zero_bias)),
        *_lower_bounds(sizes, phi, dim, bool(zero_bias)),
    )
    return RegionTable(n_in, sizes, phi.name, dim, bool(zero_bias), of, mean, sem, bounds)


Condition = tuple[bool, str]  # whether it holds, and the reason if not


def _row(
    name: str, side: str, value: Callable[[], int], *needs: Condition, note: str = "", counts: str
) -> Bound:
    unmet = "; ".join(reason for holds, reason in needs if not holds)
    return Bound(name, side, None if unmet else value(), counts, unmet or note)


def _upper_bounds(
    n_in: int, sizes: tuple[int, ...], phi: Activation, breakpoints: int, dim: int, zero_bias: bool
) -> list[Bound]:
    rows: list[tuple[str, Callable[[], int], list[Condition], str]] = [
        ("trivial_upper", lambda: regions.trivial_upper(sizes, phi), [], ""),
        (
            "line_upper",
            lambda: regions.line_upper(sizes, phi),
            [(dim == 1, "the count is not along a line")],
            "",
        ),
        ("raghu2017_upper", lambda: regions.raghu2017_upper(dim, sizes, phi), [], ""),
        (
            "raghu2017_upper, parallel",
            lambda: regions.raghu2017_upper(dim, sizes, phi, parallel=True),
            [(breakpoints > 1, "no unit has several breakpoints")],
            "",
        ),
        (
            "montufar2017_upper",
            lambda: regions.montufar2017_upper(dim, sizes, phi),
            [],
            "" if breakpoints == 1 else "stated for one breakpoint, extended here",
        ),
        (
            "serra2018_upper",
            lambda: regions.serra2018_upper(dim, sizes),
            [(phi.name == "relu", "stated for relu")],
            "",
        ),
        (
            "zero_bias_upper",
            # For all of R^n_0: on a subspace that misses the origin there are effective biases.
            lambda: regions.zero_bias_upper(n_in, sizes),
            [
                (zero_bias, "there are biases"),
                (phi.breakpoints == (0.0,), "needs 0 as the only breakpoint"),
            ],
            "",
        ),
    ]
    counts = "activation regions, so linear too"
    return [_row(n, "upper", f, *needs, note=note, counts=counts) for n, f, needs, note in rows]


def _lower_bounds(
    sizes: tuple[int, ...], phi: Activation, dim: int, zero_bias: bool
) -> list[Bound]:
    depth, linear = len(sizes), "linear regions, so activation too"
    # With only `dim` units the last layer is inactive on some regions, which join.
    either = "activation regions" if depth > 1 and sizes[-1] == dim else linear
    rows: list[tuple[str, Callable[[], int], int, str, str]] = [
        ("pascanu2013_lower", lambda: regions.pascanu2013_lower(dim, sizes), dim, either, ""),
        (
            "pascanu2013_folding_lower",
            lambda: regions.pascanu2013_folding_lower(dim, depth),
            2 * dim,
            linear,
            "" if set(sizes) == {2 * dim} else f"uses {2 * dim} units a layer",
        ),
        ("montufar2014_lower", lambda: regions.montufar2014_lower(dim, sizes), dim, either, ""),
        (
            "telgarsky2015_lower",
            lambda: regions.telgarsky2015_lower(depth),
            2,
            linear,
            "on a segment, with 2 units a layer",
        ),
    ]
    relu, biased = (phi.name == "relu", "stated for relu"), (not zero_bias, "needs biases")
    return [
        _row(
            *(name, "lower", value, relu, biased),
            (min(sizes) >= units, f"a width is below {units}"),
            note=note,
            counts=counts,
        )
        for name, value, units, counts, note in rows
    ]


def _as_count(
    count: float | np.integer | Estimated | None,
) -> tuple[int | float | None, float | None]:
    """Return the count, or the mean and the error of an estimate."""
    if count is None:
        return None, None
    if hasattr(count, "mean") and hasattr(count, "sem"):
        pair = []
        for name in ("mean", "sem"):
            array = np.asarray(getattr(count, name), np.float64)
            if array.size != 1:
                raise ValueError(
                    f"count.{name} has shape {array.shape}: give an estimate of one number, the "
                    "last layer's, or that number itself"
                )
            pair.append(float(array.reshape(())))
        mean, sem = pair
        if not mean >= 1:
            raise ValueError(f"count.mean={mean}: give a mean number of regions, which is >= 1")
        return mean, sem
    if isinstance(count, int | np.integer):
        return checks.integer("count", count), None
    number = checks.positive("count", count)
    if number < 1:
        raise ValueError(f"count={number}: give a number of regions, which is >= 1")
    return number, None


def _with_slack(bound: int, count: int | float) -> int | float:
    """Return the bound for an exact count, and a slightly larger one for a rounded mean."""
    if isinstance(count, int):
        return bound
    return bound + 1 if bound > 1e15 else bound * (1 + ROUNDING)


def _shown_number(number: int | float) -> str:
    """Return the number in at most 14 characters."""
    if isinstance(number, float):
        return f"{number:.6g}"
    if number < 10**10:
        return f"{number:,}"
    size = math.log10(number)  # of an int of any length
    exponent = math.floor(size + 2.17e-5)  # 9.9996e12 is shown as 1.000e13
    return f"{max(10 ** (size - exponent), 1.0):.3f}e{exponent}"
