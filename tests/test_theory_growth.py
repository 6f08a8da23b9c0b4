"""Closed forms against integrals, brute force and one another."""

import numpy as np
import pytest
from scipy import integrate, stats

from jaxexpr import curves, laws, theory


def test_mean_chi_is_the_integral():
    for dof in (1, 2, 7, 100):
        mean, _ = integrate.quad(lambda x, d=dof: x * stats.chi.pdf(x, d), 0, np.inf)
        assert theory.mean_chi(dof) == pytest.approx(mean, rel=1e-7)
    assert theory.mean_chi(0) == 0


@pytest.mark.parametrize(
    ("width", "value"),
    [
        (2, 0.5036515231),
        (8, 0.6498672472),
        (32, 0.6931699840),
        (100, 0.7026745920),
        (784, 0.7065428731),
    ],
)
def test_gaussian_growth_has_its_known_values(width, value):
    assert theory.gaussian_growth(1.0, width) == pytest.approx(value, abs=1e-10)
    assert theory.gaussian_growth(3.0, width, 4 * width) == pytest.approx(1.5 * value, abs=1e-9)


def test_unequal_widths_carry_the_root_of_their_ratio():
    assert theory.gaussian_growth(1.0, 32, 64) == pytest.approx(0.490, abs=1e-3)
    law = laws.Uniform(1.0)
    for factor in (theory.price_tanner_lower, theory.second_moment_upper):
        assert factor(law, 32, 64) == pytest.approx(factor(law, 32) / np.sqrt(2))


def test_wide_limit_is_reached_at_the_rate_one_over_width():
    gaps = [1 / np.sqrt(2) - theory.gaussian_growth(1.0, k) for k in (500, 1000, 200_000)]
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=5e-3)
    # 1/sqrt 2 (1 - 5 / (8 k)), from the variance 5 / (4 k) of the squared ratio.
    assert gaps[2] == pytest.approx(5 / 8 / np.sqrt(2) / 200_000, rel=1e-3)


def test_paper_corollaries():
    k, alpha = 50, 0.3
    root = np.sqrt(k)
    sigma = alpha * 2.0 * root / np.sqrt(2 * np.pi)
    uniform = alpha * 2.0 * root / (4 * np.sqrt(2))
    discrete = alpha * (2 * (1 + 2) / 5) * root / (2 * np.sqrt(2))
    for law, unscaled in (
        (laws.Gaussian(2.0), sigma),
        (laws.Uniform(2.0), uniform),
        (laws.DiscreteUniform(2), discrete),
    ):
        found = theory.price_tanner_lower(laws.Sparse(law, alpha), k)
        assert found == pytest.approx(unscaled / root)


def test_sharp_bounds_gain_a_root_of_two_and_stay_below_the_truth():
    weights = laws.Gaussian(1.0)
    for k in (2, 8, 100, 5000):
        lower, sharp = theory.price_tanner_lower(weights, k), theory.price_tanner_sharp(weights, k)
        assert (
            lower < sharp < theory.gaussian_growth(1.0, k) < theory.second_moment_upper(weights, k)
        )
    assert sharp / lower == pytest.approx(np.sqrt(2), rel=1e-3)


def test_log_growth_is_the_mean_of_the_logarithm():
    k, rng = 6, np.random.default_rng(0)
    active = rng.binomial(k, 0.5, 400_000)
    active = active[active > 0]
    logs = 0.5 * np.log(rng.chisquare(active)) + np.log(1.3 / np.sqrt(k))
    error = logs.std() / np.sqrt(len(logs))
    assert abs(theory.gaussian_log_growth(1.3, k) - logs.mean()) < 4 * error


def test_raghu_formulas():
    assert theory.raghu_lower(2.0, 0.0, 32, "hard_tanh") == pytest.approx(0.604, abs=1e-3)
    assert theory.raghu_sharp(2.0, 0.0, 32, "hard_tanh") == pytest.approx(1.150, abs=1e-3)
    assert theory.raghu_rate(2.0, 0.0, 32, "hard_tanh") == pytest.approx(1.37, abs=5e-3)
    assert theory.raghu_rate(1.0, 0.0, 32, "relu") == pytest.approx(0.985, abs=1e-3)
    sigma = np.array([0.5, 2.0, 8.0])
    for activation in ("relu", "hard_tanh"):
        lower = theory.raghu_lower(sigma, 0.3, 64, activation)
        sharp = theory.raghu_sharp(sigma, 0.3, 64, activation)
        assert np.all(lower < sharp)
        assert np.all(sharp < theory.lipschitz_upper(sigma, 64))
    # A brute-force mean of chi_{max(A - 1, 0)}.
    rng = np.random.default_rng(3)
    free = np.maximum(rng.binomial(10, 0.5, 300_000) - 1, 0)
    chi = np.sqrt(rng.chisquare(np.maximum(free, 1))) * (free > 0)
    expected, error = chi.mean() / np.sqrt(10), chi.std() / np.sqrt(3e6)
    assert abs(theory.raghu_sharp(1.0, 0.0, 10, "relu") - expected) < 4 * error


def test_lipschitz_upper_is_below_the_papers_form():
    for k in (1, 5, 300):
        assert theory.lipschitz_upper(1.0, k) <= min(1.0, np.sqrt((k + 1) / k))


def test_critical_pairs_lie_on_the_curve_where_the_factor_is_one():
    density = np.array([0.1, 0.5, 1.0])
    factors = (theory.second_moment_upper, theory.price_tanner_lower, theory.price_tanner_sharp)
    for factor in factors:
        for law in (laws.Gaussian(3.0), laws.Uniform(0.2), laws.DiscreteUniform(4)):
            sigma = theory.critical_sigma(density, 100, law=law, factor=factor)
            back = theory.critical_density(sigma, 100, law=law, factor=factor)
            assert back == pytest.approx(density)
        gaussian = theory.critical_sigma(density, 100, factor=factor)
        for s, a in zip(gaussian, density, strict=True):
            assert factor(laws.Sparse(laws.Gaussian(s), a), 100) == pytest.approx(1.0)
    assert theory.critical_sigma(0.5, 784) == pytest.approx(2.0)
    assert np.isnan(theory.critical_density(1.0, 784))


def test_composed_multiplies_layers_and_keeps_sweeps():
    assert theory.composed([2.0, 3.0]).tolist() == [2.0, 6.0]
    assert theory.composed(np.array([1.0, 2.0]), 3).tolist() == [[1, 1, 1], [2, 4, 8]]


def test_bounds_broadcast_over_sweeps():
    weights = laws.Sparse(laws.Gaussian(np.ones((4, 1))), np.linspace(0.1, 1, 3)[None])
    assert theory.second_moment_upper(weights, 20).shape == (4, 3)
    assert theory.price_tanner_sharp(weights, 20).shape == (4, 3)


def test_per_layer_takes_laws_and_sizes_from_the_network():
    from jaxexpr import MLP

    weights = [laws.Gaussian(np.array([1.0, 2.0])), laws.Sparse(laws.Uniform(3.0), 0.5)]
    net = MLP((4, 8, 16), weights, laws.Zero())
    found = theory.per_layer(theory.price_tanner_lower, net)
    assert found.shape == (2, 2)
    assert found[1, 0] == pytest.approx(theory.price_tanner_lower(laws.Gaussian(2.0), 8, 4))
    assert found[0, 1] == pytest.approx(theory.price_tanner_lower(weights[1], 16, 8))


def test_the_share_of_a_curve_that_turns():
    """1 on circles around 0; on a line the angle at which it is seen, over its length."""
    for axes in ([[3.0, 0.0], [0.0, 3.0]], np.eye(5)[:2]):
        assert theory.turning_share(curves.circle(*axes)) == pytest.approx(1.0, abs=1e-12)
    # Across the segment from (1, -1) to (1, 1): the integral of 1 / sqrt(1 + y^2).
    seen = theory.turning_share(curves.line([1.0, -1.0], [1.0, 1.0]))
    assert seen == pytest.approx(np.arcsinh(1.0), rel=1e-6)
    assert theory.turning_share(curves.line([1.0, 1.0], [2.0, 2.0])) == pytest.approx(0, abs=1e-7)
    for wrong, says in (
        (3, "curve=3"),
        (curves.line([0.0], [1.0], whole=True), "finite length"),
    ):
        with pytest.raises(ValueError, match=says):
            theory.turning_share(wrong)


def test_lengths_of_curves():
    assert curves.line([0.0, 0.0], [3.0, 4.0]).length() == pytest.approx(5.0)
    assert curves.circle([2.0, 0.0], [0.0, 2.0]).length() == pytest.approx(4 * np.pi)
    assert curves.line([0.0], [1.0], whole=True).length() == np.inf
