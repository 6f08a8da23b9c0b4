"""Expected transitions: Rice's formula beside exact counts and closed forms."""

import jax
import numpy as np
import pytest
from scipy import stats

from jaxexpr import MLP, curves, estimate, kernel, laws, measure, theory
from jaxexpr.probes.kac_rice import crossing_rate

KEY = jax.random.key(11)
BOTH = ("transitions", "expected_transitions")


@pytest.mark.parametrize(("activation", "sigma_b"), [("relu", 0.0), ("hard_tanh", 0.5)])
def test_the_mean_of_exact_counts_on_arcs(activation, sigma_b):
    net = MLP((8, 16, 16), laws.Gaussian(2.0), laws.Gaussian(sigma_b), activation)
    arc = curves.arc(*np.random.default_rng(0).normal(size=(2, 8)))
    made = estimate(net, arc, key=KEY, draws=3000, probes=BOTH)
    counted, expected = (made[name] for name in BOTH)
    error = np.hypot(counted.sem, expected.sem)
    assert np.all(np.abs(counted.mean - expected.mean) < 4 * error)
    assert np.all(error < 0.01 * counted.mean)
    assert expected.converged.all()
    # Knowing the layer below takes variance away: all of it in the first layer.
    assert expected.sem[0] < 1e-5 * counted.sem[0]
    assert np.all(expected.sem[1:] < 0.85 * counted.sem[1:])


@pytest.mark.parametrize("activation", ["relu", "hard_tanh"])
@pytest.mark.parametrize("sigma_b", [0.0, 0.5])
def test_the_first_layer_in_closed_form(activation, sigma_b):
    net = MLP((8, 16), laws.Gaussian(2.0), laws.Gaussian(sigma_b), activation, dtype="float64")
    x0, x1 = np.random.default_rng(0).normal(size=(2, 8))

    def rice(curve):
        made = estimate(net, curve, key=KEY, draws=2, probes="expected_transitions", points=3000)
        return made["expected_transitions"].mean[0]

    line = theory.line_transitions(x0, x1, 2.0, sigma_b, 16, activation)
    assert rice(curves.line(x0, x1)) == pytest.approx(float(line), rel=1e-6)
    across = x1 - (x1 @ x0) / (x0 @ x0) * x0
    across *= np.linalg.norm(x0) / np.linalg.norm(across)
    arc = theory.circle_transitions(np.linalg.norm(x0), np.pi / 2, 8, 2.0, sigma_b, 16, activation)
    assert rice(curves.arc(x0, across)) == pytest.approx(float(arc), rel=1e-9)


def test_lines_in_closed_form_by_drawing():
    # Ends of unlike norms, levels that few units reach, near-parallel and opposite ends.
    rng = np.random.default_rng(1)
    for x0, x1 in (
        ([0.1, 0.0], [3.0, 0.5]),
        ([1.0, 0.0], [1.1, 0.001]),
        ([1.0, 2.0], [-1.0, -2.0]),
        ([1.0, 2.0], [2.0, 4.0]),
    ):
        for sigma_b in (0.0, 0.7):
            h = rng.normal(size=(1_000_000, 2)) @ np.array([x0, x1]).T * (1.5 / 2**0.5)
            h += sigma_b * rng.normal(size=(len(h), 1))
            for activation, levels in (("relu", (0.0,)), ("hard_tanh", (-1.0, 1.0))):
                apart = sum(((h > c)[:, 0] != (h > c)[:, 1]).astype(float) for c in levels)
                exact = theory.line_transitions(x0, x1, 1.5, sigma_b, 1, activation)
                error = max(apart.std(), 0.01) / np.sqrt(len(h))
                assert abs(apart.mean() - exact) < 4.5 * error, (x0, x1, sigma_b, activation)


def test_lines_that_begin_at_the_origin():
    # All units are 0 there; each of the two levels is crossed by one tail.
    ends = np.array([[0.0, 0.0], [1.0, 2.0]])
    tails = 2 * stats.norm.sf(1 / np.sqrt(1.5**2 * 5 / 2))
    for x0, x1 in (ends, ends[::-1]):
        found = theory.line_transitions(x0, x1, 1.5, 0.0, 1, "hard_tanh")
        assert found == pytest.approx(tails, rel=1e-12)
        assert theory.line_transitions(x0, x1, 1.5, 0.0, 1, "relu") == 0
    net = MLP((2, 400), laws.Gaussian(1.5), laws.Zero(), "hard_tanh", dtype="float64")
    made = estimate(net, curves.line(*ends), key=KEY, draws=400, probes="transitions")
    assert abs(made["transitions"].mean[0] - 400 * tails) < 4.5 * made["transitions"].sem[0]


def test_levels_other_than_one_and_unlike_slopes():
    # A line through a Gaussian field crosses level c just when its ends lie on different sides.
    rng = np.random.default_rng(2)
    x0, x1 = np.array([1.0, 0.2]), np.array([-0.3, 1.4])
    t = (np.arange(20_000) + 0.5) / 20_000
    z = x0 + t[:, None] * (x1 - x0)
    with jax.enable_x64(True):
        dz = np.broadcast_to(x1 - x0, z.shape)
        found = float(
            np.mean(crossing_rate(jax.numpy.asarray(z), jax.numpy.asarray(dz), 1.3, 0.4, 0.8))
        )
    h = rng.normal(size=(2_000_000, 2)) @ (1.3 * np.array([x0, x1]).T)
    h += 0.4 * rng.normal(size=(len(h), 1))
    apart = (h[:, 0] > 0.8) != (h[:, 1] > 0.8)
    assert abs(apart.mean() - found) < 4 * apart.std() / np.sqrt(len(h))


def test_deep_networks_keep_their_scale():
    line = curves.line(*np.random.default_rng(3).normal(size=(2, 8)))
    counts = {}
    for sigma in (1e-3, 2**0.5, 30.0):
        net = MLP((8,) + (24,) * 50, laws.Gaussian(sigma), laws.Zero())
        made = estimate(net, line, key=KEY, draws=200, probes="expected_transitions")
        counts[sigma] = made["expected_transitions"].mean
    # Without biases a scale changes no crossing.
    np.testing.assert_allclose(counts[1e-3], counts[30.0], rtol=1e-3)
    np.testing.assert_allclose(counts[2**0.5], counts[30.0], rtol=1e-3)


def test_gram_sampling_and_kernels_know_it():
    line = curves.line(*np.random.default_rng(3).normal(size=(2, 8)))
    net = MLP((8, 40, 40, 40), laws.Gaussian(3.0), laws.Gaussian(0.3), "hard_tanh")
    options = {"key": KEY, "draws": 2000, "probes": "expected_transitions", "points": 40}
    drawn = estimate(net, line, **options)["expected_transitions"]
    gram = estimate(net, line, method="gram", **options)["expected_transitions"]
    error = np.hypot(drawn.sem, gram.sem)
    assert np.all(np.abs(drawn.mean - gram.mean) < 4 * error + 1e-5 * drawn.mean)
    one = kernel(net, line, probes="expected_transitions", points=40)(jax.random.fold_in(KEY, 0))
    assert one["expected_transitions"].shape == (3,)


def test_rate_of_raghu():
    widths = np.array([64, 1024])
    rates = [float(theory.raghu_transitions(5.0, 0.0, int(k))) for k in widths]
    np.testing.assert_allclose(rates, 2 / np.pi * np.sqrt(widths), rtol=0.01)
    assert theory.raghu_transitions(np.array([1.0, 2.0]), 1.0, 100).shape == (2,)


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (MLP((2, 4), laws.Uniform(1.0), laws.Zero()), r"weights\[0\] is Uniform"),
        (MLP((2, 4), laws.Sparse(laws.Gaussian(1.0), 0.5), laws.Zero()), r"weights\[0\] is Sparse"),
        (MLP((2, 4), laws.Gaussian(1.0), laws.TwoPoint(1.0)), r"biases\[0\] is TwoPoint"),
        (MLP((2, 4), laws.Gaussian(1.0), laws.Zero(), "tanh"), "smooth"),
    ],
)
def test_other_laws_are_refused_by_name(net, words):
    line = curves.line([1.0, 0.0], [0.0, 1.0])
    with pytest.raises(ValueError, match=words):
        estimate(net, line, key=KEY, draws=3, probes="expected_transitions")


def test_given_parameters_have_no_expectation():
    params = MLP((2, 4), laws.Gaussian(1.0), laws.Zero()).init(KEY)
    with pytest.raises(ValueError, match="params are given"):
        measure(params, curves.line([1.0, 0.0], [0.0, 1.0]), probes="expected_transitions")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: theory.line_transitions([1.0], [1.0, 2.0], 1, 0, 3), r"shapes \(1,\) and \(2,\)"),
        (lambda: theory.line_transitions([1.0], [2.0], -1, 0, 3), "sigma_w"),
        (lambda: theory.line_transitions([1.0], [2.0], 1, 0, 3, "tanh"), "smooth"),
        (lambda: theory.circle_transitions(-1.0, 1, 2, 1, 0, 3), "radius"),
        (lambda: theory.circle_transitions(1.0, 1, 2, 1, 0, 0), "width=0"),
        (lambda: theory.raghu_transitions(-1.0, 0, 3), "sigma_w"),
        (lambda: theory.boundary_upper(MLP((2, 3), laws.Gaussian(1.0), laws.Zero())), "density"),
        (lambda: theory.distance_lower("net"), "jaxexpr.MLP"),
    ],
)
def test_closed_forms_name_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call()
