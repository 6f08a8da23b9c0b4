"""Every formula at unequal widths and unlike numbers, by another route: sums, integrals, draws."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from jaxexpr import MLP, Conv, ConvNet, Dense, Pool, activations, laws, theory

WIDTH, FAN_IN = 5, 3  # of the layer that is looked at
BINOMIAL = [math.comb(WIDTH, j) / 2**WIDTH for j in range(WIDTH + 1)]
KINKS = activations.piecewise_linear([-0.5, 0.2, 1.5], [0.3, -2.0, 1.0, 0.1], name="kinks")
STEEP = activations.leaky_relu(-1.7)
LAWS = {  # a law, its standard deviation, and M with E|u.w| >= M |u|
    "gaussian": (laws.Gaussian(1.3), 1.3, 1.3 * math.sqrt(2 / math.pi)),
    "uniform": (laws.Uniform(0.7), 0.7 / math.sqrt(3), 0.7 / (2 * math.sqrt(2))),
    "discrete": (laws.DiscreteUniform(3), 2.0, 12 / 7 / math.sqrt(2)),
    "two-point": (laws.TwoPoint(0.4), 0.4, 0.4 / math.sqrt(2)),
}


# Growth


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("density", [1.0, 0.3])
def test_bounds_on_growth_by_sums_over_active_units(name, density):
    law, std, constant = LAWS[name]
    sparse = laws.Sparse(law, density)
    lower = density * constant * math.sqrt(WIDTH) / 2 * math.sqrt(1 / FAN_IN)
    assert theory.price_tanner_lower(sparse, WIDTH, FAN_IN) == pytest.approx(lower, rel=1e-12)
    roots = sum(p * math.sqrt(j) for j, p in enumerate(BINOMIAL))
    sharp = density * constant * roots / math.sqrt(FAN_IN)
    assert theory.price_tanner_sharp(sparse, WIDTH, FAN_IN) == pytest.approx(sharp, rel=1e-12)
    squared = sum(j * p for j, p in enumerate(BINOMIAL)) * density * std**2 / FAN_IN
    upper = theory.second_moment_upper(sparse, WIDTH, FAN_IN)
    assert upper**2 == pytest.approx(squared, rel=1e-12)


@pytest.mark.parametrize("values", [(-1, 1), (-1, 0, 0, 1), (-2, -1, 0, 1, 2)])
def test_the_second_moment_by_all_weights_that_there_are(values):
    # Two inputs, one unit, biases +-0.3: the mean over every draw, whatever z and dz.
    z, dz = np.array([0.71, -1.37]), np.array([0.4, 1.1])
    total = []
    for weights in itertools.product(values, repeat=2):
        for bias in (-0.3, 0.3):
            w = np.array(weights) / math.sqrt(2)
            total.append((w @ z + bias > 0) * (w @ dz) ** 2)
    law = {
        2: laws.TwoPoint(1.0),
        4: laws.Sparse(laws.TwoPoint(1.0), 0.5),
        5: laws.DiscreteUniform(2),
    }[len(values)]
    factor = theory.second_moment_upper(law, 1, 2)
    assert factor**2 * (dz @ dz) == pytest.approx(np.mean(total), rel=1e-12)


def test_gaussian_means_by_integrals_over_chi():
    sigma, root = 1.7, math.sqrt(FAN_IN)

    def over(function, dof):
        return integrate.quad(lambda r: function(r) * stats.chi.pdf(r, dof), 0, np.inf)[0]

    means = [0.0] + [over(lambda r: r, j) for j in range(1, WIDTH + 1)]
    logs = [0.0] + [over(math.log, j) for j in range(1, WIDTH + 1)]
    growth = sigma / root * sum(p * m for p, m in zip(BINOMIAL, means, strict=True))
    assert theory.gaussian_growth(sigma, WIDTH, FAN_IN) == pytest.approx(growth, rel=1e-7)
    alive = 1 - BINOMIAL[0]
    log = math.log(sigma / root) + sum(p * x for p, x in zip(BINOMIAL, logs, strict=True)) / alive
    assert theory.gaussian_log_growth(sigma, WIDTH, FAN_IN) == pytest.approx(log, rel=1e-7)
    lipschitz = sigma / root * means[WIDTH]
    assert theory.lipschitz_upper(sigma, WIDTH, FAN_IN) == pytest.approx(lipschitz, rel=1e-7)


@pytest.mark.parametrize("activation", ["relu", "hard_tanh"])
def test_bounds_of_raghu_as_the_proof_has_them(activation):
    sigma_w, sigma_b, k = 1.3, 0.7, WIDTH
    p = 0.5
    if activation == "hard_tanh":
        normal = stats.norm(scale=math.hypot(sigma_w, sigma_b))
        p = normal.cdf(1) - normal.cdf(-1)
    found = theory.linear_probability(sigma_w, sigma_b, activation)
    assert found == pytest.approx(p, rel=1e-12)
    first = math.sqrt(k) * p / math.sqrt(1 + (k - 1) * p)
    second = math.sqrt(k) * p * (1 - p) ** (k - 1)
    lower = sigma_w * math.sqrt(k / FAN_IN) * (first - second) / 2
    assert theory.raghu_lower(sigma_w, sigma_b, k, activation, FAN_IN) == pytest.approx(lower)
    chances = stats.binom.pmf(np.arange(k + 1), k, p)
    means = [0.0, 0.0] + [stats.chi.mean(j) for j in range(1, k)]
    sharp = sigma_w / math.sqrt(FAN_IN) * (chances @ means)
    assert theory.raghu_sharp(sigma_w, sigma_b, k, activation, FAN_IN) == pytest.approx(sharp)
    assert lower < sharp


def test_rates_of_raghu_as_printed():
    w, b, k = 1.3, 0.7, 5
    s = math.sqrt(w**2 + b**2)
    hard = w / (w**2 + b**2) ** 0.25 * math.sqrt(k) / math.sqrt(s + k)
    assert theory.raghu_rate(w, b, k, "hard_tanh") == pytest.approx(hard, rel=1e-12)
    relu = w * math.sqrt(k) / math.sqrt(k + 1)
    assert theory.raghu_rate(w, b, k, "relu") == pytest.approx(relu, rel=1e-12)
    grows = k * (1 - 2 / math.pi * math.atan(math.sqrt(k * (1 + b**2 / w**2))))
    assert theory.raghu_transitions(w, b, k) == pytest.approx(grows, rel=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(
    "factor", [theory.second_moment_upper, theory.price_tanner_lower, theory.price_tanner_sharp]
)
def test_critical_pairs_at_unequal_widths(name, factor):
    # sigma_w is the standard deviation of the weights that are not 0, whatever the law's own.
    law, std, _ = LAWS[name]
    density = 0.3
    sigma = float(theory.critical_sigma(density, WIDTH, FAN_IN, law=law, factor=factor))
    at_law = float(factor(laws.Sparse(law, density), WIDTH, FAN_IN))
    assert sigma / std * at_law == pytest.approx(1.0)
    back = theory.critical_density(sigma, WIDTH, FAN_IN, law=law, factor=factor)
    assert back == pytest.approx(density)


def test_factors_of_convolutions_count_windows():
    layers = [Conv(3, 3, 2), Pool(2, 1, "mean"), Conv(2, 2, 1, "valid"), Pool(2, 1), Dense(5)]
    weights = [laws.Gaussian(1.5), laws.Uniform(0.4), laws.TwoPoint(2.0)]
    net = ConvNet((9, 9, 2), layers, weights, laws.Zero())
    found = theory.per_layer(theory.second_moment_upper, net)

    def most(size, window, stride, edge=0):
        """How often a place of an image stands in a window along one side, at most."""
        counts = np.zeros(size + 2 * edge, int)
        for start in range(0, size + 2 * edge - window + 1, stride):
            counts[start : start + window] += 1
        return counts[edge : edge + size].max()

    # 9 -> 5 (edge 1) -> 4 -> 3 -> 2: windows over an entry along each side, channels above.
    convolved = 1.5**2 * most(9, 3, 2, 1) ** 2 * 3 / (2 * 9 * 2)
    assert found[0] ** 2 == pytest.approx(convolved, rel=1e-12)
    assert found[1] == pytest.approx(most(5, 2, 1) / 2, rel=1e-12)
    valid = 0.4**2 / 3 * most(4, 2, 1) ** 2 * 2 / (2 * 4 * 3)
    assert found[2] ** 2 == pytest.approx(valid, rel=1e-12)
    assert found[3] == pytest.approx(most(3, 2, 1), rel=1e-12)
    assert found[4] ** 2 == pytest.approx(2.0**2 * 5 / (2 * 2 * 2 * 2), rel=1e-12)


# Transitions of the first layer


@pytest.mark.parametrize(
    ("activation", "levels"),
    [("relu", (0.0,)), ("hard_tanh", (-1.0, 1.0)), (KINKS, (-0.5, 0.2, 1.5))],
)
def test_transitions_on_an_arc_by_drawing_units(activation, levels):
    # A unit is r cos(t - t0) + b on the circle, r Rayleigh: its crossings are counted as they are.
    radius, angle, n_in, sigma_w, sigma_b, width = 2.3, 1.1, 3, 1.7, 0.6, 7
    rng, draws = np.random.default_rng(4), 400_000
    v = sigma_w**2 * radius**2 / n_in
    size, bias = rng.rayleigh(math.sqrt(v), draws), sigma_b * rng.normal(size=draws)
    begun = rng.uniform(0, 2 * math.pi, draws)
    counts = np.zeros(draws)
    for level in levels:
        cosine = (level - bias) / size
        half = np.arccos(np.clip(cosine, -1, 1))
        for t in (begun + half, begun - half):
            counts += (np.abs(cosine) < 1) & (t % (2 * math.pi) < angle)
    found = theory.circle_transitions(radius, angle, n_in, sigma_w, sigma_b, width, activation)
    error = counts.std() / math.sqrt(draws)
    assert error < 0.005 * counts.mean()
    assert abs(width * counts.mean() - found) < 4.5 * width * error


@pytest.mark.parametrize("sigma_b", [0.0, 0.6])
def test_transitions_on_a_segment_by_integration(sigma_b):
    # Signs of x at two ends differ; with levels, the second end given the first is normal.
    x0, x1, sigma_w, width = np.array([0.7, -0.2, 1.9]), np.array([-1.1, 0.8, 0.5]), 1.4, 6
    w = sigma_w**2 / 3
    s0, s1 = (math.sqrt(w * (x @ x) + sigma_b**2) for x in (x0, x1))
    rho = (w * (x0 @ x1) + sigma_b**2) / (s0 * s1)
    for activation, levels in (("relu", (0.0,)), (KINKS, (-0.5, 0.2, 1.5))):
        total = 0.0
        for c in levels:

            def other(h, side, c=c):
                given = stats.norm.cdf((c - rho * s1 / s0 * h) / (s1 * math.sqrt(1 - rho**2)))
                return stats.norm.pdf(h, scale=s0) * (given if side > 0 else 1 - given)

            total += integrate.quad(other, c, 12 * s0, args=(1,))[0]
            total += integrate.quad(other, -12 * s0, c, args=(-1,))[0]
        found = theory.line_transitions(x0, x1, sigma_w, sigma_b, width, activation)
        assert found == pytest.approx(width * total, rel=1e-6)


# Boundaries


def test_squared_gradients_at_unequal_widths():
    weights = [laws.Gaussian(1.5), laws.Uniform(2.0), laws.Sparse(laws.TwoPoint(3.0), 0.4)]
    variances = [1.5**2, 4 / 3, 9 * 0.4]  # before the division by fan_in, as many units below
    for activation, share in (
        ("relu", 0.5), ("abs", 1.0), ("hard_tanh", 1.0), (STEEP, 1.7**2), ("erf", 4 / math.pi)
    ):  # fmt: skip
        net = MLP((4, 7, 3, 5), weights, laws.Gaussian(0.2), activation)
        expected = np.cumprod(variances) * share ** np.arange(3)
        np.testing.assert_allclose(theory.gradient_second_moment(net), expected, rtol=1e-12)


def test_densities_of_boundaries_at_unequal_widths():
    weights = [laws.Gaussian(1.5), laws.Uniform(2.0)]
    biases = [laws.Uniform(0.7), laws.Gaussian(0.3)]
    peaks = [1 / 1.4, stats.norm.pdf(0, scale=0.3)]
    for activation, breakpoints, share in (("relu", 1, 0.5), (KINKS, 3, 4.0), ("hard_tanh", 2, 1)):
        net = MLP((4, 7, 3), weights, biases, activation)
        norms = [1.5, math.sqrt(1.5**2 * share * 4 / 3)]
        expected = [breakpoints * n * p * g for n, p, g in zip((7, 3), peaks, norms, strict=True)]
        np.testing.assert_allclose(theory.boundary_upper(net), expected, rtol=1e-12)
        # The mean of a distance of which P(distance <= r) is at most 2 r D.
        density = sum(expected)
        mean = integrate.quad(lambda r, d=density: 1 - 2 * r * d, 0, 1 / (2 * density))[0]
        assert theory.distance_lower(net) == pytest.approx(mean, rel=1e-9)


def test_reached_boundaries_at_one_layer_with_one_point():
    # One layer of one input has width units that each break once: the bound is the density itself.
    net = MLP((1, 6), laws.TwoPoint(1.5), laws.Uniform(0.7), "hard_tanh")
    rng = np.random.default_rng(0)
    w, b = 1.5 * rng.choice([-1, 1], 200_000), rng.uniform(-0.7, 0.7, 200_000)
    # Around h = 1 at w x = 1, where the bias' density is the peak: |x - 1 / 1.5| <= 0.1.
    places = np.concatenate([(c - b) / w for c in (-1, 1)])
    near = (np.abs(places - 1 / 1.5) <= 0.1).mean() * 2 / 0.2
    # Of the two breakpoints of a unit one is there: half of the bound, for either sign.
    assert 6 * near == pytest.approx(float(theory.boundary_upper(net)[0]) / 2, rel=0.02)


@pytest.mark.parametrize("widths", [(2, 3, 1, 4), (5, 2, 4, 3), (1, 3), (4, 1, 2)])
def test_paths_of_open_units_by_all_states_that_there_are(widths):
    sizes, expected = widths[1:], []
    for layer in range(len(sizes)):
        above = sizes[layer + 1 :]
        states = itertools.product((0, 1), repeat=sum(above))
        ends = np.cumsum(above)[:-1]
        good = [
            all(part.any() for part in np.split(np.array(s, bool), ends)) for s in states
        ] if above else [True]  # fmt: skip
        expected.append(np.mean(good))
    np.testing.assert_allclose(theory.good_probability(widths), expected, rtol=1e-12)


# Counting


def regions(n, m):
    """Regions of n hyperplanes in general position in R^m: by adding one after the other."""
    if m < 0:
        return 0
    return 1 if n == 0 or m == 0 else regions(n - 1, m) + regions(n - 1, m - 1)


def test_regions_without_biases_at_unequal_widths():
    assert theory.zero_bias_upper(3, (2, 5)) == 2 * regions(1, 2) * regions(5, 1)
    assert theory.zero_bias_upper(3, (5, 4, 6)) == 2 * regions(4, 2) * regions(4, 2) * regions(6, 2)
    assert theory.zero_bias_upper(3, (5, 2, 6)) == 2 * regions(4, 2) * regions(2, 2) * regions(6, 1)
    assert theory.zero_bias_upper(2, (6, 1, 9)) == 12 * regions(1, 1)
    assert theory.zero_bias_upper(4, (7, 3, 2, 8)) == 2 * math.prod(
        (regions(6, 3), regions(3, 3), regions(2, 2), regions(8, 1))
    )


def test_orders_and_densities_at_unlike_numbers():
    assert theory.raghu2017_leading(2, 7, 3) == 7**6 / 8
    assert theory.shallow_density_leading(3, 10, 4) * 6 * 8 == 100
    assert theory.deep_density_leading(3, 12, 4) * 6 * 3 == 4**3 * 12
