"""Patterns along curves: one for each piece, none twice on a line."""

import importlib

import jax
import numpy as np
import pytest

from jaxexpr import MLP, curves, exact, grid_needed, laws, measure

KEY = jax.random.key(2)


def network(activation, sigma_b=0.3, widths=(6, 20, 20, 20)):
    net = MLP(widths, laws.Gaussian(1.6), laws.Gaussian(sigma_b), activation, dtype="float64")
    return tuple((np.asarray(W), np.asarray(b)) for W, b in net.init(KEY))


@pytest.mark.parametrize("activation", ["relu", "hard_tanh"])
@pytest.mark.parametrize("whole", [False, True])
def test_no_pattern_repeats_along_a_line(activation, whole):
    params = network(activation)
    line = curves.line(*np.random.default_rng(0).normal(size=(2, 6)), whole=whole)
    found, t = exact.patterns(params, line, activation), exact.pieces(params, line, activation)
    rows = np.concatenate(found, axis=1)
    assert len(rows) == t.count == len(np.unique(rows, axis=0))
    changes = [np.abs(np.diff(layer.astype(int), axis=0)).sum() for layer in found]
    np.testing.assert_array_equal(changes, t.crossings)


def test_circles_come_back_to_where_they_began():
    params = network("relu")
    found = exact.patterns(params, curves.circle(*np.random.default_rng(1).normal(size=(2, 6))))
    for layer in found:
        np.testing.assert_array_equal(layer[0], layer[-1])
    assert len(found[0]) > 20


def test_folding_networks_stand_on_no_side_by_chance():
    # Both units of a pair have their boundary at 0: along it neither is active.
    axis = curves.line([0.0, -1.0], [0.0, 1.0])
    (first, *_) = exact.patterns(exact.folding(2, 2).params, axis)
    assert not first[:, [0, 2]].any()
    assert (first[:, 1] + first[:, 3] == 1).all()


def test_what_cannot_be_listed_is_refused():
    params, line = network("relu"), curves.line(np.zeros(6), np.ones(6))
    with pytest.raises(ValueError, match="smooth"):
        exact.patterns(params, line, "tanh")
    with pytest.raises(ValueError, match="traced"):
        jax.jit(lambda p: exact.patterns(p, line)[0])(params)


@pytest.mark.parametrize("activation", ["relu", "hard_tanh"])
def test_packed_patterns_are_the_same_in_any_chunks(activation, monkeypatch):
    net = MLP((6, 40, 24), laws.Gaussian(3.0), laws.Gaussian(0.5), activation, dtype="float64")
    with jax.enable_x64(True):
        params = [(np.asarray(W), np.asarray(b)) for W, b in net.init(jax.random.key(0))]
    circle = curves.circle(*np.random.default_rng(0).normal(size=(2, 6)))
    plain = exact.patterns(params, circle, activation)
    module = importlib.import_module("jaxexpr.exact.along_curves.activation_patterns")
    monkeypatch.setattr(module, "BLOCK_BYTES", 8 * 40 * 7)  # seven pieces at a time
    packed = exact.patterns(params, circle, activation, packed=True)
    levels = 2 if activation == "hard_tanh" else 1
    for states, bits in zip(plain, packed, strict=True):
        width = states.shape[1]
        assert bits.shape == (len(states), -(-levels * width // 8))
        ones = np.unpackbits(bits, axis=1, bitorder="little")[:, : levels * width]
        np.testing.assert_array_equal(ones.reshape(-1, levels, width).sum(axis=1), states)
    expected = [
        np.unique(np.concatenate(plain[: d + 1], axis=1), axis=0).shape[0] for d in range(2)
    ]
    for states in (plain, packed):
        assert exact.distinct_patterns(states).tolist() == expected
    assert expected[0] < len(plain[0])  # the circle ends in the region in which it began


def test_a_grid_that_would_have_been_needed():
    """Hard-tanh, k = 32, sigma_w = 8: on 1,001 points most crossings of deep layers are lost."""
    net = MLP((32,) * 6, laws.Gaussian(8.0), laws.Zero(), "hard_tanh", dtype="float64")
    with jax.enable_x64(True):
        params = [(np.asarray(W), np.asarray(b)) for W, b in net.init(jax.random.key(0))]
    ends = np.eye(2, 32) * 32**0.5
    found = grid_needed(params, curves.circle(*ends), activation="hard_tanh")
    exact_counts = exact.pieces(params, curves.circle(*ends), "hard_tanh").crossings
    np.testing.assert_array_equal(found.transitions, exact_counts)
    assert np.all(found.points > 0)
    assert found.points[-1] > 1001
    options = {"activation": "hard_tanh", "probes": "transitions", "method": "grid"}
    for layer, points in enumerate(found.points):
        enough = measure(params, curves.circle(*ends), points=int(points), **options)
        assert abs(enough["transitions"][layer] - exact_counts[layer]) <= 0.01 * exact_counts[layer]
    few = measure(params, curves.circle(*ends), points=1001, **options)["transitions"]
    assert few[-1] < 0.95 * exact_counts[-1]
    with pytest.raises(ValueError, match="rtol"):
        grid_needed(params, curves.circle(*ends), activation="hard_tanh", rtol=0)


@pytest.mark.parametrize("states", ["pattern", [np.zeros(3)]])
def test_states_are_those_of_patterns(states):
    with pytest.raises(ValueError, match="give what exact.patterns returned"):
        exact.distinct_patterns(states)


def test_a_unit_on_its_breakpoint_throughout_is_not_beyond_it():
    params = [(np.array([[1.0, 0.0]]), np.array([-0.5, 0.0]))]
    found = exact.patterns(params, curves.line([0.0], [1.0]))
    assert found[0].tolist() == [[0, 0], [1, 0]]
