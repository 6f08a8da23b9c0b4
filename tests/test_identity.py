"""What was gathered for one thing is never continued with another."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import MLP, curves, estimate, laws, probe
from jaxexpr._core.fingerprint import fingerprint as digest
from jaxexpr.activations import Activation
from jaxexpr.ensemble.checkpoints import run_fingerprint
from jaxexpr.ensemble.curve_estimates import Along
from jaxexpr.measurement import plan

KEY = jax.random.key(0)
NET = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Zero())
LINE = curves.line([0.0, 1.0], [1.0, 0.0])


def mark(net=NET, curve=LINE, key=KEY, probes=("length",), **options):
    curve, passes = plan.checked(
        net, curve, probes, options.get("method", "auto"), options.get("points")
    )
    return run_fingerprint(net, curve, key, Along(passes))


def stretched(c):
    return curves.from_function(lambda t: jnp.stack([c * t, t * t]))


def largest(c, **options):
    @probe(**options)
    def peak(layer):
        return c * jnp.max(layer.z)

    return peak


def smooth(c):
    return Activation("mine", lambda h: jnp.sin(c * h), lambda h: c * jnp.cos(c * h), None, None, c)


DIFFERENT = {
    "sigma": lambda: mark(MLP((2, 8, 8), laws.Gaussian(1.6), laws.Zero())),
    "law": lambda: mark(MLP((2, 8, 8), laws.Uniform(1.5), laws.Zero())),
    "widths": lambda: mark(MLP((2, 8, 9), laws.Gaussian(1.5), laws.Zero())),
    "precision": lambda: mark(MLP((2, 8, 8), laws.Gaussian(1.5), laws.Zero(), dtype="float64")),
    "activation": lambda: mark(MLP((2, 8, 8), laws.Gaussian(1.5), laws.Zero(), "abs")),
    "end point": lambda: mark(curve=curves.line([0.0, 1.0], [1.0, 0.5])),
    "kind of curve": lambda: mark(curve=curves.arc([0.0, 1.0], [1.0, 0.0])),
    "key": lambda: mark(key=jax.random.key(1)),
    "probe": lambda: mark(probes=("growth",)),
    "points": lambda: mark(points=7),
    "method": lambda: mark(method="gram"),
    "function 1": lambda: mark(curve=stretched(1.0)),
    "function 5": lambda: mark(curve=stretched(5.0)),
    "user's probe 1": lambda: mark(probes=(largest(1.0),)),
    "user's probe 2": lambda: mark(probes=(largest(2.0),)),
    "user's probe, degree": lambda: mark(probes=(largest(1.0, degree=1),)),
    "user's activation 1": lambda: mark(MLP((2, 8), laws.Gaussian(1.5), laws.Zero(), smooth(1.0))),
    "user's activation 2": lambda: mark(MLP((2, 8), laws.Gaussian(1.5), laws.Zero(), smooth(2.0))),
}


def test_all_that_matters_is_told_apart():
    marks = {"plain": mark()} | {name: make() for name, make in DIFFERENT.items()}
    assert len(set(marks.values())) == len(marks), marks


def test_jitted_functions_and_large_mappings_are_told_apart():
    schedules = [digest(jax.jit(lambda t, rate=rate: rate * t)) for rate in (0.1, 0.9, 0.1)]
    assert schedules[0] == schedules[2] != schedules[1]
    large = np.zeros(5000)
    other = large.copy()
    other[2500] = 1
    assert digest({"a": large, "b": 1}) == digest({"b": 1, "a": large.copy()})
    assert digest({"a": large}) != digest({"a": other})


SETTINGS = {"factor": 2.0}


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __repr__(self):
        return f"Scaled({self.factor})"

    def value(self, x):
        return self.factor * x


def with_option(c):
    def function(x, *, factor=c):
        return factor * x

    return function


FACTOR = 1.0


def with_inner():
    return digest(lambda x: [(lambda z: FACTOR * z)(y) for y in x])


def test_no_two_values_run_together():
    values = [
        (1, 23), (12, 3), (123,), ((1, 2), 3), (1, (2, 3)), (1, 2, 3), ("a", "b"), ("ab",),
        (1.5, 2), ({"a": 1}, 2), ({"a": (1, 2)},), np.zeros(4), np.zeros((2, 2)),
        np.zeros(4, np.int64), np.zeros(8, np.float32), np.zeros(0), (), None, True, 1,
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    assert len({digest(1, 23), digest(12, 3), digest(1, 2, 3)}) == 3
    assert digest(lambda x: 1 * x + 23) != digest(lambda x: 12 * x + 3)


def test_all_that_a_function_depends_on_is_told_apart(monkeypatch):
    assert digest(with_option(1.0)) == digest(with_option(1.0)) != digest(with_option(2.0))
    assert digest(Scaled(1.0).value) == digest(Scaled(1.0).value) != digest(Scaled(2.0).value)

    def told():
        return with_inner(), digest(lambda x: SETTINGS["factor"] * x)

    inner, outer = told()
    assert told() == (inner, outer)
    monkeypatch.setitem(SETTINGS, "factor", 3.0)
    assert told()[1] != outer
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert told()[0] != inner


def test_domains_and_streams_of_keys_are_told_apart():
    def along(t):
        return jnp.stack([t, t])

    halves = [curves.from_function(along, domain=(0.0, end)) for end in (1.0, 2.0)]
    assert mark(curve=halves[0]) != mark(curve=halves[1])
    keys = [jax.random.key(7), jax.random.key(7, impl="rbg"), jax.random.key(8)]
    assert len({mark(key=key) for key in keys}) == 3


def test_the_same_thing_made_twice_is_the_same():
    for name, make in DIFFERENT.items():
        assert make() == make(), name


def test_a_checkpoint_of_another_curve_or_probe_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    options = {"key": KEY, "draws": 5, "checkpoint": path}
    estimate(NET, stretched(1.0), **options)
    with pytest.raises(ValueError, match="belongs to another net, curve"):
        estimate(NET, stretched(5.0), **options)
    done = estimate(NET, LINE, key=KEY, draws=5, probes=(largest(1.0),))
    with pytest.raises(ValueError, match="extend comes from another net, curve"):
        estimate(NET, LINE, key=KEY, draws=5, probes=(largest(2.0),), extend=done)
    with pytest.raises(ValueError, match="both give networks to continue from"):
        estimate(NET, LINE, key=KEY, draws=5, checkpoint=tmp_path / "d.npz", extend=done)


_OTHER = """
import jax, numpy as np
from jaxexpr import MLP, curves, laws
from jaxexpr.ensemble.curve_estimates import Along
from jaxexpr.ensemble.checkpoints import run_fingerprint
from jaxexpr.measurement import plan
net = MLP((2, 8), laws.Sparse(laws.Gaussian(1.5), 0.5), laws.Zero(), "tanh")
curve, passes = plan.checked(net, curves.line([0.0, 1.0], [1.0, 0.0]), ("length",), "auto", None)
print(run_fingerprint(net, curve, jax.random.key(0), Along(passes)))
"""


def test_another_process_finds_the_same_mark():
    marks = {
        subprocess.run([sys.executable, "-c", _OTHER], capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(marks) == 1
    assert len(marks.pop().strip()) == 64


def test_a_network_that_dies_in_a_layer_has_not_failed():
    thin = MLP((2, 1, 1, 1), laws.Gaussian(1.0), laws.Zero())
    options = {"key": KEY, "probes": ("log_length", "log_growth", "length"), "method": "tangent"}
    made = estimate(thin, LINE, draws=200, **options)
    assert made["log_length"].n[-1] < 100
    for one in made.values():
        assert not one.failed.any()
    huge = MLP((2, 8, 8), laws.Gaussian(1e30), laws.Gaussian(1e30), "tanh")
    overflow = MLP((2, 8), laws.Gaussian(1e38), laws.Zero(), "abs")
    assert not estimate(huge, LINE, key=KEY, draws=20, probes="growth")["growth"].failed.all()
    broken = estimate(overflow, curves.line([0.0, 1e4], [1e4, 0.0]), key=KEY, draws=20)["length"]
    assert broken.failed[0] == 20
    assert np.isnan(broken.mean[0])
