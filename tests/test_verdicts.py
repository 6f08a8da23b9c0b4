"""Verdicts: proven statements pass, wrong ones fail, however many are judged together."""

import jax
import numpy as np
import pytest

from jaxexpr import MLP, Estimate, estimate, judge, laws, theory, verdict


@pytest.fixture(scope="module")
def growth():
    net = MLP((32,) * 5, laws.Gaussian(2.0), laws.Gaussian(0.1))
    from jaxexpr import curves

    line = curves.line(*np.random.default_rng(0).normal(size=(2, 32)))
    return estimate(net, line, key=jax.random.key(0), draws=8_000, points=4)["growth"]


def test_two_per_cent_are_noticed(growth):
    exact = theory.gaussian_growth(2.0, 32)
    assert np.all(growth.sem < 0.003 * growth.mean)
    assert verdict(growth, lower=0.98 * exact)
    assert verdict(growth, upper=1.02 * exact)
    assert verdict(growth, exact, exact)
    assert not verdict(growth, lower=1.02 * exact)
    assert not verdict(growth, upper=0.98 * exact)


def test_it_says_where_and_by_how_much():
    samples = np.random.default_rng(1).normal([1.0, 2.0, 3.0], 0.1, size=(400, 3))
    made = Estimate.of(samples)
    found = verdict(made, lower=[0.5, 2.1, 1.0], name="claim")
    assert not found.holds
    assert found.where == (1,)
    assert found.margin == pytest.approx((made.mean[1] - 2.1) / made.sem[1])
    assert "FAILS" in str(found)
    assert "layer 2" in str(found)
    assert found.comparisons == 3


def test_words():
    made = Estimate.of(np.random.default_rng(2).normal(1.0, 0.1, size=(500, 2)))
    assert str(verdict(made, lower=0.5)).startswith("holds")
    assert str(verdict(made, lower=made.mean + made.sem)).startswith("unresolved")
    assert str(verdict(made, 1.0, 1.0)).startswith("agrees")
    assert str(verdict(made, lower=1.1)).startswith("FAILS")


def test_a_true_equality_fails_no_more_often_than_the_level():
    rng = np.random.default_rng(3)
    failures = 0
    for _ in range(2_000):
        made = Estimate.of(rng.normal(size=(20, 10)))
        failures += not verdict(made, 0.0, 0.0, level=0.05)
    # 2 000 x 0.05 = 100 expected at most; and not far fewer, or the test had no power.
    assert 60 < failures < 135


def test_statements_judged_together_share_the_level():
    rng = np.random.default_rng(4)
    made = Estimate.of(rng.normal(0.0, 1.0, size=(1000, 1)))
    bound = float(made.mean[0] + 3.2 * made.sem[0])
    alone = verdict(made, lower=bound)
    assert not alone.holds
    together = judge([alone] * 10)
    assert all(v.holds and v.comparisons == 10 for v in together)
    with pytest.raises(ValueError, match="one level"):
        judge([alone, verdict(made, lower=bound, level=0.1)])


def test_layers_that_no_network_reached_are_not_compared():
    made = Estimate.of(np.array([[1.0, np.nan], [1.1, np.nan], [0.9, np.nan]]))
    found = verdict(made, lower=0.0)
    assert found.comparisons == 1
    nothing = verdict(Estimate.of(np.full((3, 1), np.nan)), lower=0.0)
    assert nothing.comparisons == 0
    assert "no data" in str(nothing)


def test_one_network_refutes_nothing_and_rounding_is_no_violation():
    assert verdict(Estimate.of([[1.0]]), lower=2.0).holds
    same = Estimate.of(np.full((10, 1), np.float64(np.float32(0.1))))
    assert verdict(same, 0.1, 0.1).holds
    many = Estimate.of(np.full((20_000, 1), np.float64(np.float32(0.1))))
    assert not verdict(many, lower=0.1001).holds


def test_networks_that_are_all_alike_say_little_of_those_not_drawn():
    """Of 20 numbers that are 1 with probability 0.95, else 0, all are 1 in a third of all runs."""
    alike = verdict(Estimate.of(np.ones((20, 1))), 0.95, 0.95)
    assert alike.holds and alike.sem == 0 and alike.margin == pytest.approx(-1.0)
    assert not verdict(Estimate.of(np.ones((400, 1))), 0.95, 0.95).holds
    assert not verdict(Estimate.of(np.zeros((20, 1))), lower=0.5).holds


def test_the_worst_place_is_the_one_nearest_to_failing():
    # Three networks are allowed a far larger miss, in standard errors, than a thousand.
    samples = np.full((1000, 2), np.nan)
    samples[:, 0] = np.tile([-1.0, 1.0], 500)
    samples[:3, 1] = [-1.0, 0.0, 1.0]
    made = Estimate.of(samples)
    found = verdict(made, lower=[2.9 * made.sem[0], 5.0 * made.sem[1]])
    assert found.margin == pytest.approx(-2.9)
    assert found.where == (0,) and found.holds
    assert found.n == 1000 and found.allowed == pytest.approx(3.3, abs=0.02)
