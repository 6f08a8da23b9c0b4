"""What is measured how: methods and points of every probe, by a table."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import (
    MLP,
    activations,
    crossings,
    curves,
    expected_crossings,
    grid_needed,
    laws,
)
from jaxexpr.measurement.plan import plan
from jaxexpr.probes.base import probe
from jaxexpr.probes.named import NAMES

NET = MLP((3, 4), laws.Gaussian(1.0), laws.Zero())
ENDS = np.random.default_rng(0).normal(size=(2, 3))
LINE, WHOLE = curves.line(*ENDS), curves.line(*ENDS, whole=True)
CIRCLE, WAVE = curves.circle(*ENDS), curves.from_function(lambda t: jnp.stack([t, t**2, t**3]))
ZERO, FINE, SMOOTH = crossings(0.5), expected_crossings(0.5), "tanh"


@probe(points=(4, 9))
def own(layer):
    return jnp.max(layer.z)


def planned(probes, curve=LINE, method="auto", points=None, activation="relu", **options):
    phi = activations.get(activation)
    made = plan(probes, method, points, phi, curve, **{"drawn": NET} | options)
    return {one.name: (p.method, p.nodes.count) for p in made for one in p.probes}


@pytest.mark.parametrize(
    ("probe", "curve", "activation", "expected"),
    [
        *[(n, LINE, "relu", ("tangent", 30)) for n in ("growth", "growth_squared", "log_growth")],
        *[(n, LINE, "relu", ("tangent", 30)) for n in ("length", "norm")],
        *[(n, LINE, "relu", ("tangent", 300)) for n in ("length_ratio", "log_length")],
        ("expected_transitions", LINE, "relu", ("tangent", 300)),
        (FINE, CIRCLE, SMOOTH, ("tangent", 300)),
        ("angle", LINE, "relu", ("grid", 1001)),
        ("layer_patterns", LINE, "relu", ("grid", 1001)),
        *[(n, LINE, "hard_tanh", ("exact", 0)) for n in ("transitions", "pieces", "patterns")],
        *[(n, CIRCLE, "abs", ("exact", 0)) for n in ("transitions", "network_transitions")],
        *[(n, WHOLE, "relu", ("exact", 0)) for n in ("transitions", "pieces", "patterns", ZERO)],
        ("patterns", CIRCLE, "relu", ("grid", 1001)),
        ("transitions", WAVE, "relu", ("grid", 1001)),
        ("sign_changes", CIRCLE, "relu", ("exact", 0)),
        *[(n, CIRCLE, SMOOTH, ("grid", 1001)) for n in ("sign_changes", ZERO)],
        (own, LINE, "relu", ("tangent", 4)),
    ],
)
def test_by_default(probe, curve, activation, expected):
    assert list(planned(probe, curve, activation=activation).values()) == [expected]


def test_lengths_are_exact_where_that_is_allowed():
    names = ("length", "growth", "length_ratio", "log_length")
    found = planned(names, exact_lengths=True)
    assert found.pop("growth") == ("tangent", 30)
    assert set(found.values()) == {("exact", 0)}
    for other in ({"activation": SMOOTH}, {"points": 40}, {"curve": WAVE}, {"connected": False}):
        assert planned("length", exact_lengths=True, **other)["length"][0] == "tangent"


def test_points_and_methods_that_are_asked_for():
    assert planned("transitions", points=50) == {"transitions": ("grid", 50)}
    assert planned(("growth", "angle"), points=50) == {
        "growth": ("tangent", 50), "angle": ("grid", 50),
    }  # fmt: skip
    assert planned("growth", method="grid") == {"growth": ("grid", 1001)}
    assert planned("growth", method="gram", points=7) == {"growth": ("gram", 7)}
    assert planned("patterns", method="exact") == {"patterns": ("exact", 0)}
    # Of one kind together: the largest number that one of them takes.
    assert set(planned(("growth", "log_length", own)).values()) == {("tangent", 300)}


def test_every_probe_has_a_plan():
    for name in NAMES:
        assert set(planned(name)) == {name}


def test_passes_at_twice_the_points():
    (tangents,) = plan("growth", "auto", 30, activations.relu, LINE)
    (grid,) = plan("angle", "auto", 1001, activations.relu, LINE)
    assert tangents.finer().nodes.count == 60
    assert grid.finer().nodes.count == 2001  # the points there were are among them
    assert set(grid.nodes.parameters(LINE)) <= set(grid.finer().nodes.parameters(LINE))


def test_what_passes_count():
    def exact(*probes):
        (one,) = plan(probes, "auto", None, activations.relu, LINE)
        return one

    assert exact("transitions", crossings(2.0, -1.0), ZERO).counted
    assert exact(crossings(2.0, -1.0), ZERO).levels == (-1.0, 0.5, 2.0)
    assert not exact("transitions", "pieces").counted


def test_the_grid_that_two_near_crossings_need():
    # The second layer is ||t - 0.503| - 0.002|: between two points of 129 it crosses 0 twice.
    fold = np.array([[1.0, -1.0]]), np.array([-0.503, 0.503])
    params = (fold, (np.ones((2, 1)), np.array([-0.002])))
    line = curves.line([0.0], [1.0])
    found = grid_needed(params, line)
    assert found.points.tolist() == [129, 257]
    assert found.transitions.tolist() == [2, 2]
    assert found.missed.tolist() == [0, 0] and found.finest == 257
    assert grid_needed(params, line, max_points=257).finest == 257
    short = grid_needed(params, line, max_points=256)
    assert short.points.tolist() == [129, 0] and short.finest == 129
    assert short.missed.tolist() == [0, 1]
    assert grid_needed(params, line, rtol=1.0).points.tolist() == [129, 129]
