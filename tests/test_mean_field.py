"""Mean field theory: published values, draws, and wide networks."""

import itertools
import math

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import erf

from jaxexpr import MLP, curves, estimate, laws, theory
from jaxexpr.activations import leaky_relu, piecewise_linear

KINKS = piecewise_linear([-0.5, 0.2, 1.5], [0.3, -2.0, 1.0, 0.1], name="kinks")
STEEP = leaky_relu(-1.7)
FUNCTIONS = {
    "relu": lambda h: np.maximum(h, 0),
    "leaky_relu": lambda h: np.where(h > 0, h, 0.01 * h),
    "abs": np.abs,
    "hard_tanh": lambda h: np.clip(h, -1, 1),
    "tanh": np.tanh,
    "erf": erf,
    "linear": lambda h: h,
}
UNLIKE = FUNCTIONS | {
    "steep": lambda h: np.where(h > 0, h, -1.7 * h),
    "kinks": lambda h: np.interp(h, [-50.5, -0.5, 0.2, 1.5, 51.5], [-14.0, 1.0, -0.4, 0.9, 5.9]),
}


@pytest.mark.parametrize(
    ("activation", "diagonal", "other"),
    [("erf", 1.0808743, 0.13338342), ("relu", 12.08049518, 11.57580758)],
)
def test_twenty_layers_end_where_they_are_known_to_end(activation, diagonal, other):
    x = np.array([[1.0, 0.0], [0.6, 0.8]])
    kernel = 1.5**2 * x @ x.T / 2 + 0.05**2
    for _ in range(20):
        q = theory.length_map(np.diag(kernel), 1.5, 0.05, activation)
        both = theory.covariance_map(*np.diag(kernel), kernel[0, 1], 1.5, 0.05, activation)
        kernel = np.array([[q[0], both], [both, q[1]]])
    assert kernel[0, 0] == pytest.approx(diagonal, rel=1e-7)
    assert kernel[0, 1] == pytest.approx(other, rel=1e-7)


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("c", [-1.0, -0.4, 0.9, 1.0])
def test_covariances_are_those_of_draws(activation, c):
    f, z = FUNCTIONS[activation], np.random.default_rng(0).normal(size=(2, 1_000_000))
    h1 = np.sqrt(2.0) * z[0]
    h2 = np.sqrt(0.7) * (c * z[0] + np.sqrt(1 - c * c) * z[1])
    drawn = 1.3**2 * f(h1) * f(h2) + 0.2**2
    exact = theory.covariance_map(2.0, 0.7, c * np.sqrt(1.4), 1.3, 0.2, activation)
    assert abs(drawn.mean() - exact) < 4.5 * drawn.std() / 1000 + 1e-9


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("q", [0.01, 1.0, 40.0])
def test_equal_inputs_have_the_length_and_slopes_are_derivatives(activation, q):
    same = theory.covariance_map(q, q, q, 1.3, 0.2, activation)
    assert same == pytest.approx(float(theory.length_map(q, 1.3, 0.2, activation)), rel=1e-9)
    # The slope of the correlation map at 1 is chi_1 q / q'.
    step = 1e-7
    above = float(theory.length_map(q, 1.3, 0.2, activation))
    fall = 1 - float(theory.correlation_map(1 - step, q, 1.3, 0.2, activation))
    slope = float(theory.chi_1(q, 1.3, activation)) * q / above
    # Activations with a corner have a correlation map with a root there.
    assert fall / step == pytest.approx(slope, rel=2e-3)


def test_any_piecewise_linear_activation():
    clip = piecewise_linear([-1.0, 1.0], [0.0, 1.0, 0.0], name="clip")
    for q12 in (-0.5, 0.3):
        values = [
            theory.covariance_map(1.0, 2.0, q12, 2.0, 0.1, phi) for phi in (clip, "hard_tanh")
        ]
        assert values[0] == pytest.approx(float(values[1]), rel=1e-12)


def test_fixed_points_are_fixed_and_change_at_the_edge():
    for activation in ("tanh", "erf", "hard_tanh"):
        edge = float(theory.edge_of_chaos(0.3, activation))
        for w, ordered in ((0.9 * edge, True), (1.2 * edge, False)):
            q = theory.fixed_length(w, 0.3, activation)
            assert theory.length_map(q, w, 0.3, activation) == pytest.approx(float(q), rel=1e-9)
            assert (theory.chi_1(q, w, activation) < 1) == ordered
            c = theory.fixed_correlation(w, 0.3, activation)
            assert (float(c) == 1.0) == ordered
            again = theory.correlation_map(c, q, w, 0.3, activation)
            assert again == pytest.approx(float(c), abs=1e-9)
        # Odd maps: -1 is fixed as well, and nothing converges to it.
        assert theory.fixed_correlation(2.0, 0.0, activation) == pytest.approx(0, abs=1e-9)
    assert theory.fixed_length(2**0.5, 0.0, "relu") == 1  # every length is kept
    assert theory.fixed_length(0.5, 0.0, "tanh") == 0
    assert theory.fixed_length(2.0, 0.1, "relu") == np.inf
    assert np.isnan(theory.fixed_correlation(2.0, 0.1, "relu"))
    assert theory.fixed_length(np.array([0.5, 1.0]), 1.0, "relu").shape == (2,)


def test_the_number_of_the_theory_sheet():
    q = theory.fixed_length(4.0, 0.0, "hard_tanh")
    assert np.sqrt(theory.chi_1(q, 4.0, "hard_tanh")) == pytest.approx(1.845, abs=5e-4)
    assert theory.chi_1(q, 4.0, "hard_tanh") == pytest.approx(16 * erf(1 / np.sqrt(2 * q)))


@pytest.mark.parametrize(
    ("activation", "sigma"), [("hard_tanh", 4.0), ("tanh", 3.0), ("relu", 2.0)]
)
def test_wide_networks_grow_as_mean_field_says(activation, sigma):
    width, depth = 512, 6
    net = MLP((width,) * (depth + 1), laws.Gaussian(sigma), laws.Gaussian(0.2), activation)
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(width, 2)))
    circle = curves.circle(*(np.sqrt(width) * q.T))
    made = estimate(
        net, circle, key=jax.random.key(0), draws=60, probes="growth", method="gram", points=24
    )
    expected = theory.mean_field_growth(net, 1.0)
    np.testing.assert_allclose(made["growth"].mean, expected, rtol=0.03)


KNOWN = {"steep": STEEP, "kinks": KINKS}
CORNERS = {"hard_tanh": (-1.0, 1.0), "kinks": (-0.5, 0.2, 1.5)}


def normal_mean(function, std, corners=(0.0,)):
    """The mean of ``function(N(0, std^2))`` by Gauss and Legendre between corners."""
    x, w = np.polynomial.legendre.leggauss(120)
    edges = [-9 * std, *(c for c in corners if abs(c) < 9 * std), 9 * std]
    total = 0.0
    for a, b in itertools.pairwise(edges):
        h = (a + b) / 2 + (b - a) / 2 * x
        total += (b - a) / 2 * (w @ (function(h) * stats.norm.pdf(h, scale=std)))
    return total


@pytest.mark.parametrize("name", UNLIKE)
def test_maps_of_length_and_slope_by_integration(name):
    phi, f, corners = KNOWN.get(name, name), UNLIKE[name], CORNERS.get(name, (0.0,))
    q, sigma_w, sigma_b = 1.4, 1.3, 0.6
    length = sigma_w**2 * normal_mean(lambda h: f(h) ** 2, q**0.5, corners) + sigma_b**2
    assert theory.length_map(q, sigma_w, sigma_b, phi) == pytest.approx(length, rel=1e-9)
    step = 1e-5  # no node is so near to a corner
    chi = sigma_w**2 * normal_mean(
        lambda h: ((f(h + step) - f(h - step)) / (2 * step)) ** 2, q**0.5, corners
    )
    assert theory.chi_1(q, sigma_w, phi) == pytest.approx(chi, rel=1e-8)


@pytest.mark.parametrize("name", ["relu", "steep", "hard_tanh", "kinks", "tanh", "erf"])
def test_maps_of_covariance_and_correlation_by_sums(name):
    phi, f, c = KNOWN.get(name, name), UNLIKE[name], -0.35
    x = np.linspace(-8, 8, 1201)
    weights = stats.norm.pdf(x) * (x[1] - x[0])
    q1, q2, sigma_w, sigma_b = 2.3, 0.6, 1.3, 0.6

    def mean(q1, q2):
        h = math.sqrt(q2) * (c * x[:, None] + math.sqrt(1 - c * c) * x[None])
        return weights @ (f(math.sqrt(q1) * x)[:, None] * f(h)) @ weights

    both = sigma_w**2 * mean(q1, q2) + sigma_b**2
    found = theory.covariance_map(q1, q2, c * math.sqrt(q1 * q2), sigma_w, sigma_b, phi)
    assert found == pytest.approx(both, rel=3e-5, abs=3e-5)
    same = (weights * f(math.sqrt(q1) * x) ** 2).sum()
    correlation = (sigma_w**2 * mean(q1, q1) + sigma_b**2) / (sigma_w**2 * same + sigma_b**2)
    found = theory.correlation_map(c, q1, sigma_w, sigma_b, phi)
    assert found == pytest.approx(correlation, rel=1e-4, abs=1e-4)


def test_bends_of_smooth_activations_by_integration():
    kappa, q, sigma_w = 0.8, 1.4, 1.3
    for name, slope, bend in (
        ("tanh", lambda h: 1 / np.cosh(h) ** 2, lambda h: -2 * np.tanh(h) / np.cosh(h) ** 2),
        ("erf", lambda h: 2 / math.sqrt(math.pi) * np.exp(-h * h),
         lambda h: -4 * h / math.sqrt(math.pi) * np.exp(-h * h)),
    ):  # fmt: skip
        chi = [
            sigma_w**2 * normal_mean(lambda h, f=f: f(h) ** 2, math.sqrt(q)) for f in (slope, bend)
        ]
        expected = 3 * chi[1] / chi[0] ** 2 + kappa / chi[0]
        found = theory.curvature_map(kappa, q, sigma_w, name)
        assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("activation", "gain"), [("relu", 0.5), ("abs", 1.0), (STEEP, 1.945)])
def test_fixed_points_of_homogeneous_activations(activation, gain):
    # q = gain sigma_w^2 q + sigma_b^2; (1 + 1.7^2) / 2 = 1.945.
    edge = 1 / math.sqrt(gain)
    sigma_w, sigma_b = 0.8 * edge, 0.7
    fixed = sigma_b**2 / (1 - 0.64)
    assert theory.fixed_length(sigma_w, sigma_b, activation) == pytest.approx(fixed, rel=1e-12)
    assert theory.fixed_length(sigma_w, 0.0, activation) == 0
    assert theory.fixed_length(1.01 * edge, 0.0, activation) == np.inf
    assert theory.edge_of_chaos([0.0, 0.7], activation) == pytest.approx([edge] * 2, rel=1e-12)


def test_mean_field_growth_at_unequal_widths():
    weights = [laws.Gaussian(1.5), laws.Uniform(2.0), laws.Sparse(laws.TwoPoint(3.0), 0.4)]
    biases = [laws.Gaussian(0.3), laws.Zero(), laws.Uniform(0.9)]
    net = MLP((4, 7, 3, 5), weights, biases, "tanh")
    stds = ((1.5, 0.3), (2 / math.sqrt(3), 0.0), (3 * math.sqrt(0.4), 0.9 / math.sqrt(3)))
    moment, expected = 0.6, []
    for (w, b), fan_in, width in zip(stds, (4, 7, 3), (7, 3, 5), strict=True):
        std = math.sqrt(w**2 * moment + b**2)
        chi = w**2 * normal_mean(lambda h: 1 / np.cosh(h) ** 4, std)
        expected.append(math.sqrt(chi * width / fan_in))
        moment = normal_mean(lambda h: np.tanh(h) ** 2, std)
    np.testing.assert_allclose(theory.mean_field_growth(net, 0.6), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.length_map(-1.0, 1, 0, "relu"), "q=-1.0"),
        (lambda: theory.chi_1(1.0, -2.0, "relu"), "sigma_w=-2.0"),
        (lambda: theory.covariance_map(1, 1, 2.0, 1, 0, "tanh"), "q12=2.0"),
        (lambda: theory.correlation_map(1.5, 1, 1, 0, "tanh"), "c=1.5"),
        (lambda: theory.curvature_map(1, 1, 1, "relu"), "corners"),
        (lambda: theory.length_map(1, 1, 0, "swish"), "swish"),
        (lambda: theory.mean_field_growth("net", 1.0), "jaxexpr.MLP"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_transitions_over_length_in_wide_networks():
    """A great circle of radius sqrt(n), on which the input's length does not change."""
    net = MLP((50, *(400,) * 3), laws.Gaussian(1.6), laws.Gaussian(0.3), "hard_tanh")
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 2)))[0].T * 50**0.5
    made = estimate(
        net,
        curves.circle(*axes),
        key=jax.random.key(0),
        draws=60,
        probes=("expected_transitions", "length"),
        method="gram",
        points=40,
    )
    found = made["expected_transitions"].mean / made["length"].mean
    np.testing.assert_allclose(found, theory.transitions_over_length(net, 1.0), rtol=0.01)


def test_transitions_over_length_refuses():
    with pytest.raises(ValueError, match="activation='tanh', which is smooth"):
        theory.transitions_over_length(MLP((3, 4), laws.Gaussian(1.0), laws.Zero(), "tanh"), 1.0)
    with pytest.raises(ValueError, match="net=3 is not a random network"):
        theory.transitions_over_length(3, 1.0)
