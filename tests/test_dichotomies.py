"""Labellings while weights move: against brute force, symmetries, duality and remaining depth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import MLP, curves, dichotomies, estimate, laws, prng
from jaxexpr.ensemble.labelling_passes import MOVING, NAMES
from jaxexpr.theory import flips_bound

KEY = jax.random.key(3)
RNG = np.random.default_rng(0)
WIDTHS, BIASES = (6, 12, 12, 12), laws.Gaussian(0.2)
NET = MLP(WIDTHS, laws.Gaussian(4.0), BIASES, "hard_tanh", dtype="float64")
INPUTS = RNG.normal(size=(5, 6))


def labels_on(net, key, inputs, layer, t, unit=0):
    """Signs of one unit of every layer from `layer` on, in NumPy: ``(layers, t, inputs)``."""
    with jax.enable_x64(True):
        params = [(np.asarray(W), np.asarray(b)) for W, b in net.init(key)]
        fan_in, width = params[layer][0].shape
        spec, seed = net.layer(layer), prng.seed(key)
        words = prng.words(prng.child(seed, layer, MOVING), (fan_in, width))
        turned = spec.weights.unit(words, jnp.dtype(net.dtype))
        other = np.asarray(spec.weight_scale(fan_in, jnp.dtype(net.dtype)) * turned)
    phi = {"hard_tanh": lambda h: np.clip(h, -1, 1), "relu": lambda h: np.maximum(h, 0)}
    phi = phi[net.activation.name]
    z = inputs
    for W, b in params[:layer]:
        z = phi(z @ W + b)
    W, b = params[layer]
    h = np.cos(t)[:, None, None] * (z @ W) + np.sin(t)[:, None, None] * (z @ other) + b
    found = [h[:, :, unit] > 0]
    for W, b in params[layer + 1 :]:
        h = phi(h) @ W + b
        found.append(h[:, :, unit] > 0)
    return np.stack(found)


@pytest.mark.parametrize(("activation", "layer"), [("hard_tanh", 0), ("relu", 1), ("hard_tanh", 2)])
def test_exact_counts_are_those_of_a_very_fine_grid(activation, layer):
    net = MLP(WIDTHS, laws.Gaussian(4.0), BIASES, activation, dtype="float64")
    draws = 6
    made = dichotomies(net, INPUTS, key=KEY, draws=draws, swept=layer + 1)
    t = np.linspace(0, 2 * np.pi, 200_001)
    counts, flips = np.zeros((draws, 3 - layer)), np.zeros((draws, 3 - layer))
    for i in range(draws):
        labels = labels_on(net, jax.random.fold_in(KEY, i), INPUTS, layer, t)
        flips[i] = (labels[:, 1:] != labels[:, :-1]).sum(axis=(1, 2))
        codes = (labels * 2 ** np.arange(5)).sum(axis=2)
        counts[i] = [np.unique(row).size for row in codes]
    assert np.isnan(made["flips"].mean[:layer]).all()
    np.testing.assert_allclose(made["flips"].mean[layer:], flips.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(made["dichotomies"].mean[layer:], counts.mean(axis=0), rtol=1e-12)
    assert made["flips"].method == "exact"


def test_points_ask_for_a_grid():
    made = dichotomies(NET, INPUTS, key=KEY, draws=2, points=17)["flips"]
    assert (made.method, made.points) == ("grid", 17)


def test_a_grid_counts_what_is_on_it_and_on_half_of_it():
    net = MLP((6, 5, 5, 5), laws.Gaussian(4.0), BIASES, "hard_tanh", dtype="float64")
    options = {"method": "grid", "points": 34, "readouts": 2}
    made = dichotomies(net, INPUTS, key=KEY, draws=2, swept=2, **options)
    t, seen = np.linspace(0, 2 * np.pi, 34), []
    half = np.array([*range(0, 34, 2), 33])
    for number, unit in np.ndindex(2, 2):
        labels = labels_on(net, jax.random.fold_in(KEY, number), INPUTS, 1, t, unit)
        looks = [labels, labels[:, half]]
        counts = [[len(np.unique(rows, axis=0)) for rows in look] for look in looks]
        flips = [(look[:, 1:] != look[:, :-1]).sum(axis=(1, 2)) for look in looks]
        seen.append([counts, flips])
    seen = np.mean(seen, axis=0)  # (numbers, looks, layers)
    for name, (fine, rough) in zip(("dichotomies", "flips"), seen, strict=True):
        np.testing.assert_allclose(made[name].mean[1:], fine, rtol=1e-12)
        np.testing.assert_allclose(made[name].discretisation[1:], np.abs(rough - fine), rtol=1e-12)


def test_exact_counts_are_means_over_the_readouts():
    net = MLP((6, 5, 5), laws.Gaussian(4.0), BIASES, "hard_tanh", dtype="float64")
    made = dichotomies(net, INPUTS, key=KEY, draws=2, swept=1, readouts=3)
    t, seen = np.linspace(0, 2 * np.pi, 100_001), []
    for number, unit in np.ndindex(2, 3):
        _, labels = labels_on(net, jax.random.fold_in(KEY, number), INPUTS, 0, t, unit)
        codes = (labels * 2 ** np.arange(len(INPUTS))).sum(axis=1)
        seen.append([np.unique(codes).size, (labels[1:] != labels[:-1]).sum()])
    found = np.mean(seen, axis=0)
    assert len({tuple(x) for x in seen}) > 1
    np.testing.assert_allclose(made["dichotomies"].mean[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(made["flips"].mean[1], found[1], rtol=1e-12)


def test_a_grid_converges_to_the_exact_counts_and_says_so():
    options = {"key": KEY, "draws": 16}  # as many as refinement looks at
    exact = dichotomies(NET, INPUTS, **options)
    grid = dichotomies(NET, INPUTS, method="grid", points=33, **options)
    fine = dichotomies(NET, INPUTS, method="grid", refine=0.01, **options)
    for name in NAMES:
        assert np.all(grid[name].mean <= exact[name].mean)
        np.testing.assert_allclose(fine[name].mean, exact[name].mean, rtol=0.02)
        assert fine[name].points > 200
        assert np.all(fine[name].discretisation <= 0.01 * fine[name].mean)
        assert np.any(grid[name].discretisation > 0.02 * grid[name].mean)
    short = dichotomies(
        NET, INPUTS, method="grid", refine=0.001, max_points=65, points=33, **options
    )
    assert short["flips"].points == 65
    assert not short["flips"].converged.all()
    assert "NOT CONVERGED" in repr(short["flips"])


def test_networks_and_numbers_do_not_depend_on_how_they_are_run():
    options = {"key": KEY, "swept": (1, 2), "readouts": 3}
    widths = (6, 12, 12)
    net = MLP(widths, laws.Gaussian(4.0), BIASES, "hard_tanh", dtype="float64")
    whole = dichotomies(net, INPUTS, draws=6, **options)
    parts = dichotomies(net, INPUTS, draws=4, chunk=3, batch=2, memory=1e5, **options)
    parts = dichotomies(net, INPUTS, draws=6, extend=parts, memory=1e5, **options)
    alone = dichotomies(net, INPUTS, draws=6, key=KEY, swept=2, readouts=3)
    both = laws.Gaussian(np.array([1.0, 4.0]))
    sigma = MLP(widths, both, BIASES, "hard_tanh", dtype="float64")
    cells = dichotomies(sigma, INPUTS, draws=6, **options)
    for name in NAMES:
        assert whole[name].mean.shape == (2, 2)
        np.testing.assert_allclose(whole[name].mean, parts[name].mean, rtol=1e-12)
        np.testing.assert_allclose(whole[name].mean[1], alone[name].mean, rtol=1e-12)
        np.testing.assert_allclose(whole[name].mean, cells[name].mean[1], rtol=1e-12)


def test_without_biases_the_second_half_turn_is_the_opposite_of_the_first():
    net = MLP((6, 12, 12), laws.Gaussian(4.0), laws.Zero(), "hard_tanh", dtype="float64")
    half, circle = (dichotomies(net, INPUTS, key=KEY, draws=10, path=p) for p in ("half", "circle"))
    np.testing.assert_array_equal(circle["flips"].mean, 2 * half["flips"].mean)
    # Each point's plane is met twice on the circle: five points, ten flips, ten labellings.
    assert circle["flips"].mean[0] == circle["dichotomies"].mean[0] == 10
    assert np.all(circle["dichotomies"].mean <= 2 * half["dichotomies"].mean)


def test_labellings_stay_below_the_bounds():
    net = MLP((6, 24, 24, 24), laws.Gaussian(6.0), laws.Zero(), "hard_tanh")
    made = dichotomies(net, INPUTS, key=KEY, draws=10)
    assert np.all(made["dichotomies"].mean <= 2**5)
    assert np.all(made["dichotomies"].mean <= flips_bound(5, made["flips"].mean))


def test_sweeping_weights_has_the_law_of_sweeping_the_input():
    """Raghu et al., appendix B.3: one point under moving weights, or moving on an arc itself."""
    n, draws = 16, 4000
    ends = np.zeros((2, n))
    ends[0, 0] = ends[1, 1] = 3.0
    net = MLP((n, 16, 16, 16), laws.Gaussian(3.0), laws.Gaussian(0.3), "hard_tanh")
    moving = dichotomies(net, ends[:1], key=KEY, draws=draws, path="arc", readouts=4)["flips"]
    probes, other = "sign_changes", jax.random.key(4)
    moved = estimate(net, curves.arc(*ends), key=other, draws=draws, probes=probes)[probes]
    mean, sem = moved.mean / 16, moved.sem / 16  # of one unit
    error = np.hypot(moving.sem, sem)
    assert np.all(error < 0.02 * mean)
    assert np.all(np.abs(moving.mean - mean) < 4 * error)


def test_labellings_depend_on_the_remaining_depth_alone():
    """Raghu et al., figure 15. Inputs of the first layer have another geometry: it is near."""
    net = MLP((64,) * 8, laws.Gaussian(8**0.5), laws.Zero(), "hard_tanh")
    inputs = RNG.normal(size=(6, 64))
    inputs *= 0.805 * 8 / np.linalg.norm(inputs, axis=1, keepdims=True)
    options = {"key": KEY, "draws": 400, "method": "grid", "points": 2049, "readouts": 8}
    made = dichotomies(net, inputs, swept=(1, 3, 5), **options)["dichotomies"]
    for remaining in range(1, 3):
        first, *means = (made.mean[i, 2 * i + remaining] for i in range(3))
        errors = [made.sem[i, 2 * i + remaining] for i in (1, 2)]
        assert max(errors) < 0.02 * means[0]
        assert abs(means[1] - means[0]) < 4 * np.hypot(*errors)
        assert abs(first / means[0] - 1) < 0.06


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"inputs": np.ones((63, 6))}, "inputs holds 63 points, whose labels are coded in 62 bits"),
        ({"inputs": np.ones((5, 7))}, r"inputs has shape \(5, 7\): give points \(s, 6\)"),
        ({"inputs": np.full((5, 6), np.nan)}, "inputs holds nan"),
        ({"swept": 4}, "swept=4: layers are numbered from 1: give layers from 1 to 3"),
        ({"swept": 0}, "swept=0: layers are numbered from 1: give layers from 1 to 3"),
        ({"swept": (1, 1)}, r"swept=\(1, 1\): .* each once"),
        ({"readouts": 13}, "readouts=13 and the narrowest layer has 12 units"),
        ({"path": "spiral"}, "path='spiral' is unknown"),
        ({"method": "gram"}, "method='gram' is unknown"),
        ({"method": "exact", "points": 9}, "points=9 with method='exact'"),
        ({"net": "mlp"}, "net='mlp': dichotomies are of fully connected"),
        ({"refine": -1.0}, "refine=-1.0"),
        ({"max_points": 100}, "max_points=100 without refine"),
        (
            {"method": "exact", "net": MLP((6, 4), laws.Gaussian(1.0), laws.Zero(), "tanh")},
            "'tanh', which is smooth",
        ),
    ],
)
def test_errors(fault, message):
    good = {"net": NET, "inputs": INPUTS}
    with pytest.raises(ValueError, match=message):
        dichotomies(key=KEY, draws=2, **(good | fault))


def test_a_smooth_network_is_labelled_on_a_grid():
    net = MLP((6, 12, 12), laws.Gaussian(3.0), laws.Zero(), "tanh")
    made = dichotomies(net, INPUTS, key=KEY, draws=5)
    assert made["dichotomies"].method == "grid"
    assert made["flips"].mean[0] == 10


def test_labels_that_flip_together_are_one_flip_of_the_labelling():
    net = MLP((6, 12, 12), laws.Gaussian(3.0), laws.Zero(), "relu", dtype="float64")
    inputs = np.stack([INPUTS[0], 3 * INPUTS[0], -0.7 * INPUTS[0]])
    made = dichotomies(net, inputs, key=KEY, draws=40)
    assert made["dichotomies"].mean[0] == 2
    assert made["flips"].mean[0] == 6


def test_a_grid_of_two_points_knows_nothing_of_its_error():
    made = dichotomies(NET, INPUTS, key=KEY, draws=4, method="grid", points=2)["flips"]
    assert np.isnan(made.discretisation).all()
    fine = dichotomies(NET, INPUTS, key=KEY, draws=4, method="grid", points=2, refine=0.2)["flips"]
    assert fine.points > 33


def test_a_target_is_reached_though_layers_below_the_moving_one_have_no_number():
    options = {"key": KEY, "draws": 5000, "target": 0.2, "swept": 2, "method": "grid", "points": 65}
    made = dichotomies(NET, INPUTS, **options)["flips"]
    assert made.draws < 500


def test_forty_points_take_two_words():
    net = MLP((6, 12, 12), laws.Gaussian(3.0), laws.Zero(), "hard_tanh", dtype="float64")
    inputs = RNG.normal(size=(40, 6))
    made = dichotomies(net, inputs, key=KEY, draws=1)["dichotomies"].mean
    t = np.linspace(0, 2 * np.pi, 200_001)
    labels = labels_on(net, jax.random.fold_in(KEY, 0), inputs, 0, t)
    seen = [np.unique(np.packbits(row, axis=1), axis=0).shape[0] for row in labels]
    assert made[0] == seen[0] == 80
    np.testing.assert_allclose(made, seen, rtol=0.01)


def test_each_label_flips_twice_on_a_circle():
    """Without biases a label is the sign of a sine: exact counts over all four quarter turns."""
    net = MLP((3, 4), laws.Gaussian(1.5), laws.Zero())
    points = np.random.default_rng(0).normal(size=(5, 3))
    found = dichotomies(net, points, key=jax.random.key(0), draws=8)
    assert found["flips"].method == "exact"
    assert found["flips"].mean.tolist() == found["dichotomies"].mean.tolist() == [10.0]
    assert found["flips"].sem.tolist() == [0.0]
