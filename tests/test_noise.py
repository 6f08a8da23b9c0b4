"""Random words: the generator against its published answers, and the maps from words to numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry2x32_p
from scipy import special

from jaxexpr import prng

FLOAT32, FLOAT64 = jnp.dtype("float32"), jnp.dtype("float64")
EXTREMES = np.array(
    [0, 1, 255, 256, 2**31 - 256, 2**31 - 1, 2**31, 2**31 + 256, 2**32 - 256, 2**32 - 1], np.uint32
)
MAPS = {"unit_interval": prng.unit_interval, "symmetric": prng.symmetric, "normal": prng.normal}

# key, counter, answer: the vectors published with Random123 for threefry2x32, 20 rounds.
KNOWN_ANSWERS = {
    "zeros": ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    "ones": ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    "pi": ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
}

GOLDEN_SEED = ["0xd02e4b90", "0x96bfd298"]
GOLDEN_WORDS = [
    "0x6e5dca009efc8a3b",
    "0xb33bc83bbfce4602",
    "0x87fd75351df5b2e5",
    "0xc51b3c5274751197",
]
GOLDEN_NORMALS = [[-1.169798851, -0.676879346], [0.297690511, 1.694462776]]

ABOVE = np.triu_indices(1000, 1)  # entries above the diagonal


def uint32(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, 2**32, size=shape, dtype=np.uint32)


def pairs(words: prng.Words) -> np.ndarray:
    """Both words of each entry as one 64-bit number."""
    first, second = (np.asarray(word, np.uint64).ravel() for word in words)
    return first << np.uint64(32) | second


def start(number: int = 0) -> prng.Seed:
    return prng.seed(jax.random.key(number))


@pytest.mark.parametrize("case", KNOWN_ANSWERS)
def test_threefry_gives_the_published_answers(case):
    key, counter, answer = (tuple(map(jnp.uint32, words)) for words in KNOWN_ANSWERS[case])
    assert prng.threefry2x32(key, counter) == answer


def test_threefry_is_that_of_jax_bit_for_bit(rng):
    key, counter = uint32(rng, 2, 1000), uint32(rng, 2, 1000)
    ours = prng.threefry2x32(tuple(jnp.asarray(key)), tuple(jnp.asarray(counter)))
    theirs = threefry2x32_p.bind(*map(jnp.asarray, (*key, *counter)))
    np.testing.assert_array_equal(ours, theirs)


def test_an_entry_is_the_block_counted_by_its_row_and_column():
    seed = start()
    words = prng.words(seed, (5, 7))
    row, column = np.indices((5, 7), np.uint32)
    key = (jnp.full((5, 7), word) for word in seed)
    np.testing.assert_array_equal(
        words, threefry2x32_p.bind(*key, jnp.asarray(row), jnp.asarray(column))
    )


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 2), (1, 11)])
def test_a_smaller_matrix_is_the_corner_of_a_larger_one(shape):
    large, small = prng.words(start(), (7, 11)), prng.words(start(), shape)
    for whole, part in zip(large, small, strict=True):
        np.testing.assert_array_equal(part, whole[: shape[0], : shape[1]])


def test_a_vector_is_the_first_row_of_a_matrix():
    for row, matrix in zip(prng.words(start(), (11,)), prng.words(start(), (7, 11)), strict=True):
        np.testing.assert_array_equal(row, matrix[0])


def test_seeds_of_layers_and_kinds_are_blocks_of_the_network_seed():
    parent = start()
    layers = jnp.arange(200, dtype=jnp.int32)
    children = [
        jax.vmap(lambda i, kind=kind: prng.child(parent, i, kind))(layers) for kind in (0, 1)
    ]
    for kind, child in enumerate(children):
        ones = jnp.ones(200, jnp.uint32)
        counter = (layers.astype(jnp.uint32), kind * ones)
        expected = threefry2x32_p.bind(parent[0] * ones, parent[1] * ones, *counter)
        np.testing.assert_array_equal(child, expected)
        assert prng.child(parent, 3, kind) == tuple(word[3] for word in child)
    every = np.concatenate([pairs(prng.Words(*child)) for child in children])
    assert len(np.unique(every)) == 400


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_any_kind_of_jax_key_starts_a_stream_of_its_own(implementation):
    seeds = [prng.seed(jax.random.key(i, impl=implementation)) for i in range(20)]
    assert len({(int(a), int(b)) for a, b in seeds}) == 20


def test_golden_words():
    """The stream is part of every published number: a change of it must be noticed."""
    seed = start(2019)
    assert [hex(word) for word in seed] == GOLDEN_SEED
    assert [hex(word) for word in pairs(prng.words(seed, (2, 2)))] == GOLDEN_WORDS
    normals = prng.normal(prng.words(seed, (2, 2)).second, FLOAT32)
    np.testing.assert_allclose(normals, GOLDEN_NORMALS, rtol=1e-6)


def top(word: jax.Array) -> np.ndarray:
    return np.asarray(word) >> np.uint32(28)


def low(word: jax.Array) -> np.ndarray:
    return np.asarray(word) & np.uint32(15)


def dependence(a: np.ndarray, b: np.ndarray) -> float:
    """Chi-square of 16 x 16 cells against uniform and independent, in standard errors."""
    counts = np.bincount(16 * a.ravel().astype(int) + b.ravel().astype(int), minlength=256)
    expected = a.size / 256
    return (np.sum((counts - expected) ** 2) / expected - 255) / np.sqrt(2 * 255)


@pytest.fixture(scope="module")
def many() -> prng.Words:
    return prng.words(start(1), (1000, 1000))


@pytest.mark.parametrize(
    "couple",
    [
        lambda w: (top(w.first), top(w.second)),
        lambda w: (low(w.first), low(w.second)),
        lambda w: (top(w.first), low(w.first)),
        lambda w: (top(w.second)[:, 1:], top(w.second)[:, :-1]),
        lambda w: (top(w.second)[1:], top(w.second)[:-1]),
        lambda w: (top(w.first)[:, 1:], top(w.second)[:, :-1]),
        lambda w: (top(w.second)[ABOVE], top(w.second).T[ABOVE]),
    ],
    ids=["words", "low_bits", "within", "columns", "rows", "words_columns", "transposed"],
)
def test_words_are_uniform_and_independent(many, couple):
    a, b = couple(many)
    assert abs(dependence(a, b)) < 5


def test_the_test_of_independence_has_power(many):
    almost = np.where(np.arange(1000) % 20 == 0, top(many.first), top(many.second))
    assert dependence(top(many.first), almost) > 50


def test_arrays_of_different_keys_and_layers_are_independent(many):
    others = [start(2), prng.child(start(1), 0, 0), prng.child(start(1), 0, 1)]
    for other in others:
        words = prng.words(other, (1000, 1000))
        assert abs(dependence(top(many.second), top(words.second))) < 5
        assert not np.isin(pairs(words)[:1000], pairs(many)).any()


@pytest.mark.parametrize("name", ["symmetric", "normal"])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_the_maps_are_exactly_even(rng, name, dtype):
    word = np.concatenate([EXTREMES, uint32(rng, 10_000)])
    with jax.enable_x64(dtype == FLOAT64):
        value, mirrored = (np.asarray(MAPS[name](jnp.asarray(w), dtype)) for w in (word, ~word))
    assert value.dtype == dtype
    np.testing.assert_array_equal(mirrored, -value)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_ranges_and_grids(rng, dtype):
    word = np.concatenate([EXTREMES, uint32(rng, 10_000)])
    with jax.enable_x64(dtype == FLOAT64):
        unit, even, normal = (np.asarray(f(jnp.asarray(word), dtype)) for f in MAPS.values())
    assert unit.min() == 2.0**-25 and unit.max() == 1 - 2.0**-24
    grid = word >> 8
    np.testing.assert_array_equal(unit.astype(np.float64) * 2**24, np.where(grid == 0, 0.5, grid))
    assert even.min() == -(1 - 2.0**-24) and even.max() == 1 - 2.0**-24
    odd = even.astype(np.float64) * 2**24
    assert np.all(odd % 2 == 1)
    assert np.all(np.isfinite(normal)) and np.all(normal != 0)
    assert np.abs(normal).max() == pytest.approx(special.ndtri(1 - 2.0**-25), rel=1e-6)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_unit_intervals_have_no_zero_and_change_nothing_else(dtype):
    word = np.concatenate([np.arange(2**12), 2**32 - 1 - np.arange(2**12)]).astype(np.uint32)
    with jax.enable_x64(dtype == FLOAT64):
        unit = np.asarray(prng.unit_interval(jnp.asarray(word), dtype))
    assert unit.dtype == dtype
    np.testing.assert_array_equal(unit[:256], 2.0**-25)
    np.testing.assert_array_equal(unit[256:], (word >> 8)[256:] * 2.0**-24)


def test_further_words_are_uniform_and_independent_of_the_first(many):
    more = prng.further(many)
    for a in more:
        for b in many:
            assert abs(dependence(top(a), top(b))) < 5
    assert abs(dependence(top(more.first), top(more.second))) < 5
    assert abs(dependence(top(more.first)[:, 1:], top(more.first)[:, :-1])) < 5


@pytest.mark.parametrize("name", MAPS)
def test_float32_and_float64_see_the_same_draw(many, name):
    word = many.second[:300]
    single = np.asarray(MAPS[name](word, FLOAT32), np.float64)
    with jax.enable_x64(True):
        double = np.asarray(MAPS[name](word, FLOAT64))
    if name == "normal":
        np.testing.assert_allclose(single, double, rtol=2e-5)
        assert np.sqrt(np.mean((single / double - 1) ** 2)) < 3e-7
    else:
        np.testing.assert_array_equal(single, double)


def test_normals_are_the_inverse_distribution_function(many):
    with jax.enable_x64(True):
        uniform = np.asarray(prng.symmetric(many.second[:300], FLOAT64))
        normal = np.asarray(prng.normal(many.second[:300], FLOAT64))
    np.testing.assert_allclose(normal, np.sqrt(2) * special.erfinv(uniform), rtol=1e-13)


@pytest.mark.parametrize("count", [1, 2, 5, 1000, 70_000])
def test_a_permutation_holds_each_number_once(count):
    order = prng.permutation(prng.seed(jax.random.key(0)), count)
    assert order.dtype == jnp.int32
    assert (np.sort(np.asarray(order)) == np.arange(count)).all()


def test_all_orders_are_as_likely():
    seeds = jax.vmap(prng.seed)(jax.random.split(jax.random.key(1), 24_000))
    orders = np.asarray(jax.jit(jax.vmap(lambda s: prng.permutation(s, 4)))(seeds))
    counts = np.unique(orders @ np.array([64, 16, 4, 1]), return_counts=True)[1]
    assert len(counts) == 24
    assert np.sum((counts - 1000) ** 2 / 1000) < 49.7  # chi-square, 23 degrees of freedom, 0.1 %


def test_neighbours_are_exchanged_half_of_the_time():
    """With few random bits beside each place many would be tied, and keep their order."""
    count = 2**22
    order = np.asarray(prng.permutation(prng.seed(jax.random.key(2)), count))
    place = np.empty(count, np.int32)
    place[order] = np.arange(count, dtype=np.int32)
    shares = [np.mean(place[k:] < place[:-k]) for k in range(1, 17)]
    assert abs(np.mean(shares) - 0.5) < 4 * (1 / 4 / count / len(shares)) ** 0.5
