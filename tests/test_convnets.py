"""Convolutional networks: against Flax, brute force, exact pieces and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import (
    MLP,
    Conv,
    ConvNet,
    Dense,
    Pool,
    cifar10_convnet,
    curves,
    estimate,
    exact,
    kernel,
    laws,
    measure,
    trajectory,
)

KEY = jax.random.key(5)
RNG = np.random.default_rng(1)
LAYERS = [Conv(4), Pool(2), Conv(6, 3, 1, "valid"), Pool(2, None, "mean"), Dense(10)]
ENDS = RNG.normal(size=(2, 8, 8, 2))
LINE = curves.line(*ENDS)
GAUSSIAN = laws.Gaussian(1.5), laws.Gaussian(0.3)


def network(layers=LAYERS, shape=(8, 8, 2), **options):
    return ConvNet(shape, layers, *GAUSSIAN, dtype="float64", **options)


def drawn(net, number=0):
    key = jax.random.fold_in(KEY, number)
    with jax.enable_x64(True):
        params = net.init(key)
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)


def test_output_is_that_of_flax():
    linen = pytest.importorskip("flax.linen")
    net, params = network(), drawn(network())
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        x = jnp.asarray(RNG.normal(size=(1, 8, 8, 2)))

        def layer(module, i, x):
            return module.apply({"params": {"kernel": params[i][0], "bias": params[i][1]}}, x)

        h = linen.relu(layer(linen.Conv(4, (3, 3), padding="SAME"), 0, x))
        h = linen.max_pool(h, (2, 2), (2, 2))
        h = linen.relu(layer(linen.Conv(6, (3, 3), padding="VALID"), 1, h))
        h = linen.avg_pool(h, (2, 2), (2, 2))
        h = linen.relu(layer(linen.Dense(10), 2, h.reshape(1, -1)))
        np.testing.assert_allclose(net.apply(params, x[0]), h[0], rtol=1e-12)


@pytest.mark.parametrize(
    "layers",
    [
        LAYERS,
        [Conv(5, 3, 2, "valid"), Conv(4, 3, 1, "same"), Dense(7)],
        [Conv(3, 1), Pool(3, 1, "max"), Conv(4, 4, 2, "valid"), Pool(2, 1, "mean")],
        [Dense(6), Dense(5)],
    ],
)
def test_tangents_and_values_are_those_of_autodiff(layers):
    shape = (7, 7, 2) if layers[0] == Conv(5, 3, 2, "valid") else (8, 8, 2)
    net, ends = network(layers, shape), RNG.normal(size=(2, *shape))
    params, line = drawn(net), curves.line(*ends)
    found = measure(params, line, net=net, probes=("length", "norm"), points=40)
    with jax.enable_x64(True):
        t = jnp.asarray((np.arange(40) + 0.5) / 40)
        for depth in range(1, net.depth + 1):
            part = (
                network(layers[:depth], shape)
                if any(not isinstance(x, Pool) for x in layers[:depth])
                else None
            )
            if part is None:
                continue
            few = params[: sum(not isinstance(x, Pool) for x in layers[:depth])]

            def image(s, part=part, few=few):
                return part.apply(few, (1 - s) * ends[0] + s * ends[1]).ravel()

            speeds = jax.vmap(lambda s: jnp.linalg.norm(jax.jacfwd(image)(s)))(t)  # noqa: B023
            norms = jax.vmap(lambda s: jnp.linalg.norm(image(s)))(t)  # noqa: B023
            np.testing.assert_allclose(found["length"][depth - 1], speeds.mean(), rtol=1e-10)
            np.testing.assert_allclose(found["norm"][depth - 1], norms.mean(), rtol=1e-10)


def test_transitions_and_patterns_are_those_of_exact_pieces():
    net, params = network(), drawn(network())
    with jax.enable_x64(True):
        found = exact.pieces_of(lambda x: net.apply(params, x), *ENDS)
    names = ("network_transitions", "patterns", "transitions")
    grid = measure(params, LINE, net=net, probes=names, method="grid", points=40_001)
    pieces = found.breakpoints.size - 1
    # Mean pools change nothing; the winner of a max pool is a state of it.
    assert grid["transitions"][3] == 0
    assert grid["transitions"][1] > 0
    assert grid["patterns"][-1] == pieces
    assert grid["network_transitions"][-1] >= pieces - 1


def test_the_runner_measures_the_networks_that_init_draws():
    net = network()
    probes = ("length", "growth", "transitions", "norm", "angle", "log_length")
    made = estimate(net, LINE, key=KEY, draws=3, probes=probes)
    alone = [measure(drawn(net, i), LINE, net=net, probes=probes) for i in range(3)]
    for name in probes:
        mean = np.mean([one[name] for one in alone], axis=0)
        np.testing.assert_allclose(made[name].mean, mean, rtol=1e-10)
    one = jax.jit(kernel(ConvNet((8, 8, 2), LAYERS, *GAUSSIAN), LINE))
    assert jax.vmap(one)(jax.random.split(KEY, 4))["growth"].shape == (4, 5)


def test_given_parameters_may_be_traced():
    net = network()
    with jax.enable_x64(True):
        params = jax.tree.map(jnp.asarray, drawn(net))
        options = {"net": net, "probes": "length", "method": "grid", "points": 5}

        def last(scale):
            first, *others = params
            scaled = ((scale * first[0], first[1]), *others)
            return measure(scaled, LINE, **options)["length"][-1]

        value, slope = jax.jit(jax.value_and_grad(last))(1.0)
        np.testing.assert_allclose(value, measure(params, LINE, **options)["length"][-1])
        step = (last(1 + 1e-6) - last(1 - 1e-6)) / 2e-6
        assert float(slope) == pytest.approx(float(step), rel=1e-5)


def test_trajectory_is_what_apply_computes():
    net = network()
    params = drawn(net)
    images = trajectory(params, LINE, net=net, points=3)
    assert [x.shape for x in images] == [(3, *net.input_shape), *((3, *op.shape) for op in net.ops)]
    with jax.enable_x64(True):
        for x, last in zip(images[0], images[-1], strict=True):
            np.testing.assert_allclose(net.activation(last), net.apply(params, x), rtol=1e-9)


def test_a_network_of_dense_layers_is_an_mlp():
    line = curves.line(*ENDS.reshape(2, -1))
    flat = MLP((128, 10, 6), *GAUSSIAN, dtype="float64")
    net = network([Dense(10), Dense(6)])
    for (W, b), (V, c) in zip(drawn(net), drawn(flat), strict=True):
        np.testing.assert_array_equal(W, V)
        np.testing.assert_array_equal(b, c)
    made = estimate(net, LINE, key=KEY, draws=5, probes=("growth", "norm"))
    other = estimate(flat, line, key=KEY, draws=5, probes=("growth", "norm"))
    for name in made:
        np.testing.assert_allclose(made[name].mean, other[name].mean, rtol=1e-12)


def test_mean_square_growth_is_the_exact_one_of_the_patches():
    """``E |dz'|^2 = sigma_w^2 features / (2 fan_in) sum over places of |patch of dx|^2``."""
    net = ConvNet((8, 8, 2), [Conv(8)], laws.Uniform(2.0), laws.Gaussian(0.1))
    made = estimate(net, LINE, key=KEY, draws=40_000, probes="growth_squared", points=1)
    step = ENDS[1] - ENDS[0]
    seen = np.pad(np.ones((8, 8)), 1)
    covered = sum(seen[i : i + 8, j : j + 8] for i in range(3) for j in range(3))[..., None]
    expected = (4 / 3) * 8 / (2 * 18) * np.sum(covered * step**2) / np.sum(step**2)
    found = made["growth_squared"]
    assert found.sem[0] < 0.00125 * expected
    assert abs(found.mean[0] - expected) < 4 * found.sem[0]


def test_expected_transitions_agree_with_counted_ones():
    net = ConvNet((4, 4, 2), [Conv(4), Pool(2), Conv(6), Dense(8)], *GAUSSIAN, "hard_tanh")
    line = curves.line(*2 * RNG.normal(size=(2, 4, 4, 2)))
    options = {"key": KEY, "draws": 700}
    made = estimate(net, line, probes="expected_transitions", points=100, **options)
    made |= estimate(net, line, probes="transitions", points=1001, **options)
    probes = ("expected_transitions", "transitions")
    expected, counted = (made[name] for name in probes)
    kept = [0, 2, 3]
    error = np.hypot(expected.sem, counted.sem)[kept]
    assert np.isnan(expected.mean[1])
    assert expected.std[0] < 1e-6
    assert np.all(expected.std[kept] < counted.std[kept])
    assert np.all(error < 0.03 * counted.mean[kept])
    assert np.all(np.abs(expected.mean - counted.mean)[kept] < 4 * error)


def test_sweeps_share_their_draws():
    sigmas = laws.Sparse(laws.Gaussian(np.array([1.0, 2.0])), 0.5)
    net = ConvNet((8, 8, 2), [Conv(4), Pool(2), Dense(5)], sigmas, laws.Zero())
    made = estimate(net, LINE, key=KEY, draws=10, probes="growth")["growth"]
    # Without biases a ReLU network is homogeneous in its weights.
    np.testing.assert_allclose(made.mean[1], made.mean[0] * [2, 1, 2], rtol=1e-5)


def test_the_named_architecture():
    net = cifar10_convnet(*GAUSSIAN)
    kinds = [type(op).__name__ for op in net.ops]
    convs, pool, dense = "PlacedConv", "PlacedPool", "PlacedDense"
    assert kinds == [convs, convs, pool, convs, convs, convs, pool, dense, dense]
    assert net.widths[0] == 32 * 32 * 3
    shapes = [(32, 32, 32)] * 2 + [(16, 16, 32)] + [(16, 16, 64)] * 3 + [(8, 8, 64)]
    assert [op.shape for op in net.ops] == [*shapes, (384,), (192,)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Conv(4, 2), "kernel=2 is even and has no middle"),
        (lambda: Conv(0), "features=0"),
        (lambda: Conv(4, 3, 1, "full"), "padding='full' is unknown"),
        (lambda: Pool(2, None, "median"), "kind='median' is unknown"),
        (lambda: network([Pool(3)]), r"layers\[0\]: a pool of size 3 with stride 3 leaves 2 of"),
        (lambda: network([Conv(4, 9, 1, "valid")]), r"layers\[0\]: a kernel of size 9 on an image"),
        (lambda: network([Conv(4, 3, 2, "valid")]), "a kernel of size 3 with stride 2 leaves 1 of"),
        (lambda: network([Dense(4), Pool(2)]), r"layers\[1\] needs images"),
        (lambda: network([Pool(2)]), "layers hold no weights"),
        (lambda: network([]), r"layers=\[\]"),
        (lambda: network([4]), r"layers\[0\]=4 is not a layer"),
        (lambda: network(shape=(8, 8)), r"input_shape=\(8, 8\): give \(height, width, channels\)"),
        (
            lambda: ConvNet((8, 8, 2), LAYERS, [laws.Gaussian(1.0)] * 2, laws.Zero()),
            "weights has 2 entries for 3 layers",
        ),
        (
            lambda: estimate(network(), curves.line(*ENDS.reshape(2, -1)), key=KEY, draws=2),
            r"curve lives in shape \(128,\) and net.input_shape is \(8, 8, 2\)",
        ),
        (
            lambda: estimate(network(), LINE, key=KEY, draws=2, method="exact", probes="length"),
            r"method='exact' measures fully connected networks: of a ConvNet take exact.pieces_of",
        ),
        (
            lambda: estimate(network(), LINE, key=KEY, draws=2, method="gram"),
            "method='gram' draws independent units",
        ),
        (
            lambda: measure(drawn(network())[:2], LINE, net=network()),
            "give 3 pairs",
        ),
        (
            lambda: measure([(b, b) for _, b in drawn(network())], LINE, net=network()),
            r"params\[0\]\[0\] has shape \(4,\): net asks for \(3, 3, 2, 4\)",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("layer", [Conv(5), Conv(3, 5), Conv(4, 3, 2, padding="valid")])
def test_a_convolution_in_loops_is_the_same(layer, rng):
    op = layer.placed("layers[0]", (9, 7, 2))
    weights = jnp.asarray(rng.normal(size=(op.fan_in, op.outputs)), jnp.float32)
    rows = jnp.asarray(rng.normal(size=(6, 9 * 7 * 2)), jnp.float32)
    found, expected = op.product_in_loops(weights)(rows), op.product(weights)(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    # A place's sum runs over its patch, in the order of the kernel's entries.
    sums = np.asarray(op.patches(rows)) @ np.asarray(weights)
    np.testing.assert_allclose(sums.reshape(6, -1), expected, rtol=1e-4, atol=1e-4)
