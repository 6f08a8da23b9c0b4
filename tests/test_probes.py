"""Every probe against a few lines of NumPy: unequal widths, dead layers, scales, uneven nodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxexpr import (
    MLP,
    Conv,
    ConvNet,
    Dense,
    Pool,
    activations,
    crossings,
    curves,
    estimate,
    expected_crossings,
    kernel,
    laws,
    measure,
)
from jaxexpr.probes.kac_rice import crossing_rate

KEY = jax.random.key(12)
ENDS = np.random.default_rng(5).normal(size=(2, 3))
LOW, HIGH = 0.4, 5.1  # a domain that neither begins at 0 nor has length 1
SPAN = HIGH - LOW
CURVE = curves.from_function(lambda t: jnp.cos(t) * ENDS[0] + jnp.sin(t) * ENDS[1], (LOW, HIGH))
GAUSS = np.polynomial.legendre.leggauss(80)
LEVELS = (-0.4, 0.0, 1.1)
PHI = {
    "relu": (lambda h: np.maximum(h, 0), lambda h: (h > 0).astype(float), (0.0,)),
    "hard_tanh": (lambda h: np.clip(h, -1, 1), lambda h: (np.abs(h) < 1).astype(float), (-1, 1)),
}
AT_TANGENTS = (
    "length", "growth", "growth_squared", "log_growth", "length_ratio", "log_length", "norm",
)  # fmt: skip
CROSSINGS = crossings(*LEVELS)
ON_A_GRID = (
    *AT_TANGENTS, "angle", "transitions", "network_transitions", "patterns", "layer_patterns",
    CROSSINGS,
)  # fmt: skip


def drawn(widths=(3, 6, 4, 5), seed=1):
    rng = np.random.default_rng(seed)
    pairs = zip(widths, widths[1:], strict=False)
    return [(rng.normal(size=p) * 1.3, rng.normal(size=p[1]) * 0.5) for p in pairs]


def half_dead():
    """No unit of layer 2 is open, half of layer 1 never: above, nothing but biases."""
    params = drawn()
    params[0][1][:3] = -50.0
    params[1][1][:] = -60.0
    params[2][1][:] = [0.5, -0.2, 2.0, 0.0, 1.5]
    return params


def sometimes_dead():
    """Layer 2 is open on a part of the circle alone."""
    params = drawn(seed=3)
    params[1] = (np.abs(params[1][0]), np.full(4, -3.0))
    return params


def scaled(size):
    """Layers 1 and 3 are scaled up and down; biases go along, so that units keep their sides."""
    (W, b), second, (V, c) = drawn()
    return [(size * W, size * b), second, (V / size, c)]


NETWORKS = {
    "plain": drawn(),
    "half dead": half_dead(),
    "sometimes dead": sometimes_dead(),
    "large": scaled(2.0**70),
    "small": scaled(2.0**-70),
}


def images(params, activation, x, dx):
    """Pre- and post-activations and their tangents, layer by layer."""
    phi, slope, _ = PHI[activation]
    z, dz = x, dx
    for W, b in params:
        h = z @ W + b
        z, dz = phi(h), slope(h) * (dz @ W)
        yield h, z, dz


def mean(values, shares):
    """Weighted mean of what is not NaN; NaN of nothing."""
    kept = ~np.isnan(values)
    return (values * shares)[kept].sum() / shares[kept].sum() if kept.any() else np.nan


def probed(before, after, shares, z):
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(before > 0, after / before, np.nan)
        ends = [z[i] / np.linalg.norm(z[i]) for i in (0, -1)]
        logs = np.where(ratios > 0, np.log(ratios), np.nan)
        total = after.sum()
        return {
            "length": total,
            "growth": mean(ratios, shares),
            "growth_squared": mean(ratios**2, shares),
            "log_growth": mean(logs, shares),
            "length_ratio": total / before.sum() if before.any() else np.nan,
            "log_length": np.log(total) if total else np.nan,
            "norm": np.linalg.norm(z, axis=1).mean(),
            "angle": np.arccos(np.clip(ends[0] @ ends[1], -1, 1)),
        }


def circle(share):
    """Points and tangents of the curve in NumPy, at shares of its domain."""
    (a, b), t = ENDS, LOW + SPAN * np.asarray(share)[:, None]
    return np.cos(t) * a + np.sin(t) * b, np.cos(t) * b - np.sin(t) * a


def expected(params, activation, points, nodes):
    even = (np.arange(points) + 0.5) / points if nodes == "tangent" else np.linspace(0, 1, points)
    x, dx = circle(even)
    found = []
    before, shares = None, None
    for h, z, dz in [(None, x, dx), *images(params, activation, x, dx)]:
        if nodes == "tangent":
            segments = np.linalg.norm(dz, axis=1) * SPAN / points
        else:
            segments = np.linalg.norm(np.diff(z, axis=0), axis=1)
        shares = np.full(len(segments), 1 / len(segments))
        if h is not None:
            found.append(probed(before, segments, shares, z))
        before = segments
    return {name: np.array([layer[name] for layer in found]) for name in found[0]}


def counted(params, activation, at):
    """What is counted on a grid at these shares of the domain, from states and signs."""
    x, dx = circle(at)
    states, changes, levels = [], [], []
    for h, _, _ in images(params, activation, x, dx):
        states.append(np.concatenate([h > c for c in PHI[activation][2]], axis=1))
        changes.append(np.sum(states[-1][1:] != states[-1][:-1]))
        levels.append(sum(np.sum((h[1:] > c) != (h[:-1] > c)) for c in LEVELS))
    below = [np.concatenate(states[: i + 1], axis=1) for i in range(len(states))]
    return {
        "transitions": changes,
        "network_transitions": np.cumsum(changes),
        "patterns": [len(np.unique(s, axis=0)) for s in below],
        "layer_patterns": [len(np.unique(s, axis=0)) for s in states],
        CROSSINGS.name: levels,
    }


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("nodes", "points"), [("tangent", 11), ("grid", 40)])
def test_given_networks_are_measured_as_in_numpy(network, nodes, points):
    names = AT_TANGENTS if nodes == "tangent" else ON_A_GRID
    params = NETWORKS[network]
    for activation in ("relu", "hard_tanh"):
        options = {"activation": activation, "method": nodes, "points": points}
        found = measure(params, CURVE, probes=names, **options)
        right = expected(params, activation, points, nodes)
        if nodes == "grid":
            right |= counted(params, activation, np.linspace(0, 1, points))
        for name, numbers in right.items():
            if name in found:
                near = {"rtol": 1e-9, "atol": 1e-7 if name == "angle" else 1e-12}
                np.testing.assert_allclose(found[name], numbers, err_msg=name, **near)


def test_a_layer_that_is_dead_at_a_size_that_floats_barely_hold():
    # 2^200 is beyond float32; above the dead layer there are biases of moderate size alone.
    up = np.full((2, 2), 2.0**50, np.float32), np.zeros(2, np.float32)
    dead = np.full((2, 2), -1.0, np.float32), np.zeros(2, np.float32)
    last = np.eye(2, dtype=np.float32), np.array([3.0, 4.0], np.float32)
    for method in ("tangent", "grid"):
        found = measure(
            [up, up, up, up, dead, last], curves.line([0.0, 1.0], [1.0, 1.0]), method=method,
            points=4, probes=("norm", "log_length", "length"),
        )  # fmt: skip
        assert found["norm"].tolist()[4:] == [0.0, 5.0]
        rise = 2.0 ** (51 * np.arange(1.0, 5.0) - 0.5)  # to both units 2^50 (s + 1), and so on
        np.testing.assert_allclose(found["length"][:4], rise, rtol=1e-6)
        np.testing.assert_allclose(found["log_length"][:4], np.log(rise), rtol=1e-6)
        assert found["length"].tolist()[4:] == [0, 0]
        assert np.isnan(found["log_length"][4:]).all()


def test_a_grid_that_begins_at_the_origin():
    # All sizes are 0 there; the network has no biases whose size could serve.
    params = [(np.array([[3.0], [4.0]]), np.zeros(1)), (np.array([[2.0]]), np.zeros(1))]
    line = curves.line([0.0, 0.0], [0.6, 0.8])
    found = measure(params, line, probes=("length", "norm"), method="grid", points=5)
    np.testing.assert_allclose(found["length"], [5.0, 10.0], rtol=1e-12)
    np.testing.assert_allclose(found["norm"], [2.5, 5.0], rtol=1e-12)


@pytest.mark.parametrize("activation", ["hard_tanh"])
def test_exact_numbers_are_those_of_a_very_fine_grid(activation):
    params, line = drawn((3, 6, 4)), curves.line(*ENDS)
    names = ("length", "length_ratio", "log_length", "transitions", "sign_changes", CROSSINGS)
    found = measure(params, line, activation=activation, probes=names)
    x = ENDS[0] + np.linspace(0, 1, 40_001)[:, None] * (ENDS[1] - ENDS[0])
    before = np.linalg.norm(ENDS[1] - ENDS[0])
    for layer, (h, z, _) in enumerate(images(params, activation, x, x)):
        length = np.linalg.norm(np.diff(z, axis=0), axis=1).sum()
        assert found["length"][layer] == pytest.approx(length, rel=2e-4)
        assert found["length_ratio"][layer] == pytest.approx(length / before, rel=2e-4)
        assert found["log_length"][layer] == pytest.approx(np.log(length), abs=2e-4)
        for name, levels in (
            ("transitions", PHI[activation][2]), ("sign_changes", (0.0,)), (CROSSINGS.name, LEVELS)
        ):  # fmt: skip
            crossed = sum(np.sum((h[1:] > c) != (h[:-1] > c)) for c in levels)
            assert found[name][layer] == crossed, name
        before = length


def test_winners_of_a_pool_change_both_ways():
    net = ConvNet((2, 4, 1), [Pool(2), Dense(2)], laws.Gaussian(1.0), laws.Zero())
    params = [(np.ones((2, 2)), np.zeros(2))]
    ends = np.random.default_rng(8).normal(size=(2, 2, 4, 1))
    found = measure(
        params, curves.circle(*ends), net=net, probes=("transitions", "norm", "patterns"),
        method="grid", points=50,
    )  # fmt: skip
    t = np.linspace(0, 2 * np.pi, 50)[:, None, None]
    x = np.cos(t) * ends[0, ..., 0] + np.sin(t) * ends[1, ..., 0]
    windows = np.stack([x[:, :, 2 * i : 2 * i + 2].reshape(50, 4) for i in range(2)], axis=1)
    winners = windows.argmax(axis=2)
    assert found["transitions"][0] == np.sum(winners[1:] != winners[:-1]) > 4
    assert found["patterns"][0] == len(np.unique(winners, axis=0))
    norm = np.linalg.norm(windows.max(axis=2), axis=1).mean()
    assert found["norm"][0] == pytest.approx(norm, rel=1e-12)


# What random networks add: laws, loops over layers, fewer nodes, expectations

UNLIKE = MLP(
    (3, 5, 5, 5),
    [laws.Gaussian(s) for s in (4.0, 1.0, 2.5)],
    [laws.Gaussian(s) for s in (0.3, 0.8, 0.1)],
    "hard_tanh",
    dtype="float64",
)


def params_of(net, draws):
    """Parameters of the first networks of KEY."""
    keys = jnp.stack([jax.random.fold_in(KEY, i) for i in range(draws)])
    with jax.enable_x64(True):
        stacked = jax.tree.map(np.asarray, jax.jit(jax.vmap(net.init))(keys))
    return [jax.tree.map(lambda x, i=i: x[i], stacked) for i in range(draws)]


@pytest.fixture(scope="module")
def unlike():
    return params_of(UNLIKE, 3)


@pytest.mark.parametrize(("nodes", "points"), [("tangent", 11), ("grid", 12)])
def test_laws_that_differ_from_layer_to_layer_and_fewer_nodes(nodes, points, unlike):
    counts = ("network_transitions", "patterns") if nodes == "grid" else ()
    made = estimate(
        UNLIKE, CURVE, key=KEY, draws=3, probes=("length", "norm", "growth", *counts), method=nodes,
        points=points,
    )  # fmt: skip
    fine, rough = [], []
    for params in unlike:
        fine.append(expected(params, "hard_tanh", points, nodes))
        fine[-1] |= counted(params, "hard_tanh", np.linspace(0, 1, points))
        # Every third tangent of eleven, the last one for five; of twelve points every second, and
        # the last, which is near to the one before.
        if nodes == "tangent":
            nodes_left = (np.arange(11) + 0.5)[[1, 4, 7]] / 11
            shares = np.array([3, 3, 5]) / 11
        else:
            nodes_left = np.linspace(0, 1, 12)[[0, 2, 4, 6, 8, 10, 11]]
            shares = np.array([2, 2, 2, 2, 2, 1]) / 11
        x, dx = circle(nodes_left)
        seen, before = [], None
        for _, z, dz in [(None, x, dx), *images(params, "hard_tanh", x, dx)]:
            if nodes == "tangent":
                segments = np.linalg.norm(dz, axis=1) * shares * SPAN
            else:
                segments = np.linalg.norm(np.diff(z, axis=0), axis=1)
            if before is not None:
                seen.append(probed(before, segments, shares, z))
            before = segments
        rough.append({name: np.array([layer[name] for layer in seen]) for name in seen[0]})
        rough[-1] |= counted(params, "hard_tanh", nodes_left)
    for name, one in made.items():
        values, fewer = (np.array([network[name] for network in many]) for many in (fine, rough))
        np.testing.assert_allclose(one.mean, np.nanmean(values, axis=0), rtol=1e-9, err_msg=name)
        moved = np.abs(np.nanmean(fewer - values, axis=0))
        np.testing.assert_allclose(one.discretisation, moved, rtol=1e-6, err_msg=name)


def rice(z, dz, w, b, level):
    """Crossings of a level per unit of t by one Gaussian unit, by integrating over its slope."""
    u = np.concatenate([w * z, [b]])
    du = np.concatenate([w * dz, [0.0]])
    q = u @ u
    if q == 0:
        return 0.0
    centre, spread = u @ du / q * level, np.sqrt(max(du @ du - (u @ du) ** 2 / q, 0.0))
    density = stats.norm.pdf(level, scale=np.sqrt(q))
    edges = np.unique(np.clip([centre - 9 * spread, 0.0, centre + 9 * spread], *(
        centre - 9 * spread, centre + 9 * spread
    )))  # fmt: skip
    x, weights = GAUSS
    mean = abs(centre) if spread == 0 else 0.0
    for a, b in zip(edges, edges[1:], strict=False):
        slope = (a + b) / 2 + (b - a) / 2 * x
        mean += (b - a) / 2 * (weights @ (np.abs(slope) * stats.norm.pdf(slope, centre, spread)))
    return mean * density


@pytest.mark.parametrize("level", [0.0, 0.8, -1.3])
@pytest.mark.parametrize("bias", [0.0, 0.6])
def test_the_rate_of_crossings_by_integration(level, bias):
    rng = np.random.default_rng(1)
    z, dz = rng.normal(size=(2, 5, 3))
    z[3], dz[4] = 0.0, 1.5 * z[4]  # no value; a ray, whose slope is known without a bias
    with jax.enable_x64(True):
        arrays = (jax.numpy.asarray(x) for x in (z, dz))
        found = np.asarray(crossing_rate(*arrays, 0.7, bias, level))
    right = [rice(*row, 0.7, bias, level) for row in zip(z, dz, strict=True)]
    np.testing.assert_allclose(found, right, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("activation", "sigma"), [("relu", 1e3), ("hard_tanh", 2.0)])
def test_expected_crossings_are_integrals_along_the_image_below(activation, sigma):
    net = MLP(
        (3, 6, 4), laws.Gaussian(sigma), [laws.Gaussian(s) for s in (0.4, 1.5)],
        activation, dtype="float64",
    )  # fmt: skip
    level = expected_crossings(0.9)
    probes, points = ("expected_transitions", level), 7
    with jax.enable_x64(True):
        one = jax.jit(kernel(net, CURVE, probes=probes, points=points))
        asked = one(jax.random.fold_in(KEY, 0))
    x, dx = circle((np.arange(points) + 0.5) / points)
    below, (params,) = [(x, dx)], params_of(net, 1)
    below += [(z, dz) for _, z, dz in images(params, activation, x, dx)]
    for layer, ((z, dz), bias) in enumerate(zip(below, (0.4, 1.5), strict=False)):
        width, w = net.widths[layer + 1], sigma / np.sqrt(net.widths[layer])
        rates = {
            c: sum(rice(*row, w, bias, c) for row in zip(z, dz, strict=True))
            for c in (*PHI[activation][2], 0.9)
        }
        share = width * SPAN / points
        broken = sum(rates[c] for c in PHI[activation][2]) * share
        assert asked["expected_transitions"][layer] == pytest.approx(broken, rel=1e-6)
        assert asked[level.name][layer] == pytest.approx(rates[0.9] * share, rel=1e-6, abs=1e-12)


def test_expected_crossings_of_a_convolution_are_those_of_its_patches():
    net = ConvNet(
        (5, 5, 1), [Conv(3, 3, 2), Pool(3, None, "mean"), Dense(2)], laws.Gaussian(1.5),
        laws.Gaussian(0.6), "hard_tanh", dtype="float64",
    )  # fmt: skip
    ends = np.random.default_rng(2).normal(size=(2, 5, 5, 1))
    with jax.enable_x64(True):
        f = jax.jit(kernel(net, curves.arc(*ends), probes="expected_transitions", points=1))
        found = np.asarray(f(KEY)["expected_transitions"])
    s = np.pi / 4
    z, dz = np.cos(s) * ends[0] + np.sin(s) * ends[1], np.cos(s) * ends[1] - np.sin(s) * ends[0]
    z, dz = (np.pad(x[..., 0], 1) for x in (z, dz))
    total = 0.0
    for i, j in np.ndindex(3, 3):
        window = slice(2 * i, 2 * i + 3), slice(2 * j, 2 * j + 3)
        for c in (-1, 1):
            total += 3 * rice(z[window].ravel(), dz[window].ravel(), 1.5 / 3, 0.6, c)
    assert found[0] == pytest.approx(total * np.pi / 2, rel=1e-6)
    assert np.isnan(found[1])
    assert found[2] > 0


@pytest.mark.parametrize("method", ["tangent", "grid"])
def test_an_image_that_is_not_finite_has_failed(method):
    # Not homogeneous, so nothing rescales it: infinite in layer 2, without a number in layer 3.
    steep = activations.piecewise_linear([1.0], [1.0, 2.0])
    net = MLP((2, 3, 3, 3), [laws.Gaussian(s) for s in (1.0, 1e30, 1e30)], laws.Zero(), steep)
    names = ("norm", "length", *(("transitions",) if method == "grid" else ("growth",)))
    line = curves.line([1.0, 0.0], [0.0, 1.0])
    made = estimate(net, line, key=KEY, draws=3, probes=names, method=method, points=3)
    for name in ("norm", "length"):
        assert made[name].failed.tolist() == [0, 3, 3], name
        assert made[name].n.tolist() == [3, 0, 0], name
    assert made[names[2]].n[2] == 0 and made[names[2]].failed[2] == 3
    assert np.isfinite(made["norm"].discretisation[0])  # three points have a coarser look


def test_segments_that_died_below_are_left_out_and_counted():
    """Of 40 narrow networks, most dead on a part of the segment: as NumPy counts."""
    net = MLP((3, 2, 3, 2), laws.Gaussian(1.5), laws.Zero(), "relu")
    line, points = curves.line(*ENDS), 21
    made = estimate(net, line, key=KEY, draws=40, probes=("growth",), method="grid", points=points)
    dead = np.zeros(3)
    for index in range(40):
        z = np.linspace(*ENDS, points)
        for layer, (weights, biases) in enumerate(net.init(jax.random.fold_in(KEY, index))):
            dead[layer] += np.all(z[1:] == z[:-1], axis=1).sum() / 40
            z = np.maximum(z @ np.asarray(weights, np.float64) + np.asarray(biases), 0)
    assert dead[0] == 0 and 2 < dead[1] < dead[2]
    np.testing.assert_allclose(made["growth"].left_out, dead, rtol=1e-12)
