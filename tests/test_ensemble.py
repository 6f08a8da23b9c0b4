"""The runner: one network or many, in any chunks, on any devices, the same numbers."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import (
    MLP,
    Conv,
    ConvNet,
    Dense,
    Interrupted,
    crossings,
    curves,
    estimate,
    kernel,
    laws,
    measure,
    probe,
    project,
    trajectory,
)
from jaxexpr.ensemble import devices, runner

KEY = jax.random.key(7)
NET = MLP((6, 16, 16, 16), laws.Sparse(laws.Gaussian(1.8), 0.7), laws.Gaussian(0.1))
ALL = ("length", "growth", "growth_squared", "log_growth", "length_ratio", "log_length", "norm")


def test_network_i_is_the_one_of_its_folded_key(segment):
    curve = segment(6)
    made = estimate(NET, curve, key=KEY, draws=5, probes=ALL, points=12)
    one = jax.jit(kernel(NET, curve, probes=ALL, points=12))
    singles = [one(jax.random.fold_in(KEY, i)) for i in range(5)]
    for name in ALL:
        mean = np.mean([s[name] for s in singles], axis=0)
        np.testing.assert_allclose(made[name].mean, mean, rtol=2e-6)
    given = measure(NET.init(jax.random.fold_in(KEY, 3)), curve, probes=ALL, points=12)
    for name in ALL:
        np.testing.assert_allclose(given[name], singles[3][name], rtol=2e-5)


@pytest.mark.parametrize("method", ["tangent", "grid", "gram"])
def test_chunks_batches_and_extensions_change_no_number(method, segment):
    weights = laws.Gaussian(np.array([1.0, 2.0]))
    net, curve = MLP((6, 16, 16), weights, laws.Zero()), segment(6)
    options = {"key": KEY, "probes": ("length", "growth"), "method": method, "points": 9}
    whole = estimate(net, curve, draws=70, **options)
    parts = [estimate(net, curve, draws=70, chunk=c, **options) for c in (1, 7, 64)]
    parts.append(estimate(net, curve, draws=70, batch=5, **options))
    parts.append(estimate(net, curve, draws=70, memory=1, **options))
    begun = estimate(net, curve, draws=33, **options)
    parts.append(estimate(net, curve, draws=70, extend=begun, **options))
    for part in parts:
        for name, one in part.items():
            assert one.draws == 70
            np.testing.assert_allclose(one.mean, whole[name].mean, rtol=2e-6)
            np.testing.assert_allclose(one.sem, whole[name].sem, rtol=2e-5)


def test_a_buffer_smaller_than_a_chunk_loses_nothing(segment, monkeypatch):
    options = {"key": KEY, "draws": 60, "points": 5}
    whole = estimate(NET, segment(6), **options)["length"]
    monkeypatch.setattr(devices, "_BUFFER_BYTES", 1)
    for more in ({"chunk": 50}, {"target": 1e-9}, {"batch": 7}):
        small = estimate(NET, segment(6), **options, **more)["length"]
        np.testing.assert_allclose(small.mean, whole.mean, rtol=2e-6)
        np.testing.assert_allclose(small.sem, whole.sem, rtol=1e-4)


def test_chunks_are_bit_equal_without_a_batch(segment):
    options = {"key": KEY, "draws": 30, "batch": 1}
    a, b = (estimate(NET, segment(6), chunk=c, **options)["length"] for c in (4, 30))
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-14)
    np.testing.assert_allclose(a.sem, b.sem, rtol=1e-12)


def test_a_sweep_compiles_once_and_equals_its_cells(segment):
    sigma, density = np.linspace(1, 3, 20)[:, None], np.linspace(0.1, 1, 10)[None, :]
    curve = segment(6)

    def run(scale):
        weights = laws.Sparse(laws.Gaussian(scale * sigma), density)
        net = MLP((6, 16, 16, 16), weights, laws.Gaussian(0.1))
        return estimate(net, curve, key=KEY, draws=20, points=6)

    before = devices._many_networks._cache_size()
    made = run(1.0)
    assert devices._many_networks._cache_size() == before + 1
    run(1.1)
    estimate(
        MLP((6, 16, 16, 16), laws.Sparse(laws.Gaussian(sigma), density), laws.Gaussian(0.2)),
        curves.line(np.ones(6), np.arange(6.0)),
        key=jax.random.key(1),
        draws=50,
        points=6,
    )
    assert devices._many_networks._cache_size() == before + 1
    assert made["growth"].mean.shape == (20, 10, 3)
    cell = MLP(
        (6, 16, 16, 16),
        laws.Sparse(laws.Gaussian(float(sigma[4, 0])), float(density[0, 7])),
        laws.Gaussian(0.1),
    )
    alone = estimate(cell, curve, key=KEY, draws=20, points=6)
    for name in made:
        np.testing.assert_allclose(made[name].mean[4, 7], alone[name].mean, rtol=2e-6)


def test_a_probe_is_traced_once_for_a_whole_sweep(segment):
    traces = []

    @probe(points=(4, 9))
    def counted(layer):
        traces.append(layer)
        return jnp.max(layer.z)

    net = MLP((6, 8, 8, 8), laws.Gaussian(np.linspace(1, 2, 5)), laws.Zero())
    estimate(net, segment(6), key=KEY, draws=10, probes=(counted,))
    seen = len(traces)
    again = MLP((6, 8, 8, 8), laws.Gaussian(np.linspace(2, 3, 5)), laws.Zero())
    estimate(again, segment(6), key=KEY, draws=400, probes=(counted,))
    assert len(traces) == seen


def test_kernel_inside_jit_vmap_scan_and_grad(segment):
    curve = segment(6)
    one, keys = kernel(NET, curve, points=5), jax.random.split(KEY, 4)
    mapped = jax.jit(jax.vmap(one))(keys)
    _, scanned = jax.lax.scan(lambda c, k: (c, one(k)), 0, keys)
    assert mapped["growth"].shape == scanned["length"].shape == (4, 3)
    np.testing.assert_allclose(mapped["length"], scanned["length"], rtol=1e-5)

    def mean_log_growth(sigma, law):
        net = MLP((6, 16, 16, 16), law(sigma), laws.Zero())
        return jnp.mean(kernel(net, curve, probes="log_growth", points=5)(KEY)["log_growth"])

    for law in (laws.Gaussian, laws.Uniform, lambda s: laws.Sparse(laws.TwoPoint(s), 0.5)):
        assert jax.grad(mean_log_growth)(1.7, law) == pytest.approx(1 / 1.7, rel=1e-5)

    def length(x1):
        line = curves.line(jnp.zeros(6), x1)
        return kernel(NET, line, method="grid", points=5)(KEY)["length"][-1]

    x1 = jnp.arange(1.0, 7.0)
    slope, step = jax.grad(length)(x1), 1e-2 * jnp.eye(6)[2]
    rise = (length(x1 + step) - length(x1 - step)) / 2e-2
    assert slope[2] == pytest.approx(float(rise), rel=2e-2)


def test_kernel_leads_with_the_sweep(segment):
    net = MLP((6, 8, 8), laws.Gaussian(np.array([1.0, 2.0, 3.0])), laws.Zero())
    made = kernel(net, segment(6), points=4)(KEY)
    assert made["growth"].shape == (3, 2)
    np.testing.assert_allclose(made["growth"][2], 3 * made["growth"][0], rtol=1e-5)
    weights, biases = net.init(KEY)[1]
    assert (weights.shape, biases.shape) == ((3, 8, 8), (3, 8))


def test_gram_has_the_law_of_explicit_weights(segment):
    probes = (*ALL, "angle")
    for activation in ("relu", "hard_tanh", "tanh"):
        net = MLP((12, 48, 32), laws.Gaussian(2.0), laws.Gaussian(0.3), activation)
        asked = probes if activation == "tanh" else (*probes, "transitions")
        options = {"draws": 3_000, "probes": asked, "points": 6}
        drawn = estimate(net, segment(12), key=KEY, **options)
        gram = estimate(net, segment(12), key=jax.random.key(8), method="gram", **options)
        for name in asked:
            a, b = drawn[name], gram[name]
            z = (a.mean - b.mean) / np.hypot(a.sem, b.sem)
            assert np.all(np.abs(z) < 4.5), (activation, name, z)
            np.testing.assert_allclose(a.std, b.std, rtol=0.08)


def test_gram_calls_no_lapack(segment):
    # Two such calls side by side can wait for each other for ever.
    net = MLP((12, 48, 48, 32), laws.Gaussian(2.0), laws.Zero())
    f = kernel(net, segment(12), probes=("growth", "angle"), method="gram", points=4)
    assert "lapack" not in jax.jit(f).lower(KEY).as_text()


def test_gram_at_width_100_000():
    net = MLP((3, 100_000, 100_000), laws.Gaussian(2.0), laws.Gaussian(0.1))
    curve = curves.line(np.eye(3)[0], np.eye(3)[1])
    made = estimate(net, curve, key=KEY, draws=4, method="gram", points=6)["growth"]
    limit = [2.0 / np.sqrt(2) * np.sqrt(100_000 / 3), 2.0 / np.sqrt(2)]
    np.testing.assert_allclose(made.mean, limit, rtol=0.01)


def test_a_stated_error_is_reached_and_no_more(segment):
    made = estimate(NET, segment(6), key=KEY, draws=20_000, probes="growth", target=0.03, chunk=50)
    growth = made["growth"]
    assert np.all(growth.sem <= 0.03 * growth.mean)
    assert growth.draws < 4_000
    half = estimate(NET, segment(6), key=KEY, draws=growth.draws // 2, probes="growth")["growth"]
    assert np.any(half.sem > 0.03 * half.mean)


def test_interrupt_hands_over_what_was_gathered(segment, monkeypatch):
    calls = []

    original = runner._merged

    def stop(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(runner, "_merged", stop)
    with pytest.raises(Interrupted) as caught:
        estimate(NET, segment(6), key=KEY, draws=100, chunk=10)
    monkeypatch.setattr(runner, "_merged", original)
    partial = caught.value.estimates
    assert partial["growth"].draws == 20
    extended = estimate(NET, segment(6), key=KEY, draws=100, extend=partial)
    whole = estimate(NET, segment(6), key=KEY, draws=100)
    np.testing.assert_allclose(extended["growth"].mean, whole["growth"].mean, rtol=1e-6)


def test_discretisation_is_estimated_and_shrinks():
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.normal(size=(32, 2)))[0].T * 6
    net = MLP((32,) * 5, laws.Gaussian(8.0), laws.Zero(), "hard_tanh")
    made = {
        m: estimate(
            net, curves.circle(*x), key=KEY, draws=40, probes="length", method="grid", points=m
        )["length"]
        for m in (101, 1601, 12801)
    }
    # Few points: the image is finer than the grid, and the estimate says so.
    assert not made[101].converged[-1]
    assert made[12801].converged.all()
    fine = made[12801].mean
    error = fine - made[1601].mean
    assert np.all(error > 0)
    # Of the size of the error; the last bits of a chaotic network's numbers differ by machine.
    ratio = made[1601].discretisation / error
    assert np.all(ratio > 0.7), ratio
    assert np.all(ratio < 3), ratio


def test_transitions_count_two_breakpoints_of_one_jump():
    weights, biases = np.array([[4.0]]), np.array([0.0])
    curve = curves.line([-1.0], [1.0])
    made = measure(
        ((weights, biases),), curve, activation="hard_tanh", probes="transitions", points=2
    )
    assert made["transitions"].tolist() == [2.0]
    relu = measure(((weights, biases),), curve, probes=("transitions", "angle", "norm"), points=3)
    assert relu["transitions"].tolist() == [1.0]


def test_trajectory_is_the_network_by_hand(rng):
    params = tuple((rng.normal(size=s), rng.normal(size=s[1])) for s in ((3, 5), (5, 4)))
    curve = curves.arc([1.0, 0, 0], [0, 1.0, 0])
    images = trajectory(params, curve, points=7)
    s = np.linspace(0, np.pi / 2, 7)
    x = np.stack([np.cos(s), np.sin(s), 0 * s], axis=1)
    first = x @ params[0][0] + params[0][1]
    second = np.maximum(first, 0) @ params[1][0] + params[1][1]
    for image, expected in zip(images, (x, first, second), strict=True):
        assert image.dtype == np.float64
        np.testing.assert_allclose(image, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("look", [measure, trajectory])
def test_an_activation_beside_a_network_is_refused(look):
    """It was ignored."""
    net = MLP((3, 5), laws.Gaussian(1.0), laws.Zero(), "tanh")
    params, curve = net.init(KEY), curves.arc([1.0, 0, 0], [0, 1.0, 0])
    with pytest.raises(ValueError, match="activation='relu' beside net.*'tanh'.*leave one"):
        look(params, curve, net=net, activation="relu")
    with pytest.raises(ValueError, match="net=3 is not a network"):
        look(params, curve, net=3)
    by_net, by_name = look(params, curve, net=net), look(params, curve, activation="tanh")
    for a, b in zip(jax.tree.leaves(by_net), jax.tree.leaves(by_name), strict=True):
        np.testing.assert_array_equal(a, b)


def test_projections_are_principal_planes(rng):
    # A flat ellipse in five dimensions, about a point of its own, with a little noise.
    plane, _ = np.linalg.qr(rng.normal(size=(5, 2)))
    t = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
    flat = np.stack([3 * np.cos(t), np.sin(t)], axis=1)
    found = project(flat @ plane.T + 7)
    assert found.share == pytest.approx(1)
    np.testing.assert_allclose(np.abs(found.points), np.abs(flat), atol=1e-12)
    noisy = project(flat @ plane.T + 0.5 * rng.normal(size=(1000, 5)))
    assert noisy.share == pytest.approx((5 + 0.5) / (5 + 5 / 4), abs=0.02)
    with pytest.raises(ValueError, match=r"points has shape \(3,\): give \(n, k\)"):
        project(np.zeros(3))


def python(code: str) -> str:
    """Run code in a process of its own and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


_MEMORY = """
import resource, sys, jax, numpy as np
from jaxexpr import MLP, curves, estimate, laws
net = MLP((32,) * 4, laws.Sparse(laws.Gaussian(2.0), 0.5), laws.Zero())
rng = np.random.default_rng(0)
line = curves.line(*rng.normal(size=(2, 32)))
estimate(net, line, key=jax.random.key(0), draws=100, points=6)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
estimate(net, line, key=jax.random.key(0), draws=10_000, points=6)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_is_flat_from_100_to_10_000_networks():
    assert int(python(_MEMORY)) < 40_000  # kB


_DEVICES = """
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", {devices})
from jaxexpr import MLP, curves, estimate, laws
assert len(jax.devices()) == {devices}
net = MLP((8,) * 4, laws.Sparse(laws.Gaussian(np.array([1.0, 2.0])), 0.5), laws.Gaussian(0.1))
line = curves.line(np.ones(8), np.arange(8.0))
made = estimate(net, line, key=jax.random.key(0), draws=101, points=6, batch=1)
print([made[n].mean.tolist() for n in made])
"""


def test_one_two_and_eight_devices_agree():
    found = []
    for count in (1, 2, 8):
        code = _DEVICES.format(devices=count)
        found.append(np.array(json.loads(python(code))))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-12)


@pytest.mark.parametrize("method", ["exact", "tangent", "grid"])
def test_many_given_networks_are_each_measured(method, segment):
    """With a leading axis in the parameters: the numbers of one network after the other."""
    net = MLP((6, 9, 7), laws.Gaussian(1.5), laws.Gaussian(0.4), dtype="float64")
    with jax.enable_x64(True):
        params = jax.vmap(net.init)(jax.random.split(KEY, 4))
    probes = ("length", "growth") if method == "tangent" else ("length", "growth", crossings(0.3))
    params = jax.tree.map(np.asarray, params)
    found = measure(params, segment(6), probes=probes, method=method)
    for i in range(4):
        own = jax.tree.map(lambda x: x[i], params)  # noqa: B023
        alone = measure(own, segment(6), probes=probes, method=method)
        assert list(found) == list(alone)
        for name, numbers in alone.items():
            assert found[name].shape == (4, 2)
            np.testing.assert_allclose(found[name][i], numbers, rtol=1e-12)


def test_many_given_networks_inside_a_transformation_and_of_convolutions(segment):
    net = MLP((6, 9, 7), laws.Gaussian(1.5), laws.Gaussian(0.4))
    params = jax.vmap(net.init)(jax.random.split(KEY, 3))
    inside = jax.jit(lambda p: measure(p, segment(6), probes="growth"))(params)["growth"]
    outside = measure(params, segment(6), probes="growth")["growth"]
    np.testing.assert_allclose(inside, outside, rtol=1e-5)
    conv = ConvNet((5, 5, 2), [Conv(3, 3), Dense(4)], laws.Gaussian(1.5), laws.Zero())
    many = jax.vmap(conv.init)(jax.random.split(KEY, 3))
    line = curves.line(np.zeros((5, 5, 2)), np.ones((5, 5, 2)))
    found = measure(many, line, net=conv)["growth"]
    for i in range(3):
        own = jax.tree.map(lambda x: x[i], many)  # noqa: B023
        alone = measure(own, line, net=conv)["growth"]
        np.testing.assert_allclose(found[i], alone, rtol=1e-5)
    with pytest.raises(ValueError, match=r"params\[0\]\[1\] has shape \(2, 3\): .* \(3, 3\)"):
        measure(((many[0][0], many[0][1][:2]), *many[1:]), line, net=conv)
