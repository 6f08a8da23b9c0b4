"""Running means and errors that can be merged, and the ``Estimate`` made from them.

Everything here is NumPy float64 on the host. Numbers may be far outside the range of floats while
they are accumulated (lengths in deep networks), so moments have a separate power of two.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import elsewhere
from jaxexpr._core.shapes import Bool, Float, Int, Num
from jaxexpr._core.spellings import ATTRIBUTES


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations, of numbers in units of ``2**exponent``.

    All arrays have the shape of one network's number, ``sweep + (depth,)``.
    """

    n: Int[np.ndarray, "*shape"]
    mean: Float[np.ndarray, "*shape"]
    squares: Float[np.ndarray, "*shape"]
    exponent: Int[np.ndarray, "*shape"]

    @staticmethod
    def of(
        values: Num[np.ndarray, "networks *shape"], exponents: Int[np.ndarray, "networks *shape"]
    ) -> Moments:
        """Moments of ``values * 2**exponents`` over the first axis; values not finite are left out.

        Examples
        --------
        >>> moments = Moments.of(np.array([[1.0], [3.0], [np.nan]]), np.zeros((3, 1), int))
        >>> np.ldexp(moments.mean, moments.exponent).tolist(), moments.n.tolist()
        ([2.0], [2])
        """
        values = np.asarray(values, np.float64)
        finite = np.isfinite(values)
        # Values are scaled by the largest one, so that squares neither overflow nor vanish. A zero
        # has no binary exponent and must not set the scale.
        values, sizes = np.frexp(np.where(finite, values, 0.0))
        exponents = exponents + sizes
        nonzero = values != 0
        exponent = np.max(np.where(nonzero, exponents, _LEAST), axis=0, initial=_LEAST)
        shift = np.clip(exponents - exponent, -3000, 0)
        values = np.ldexp(values, shift)
        count = finite.sum(axis=0)
        mean = values.sum(axis=0) / np.maximum(count, 1)
        squares = np.where(finite, (values - mean) ** 2, 0.0).sum(axis=0)
        return Moments(count, mean, squares, exponent)

    def merge(self, other: Moments) -> Moments:
        """Moments of the union of both sets (Chan, Golub and LeVeque 1983)."""
        exponent = np.maximum(self.exponent, other.exponent)
        a, b = self._in_units(exponent), other._in_units(exponent)
        count = a.n + b.n
        divisor = np.maximum(count, 1)
        step = b.mean - a.mean
        mean = a.mean + step * b.n / divisor
        squares = a.squares + b.squares + step**2 * (a.n * b.n / divisor)
        return Moments(count, mean, squares, exponent)

    def _in_units(self, exponent: Any) -> Moments:  # of NumPy, an array or a scalar
        shift = np.clip(self.exponent - exponent, -3000, 0)
        return Moments(
            self.n, np.ldexp(self.mean, shift), np.ldexp(self.squares, 2 * shift), exponent
        )


_LEAST = -(2**24)
_FEWER_POINTS = "off at fewer points"


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """A mean over random networks, with its error.

    Attributes
    ----------
    name : the probe.
    mean : ``sweep + (depth,)``, float64; NaN where no network has the number (``n`` is 0 there).
    sem : standard error of the mean; infinite below two networks.
    n : number of networks that contribute to the mean, same shape.
    left_out : mean number of segments per network with zero length below the layer, which have no
        growth factor there.
    failed : number of networks whose number was infinite, or NaN because the image in this layer
        was not finite (overflow within one layer).
    discretisation : difference between `mean` and the mean with the curve sampled at every third
        tangent, or at every second grid point: it estimates the discretisation error at those
        fewer points, usually larger than that of `mean`. NaN below 3 points; 0 if exact.
    draws : number of networks drawn.
    method, points : the method, and its number of points on the curve; 0 points if it is exact. A
        curve whose pieces do not fit into memory is split: "exact in parts of up to 5009 pieces".
    tolerance : relative discretisation error given as ``refine``, if any.
    """

    name: str
    mean: Float[np.ndarray, "*shape"]
    sem: Float[np.ndarray, "*shape"]
    n: Int[np.ndarray, "*shape"]
    left_out: Float[np.ndarray, "*shape"]
    failed: Int[np.ndarray, "*shape"]
    discretisation: Float[np.ndarray, "*shape"]
    draws: int
    method: str
    points: int
    accumulated: Accumulator | None = dataclasses.field(default=None, repr=False)
    tolerance: float | None = None

    @staticmethod
    def of(samples: ArrayLike, name: str = "samples") -> Estimate:
        """Estimate from samples of your own: the mean over the first axis of independent `samples`.

        Samples that are not finite are left out. Printed results call the last axis layers;
        ``samples`` of shape ``(n,)`` are one layer.

        Raises
        ------
        ValueError
            if `samples` are not numeric, empty or a single number.

        Examples
        --------
        >>> Estimate.of([[1.0, 2.0], [3.0, 2.0]]).mean.tolist()
        [2.0, 2.0]
        """
        try:
            values = np.asarray(samples, np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"samples={checks.shown(samples)} is not numeric: give a real number or an array "
                "of them"
            ) from None
        if values.ndim == 0 or values.size == 0:
            raise ValueError(
                f"samples has shape {values.shape}: give independent numbers along the first axis"
            )
        values = values[:, None] if values.ndim == 1 else values
        moments = Moments.of(values, np.zeros(values.shape, np.int64))
        missing = np.full(values.shape[1:], np.nan)
        empty = Moments(
            np.zeros(missing.shape, np.int64), missing, missing, np.zeros(missing.shape, np.int64)
        )
        failed = (~np.isfinite(values)).sum(axis=0)
        accumulator = Accumulator(moments, empty, np.zeros(missing.shape), failed, len(values), "")
        estimate = accumulator.estimate(name, "samples", 0)
        return dataclasses.replace(estimate, accumulated=None)

    @staticmethod
    def from_moments(mean: ArrayLike, sem: ArrayLike, n: ArrayLike, name: str = "mean") -> Estimate:
        """Estimate from means and standard errors computed elsewhere.

        Parameters
        ----------
        mean, sem : means and their standard errors, with shapes that broadcast. Printed results
            call the last axis layers; a single number is one layer.
        n : number of independent samples of each mean; broadcasts with them.

        Raises
        ------
        ValueError
            if the shapes do not broadcast, an error is negative or an n is below 1.

        Examples
        --------
        >>> Estimate.from_moments([2.0, 3.0], [0.1, 0.2], 50, "growth")
        growth: 50 networks, moments
          layer 1: 2 +- 0.1
          layer 2: 3 +- 0.2
        """
        arrays = [checks.numeric(key, x) for key, x in (("mean", mean), ("sem", sem), ("n", n))]
        try:
            mean, sem, n = np.broadcast_arrays(*(np.atleast_1d(x) for x in arrays))
        except ValueError:
            shapes = ", ".join(str(np.shape(x)) for x in arrays)
            raise ValueError(
                f"mean, sem and n have shapes {shapes}: give shapes that broadcast"
            ) from None
        if np.any(sem < 0) or np.any(n < 1):
            raise ValueError(
                f"sem={checks.shown(sem)}, n={checks.shown(n)}: give errors >= 0 of n >= 1 numbers"
            )
        return _from_moments(np.array(mean, float), np.array(sem, float), np.array(n, int), name)

    def __sub__(self, other: Estimate | ArrayLike) -> Estimate:
        """Difference from a number, or from another estimate of independent networks.

        The error is the root of the sum of the squared errors; n - 1 of the result are the degrees
        of freedom of Welch and Satterthwaite. Networks of the same key are not independent, and the
        true error is mostly smaller: to get it, estimate the difference network by network.

        Examples
        --------
        >>> a = Estimate.from_moments([2.0], [0.3], 101)
        >>> b = Estimate.from_moments([1.0], [0.4], 11)
        >>> difference = a - b
        >>> difference.mean.tolist(), difference.sem.tolist(), difference.n.tolist()
        ([1.0], [0.5], [24])
        """
        if not isinstance(other, Estimate):
            constant = np.asarray(checks.numeric("estimate - x", other), np.float64)
            return dataclasses.replace(self, mean=self.mean - constant, accumulated=None)
        a, b = self.sem**2, other.sem**2
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = a**2 / (self.n - 1) + b**2 / (other.n - 1)
            freedom = np.where(spread > 0, (a + b) ** 2 / spread, self.n + other.n - 2)
        few = (self.n < 2) | (other.n < 2)
        return _from_moments(
            self.mean - other.mean,
            np.hypot(self.sem, other.sem),
            np.where(few, np.minimum(self.n, other.n), np.where(few, 0, freedom).astype(int) + 1),
            f"{self.name} - {other.name}",
        )

    @property
    def std(self) -> Float[np.ndarray, "*shape"]:
        """Standard deviation over networks."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.sem * np.sqrt(self.n))

    @property
    def converged(self) -> Bool[np.ndarray, "*shape"]:
        """Whether the discretisation error is known and at most `tolerance` times the mean.

        Without a tolerance: at most the larger of 1 % of the mean and 3 `sem`.
        """
        allowed = (0.01 if self.tolerance is None else self.tolerance) * np.abs(self.mean)
        if self.tolerance is None:
            allowed = np.maximum(allowed, 3 * self.sem)
        with np.errstate(invalid="ignore"):
            return np.asarray(self.discretisation <= allowed)

    def interval(
        self, level: float = 0.95
    ) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
        """Two-sided confidence interval of the mean by Student's t; ``(low, high)``.

        Raises
        ------
        ValueError
            if `level` is not between 0 and 1.
        """
        width = error_bar(self.sem, self.n, level)
        return self.mean - width, self.mean + width

    def __repr__(self) -> str:
        method = self.method + (f" at {self.points} points" if self.points else "")
        head = f"{self.name}: {self.draws} networks, {method}"
        if self.mean.ndim > 1:
            cells = " x ".join(map(str, self.mean.shape[:-1]))
            head += f", {cells} cells, {self.mean.shape[-1]} layers"
            return "\n".join([head, *self._cells()])
        rows = [
            f"  layer {i + 1}: {mean:.6g} +- {sem:.2g}"
            + ("" if n == self.draws else f" (n={n})")
            + ("" if converged or not delta > 0 else f" NOT CONVERGED: {delta:.2g} {_FEWER_POINTS}")
            for i, (mean, sem, n, converged, delta) in enumerate(
                zip(self.mean, self.sem, self.n, self.converged, self.discretisation, strict=True)
            )
        ]
        return "\n".join([head, *rows])

    def _cells(self) -> list[str]:
        """One line for each of the first and last cells of a sweep: first and last layer."""
        shape, depth = self.mean.shape[:-1], self.mean.shape[-1]
        cells = list(np.ndindex(shape))
        all_shown = len(cells) <= 2 * _SHOWN_CELLS
        shown = cells if all_shown else [*cells[:_SHOWN_CELLS], *cells[-_SHOWN_CELLS:]]
        rows = []
        for cell in shown:
            index = str(cell[0]) if len(cell) == 1 else str(cell)
            parts = [
                f"layer {i + 1}: {self.mean[cell][i]:.6g} +- {self.sem[cell][i]:.2g}"
                for i in dict.fromkeys((0, depth - 1))
            ]
            rows.append(f"  cell {index}: {', '.join(parts)}")
        if not all_shown:
            rows.insert(_SHOWN_CELLS, "  ...")
        return rows

    def __getitem__(self, index: object) -> NoReturn:
        raise TypeError(
            f"estimate[{checks.shown(index)}]: an Estimate is not an array: use estimate.mean and "
            "estimate.sem, or for a cell results.estimate_of(results.dataset({name: estimate}, "
            "['sigma']).isel(sigma=3), name)"
        )

    def __add__(self, other: object) -> NoReturn:
        raise TypeError(
            f"estimate + {checks.shown(other, 30)}: Estimates are not added up; to draw more "
            "networks for one use estimate(..., extend=previous, draws=1000)"
        )

    if not TYPE_CHECKING:
        __getattr__ = elsewhere("Estimate", ATTRIBUTES["Estimate"])


def _from_moments(
    mean: Float[np.ndarray, "*shape"],
    sem: Float[np.ndarray, "*shape"],
    n: Int[np.ndarray, "*shape"],
    name: str,
) -> Estimate:
    zeros = np.zeros(mean.shape)
    return Estimate(
        name=name,
        mean=mean,
        sem=np.where(n < 2, np.inf, sem),
        n=n,
        left_out=zeros,
        failed=zeros.astype(int),
        discretisation=np.full(mean.shape, np.nan),
        draws=int(n.max(initial=0)),
        method="moments",
        points=0,
    )


_SHOWN_CELLS = 3  # printed at the beginning and at the end


def error_bar(sem: ArrayLike, n: ArrayLike, level: float = 0.95) -> Float[np.ndarray, "*shape"]:
    """Half the width of the two-sided confidence interval of a mean, by Student's t.

    ``t_{n - 1} sem``: 1.96 standard errors for many networks, 4.3 for three; infinite below two.

    Parameters
    ----------
    sem : standard errors of means.
    n : number of networks that contribute to each mean; broadcasts with `sem`.
    level : confidence level.

    Raises
    ------
    ValueError
        if `level` is not between 0 and 1.

    Examples
    --------
    >>> error_bar(1.0, [3, 10, 1000]).round(2).tolist()
    [4.3, 2.26, 1.96]
    """
    from scipy.special import stdtrit

    level, n = checks.level(level), np.asarray(n)
    width = stdtrit(np.maximum(n - 1, 1), 0.5 + level / 2) * np.asarray(sem, np.float64)
    return np.where(n < 2, np.inf, width)


class Accumulator(NamedTuple):
    """Moments and counts of the networks drawn so far, to which more networks can be added."""

    moments: Moments
    coarser: Moments
    left_out: Float[np.ndarray, "*shape"]
    failed: Int[np.ndarray, "*shape"]
    draws: int
    fingerprint: str

    def merge(self, other: Accumulator) -> Accumulator:
        return Accumulator(
            self.moments.merge(other.moments),
            self.coarser.merge(other.coarser),
            self.left_out + other.left_out,
            self.failed + other.failed,
            self.draws + other.draws,
            self.fingerprint,
        )

    def estimate(
        self, name: str, method: str, points: int, tolerance: float | None = None
    ) -> Estimate:
        """The ``Estimate`` with these moments."""
        count, mean, squares, exponent = self.moments
        no_networks, below_two = count < 1, count < 2
        with np.errstate(over="ignore"):
            mean = np.ldexp(np.where(no_networks, np.nan, mean), exponent)
            spread = np.sqrt(squares / np.maximum(count - 1, 1) / np.maximum(count, 1))
            sem = np.where(below_two, np.inf, np.ldexp(spread, exponent))
            delta = np.ldexp(np.abs(self.coarser.mean), self.coarser.exponent)
        return Estimate(
            name=name,
            mean=mean,
            sem=sem,
            n=count,
            left_out=self.left_out / max(self.draws, 1),
            failed=self.failed,
            discretisation=np.where(self.coarser.n < 1, np.nan, delta),
            draws=self.draws,
            method=method,
            points=points,
            accumulated=self,
            tolerance=tolerance,
        )
