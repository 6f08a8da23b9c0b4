"""Crossings of any level, the whole network's transitions, distinct patterns, perturbations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import (
    MLP,
    crossings,
    curves,
    estimate,
    exact,
    expected_crossings,
    kernel,
    laws,
    measure,
    perturbations,
    prng,
)
from jaxexpr.ensemble.perturbation_growth import DIRECTION
from jaxexpr.theory import gaussian_growth, mean_field_growth

KEY = jax.random.key(2)
ENDS = np.random.default_rng(3).normal(size=(2, 12))
WIDTHS, BIASES = (12, 16, 16), laws.Gaussian(0.4)
CURVES = {
    "line": curves.line(*ENDS),
    "whole": curves.line(*ENDS, whole=True),
    "arc": curves.arc(*ENDS),
    "circle": curves.circle(*ENDS),
    "polyline": curves.polyline(np.random.default_rng(4).normal(size=(4, 12))),
}


def network(activation="hard_tanh", sigma=4.0):
    return MLP(WIDTHS, laws.Gaussian(sigma), BIASES, activation, dtype="float64")


def drawn(net):
    with jax.enable_x64(True):
        params = net.init(KEY)
    return [(np.asarray(W), np.asarray(b)) for W, b in params]


def brute(params, curve, levels, activation, points=400_001):
    """Crossings at a very fine grid, in NumPy."""
    z = np.asarray(curve.astype("float64").points(np.linspace(*curve.domain, points)))
    phi = {"hard_tanh": lambda h: np.clip(h, -1, 1), "relu": lambda h: np.maximum(h, 0)}[activation]
    found = []
    for W, b in params:
        h = z @ W + b
        found.append(sum(np.sum((h[1:] > c) != (h[:-1] > c)) for c in levels))
        z = phi(h)
    return np.array(found)


@pytest.mark.parametrize(
    ("kind", "activation"), [("line", "relu"), ("circle", "hard_tanh"), ("polyline", "hard_tanh")]
)
def test_crossings_are_those_of_a_very_fine_grid(kind, activation):
    net, curve = network(activation), CURVES[kind]
    params, levels = drawn(net), (-0.7, 0.0, 1.3)
    probe = crossings(*levels)
    found = measure(params, curve, activation=activation, probes=(probe, "sign_changes"))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(found[probe.name], brute(params, curve, levels, activation))
        np.testing.assert_array_equal(
            found["sign_changes"], brute(params, curve, (0.0,), activation)
        )


@pytest.mark.parametrize("kind", ["whole", "circle"])
def test_counted_passes_agree_with_passes_that_know_the_last_layer(kind):
    options = {"key": KEY, "draws": 4}
    breaks = crossings(-1.0, 1.0)
    counted = estimate(
        network(), CURVES[kind], probes=("transitions", "network_transitions", breaks), **options
    )
    whole = estimate(network(), CURVES[kind], probes=("transitions", "pieces"), **options)
    for name in ("transitions", breaks.name):
        np.testing.assert_allclose(counted[name].mean, whole["transitions"].mean, rtol=1e-12)
    total = np.cumsum(counted["transitions"].mean)
    np.testing.assert_allclose(counted["network_transitions"].mean, total, rtol=1e-12)


def test_one_layer_alone_is_counted_too():
    net = MLP((12, 16), laws.Gaussian(4.0), BIASES, "hard_tanh", dtype="float64")
    made = estimate(net, CURVES["arc"], key=KEY, draws=3, probes=("transitions", "sign_changes"))
    grid = estimate(
        net, CURVES["arc"], key=KEY, draws=3, probes=list(made), method="grid", points=20_001
    )
    for name, one in made.items():
        np.testing.assert_allclose(one.mean, grid[name].mean, rtol=1e-12)


def test_patterns_of_a_line_are_its_pieces_and_of_a_circle_the_regions():
    params = drawn(network())
    for kind in ("line", "circle"):
        listed = exact.patterns(params, CURVES[kind], "hard_tanh")
        distinct = [
            np.unique(np.concatenate(listed[: d + 1], axis=1), axis=0).shape[0] for d in range(2)
        ]
        alone = [np.unique(layer, axis=0).shape[0] for layer in listed]
        options = {"activation": "hard_tanh", "method": "grid", "points": 200_001}
        names = ("patterns", "layer_patterns")
        grid = measure(params, CURVES[kind], probes=names, **options)
        assert grid["patterns"].tolist() == distinct
        assert grid["layer_patterns"].tolist() == alone
        if kind == "line":
            found = measure(params, CURVES[kind], activation="hard_tanh", probes="patterns")
            assert found["patterns"].tolist() == distinct


def test_a_smooth_activation_has_transitions_where_thresholds_are_given():
    net = network("tanh")
    with pytest.raises(ValueError, match=r"smooth\): give thresholds, probes=jaxexpr.crossings"):
        estimate(net, CURVES["line"], key=KEY, draws=2, probes="transitions")
    made = estimate(net, CURVES["line"], key=KEY, draws=4, probes=crossings(-1.0, 1.0, name="both"))
    assert made["both"].method == "grid"
    assert np.all(made["both"].mean > 0)


def test_rescaled_networks_cross_levels_where_the_others_do():
    # Deep ReLU networks are carried in powers of two; a level other than 0 is not.
    probe = crossings(3.0)
    net = MLP(WIDTHS, laws.Gaussian(30.0), BIASES, "relu", dtype="float64")
    with jax.enable_x64(True):
        params = [(np.asarray(W), np.asarray(b)) for W, b in net.init(KEY)]
        expected = brute(params, CURVES["line"], (3.0,), "relu")
    for options in ({}, {"method": "grid", "points": 100_001}):
        found = measure(params, CURVES["line"], probes=probe, **options)
        np.testing.assert_array_equal(found[probe.name], expected)


def test_expected_crossings_of_a_level_in_rescaled_networks():
    net = MLP((12, 32, 32), laws.Gaussian(6.0), BIASES, "relu")
    probes = [crossings(2.0), expected_crossings(2.0)]
    counted, expected = estimate(net, CURVES["line"], key=KEY, draws=3000, probes=probes).values()
    error = np.hypot(counted.sem, expected.sem)
    assert np.all(error < 0.02 * counted.mean)
    assert np.all(np.abs(counted.mean - expected.mean) < 4 * error)


def test_grids_are_doubled_until_they_have_converged():
    options = {"key": KEY, "draws": 16, "probes": "transitions", "method": "grid"}
    net = MLP((12, 32, 32, 32, 32), laws.Gaussian(8.0), laws.Zero(), "hard_tanh")
    coarse = estimate(net, CURVES["circle"], points=129, **options)["transitions"]
    assert not coarse.converged.all()
    assert "NOT CONVERGED" in repr(coarse)
    fine = estimate(net, CURVES["circle"], refine=0.01, **options)["transitions"]
    assert fine.converged.all()
    assert fine.points > 4000
    exact_one = estimate(net, CURVES["circle"], key=KEY, draws=16, probes="transitions")
    np.testing.assert_allclose(fine.mean, exact_one["transitions"].mean, rtol=0.01)
    tangents = estimate(
        net, CURVES["circle"], key=KEY, draws=16, probes="length", points=30, method="tangent",
        refine=0.05,
    )["length"]  # fmt: skip
    assert tangents.points > 30
    assert tangents.converged.all()


def test_kernels_count_crossings_too():
    net = network()
    one = jax.jit(kernel(net, CURVES["arc"], probes=("sign_changes", "patterns"), method="grid"))
    with jax.enable_x64(True):
        made = jax.vmap(one)(jax.random.split(KEY, 3))
    assert made["patterns"].shape == (3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: crossings(), r"levels=\(\): give one or more levels"),
        (lambda: crossings(1.0, 1.0), "give one or more levels, each once"),
        (lambda: crossings(np.nan), "levels holds nan"),
        (
            lambda: estimate(
                network(), CURVES["circle"], key=KEY, draws=2, probes="patterns", method="exact"
            ),
            "curve is a circle, which may meet a region twice",
        ),
        (lambda: perturbations(network(), np.ones(5), key=KEY, draws=2), r"point has shape \(5,\)"),
        (
            lambda: perturbations(network(), np.ones(12), key=KEY, draws=2, refine=0.1),
            "refine=0.1: a derivative at one point has no grid",
        ),
        (
            lambda: perturbations("net", np.ones(5), key=KEY, draws=2),
            "net='net': perturbations are of",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_perturbations_grow_by_the_remaining_depth():
    """Raghu et al. 2017, section 3.1: the same growth wherever they are put in."""
    net = MLP((64,) * 8, laws.Gaussian(8**0.5), laws.Zero(), "hard_tanh")
    point = np.random.default_rng(0).normal(size=64)
    made = perturbations(net, 0.8 * point, key=KEY, draws=6000)["perturbation"]
    assert np.isnan(made.mean[3, 2])
    np.testing.assert_array_equal(np.diagonal(made.mean), 1)
    for remaining in range(1, 5):
        # From the second layer on lengths have settled.
        means, errors = (np.diagonal(x, remaining)[1:] for x in (made.mean, made.sem))
        assert np.all(errors < 0.01 * means)
        assert np.all(np.abs(means - means[0]) < 4.5 * np.hypot(errors, errors[0]))


@pytest.mark.parametrize(("sigma", "sigma_b"), [(1.0, 2.0), (3.0, 60.0), (1e12, 2.0)])
def test_perturbations_are_directions_sent_through_the_layers_above(sigma, sigma_b):
    # Narrow layers, some of them dead; biases that are as large as the weights, or lost beside.
    net = MLP((3, 4, 2, 2, 3), laws.Gaussian(sigma), laws.Gaussian(sigma_b), dtype="float64")
    point, draws, seen = np.array([0.5, -1.0, 2.0]), 6, []
    made = perturbations(net, point, key=KEY, draws=draws)

    def parts(key):
        """The network and the directions of this key."""
        words = [
            prng.words(prng.child(prng.seed(key), i, DIRECTION), (1, width)).second
            for i, width in enumerate(net.widths[1:])
        ]
        return net.init(key), [prng.normal(w, jnp.dtype("float64"))[0] for w in words]

    keys = jnp.stack([jax.random.fold_in(KEY, i) for i in range(draws)])
    with jax.enable_x64(True):
        drawn = jax.tree.map(np.asarray, jax.jit(jax.vmap(parts))(keys))
    for number in range(draws):
        params, moved = jax.tree.map(lambda x: x[number], drawn)  # noqa: B023
        z, open_, ratios = point, [], np.full((4, 4), np.nan)
        for W, b in params:
            h = z @ W + b
            z, open_ = np.maximum(h, 0), [*open_, h > 0]
        for first in range(4):
            d = moved[first] / np.linalg.norm(moved[first])
            ratios[first, first] = 1.0
            for last in range(first + 1, 4):
                d = (d @ params[last][0]) * open_[last]
                ratios[first, last] = np.linalg.norm(d)
        seen.append(ratios)
    seen = np.array(seen)
    means = np.where(np.tri(4, k=-1) == 1, np.nan, np.nan_to_num(seen).mean(axis=0))
    np.testing.assert_allclose(made["perturbation"].mean, means, rtol=1e-9)
    assert np.any(seen == 0)
    logs = np.log(np.where(seen > 0, seen, 1.0))
    counts = (seen > 0).sum(axis=0)
    assert made["log_perturbation"].n.tolist() == counts.tolist()
    some = counts > 0
    mean = logs.sum(axis=0)[some] / counts[some]
    np.testing.assert_allclose(made["log_perturbation"].mean[some], mean, rtol=1e-9, atol=1e-12)


def test_perturbations_of_relu_networks_follow_the_exact_law():
    net = MLP((8, 32, 32, 32), laws.Gaussian(2.0), laws.Zero(), "relu")
    made = perturbations(net, np.ones(8), key=KEY, draws=20_000)
    found = made["perturbation"]
    growth = float(gaussian_growth(2.0, 32))
    for first in range(3):
        for last in range(first + 1, 3):
            expected = growth ** (last - first)
            assert found.sem[first, last] < 0.003 * expected
            assert abs(found.mean[first, last] - expected) < 4 * found.sem[first, last]
    assert made["log_perturbation"].mean[0, 1] < np.log(growth)


def test_perturbations_of_deep_networks_stay_in_range():
    net = MLP((32,) * 121, laws.Gaussian(6.0), laws.Gaussian(1.0), "relu")
    made = perturbations(net, np.ones(32), key=KEY, draws=50)
    mean = made["log_perturbation"].mean[0] / np.maximum(np.arange(120), 1)
    assert made["perturbation"].mean[0, -1] > 1e60
    assert abs(mean[-1] - mean[60]) < 0.02 * mean[60]


def test_perturbations_of_wide_networks_are_those_of_mean_field():
    net = MLP((512,) * 5, laws.Gaussian(3.0), laws.Gaussian(0.5), "tanh")
    point = np.random.default_rng(0).normal(size=512)
    made = perturbations(net, point, key=KEY, draws=300)["perturbation"]
    expected = mean_field_growth(net, float(np.mean(point**2)))
    ratios = np.array([made.mean[i, i + 1] for i in range(3)])
    np.testing.assert_allclose(ratios, expected[1:], rtol=0.03)


def test_jacobians_are_those_of_autodiff():
    net = MLP((5, 7, 6, 4), laws.Gaussian(2.0), BIASES, "tanh", dtype="float64")
    draws, point = 4000, np.linspace(-1, 1, 5)
    made = perturbations(net, point, key=KEY, draws=draws)["perturbation"]
    with jax.enable_x64(True):
        params = [net.init(jax.random.fold_in(KEY, i)) for i in range(60)]
        ratios = []
        for one in params:
            z = jnp.tanh(point @ one[0][0] + one[0][1])

            def rest(z, one=one):
                for W, b in one[1:]:
                    z = jnp.tanh(z @ W + b)
                return z

            jacobian = np.asarray(jax.jacfwd(rest)(z))
            directions = np.random.default_rng(0).normal(size=(7, 400))
            directions /= np.linalg.norm(directions, axis=0)
            ratios.append(np.linalg.norm(jacobian @ directions, axis=0).mean())
    error = np.std(ratios) / 60**0.5
    assert abs(np.mean(ratios) - made.mean[0, 2]) < 4 * np.hypot(error, made.sem[0, 2])
