"""Precision is explicit: float64 where it is asked for, products never below their own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import MLP, curves, estimate, kernel, laws, measure
from jaxexpr.params import checked_params, precision_of

KEY = jax.random.key(3)


def network(dtype: str) -> MLP:
    return MLP(
        (8, 24, 24, 24), laws.Sparse(laws.Gaussian(1.8), 0.6), laws.Gaussian(0.1), dtype=dtype
    )


@pytest.mark.parametrize("method", ["tangent", "grid"])
def test_float32_and_float64_see_the_same_networks(method, segment):
    single, double = (
        estimate(network(d), segment(8), key=KEY, draws=8, method=method, points=20)
        for d in ("float32", "float64")
    )
    for name in single:
        difference = single[name].mean / double[name].mean - 1
        assert np.all(np.abs(difference) < 1e-5)
        assert np.any(difference != 0)


def test_numpy_float64_parameters_are_computed_in_float64(rng):
    assert not jax.config.read("jax_enable_x64") or jnp.ones(1).dtype == np.float64
    weights, biases = rng.normal(size=(4, 6)), rng.normal(size=6)
    x0, x1 = rng.normal(size=(2, 4))
    made = measure(((weights, biases),), curves.line(x0, x1), method="grid", points=101)
    t = np.linspace(0, 1, 101)[:, None]
    z = np.maximum(((1 - t) * x0 + t * x1) @ weights + biases, 0)
    length = np.linalg.norm(np.diff(z, axis=0), axis=1).sum()
    assert made["length"][0] == pytest.approx(length, rel=1e-13)
    single = tuple(np.asarray(p, np.float32) for p in (weights, biases))
    rough = measure((single,), curves.line(x0, x1), method="grid", points=101)
    assert rough["length"][0] == pytest.approx(length, rel=1e-5)
    assert rough["length"][0] != made["length"][0]


def test_a_kernel_of_float64_wants_the_flag(segment):
    one = kernel(network("float64"), segment(8), points=4)
    with jax.enable_x64(False), pytest.raises(ValueError, match="jax_enable_x64 is off"):
        one(KEY)
    with jax.enable_x64(True):
        assert one(jax.random.key(3))["length"].dtype == jnp.float64


@pytest.mark.parametrize("method", ["tangent", "grid", "gram"])
def test_every_product_is_lowered_at_the_highest_precision(method, segment):
    net = MLP((8, 24, 24), laws.Gaussian(1.8), laws.Gaussian(0.1))
    with jax.default_matmul_precision("bfloat16"):
        text = jax.jit(kernel(net, segment(8), method=method, points=5)).lower(KEY).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert products
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in products)


def test_tangents_keep_their_digits_where_a_grid_loses_them(segment):
    net, curve = MLP((8,) * 3, laws.Gaussian(1.8), laws.Gaussian(1.0), "linear"), segment(8)
    exact = estimate(
        MLP((8,) * 3, laws.Gaussian(1.8), laws.Gaussian(1.0), "linear", dtype="float64"),
        curve,
        key=KEY,
        draws=2,
        probes="length",
        points=4,
    )["length"].mean
    tangent = estimate(net, curve, key=KEY, draws=2, probes="length", points=4)["length"].mean
    grid = estimate(net, curve, key=KEY, draws=2, probes="length", method="grid", points=1_000_001)
    np.testing.assert_allclose(tangent, exact, rtol=2e-6)
    assert np.all(grid["length"].mean > exact * (1 + 1e-4))  # rounding adds up, always upwards


def test_one_array_of_float64_makes_a_network_of_float64():
    wide, narrow = np.ones((2, 3)), np.ones(3, np.float32)
    assert precision_of(((wide, narrow),)) == "float64"
    assert precision_of(((wide.astype(np.float32), narrow),)) == "float32"


def test_networks_have_one_axis_of_their_own():
    weights, biases = np.ones((4, 5, 2, 3)), np.ones((4, 5, 3))
    with pytest.raises(ValueError, match="give W of shape"):
        checked_params(((weights, biases),), networks=True)
    assert np.shape(checked_params(((weights[0], biases[0]),), networks=True)[0][0]) == (5, 2, 3)
