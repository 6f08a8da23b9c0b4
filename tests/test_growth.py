"""Monte Carlo against exact laws: means agree within their own standard errors."""

import jax
import numpy as np
import pytest

from jaxexpr import MLP, curves, estimate, kernel, laws, theory

KEY = jax.random.key(2019)
GATE = 4.5  # standard errors; over all comparisons of this file a true law fails once in 10^3 runs


def z_scores(estimate, expected):
    return (estimate.mean - expected) / estimate.sem


def exact(net: MLP, sigma: float) -> list:
    sizes = zip(net.widths, net.widths[1:], strict=False)
    return [theory.gaussian_growth(sigma, k, i) for i, k in sizes]


@pytest.mark.parametrize(
    ("widths", "draws"),
    [
        ((6, 2, 2), 60_000),
        ((8,) * 4, 30_000),
        ((32,) * 5, 8_000),
        ((64, 32, 32), 8_000),
        ((100,) * 4, 3_000),
    ],
)
@pytest.mark.parametrize("biases", [laws.Zero(), laws.Gaussian(0.3)], ids=["no biases", "biases"])
def test_dense_gaussian_growth_and_length_follow_the_exact_law(widths, draws, biases, segment):
    net, curve = MLP(widths, laws.Gaussian(1.7), biases), segment(widths[0])
    made = estimate(net, curve, key=KEY, draws=draws, points=6)
    factors = exact(net, 1.7)
    growth, length = made["growth"], made["length"]
    assert np.all(growth.sem[:1] / growth.mean[:1] < 0.004)
    assert np.all(np.abs(z_scores(growth, factors)) < GATE)
    start = np.linalg.norm(curve.arrays[1] - curve.arrays[0])
    assert np.all(np.abs(z_scores(length, start * theory.composed(factors))) < GATE)
    # The gate has power: a law that is off by 2 % is noticed.
    assert np.abs(z_scores(growth, 1.02 * np.array(factors)))[0] > GATE


@pytest.mark.parametrize("method", ["tangent", "gram"])
def test_width_784_follows_the_exact_law(method, segment):
    net = MLP((784,) * 4, laws.Gaussian(2.0), laws.Gaussian(0.01))
    made = estimate(net, segment(784), key=KEY, draws=250, method=method, points=4)["growth"]
    assert np.all(made.sem / made.mean < 0.003)
    assert np.all(np.abs(z_scores(made, exact(net, 2.0))) < GATE)


LAWS = {
    "gaussian": laws.Gaussian(1.5),
    "uniform": laws.Uniform(2.5),
    "discrete": laws.DiscreteUniform(2),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_second_moment_is_exact_for_every_law_and_density(law, segment):
    densities = np.array([0.1, 0.4, 0.7, 1.0])
    weights = laws.Sparse(law, densities)
    net = MLP((64,) * 4, weights, laws.TwoPoint(0.01))
    made = estimate(net, segment(64), key=KEY, draws=6_000, probes="growth_squared", points=4)
    squared = made["growth_squared"]
    factor = theory.second_moment_upper(weights, 64)[:, None] ** 2
    assert np.all(squared.sem / squared.mean < 0.012)
    assert np.all(np.abs(z_scores(squared, factor)) < GATE)
    assert np.all(np.abs(z_scores(squared, 1.1 * factor)) > GATE)


def test_composed_second_moment_of_the_tangent(segment):
    net, curve = MLP((100,) * 6, laws.Sparse(laws.Uniform(3.0), 0.5), laws.Zero()), segment(100)
    # One point: its squared segment is |dz|^2; (1 + 5/k)^d = 1.28 keeps the spread small.
    from jaxexpr import probe

    @probe(degree=2, of="segments", nodes=("tangent",))
    def squared_speed(layer):
        return layer.segments[0] ** 2

    made = estimate(net, curve, key=KEY, draws=4_000, probes=(squared_speed,), points=1)
    start = np.sum((curve.arrays[1] - curve.arrays[0]) ** 2)
    factor = theory.second_moment_upper(net.weights[0], 100) ** 2
    expected = start * theory.composed(factor, 5)
    assert np.all(np.abs(z_scores(made["squared_speed"], expected)) < GATE)


def test_log_growth_and_the_bounds_in_order(segment):
    weights = laws.Sparse(laws.Gaussian(2.0), np.array([0.2, 1.0]))
    net = MLP((32,) * 4, weights, laws.Zero())
    made = estimate(
        net, segment(32), key=KEY, draws=4_000, probes=("growth", "log_growth"), points=4
    )
    growth = made["growth"].mean
    lower, sharp = theory.price_tanner_lower(weights, 32), theory.price_tanner_sharp(weights, 32)
    assert np.all(lower <= sharp)
    assert np.all(sharp[:, None] < growth)
    assert np.all(growth < theory.second_moment_upper(weights, 32)[:, None])
    logs = made["log_growth"]
    assert np.all(np.abs((logs.mean - theory.gaussian_log_growth(2.0, 32)) / logs.sem)[1] < GATE)


def test_abs_grows_as_the_pre_activations_do(segment):
    net = MLP((32, 32, 32), laws.Gaussian(1.3), laws.Gaussian(0.2), "abs")
    made = estimate(net, segment(32), key=KEY, draws=6_000, points=4)["growth"]
    assert np.all(np.abs(z_scores(made, theory.lipschitz_upper(1.3, 32))) < GATE)


def test_raghu_bound_holds_where_the_printed_rate_does_not():
    rng = np.random.default_rng(1)
    x = np.linalg.qr(rng.normal(size=(32, 2)))[0].T * np.sqrt(32)
    net = MLP((32,) * 5, laws.Gaussian(2.0), laws.Zero(), "hard_tanh")
    made = estimate(net, curves.circle(x[0], x[1]), key=KEY, draws=1_500, points=60)["length"]
    start = 2 * np.pi * np.sqrt(32)
    for bound in (theory.raghu_lower, theory.raghu_sharp):
        composed = start * theory.composed(bound(2.0, 0.0, 32, "hard_tanh"), 4)
        assert np.all(made.mean > composed)
    rate = start * theory.composed(theory.raghu_rate(2.0, 0.0, 32, "hard_tanh"), 4)
    assert np.all(made.mean + 10 * made.sem < rate)
    upper = start * theory.composed(theory.lipschitz_upper(2.0, 32), 4)
    assert np.all(made.mean < upper)


@pytest.mark.parametrize("method", ["tangent", "gram"])
def test_depth_200_neither_overflows_nor_dies(method, segment):
    net, curve = MLP((128,) * 201, laws.Gaussian(20.0), laws.Gaussian(0.3)), segment(128)
    probes = ("length", "growth", "log_length", "log_growth")
    made = estimate(net, curve, key=KEY, draws=200, probes=probes, method=method, points=3)
    for one in made.values():
        assert np.all(np.isfinite(one.mean))
        assert np.all(np.isfinite(one.sem))
        assert not one.failed.any()
    expected = theory.gaussian_log_growth(20.0, 128)
    # The tangent at a point: its logarithm adds up over the layers.
    assert np.all(np.abs(z_scores(made["log_growth"], expected)) < GATE)
    start = np.log(np.linalg.norm(curve.arrays[1] - curve.arrays[0]))
    logs = made["log_length"].mean[[0, 9, 99, 199]] - start
    typical, mean = (
        np.array([1, 10, 100, 200]) * f for f in (expected, np.log(exact(net, 20.0)[0]))
    )
    # log E[l] >= E log l (Jensen) and E log l >= E log |dz| at a point, up to the errors.
    error = 5 * made["log_length"].sem[[0, 9, 99, 199]]
    assert np.all(logs < mean + error)
    assert np.all(logs > typical - error)
    assert made["length"].mean[-1] > 1e200


def test_tiny_scales_and_dead_networks_are_counted(segment):
    small = MLP((16,) * 61, laws.Gaussian(1e-3), laws.Zero())
    made = estimate(small, segment(16), key=KEY, draws=200, points=3)["growth"]
    alive = made.n > 100
    assert np.all(np.abs(z_scores(made, exact(small, 1e-3)))[alive] < GATE)
    thin = MLP((2,) * 9, laws.Gaussian(1.0), laws.Zero())
    made = estimate(thin, segment(2), key=KEY, draws=2_000, points=3)["growth"]
    # A layer of two units is dead at a point with probability 1/4.
    assert made.n[-1] < 1_000
    assert made.left_out[-1] > 1.5
    assert np.all(np.abs(z_scores(made, exact(thin, 1.0))) < GATE)


def test_nothing_survives_a_network_without_weights(segment):
    made = estimate(MLP((8, 8, 8), laws.Zero(), laws.Zero()), segment(8), key=KEY, draws=5)[
        "growth"
    ]
    assert made.n.tolist() == [5, 0]
    assert made.mean[0] == 0
    assert np.isnan(made.mean[1])
    assert made.left_out[1] == made.points


def test_layers_that_are_drawn_as_products_are_independent():
    """The same normals in every layer would make the growth of layers 2 and 3 go together."""
    net = MLP((6, 8, 8, 8), laws.Gaussian(1.4), laws.Zero(), "linear")
    one = kernel(net, curves.line(*np.eye(2, 6)), probes="log_growth", method="gram", points=1)
    found = jax.vmap(one)(jax.random.split(KEY, 4000))["log_growth"]
    together = np.corrcoef(np.asarray(found, np.float64).T)
    assert np.abs(together - np.eye(3)).max() < GATE / np.sqrt(4000)
