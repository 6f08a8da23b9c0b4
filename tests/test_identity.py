"""What was gathered for one thing is never continued with another."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import MLP, curves, estimate, kernels, laws, probe
from jaxexpr.activations import Activation
from jaxexpr.identity import digest, fingerprint
from jaxexpr.jobs import Along

KEY = jax.random.key(0)
NET = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Zero())
LINE = curves.line([0.0, 1.0], [1.0, 0.0])


def mark(net=NET, curve=LINE, key=KEY, probes=("length",), **options):
    curve, passes = kernels.checked(
        net, curve, probes, options.get("method", "auto"), options.get("points")
    )
    return fingerprint(net, curve, key, Along(passes))


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
    with pytest.raises(ValueError, match="two places to go on from"):
        estimate(NET, LINE, key=KEY, draws=5, checkpoint=tmp_path / "d.npz", extend=done)


_OTHER = """
import jax, numpy as np
from jaxexpr import MLP, curves, kernels, laws
from jaxexpr.identity import digest, fingerprint
from jaxexpr.jobs import Along
net = MLP((2, 8), laws.Sparse(laws.Gaussian(1.5), 0.5), laws.Zero(), "tanh")
curve, passes = kernels.checked(net, curves.line([0.0, 1.0], [1.0, 0.0]), ("length",), "auto", None)
print(fingerprint(net, curve, jax.random.key(0), Along(passes)))
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
