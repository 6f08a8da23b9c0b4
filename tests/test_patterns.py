"""Patterns along curves: one for each piece, none twice on a line."""

import jax
import numpy as np
import pytest

from jaxexpr import MLP, curves, exact, laws

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
