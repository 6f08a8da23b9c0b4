"""Laws: exact moments and distributions, shared draws over a sweep, constants, pytrees, networks.

Statistical checks have fixed keys and are gated in standard errors. With 4e6 draws the gate of
4.5 standard errors is below 0.5 % of a dense law's scale.
"""

import dataclasses
import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxexpr import MLP, curves, kernel, laws, measure, prng, probe
from jaxexpr.laws import DiscreteUniform, Gaussian, Sparse, TwoPoint, Uniform, Zero

KEY = jax.random.key(0)
GATE = 4.5
P_VALUE = 1e-6

DENSE = {
    "gaussian": Gaussian(1.7),
    "uniform": Uniform(2.0),
    "discrete1": DiscreteUniform(1),
    "discrete5": DiscreteUniform(5),
    "two_point": TwoPoint(0.8),
}
SPARSE = {f"sparse_{name}": Sparse(law, 0.3) for name, law in DENSE.items()}
LAWS = DENSE | SPARSE
FOURTH = {
    "gaussian": 3 * 1.7**4,
    "uniform": 2.0**4 / 5,
    "discrete1": 2 / 3,
    "discrete5": 2 * sum(k**4 for k in range(6)) / 11,
    "two_point": 0.8**4,
}

GOLDEN_NETWORK = [
    ([[-0.037031483, -0.257743239], [-0.240723073, -1.472546101]], [0.070642054, 0.0]),
    ([[-0.33539778], [0.672085404]], [-0.01112479]),
]

_draw = jax.jit(lambda law, key: law.sample(key, (2000, 2000)))


@functools.cache
def drawn(name: str) -> np.ndarray:
    return np.asarray(_draw(LAWS[name], jax.random.key(7)), np.float64).ravel()


def assert_mean(samples: np.ndarray, exact: float, gate: float = GATE) -> None:
    """The mean is `exact` within `gate` standard errors (and the rounding of float32)."""
    error = samples.std() / np.sqrt(samples.size)
    assert abs(samples.mean() - exact) < gate * error + 1e-6 * abs(exact)


def small(law: laws.Law, shape: tuple[int, ...] = (40, 30)) -> np.ndarray:
    return np.asarray(law.sample(KEY, shape))


# Moments and distributions


@pytest.mark.parametrize("name", LAWS)
def test_moments(name):
    law, weights = LAWS[name], drawn(name)
    density = getattr(law, "density", 1.0)
    assert_mean(weights, 0.0)
    assert_mean(np.abs(weights), law.mean_abs)
    assert_mean(weights**2, law.std**2)
    assert_mean(weights**4, density * FOURTH[name.removeprefix("sparse_")])


def test_the_gate_sees_a_fault_of_half_a_percent():
    weights = drawn("gaussian")
    with pytest.raises(AssertionError):
        assert_mean((1.005 * weights) ** 2, Gaussian(1.7).std ** 2)


def test_zero_is_zero():
    assert not small(Zero()).any()
    assert (Zero().std, Zero().mean_abs, Zero().linear_constant) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("name", ["gaussian", "uniform"])
def test_continuous_laws_by_kolmogorov_smirnov(name):
    law = {"gaussian": stats.norm(0, 1.7), "uniform": stats.uniform(-2.0, 4.0)}[name]
    weights = drawn(name)[:1_000_000]
    assert stats.kstest(weights, law.cdf).pvalue > P_VALUE
    assert stats.kstest(1.02 * weights, law.cdf).pvalue < P_VALUE


@pytest.mark.parametrize(("name", "limit"), [("discrete1", 1), ("discrete5", 5)])
def test_discrete_laws_by_chi_square(name, limit):
    values, counts = np.unique(drawn(name), return_counts=True)
    np.testing.assert_array_equal(values, np.arange(-limit, limit + 1))
    assert stats.chisquare(counts).pvalue > P_VALUE


def test_two_points_by_chi_square():
    values, counts = np.unique(drawn("two_point"), return_counts=True)
    np.testing.assert_array_equal(values, np.float32([-0.8, 0.8]))
    assert stats.chisquare(counts).pvalue > P_VALUE


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 100, 4096, 65535, 65536])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_discrete_draws_stay_in_range_for_extreme_words(limit, dtype):
    extremes = np.array([0, 2**31 - 1, 2**31, 2**32 - 1, 2**31 - 256], np.uint32)
    with jax.enable_x64(dtype == "float64"):
        word = jnp.asarray(extremes)
        law = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), DiscreteUniform(limit))
        value = np.asarray(law.unit(prng.Words(word, word), jnp.dtype(dtype)))
    np.testing.assert_array_equal(value, [0, limit, -limit, 0, limit])


@pytest.mark.parametrize("density", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_the_share_that_survives_is_the_density(density):
    kept = np.asarray(_draw(Sparse(TwoPoint(1.0), density), jax.random.key(3))) != 0
    error = np.sqrt(density * (1 - density) / kept.size)
    assert abs(kept.mean() - density) < GATE * error
    rows = kept.sum(axis=1)
    pooled = np.array([rows[i : i + 200].sum() for i in range(0, 2000, 200)])
    expected = 200 * 2000 * np.array([density, 1 - density])
    chi2 = np.sum((np.stack([pooled, 400_000 - pooled], 1) - expected) ** 2 / expected)
    assert stats.chi2.sf(chi2, 10) > P_VALUE


def test_mask_and_value_are_independent():
    values = drawn("gaussian")
    mask = drawn("sparse_two_point") != 0
    for number in (values, np.abs(values)):
        kept, dropped = number[mask], number[~mask]
        error = np.sqrt(kept.var() / kept.size + dropped.var() / dropped.size)
        assert abs(kept.mean() - dropped.mean()) < GATE * error
    np.testing.assert_allclose(drawn("sparse_gaussian"), np.where(mask, values, 0), rtol=1e-6)


@dataclasses.dataclass(frozen=True)
class StudentT(laws.Law):
    """Student's t with nu degrees of freedom (Bailey 1994): it takes both words."""

    sigma: float
    nu: float

    @property
    def scale(self):
        return self.sigma

    def unit(self, words, dtype):
        u, v = prng.unit_interval(words.first, dtype), prng.symmetric(words.second, dtype)
        return jnp.sqrt(self.nu * (u ** (-2.0 / self.nu) - 1)) * jnp.cos(np.pi * v)


@dataclasses.dataclass(frozen=True)
class FirstWord(laws.Law):
    """Uniform on (-1, 1), of the word that most laws leave."""

    scale = 1.0

    def unit(self, words, dtype):
        return prng.symmetric(words.first, dtype)


def correlated(law, density, key):
    """Correlation of the mask with the size of the values that the dense law has there."""
    dense = np.abs(np.asarray(law.sample(key, (1000, 1000)), np.float64)).ravel()
    kept = np.asarray(Sparse(law, density).sample(key, (1000, 1000))).ravel() != 0
    ranks = stats.rankdata(dense)
    return np.corrcoef(ranks, kept)[0, 1] * np.sqrt(dense.size)


def test_a_sparse_law_of_both_words_has_its_moments():
    law, density = StudentT(1.0, 12.0), 0.3
    weights = np.asarray(Sparse(law, density).sample(KEY, (1000, 1000)), np.float64).ravel()
    assert_mean(weights**2, density * 12 / 10)
    assert_mean((weights != 0).astype(float), density)
    assert abs(correlated(law, density, KEY)) < GATE
    kept = weights[weights != 0]
    assert stats.kstest(kept, stats.t(12).cdf).pvalue > P_VALUE
    with jax.enable_x64(True):
        double = np.asarray(Sparse(law, density).sample(KEY, (20, 20), "float64"))
    np.testing.assert_allclose(weights.reshape(1000, 1000)[:20, :20], double, rtol=1e-3, atol=1e-5)


def test_a_sparse_law_of_both_words_keeps_the_rest():
    law = StudentT(2.0, 8.0)
    np.testing.assert_array_equal(small(Sparse(law, 1.0)), small(law))
    low, high = small(Sparse(law, np.array([0.3, 0.6])))
    np.testing.assert_array_equal(low[low != 0], high[low != 0])
    masks = [small(Sparse(StudentT(2.0, nu), 0.5)) != 0 for nu in (5.0, 8.0)]
    np.testing.assert_array_equal(*masks)


def test_a_mask_takes_the_word_that_the_law_leaves():
    words = prng.words(prng.seed(KEY), (40, 30))
    numbers = [np.asarray(prng.unit_interval(word, jnp.float32)) for word in words]
    np.testing.assert_array_equal(small(Sparse(Gaussian(1.0), 0.3)) != 0, numbers[0] < 0.3)
    np.testing.assert_array_equal(small(Sparse(FirstWord(), 0.3)) != 0, numbers[1] < 0.3)
    own = small(Sparse(StudentT(1.0, 5.0), 0.3)) != 0
    assert all(0.3 < (own == (number < 0.3)).mean() < 0.7 for number in numbers)


def test_layers_draw_masks_of_their_own_bits():
    net = MLP((400, 400), Sparse(StudentT(1.0, 12.0), 0.3), Zero())
    ((weights, _),) = net.init(KEY)
    assert_mean(20**2 * np.asarray(weights, np.float64).ravel() ** 2, 0.3 * 12 / 10)


# Laws that are wrong


def wrong(unit, name="Wrong"):
    space = {"scale": 1.0, "unit": unit}
    return dataclasses.dataclass(frozen=True)(type(name, (laws.Law,), space))()


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (wrong(lambda self, words, dtype: prng.symmetric(words, dtype)), "words.second"),
        (wrong(lambda self, words, dtype: prng.normal(words, dtype)), "words.second"),
        (wrong(lambda self, words, dtype: prng.unit_interval(words, dtype)), "words.second"),
        (wrong(lambda self, words, dtype: jnp.zeros((), dtype)), "shape () for words of shape (3,"),
        (wrong(lambda self, words, dtype: jnp.zeros((2, 3), dtype)), "shape (2, 3)"),
        (wrong(lambda self, words, dtype: words.second), "uint32 where float32"),
        (wrong(lambda self, words, dtype: words), "returns a Words"),
        (type("Plain", (laws.Law,), {"scale": 1.0})(), "@dataclasses.dataclass(frozen=True)"),
    ],
)
def test_what_is_wrong_with_a_law_is_said(law, message):
    uses = (
        lambda: law.sample(KEY, (3, 4)),
        lambda: Sparse(law, 0.5).sample(KEY, (3, 4)),
        lambda: MLP((3, 4), law, Zero()).init(KEY),
    )
    for use in uses:
        with pytest.raises(ValueError, match=re.escape(message)):
            use()


# Shared draws


@pytest.mark.parametrize("name", DENSE)
def test_density_one_draws_what_the_law_draws(name):
    np.testing.assert_array_equal(small(Sparse(DENSE[name], 1.0)), small(DENSE[name]))
    assert not small(Sparse(DENSE[name], 0.0)).any()


@pytest.mark.parametrize("name", DENSE)
def test_masks_are_nested(name):
    densities = np.linspace(0, 1, 11)
    cells = small(Sparse(DENSE[name], densities))
    for low, high in itertools.pairwise(cells):
        np.testing.assert_array_equal(low[low != 0], high[low != 0])
    shares = (small(Sparse(TwoPoint(1.0), densities)) != 0).mean(axis=(1, 2))
    assert np.all(np.diff(shares) > 0.05)


def test_cells_of_a_sweep_are_the_separate_draws():
    sigmas, densities = np.array([0.5, 1.0, 3.0]), np.array([0.2, 0.7])
    cells = small(Sparse(Gaussian(sigmas[:, None]), densities[None, :]))
    base = small(Gaussian(1.0))
    for i, j in np.ndindex(3, 2):
        alone = small(Sparse(Gaussian(sigmas[i]), densities[j]))
        np.testing.assert_array_equal(cells[i, j], alone)
        scaled = np.where(alone != 0, np.float32(sigmas[i]) * base, 0)
        np.testing.assert_array_equal(cells[i, j], scaled)


def test_discrete_sweeps_are_monotone_in_the_limit():
    cells = small(DiscreteUniform(np.array([1, 2, 5, 20])))
    assert np.all(np.diff(np.abs(cells), axis=0) >= 0)
    assert np.all((np.sign(cells[0]) == np.sign(cells[3])) | (cells[0] == 0))


@pytest.mark.parametrize(
    ("law", "sweep"),
    [
        (Gaussian(1.0), ()),
        (Zero(), ()),
        (Gaussian([1.0, 2.0]), (2,)),
        (TwoPoint(np.ones((2, 1))), (2, 1)),
        (DiscreteUniform([1, 2, 3]), (3,)),
        (Sparse(Uniform(1.0), np.full(4, 0.5)), (4,)),
        (Sparse(Gaussian(np.ones((20, 1))), np.full((1, 10), 0.5)), (20, 10)),
        (Sparse(DiscreteUniform([[1], [2]]), [0.1, 0.5, 0.9]), (2, 3)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_a_sweep_leads_the_shape_of_a_draw(law, sweep, shape):
    assert law.sweep_shape() == sweep
    made = jax.eval_shape(lambda key: law.sample(key, shape), KEY)
    assert made.shape == sweep + shape and made.dtype == np.float32


@pytest.mark.parametrize("name", LAWS)
def test_float64_sees_the_same_draw(name):
    law = LAWS[name]
    with jax.enable_x64(True):
        double = np.asarray(jax.jit(lambda key: law.sample(key, (40, 30), "float64"))(KEY))
    assert double.dtype == np.float64
    np.testing.assert_allclose(small(law), double, rtol=5e-6)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two arrays in standard errors."""
    return np.corrcoef(a.ravel(), b.ravel())[0, 1] * np.sqrt(a.size)


def test_distinct_keys_draw_distinct_independent_networks():
    keys = jnp.concatenate([jax.random.split(KEY, 400), jax.vmap(jax.random.key)(jnp.arange(400))])
    draws = np.asarray(jax.jit(jax.vmap(lambda key: Gaussian(1.0).sample(key, (64,))))(keys))
    assert len(np.unique(draws[:, 0])) == 800
    assert abs(correlation(draws[1:], draws[:-1])) < GATE
    assert abs(correlation(draws[:400], draws[400:])) < GATE


# Constants of Theorem 2


def sizes(law: laws.Law, vectors: np.ndarray) -> np.ndarray:
    """``E|u.w|`` for each row u, by enumeration of the law's values."""
    dense = law.law if isinstance(law, Sparse) else law
    limit = int(getattr(dense, "limit", 1))
    scale = getattr(dense, "c", 1.0)
    values = [v for v in range(-limit, limit + 1) if v or not isinstance(dense, TwoPoint)]
    chance = dict.fromkeys(values, 1 / len(values))
    if isinstance(law, Sparse):
        chance = {v: law.density * p for v, p in chance.items()}
        chance[0] = chance.get(0, 0.0) + 1 - law.density
    outcomes = np.array(list(itertools.product(chance, repeat=vectors.shape[1])))
    weights = np.prod(np.vectorize(chance.get)(outcomes), axis=1)
    return scale * np.abs(vectors @ outcomes.T) @ weights


def directions(rng: np.random.Generator, count: int, n: int) -> np.ndarray:
    """Random unit vectors, and the flat ones on the first 1, ..., n entries."""
    vectors = np.concatenate([rng.normal(size=(count, n)), np.tri(n)])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    "law",
    [TwoPoint(0.8), DiscreteUniform(1), DiscreteUniform(3)]
    + [Sparse(TwoPoint(0.8), a) for a in (0.1, 0.5, 0.9)]
    + [Sparse(DiscreteUniform(2), 0.4)],
    ids=repr,
)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_linear_constant_bounds_every_direction(rng, law, n):
    assert np.all(sizes(law, directions(rng, 200, n)) >= law.linear_constant - 1e-12)


def test_two_points_attain_their_constant():
    flat = np.array([[1.0, 1.0]]) / np.sqrt(2)
    assert sizes(TwoPoint(0.8), flat) == pytest.approx(TwoPoint(0.8).linear_constant, rel=1e-14)
    assert sizes(DiscreteUniform(1), flat) > DiscreteUniform(1).linear_constant


def test_the_constant_of_a_sparse_law_carries_its_density():
    single = np.array([[1.0]])
    assert sizes(Sparse(TwoPoint(1.0), 0.3), single) == pytest.approx(0.3)
    assert Sparse(Gaussian(2.0), 0.3).linear_constant == pytest.approx(0.3 * Gaussian(2.0).mean_abs)
    assert Sparse(Gaussian(2.0), 0.3).mean_abs == pytest.approx(0.3 * Gaussian(2.0).mean_abs)


def test_the_gaussian_constant_is_sharp_in_every_direction(rng):
    weights = drawn("gaussian").reshape(-1, 4)
    for u in directions(rng, 4, 4):
        assert_mean(np.abs(weights @ u), Gaussian(1.7).linear_constant)


def test_the_uniform_constant_bounds_every_direction(rng):
    weights = drawn("uniform").reshape(-1, 4)
    law = Uniform(2.0)
    assert law.linear_constant == pytest.approx(2.0 / (2 * np.sqrt(2)))
    for u in directions(rng, 6, 4):
        size = np.abs(weights @ u)
        assert size.mean() - GATE * size.std() / np.sqrt(size.size) > law.linear_constant
    # Two equal entries have a triangular sum: E|w1 + w2| = 2 limit / 3.
    assert_mean(np.abs(weights[:, 0] + weights[:, 1]), 2 * 2.0 / 3)


# Numbers and pytrees


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (2, 2.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (np.array(1.5), 1.5),
        (jnp.float32(1.5), 1.5),
        ([1, 2.5], np.array([1, 2.5])),
        ((1, 2), np.array([1.0, 2.0])),
        ([True, False], np.array([1.0, 0.0])),
    ],
    ids=repr,
)
def test_numbers_of_any_kind_give_the_same_draw(given, plain):
    np.testing.assert_array_equal(small(Gaussian(given)), small(Gaussian(plain)))
    np.testing.assert_allclose(np.asarray(Gaussian(given).std), plain)


def test_moments_of_array_numbers_broadcast():
    law = Sparse(Uniform(np.array([[1.0], [2.0]])), np.array([0.25, 0.5, 1.0]))
    np.testing.assert_allclose(law.std, [[0.5], [1.0]] * np.sqrt([1, 2, 4]) / np.sqrt(3))
    assert law.mean_abs.shape == law.linear_constant.shape == (2, 3)
    np.testing.assert_allclose(DiscreteUniform([1, 2, 3]).std ** 2, np.array([2, 6, 12]) / 3)
    np.testing.assert_allclose(DiscreteUniform([1, 2]).mean_abs, [2 / 3, 6 / 5])


def test_laws_are_pytrees_of_their_numbers():
    law = Sparse(Gaussian(1.0), 0.25)
    assert jax.tree.leaves(law) == [1.0, 0.25]
    assert jax.tree.map(lambda x: 2 * x, law) == Sparse(Gaussian(2.0), 0.5)
    assert jax.tree.structure(law) == jax.tree.structure(Sparse(Gaussian(9.0), 0.1))
    assert jax.tree.structure(law) != jax.tree.structure(Sparse(Uniform(1.0), 0.25))
    assert jax.tree.leaves(Zero()) == []
    placeholder = jax.tree.map(lambda _: None, law)  # the checks must not run on these
    assert placeholder.density is None


def test_jit_traces_once_for_all_numbers():
    traces = []

    @jax.jit
    def draw(law):
        traces.append(law)
        return law.sample(KEY, (40, 30))

    for sigma, density in [(1.0, 0.5), (2.0, 0.25), (0.0, 1.0)]:
        law = Sparse(Gaussian(sigma), density)
        np.testing.assert_allclose(draw(law), small(law), rtol=1e-6)
    assert len(traces) == 1


def test_vmap_over_numbers_is_a_sweep():
    sigmas = jnp.array([0.5, 1.0, 3.0])
    mapped = jax.vmap(lambda s: Gaussian(s).sample(KEY, (40, 30)))(sigmas)
    np.testing.assert_allclose(mapped, small(Gaussian(sigmas)), rtol=1e-6)


@pytest.mark.parametrize("law", [Gaussian, Uniform, TwoPoint])
def test_grad_with_respect_to_a_scale(law):
    def energy(number):
        return jnp.sum(Sparse(law(number), 0.5).sample(KEY, (40, 30)) ** 2)

    value, slope = jax.jit(jax.value_and_grad(energy))(1.5)
    assert value > 0
    assert float(slope) == pytest.approx(2 * float(value) / 1.5, rel=1e-5)


# Networks


_init = jax.jit(lambda net, key: net.init(key))


def layers(net: MLP, key: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.asarray(W), np.asarray(b)) for W, b in _init(net, jax.random.key(key))]


@functools.cache
def wide(key: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return layers(MLP((100, 800, 500), Gaussian(1.7), Gaussian(0.6)), key)


def test_weights_are_divided_by_the_root_of_fan_in_and_biases_are_not():
    for fan_in, (W, b) in zip((100, 800), wide(0), strict=True):
        assert W.shape[0] == fan_in
        assert_mean(W.astype(float).ravel() ** 2, 1.7**2 / fan_in)
        assert_mean(b.astype(float) ** 2, 0.6**2)


def test_layers_of_a_network_and_networks_of_other_keys_are_independent():
    arrays = [W[:100, :500] for key in (0, 1) for W, _ in wide(key)]
    for a, b in itertools.combinations(arrays, 2):
        assert abs(correlation(a, b)) < GATE
        assert (a == b).mean() < 1e-4
    (W0, b0), (_, b1) = wide(0)
    assert not np.intersect1d(b0 / 0.6, b1 / 0.6).size
    assert not np.isclose(b0[:100] / 0.6, W0[0, :100] * 10 / 1.7).any()


def test_each_layer_has_its_own_law():
    weights = [TwoPoint(2.0), Sparse(TwoPoint(1.0), 0.5), DiscreteUniform(3)]
    biases = (Zero(), TwoPoint(1.0), TwoPoint(5.0))
    (W0, b0), (W1, b1), (W2, b2) = layers(MLP((4, 9, 9, 9), weights, biases))
    np.testing.assert_array_equal(np.abs(W0), 1.0)
    assert set(np.unique(np.abs(3 * W1)).round(5)) == {0.0, 1.0}
    assert set(np.unique(np.abs(3 * W2)).round(5)) == {0.0, 1.0, 2.0, 3.0}
    for biases_, size in ((b0, 0.0), (b1, 1.0), (b2, 5.0)):
        np.testing.assert_array_equal(np.abs(biases_), size)


def test_golden_network():
    """The draw of a network is pinned: every published number depends on it."""
    net = MLP((2, 2, 1), Gaussian(1.0), Sparse(Uniform(1.0), 0.5))
    for (W, b), golden in zip(layers(net, 2019), GOLDEN_NETWORK, strict=True):
        np.testing.assert_allclose(W, golden[0], rtol=1e-6)
        np.testing.assert_allclose(b, golden[1], rtol=1e-6)


def test_a_sweep_leads_the_shapes_of_parameters():
    net = MLP((3, 5), Sparse(Gaussian(np.ones((4, 1))), [0.1, 0.5]), Gaussian(np.ones((4, 1))))
    ((W, b),) = jax.eval_shape(net.init, KEY)
    assert net.sweep_shape == (4, 2) and W.shape == (4, 2, 3, 5) and b.shape == (4, 2, 5)


MEASURED = {
    "loop": MLP((3, 8, 8, 8), [Gaussian(1.5), Gaussian(2.0), Gaussian(1.0)], Gaussian(0.3)),
    "kinds": MLP((3, 6, 6), [Sparse(Gaussian(2.0), 0.7), DiscreteUniform(2)], [Zero(), Uniform(1)]),
    "hard_tanh": MLP((3, 6), Sparse(Uniform(2.5), 0.7), TwoPoint(0.1), "hard_tanh"),
    "float64": MLP((3, 6), Gaussian(1.5), Uniform(0.3), "tanh", dtype="float64"),
}


@pytest.mark.parametrize("name", MEASURED)
def test_init_is_the_network_that_kernel_measures(name):
    net, key = MEASURED[name], jax.random.key(5)
    line = curves.line([1.0, -0.5, 0.2], [-0.3, 0.8, 1.0])
    double = net.dtype == "float64"
    with jax.enable_x64(double):
        seen = jax.jit(kernel(net, line, points=10))(key)
        params = _init(net, key)
    given = measure(params, line, activation=net.activation, points=10)
    for name_, value in given.items():
        np.testing.assert_allclose(seen[name_], value, rtol=1e-12 if double else 2e-5)
        assert np.all(value > 0)


def test_init_of_a_sweep_is_the_network_of_each_cell():
    key, line = jax.random.key(5), curves.line([1.0, 0.0], [0.0, 1.0])
    sigma, density = np.array([1.0, 2.0]), np.array([0.5, 0.8, 1.0])

    def network(sigma, density):
        return MLP((2, 6), Sparse(Gaussian(sigma), density), Gaussian(sigma))

    net = network(sigma[:, None], density[None, :])
    params, seen = _init(net, key), jax.jit(kernel(net, line, points=10))(key)["length"]
    for i, j in np.ndindex(2, 3):
        own = jax.tree.map(lambda array, i=i, j=j: array[i, j], params)
        np.testing.assert_allclose(seen[i, j], measure(own, line, points=10)["length"], rtol=2e-5)
        alone = _init(network(sigma[i], density[j]), key)
        for mine, theirs in zip(jax.tree.leaves(own), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_layers_of_other_laws_are_drawn_from_their_own():
    """Equal sizes, two kinds of law: layers of one kind go through one loop, others do not."""
    kinds = [laws.Gaussian(1.0), laws.Gaussian(2.0), laws.TwoPoint(1.5), laws.TwoPoint(0.5)]
    net = MLP((8,) * 5, kinds, laws.Zero())
    assert [run.layers for run in net.runs()] == [2, 2]
    line = curves.line(np.eye(8)[0], np.eye(8)[1])
    key = jax.random.key(4)
    alone = kernel(net, line, probes="norm")(key)["norm"]
    given = measure(net.init(key), line, probes="norm")["norm"]
    np.testing.assert_allclose(alone, given, rtol=1e-5)
    np.testing.assert_allclose(np.abs(net.init(key)[2][0]), 1.5 / 8**0.5, rtol=1e-6)


def test_kernels_trace_once_for_all_numbers():
    traces = []

    @probe(degree=0)
    def counting(layer):
        traces.append(layer.number)
        return jnp.mean(layer.h)

    line = curves.line([1.0, 0.0], [0.0, 1.0])

    @jax.jit
    def run(net, key):
        return kernel(net, line, probes=counting, points=5)(key)["counting"]

    values = [
        run(MLP((2, 4), Sparse(Gaussian(sigma), 0.5), Gaussian(0.1)), KEY)
        for sigma in (1.0, 2.0, 3.0)
    ]
    # Once for all numbers; that is at all nodes, and at fewer of them.
    assert len(traces) == 2 and len({float(v[0]) for v in values}) == 3
