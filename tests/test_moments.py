"""Running means and errors against exact rational arithmetic, and the estimates made of them."""

import itertools
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxexpr import Estimate
from jaxexpr.ensemble.statistics import Accumulator, Moments

# Numbers of a layer as the runner sees them: a value of moderate size, or 0, or NaN for a network
# that has none, in units of a power of two.
values = st.one_of(
    st.just(0.0), st.just(float("nan")), st.floats(1e-6, 1e6), st.floats(-1e6, -1e-6)
)
exponents = st.one_of(st.integers(-20, 20), st.integers(-6000, 6000))
samples = st.lists(st.tuples(values, exponents), min_size=1, max_size=12)


def moments_of(pairs) -> Moments:
    """Moments of one column of ``(value, exponent)``."""
    column = np.array([value for value, _ in pairs])[:, None]
    return Moments.of(column, np.array([exponent for _, exponent in pairs], np.int32)[:, None])


def exact(pairs) -> tuple[int, Fraction, Fraction]:
    """Count, mean and sum of squared deviations without rounding."""
    kept = [Fraction(v) * Fraction(2) ** int(e) for v, e in pairs if np.isfinite(v)]
    mean = sum(kept, Fraction(0)) / max(len(kept), 1)
    return len(kept), mean, sum(((x - mean) ** 2 for x in kept), Fraction(0))


def plain(moments: Moments, index: int = 0) -> tuple[int, Fraction, Fraction]:
    """The same three numbers as a Moments holds them."""
    count, mean, squares, exponent = (array[index] for array in moments)
    unit = Fraction(2) ** int(exponent) if mean or squares else Fraction(1)
    return int(count), Fraction(float(mean)) * unit, Fraction(float(squares)) * unit**2


def assert_exact(moments: Moments, pairs) -> None:
    count, mean, squares = plain(moments)
    exact_count, exact_mean, exact_squares = exact(pairs)
    size = max((abs(Fraction(v)) * Fraction(2) ** e for v, e in pairs if np.isfinite(v)), default=0)
    assert count == exact_count
    assert abs(mean - exact_mean) <= size * Fraction(1e-14)
    assert abs(squares - exact_squares) <= size**2 * count * Fraction(1e-13)


@given(samples)
@settings(max_examples=200, deadline=None)
def test_moments_are_exact_to_rounding_at_any_exponent(pairs):
    assert_exact(moments_of(pairs), pairs)


@given(samples, st.lists(st.integers(0, 12), max_size=4))
@settings(max_examples=200, deadline=None)
def test_merged_moments_are_those_of_all_numbers_at_once(pairs, cuts):
    edges = sorted({0, len(pairs), *(c for c in cuts if c < len(pairs))})
    parts = [moments_of(pairs[a:b]) for a, b in itertools.pairwise(edges)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    assert_exact(merged, pairs)
    backwards = parts[-1]
    for part in reversed(parts[:-1]):
        backwards = part.merge(backwards)
    assert_exact(backwards, pairs)


@given(samples, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_the_order_of_numbers_does_not_matter(pairs, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    assert_exact(moments_of(shuffled), pairs)


def test_one_number_at_a_time(rng):
    numbers = rng.normal(1e4, 1.0, size=500)
    merged = Moments.of(numbers[:1, None], np.zeros((1, 1), int))
    for number in numbers[1:]:
        merged = merged.merge(Moments.of(np.array([[number]]), np.zeros((1, 1), int)))
    count, mean, squares = (float(number) for number in plain(merged))
    assert count == 500
    assert mean == pytest.approx(numbers.mean(), rel=1e-14)
    assert squares == pytest.approx(((numbers - numbers.mean()) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("exponent", [5000, -5000, 100_000, -100_000])
def test_numbers_far_outside_the_range_of_a_float(exponent):
    numbers, unit = np.array([[1.5], [2.5], [3.5]]), Fraction(2) ** exponent
    made = Moments.of(numbers, np.full((3, 1), exponent))
    assert plain(made) == (3, Fraction(5, 2) * unit, 2 * unit**2)
    twice = plain(made.merge(made))
    assert twice == (6, Fraction(5, 2) * unit, 4 * unit**2)


def test_what_is_far_smaller_counts_as_zero():
    numbers = np.array([[1.5], [2.5], [3.5]])
    large, tiny = (Moments.of(numbers, np.full((3, 1), e)) for e in (5000, -5000))
    for both in (large.merge(tiny), tiny.merge(large)):
        count, mean, _ = plain(both)
        assert (count, mean) == (6, Fraction(5, 4) * 2**5000)


def test_zeros_do_not_set_the_unit():
    made = Moments.of(np.array([[0.0], [3.0]]), np.array([[900], [-5000]]))
    assert plain(made)[1] == Fraction(3, 2) / 2**5000
    nothing = Moments.of(np.zeros((3, 1)), np.array([[5], [6], [7]]))
    assert plain(nothing) == (3, 0, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_left_out(bad):
    made = Moments.of(np.array([[bad, 1.0], [2.0, bad], [4.0, bad]]), np.zeros((3, 2), int))
    assert plain(made, 0) == (2, 3, 2) and plain(made, 1) == (1, 1, 0)
    empty = Moments.of(np.full((2, 1), bad), np.array([[70], [-70]]))
    assert empty.n[0] == 0
    assert plain(empty.merge(made)) == plain(made.merge(empty)) == plain(made)


def test_every_cell_and_layer_has_moments_of_its_own(rng):
    numbers = rng.normal(size=(50, 3, 2, 4)) * 10.0 ** np.arange(4)
    zero = np.zeros(numbers.shape, int)
    made = Moments.of(numbers[:20], zero[:20]).merge(Moments.of(numbers[20:], zero[20:]))
    assert all(array.shape == (3, 2, 4) for array in made) and np.all(made.n == 50)
    np.testing.assert_allclose(np.ldexp(made.mean, made.exponent), numbers.mean(axis=0), rtol=1e-12)
    squares = np.ldexp(made.squares, 2 * made.exponent)
    np.testing.assert_allclose(squares, 49 * numbers.var(axis=0, ddof=1), rtol=1e-12)


@pytest.mark.parametrize("size", [1e300, 1e160, 1e-160, 1e-300])
def test_squares_of_large_and_small_values_neither_overflow_nor_vanish(size):
    estimate = Estimate.of([size, 3 * size])
    assert estimate.mean[0] == pytest.approx(2 * size, rel=1e-14, abs=0)
    assert estimate.sem[0] == pytest.approx(size, rel=1e-14, abs=0)


def accumulated(numbers, exponent: int = 0) -> Accumulator:
    """What the runner keeps of a column of numbers."""
    column = np.asarray(numbers, float)[:, None]
    made = Moments.of(column, np.full(column.shape, exponent))
    zeros = np.zeros(1)
    return Accumulator(made, made, zeros, np.zeros(1, int), len(column), "mark")


def test_estimates_are_the_textbook_ones(rng):
    numbers = rng.normal(3.0, 2.0, size=(40, 2))
    estimate = Estimate.of(numbers, "growth")
    np.testing.assert_allclose(estimate.mean, numbers.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(estimate.sem, stats.sem(numbers, axis=0), rtol=1e-14)
    np.testing.assert_allclose(estimate.std, numbers.std(axis=0, ddof=1), rtol=1e-14)
    assert estimate.n.tolist() == [40, 40] and estimate.draws == 40 and estimate.name == "growth"
    for level in (0.5, 0.95, 0.999):
        low, high = stats.t.interval(level, 39, estimate.mean, estimate.sem)
        np.testing.assert_allclose(estimate.interval(level), (low, high), rtol=1e-12)
    np.testing.assert_array_equal(estimate.interval(), estimate.interval(0.95))


def test_merged_estimates_are_those_of_all_numbers(rng):
    numbers = rng.lognormal(size=30)
    whole = accumulated(numbers).estimate("length", "grid", 11)
    parts = accumulated(numbers[:7]).merge(accumulated(numbers[7:]))
    merged = parts.estimate("length", "grid", 11)
    assert merged.draws == whole.draws == 30 and parts.fingerprint == "mark"
    for field in ("mean", "sem", "discretisation"):
        np.testing.assert_allclose(getattr(merged, field), getattr(whole, field), rtol=1e-13)


def test_counts_add_up():
    one = accumulated([1.0, 2.0])._replace(left_out=np.array([6.0]), failed=np.array([1]))
    two = accumulated([1.0, 2.0, 3.0, 4.0])._replace(left_out=np.array([3.0]), failed=np.array([2]))
    estimate = one.merge(two).estimate("growth", "tangent", 30)
    assert estimate.left_out.tolist() == [9 / 6]  # a mean over networks
    assert estimate.failed.tolist() == [3]


def test_what_is_left_out_is_counted():
    estimate = Estimate.of([[1.0, np.nan], [2.0, np.inf], [3.0, 5.0]])
    assert estimate.n.tolist() == [3, 1] and estimate.failed.tolist() == [0, 2]
    assert estimate.mean.tolist() == [2.0, 5.0]


def test_one_network_has_no_error_and_none_has_no_mean():
    single = Estimate.of([[3.0]])
    assert single.mean[0] == 3 and single.sem[0] == np.inf
    assert [bound.tolist() for bound in single.interval()] == [[-np.inf], [np.inf]]
    none = Estimate.of([[np.nan], [np.nan]])
    assert np.isnan(none.mean[0]) and none.sem[0] == np.inf and none.n[0] == 0


def test_equal_numbers_have_no_error():
    estimate = Estimate.of(np.full(100, 0.1))
    assert estimate.sem[0] <= 1e-17 and estimate.mean[0] == pytest.approx(0.1, rel=1e-15)


@pytest.mark.parametrize(("exponent", "mean"), [(5000, np.inf), (-5000, 0.0), (100, 2.0**101)])
def test_estimates_out_of_range_are_infinite_or_zero(exponent, mean):
    estimate = accumulated([1.0, 3.0], exponent).estimate("length", "tangent", 30)
    assert estimate.mean[0] == mean
    assert estimate.sem[0] == (mean / 2 if np.isfinite(mean) else np.inf)
    again = estimate.accumulated.merge(accumulated([1.0, 3.0], exponent))
    assert plain(again.moments)[1] == 2 * Fraction(2) ** exponent  # showing it loses nothing


def test_converged_compares_the_discretisation_with_the_error():
    base = accumulated([10.0, 10.2, 9.8])
    cases = {0.0: True, 0.09: True, 0.3: True, 0.4: False, 5.0: False}
    for delta, converged in cases.items():
        item = base._replace(coarser=accumulated([-delta] * 3).moments)
        estimate = item.estimate("length", "grid", 11)
        assert estimate.discretisation[0] == pytest.approx(delta)
        assert estimate.converged[0] == converged
    exact_ = accumulated([10.0] * 3)._replace(coarser=accumulated([0.11] * 3).moments)
    assert not exact_.estimate("length", "grid", 11).converged[0]
    unknown = base._replace(coarser=accumulated([np.nan] * 3).moments).estimate("length", "grid", 2)
    assert np.isnan(unknown.discretisation[0]) and not unknown.converged[0]


def test_intervals_cover_as_often_as_they_say(rng):
    runs, level = 4000, 0.9
    estimate = Estimate.of(rng.normal(size=(5, runs)))
    low, high = estimate.interval(level)
    covered = np.mean((low < 0) & (high > 0))
    assert abs(covered - level) < 4.5 * np.sqrt(level * (1 - level) / runs)
    normal = NormalDist().inv_cdf(0.5 + level / 2) * estimate.sem
    assert np.mean(np.abs(estimate.mean) < normal) < level - 0.03  # what Student's t is for


def test_repr_says_mean_and_error_of_every_layer():
    estimate = Estimate.of([[1.0, 2.0], [3.0, np.nan], [2.0, 4.0]], "growth")
    head, first, second = repr(estimate).splitlines()
    assert head == "growth: 3 networks, samples"
    assert first == "  layer 1: 2 +- 0.58"
    assert second == "  layer 2: 3 +- 1 (n=2)"
    sweep = Estimate.of(np.ones((4, 3, 2, 5)), "length")
    lines = repr(sweep).splitlines()
    assert lines[0] == "length: 4 networks, samples, 3 x 2 cells, 5 layers"
    assert lines[1:] == [
        f"  cell ({i}, {j}): layer 1: 1 +- 0, layer 5: 1 +- 0" for i in range(3) for j in range(2)
    ]
    large = Estimate.of(np.arange(200.0).reshape(2, 100, 1), "length")
    lines = repr(large).splitlines()
    assert len(lines) == 8 and lines[4] == "  ..."
    assert lines[1] == "  cell 0: layer 1: 50 +- 50" and lines[-1].startswith("  cell 99: ")


def test_a_difference_has_the_error_of_independent_estimates():
    draws = np.random.default_rng(0).normal(size=(2, 40, 3)) * [[[1.0]], [[3.0]]]
    a, b = (Estimate.of(x, name) for x, name in zip(draws, "ab", strict=True))
    found = a - b
    np.testing.assert_allclose(found.mean, draws[0].mean(axis=0) - draws[1].mean(axis=0))
    variances = draws.var(axis=1, ddof=1).sum(axis=0) / 40
    np.testing.assert_allclose(found.sem, np.sqrt(variances))
    for layer in range(3):  # Welch's degrees of freedom
        welch = stats.ttest_ind(draws[0, :, layer], draws[1, :, layer], equal_var=False)
        assert found.n[layer] == int(welch.df) + 1
    assert found.name == "a - b" and "40" not in repr(found)
    shifted = a - 2.0
    np.testing.assert_allclose(shifted.mean, a.mean - 2.0)
    np.testing.assert_array_equal(shifted.sem, a.sem)
    assert shifted.accumulated is None


def test_differences_of_what_is_not_known():
    one, many = Estimate.of([[1.0, np.nan]]), Estimate.of(np.ones((5, 2)))
    found = one - many
    assert found.mean[0] == 0 and np.isnan(found.mean[1])
    assert np.isinf(found.sem).all() and found.n.tolist() == [1, 0]
    same = many - many
    assert same.sem.tolist() == [0, 0] and same.n.tolist() == [9, 9]


def test_estimates_from_moments():
    made = Estimate.from_moments([[1.0, 2.0]], [[0.1, 0.2]], 30, "mine")
    assert made.n.tolist() == [[30, 30]] and made.draws == 30 and made.method == "moments"
    low, _ = made.interval()
    np.testing.assert_allclose(low, made.mean - stats.t.ppf(0.975, 29) * made.sem)
    assert np.isinf(Estimate.from_moments(1.0, 0.1, 1).sem).all()
    for wrong, says in (
        ((1.0, -0.1, 3), "errors >= 0"),
        ((1.0, 0.1, 0), "n >= 1"),
        (([1.0, 2.0], [0.1] * 3, 3), r"shapes \(2,\), \(3,\), \(\)"),
        (("a", 0.1, 3), "mean='a'"),
    ):
        with pytest.raises(ValueError, match=says):
            Estimate.from_moments(*wrong)
