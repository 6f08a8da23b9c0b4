"""Mean field theory: published values, draws, and wide networks."""

import jax
import numpy as np
import pytest
from scipy.special import erf

from jaxexpr import MLP, curves, estimate, laws, theory
from jaxexpr.activations import piecewise_linear

FUNCTIONS = {
    "relu": lambda h: np.maximum(h, 0),
    "leaky_relu": lambda h: np.where(h > 0, h, 0.01 * h),
    "abs": np.abs,
    "hard_tanh": lambda h: np.clip(h, -1, 1),
    "tanh": np.tanh,
    "erf": erf,
    "linear": lambda h: h,
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


def test_curvature_by_draws():
    h = np.random.default_rng(1).normal(size=2_000_000) * np.sqrt(1.7)
    for activation, slope, bend in (
        ("erf", lambda h: 2 / np.sqrt(np.pi) * np.exp(-h * h),
         lambda h: -4 / np.sqrt(np.pi) * h * np.exp(-h * h)),
        ("tanh", lambda h: 1 - np.tanh(h) ** 2,
         lambda h: -2 * np.tanh(h) * (1 - np.tanh(h) ** 2)),
    ):  # fmt: skip
        chi1, chi2 = (1.4**2 * (f(h) ** 2).mean() for f in (slope, bend))
        exact = theory.curvature_map(0.5, 1.7, 1.4, activation)
        assert exact == pytest.approx(3 * chi2 / chi1**2 + 0.5 / chi1, rel=5e-3)


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
