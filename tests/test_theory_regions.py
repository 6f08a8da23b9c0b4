"""Counting bounds against enumeration, brute force counts, and one another."""

import itertools
import math
from fractions import Fraction
from math import comb
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import rational
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxexpr import MLP, Estimate, activations, laws, theory

sizes = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)


# Arrangements


@given(st.integers(1, 30), st.integers(1, 12))
def test_zaslavsky_obeys_the_recursion_of_its_proof(n, m):
    z = theory.zaslavsky
    assert z(n, m) == z(n - 1, m) + z(n - 1, m - 1)
    assert z(n, m) == sum(comb(n, i) for i in range(m + 1))
    assert z(n, 2) == comb(n, 2) + n + 1
    assert z(0, m) == z(n, 0) == 1
    assert z(n, n + m) == 2**n


def lines(rng, n, central=False):
    W = rng.integers(-50, 50, size=(2, n)).astype(float)
    return [(W, np.zeros(n) if central else rng.integers(-50, 50, size=n).astype(float))]


def test_zaslavsky_is_reached_by_random_lines(rng):
    far = 1e6
    for n in (1, 2, 5, 9):
        found = rational.cells(lines(rng, n), [-far, -far], [far, far])
        assert len(found) == theory.zaslavsky(n, 2)


def test_central_lines(rng):
    for n in (1, 2, 5, 9):
        found = rational.cells(lines(rng, n, central=True), [-1, -1], [1, 1])
        assert len(found) == theory.zaslavsky_central(n, 2) == 2 * n


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_central_planes(n, rng):
    layer = rng.normal(size=(3, n)), np.zeros(n)
    found = rational.patterns([layer], [-1.0] * 3, [1.0] * 3)
    assert len(found) == theory.zaslavsky_central(n, 3)


def test_families_of_parallel_lines(rng):
    far = 1e6
    for n in (1, 2, 5):
        found = rational.cells(lines(rng, n), [-far, -far], [far, far], rational.HARD_TANH)
        assert len(found) == theory.zaslavsky_parallel(n, 2)
        assert len(found) <= theory.zaslavsky(2 * n, 2)
    assert theory.zaslavsky_parallel(5, 2) == 51


@given(st.integers(0, 12), st.integers(0, 12), st.integers(1, 4))
def test_parallel_families_are_never_more_than_as_many_hyperplanes(n, m, parallel):
    found = theory.zaslavsky_parallel(n, m, parallel)
    assert found <= theory.zaslavsky(parallel * n, m)
    assert theory.zaslavsky_parallel(n, m, 1) == theory.zaslavsky(n, m)
    if m >= n:
        assert found == (parallel + 1) ** n


# Upper bounds


def serra_by_enumeration(n_in, widths):
    total = 0
    for chosen in itertools.product(*(range(n + 1) for n in widths)):
        left = n_in
        fits = True
        for n, j in zip(widths, chosen, strict=True):
            fits &= j <= min(left, n)
            left = min(left, n - j)
        if fits:
            total += math.prod(comb(n, j) for n, j in zip(widths, chosen, strict=True))
    return total


@given(st.integers(1, 8), sizes)
def test_serra_against_the_sum_as_it_is_written(n_in, widths):
    assert theory.serra2018_upper(n_in, widths) == serra_by_enumeration(n_in, widths)


@pytest.mark.parametrize(("n_in", "width"), [(784, 1000), (2000, 2000), (3, 5000)])
def test_serra_is_quick_for_wide_and_deep_networks(n_in, width):
    widths = (width,) * 10
    found = theory.serra2018_upper(n_in, widths)
    assert type(found) is int
    rank = theory.montufar2017_upper(n_in, widths)
    # With few inputs no pattern leaves fewer dimensions than that, up to a negligible share.
    assert rank // 2 < found <= rank if n_in == 3 else 1 < found < rank


@given(st.integers(1, 8), sizes)
def test_upper_bounds_are_ordered(n_in, widths):
    serra = theory.serra2018_upper(n_in, widths)
    montufar = theory.montufar2017_upper(n_in, widths)
    raghu = theory.raghu2017_upper(n_in, widths)
    assert 1 < serra <= montufar <= raghu <= theory.trivial_upper(widths) == 2 ** sum(widths)
    assert raghu == theory.raghu2017_upper(n_in, widths, parallel=True)
    assert theory.zero_bias_upper(n_in, widths) <= raghu
    on_line = theory.line_upper(widths)
    assert on_line == theory.raghu2017_upper(1, widths)
    assert theory.serra2018_upper(1, widths) <= on_line


@given(st.integers(1, 8), sizes)
def test_upper_bounds_of_hard_tanh_are_ordered(n_in, widths):
    montufar = theory.montufar2017_upper(n_in, widths, "hard_tanh")
    sharp = theory.raghu2017_upper(n_in, widths, "hard_tanh", parallel=True)
    raghu = theory.raghu2017_upper(n_in, widths, "hard_tanh")
    assert montufar <= sharp <= raghu
    assert sharp <= theory.trivial_upper(widths, "hard_tanh") == 3 ** sum(widths)
    assert theory.line_upper(widths, "hard_tanh") == math.prod(2 * n + 1 for n in widths)
    assert theory.raghu2017_upper(1, widths, "hard_tanh") == theory.line_upper(widths, "hard_tanh")


def test_other_activations_count_their_breakpoints():
    three = activations.piecewise_linear([-1, 0, 2], [0, 1, 2, 0])
    assert theory.raghu2017_upper(2, (4,), three) == theory.zaslavsky(12, 2)
    assert theory.trivial_upper((4, 2), three) == 4**6
    assert theory.line_upper((4, 2), three) == 13 * 7
    assert theory.raghu2017_upper(3, (4, 2), "linear") == 1
    assert theory.raghu2017_upper(2, (4,), "abs") == theory.raghu2017_upper(2, (4,))


def test_rank_enters_the_upper_bound_of_montufar():
    assert theory.montufar2017_upper(3, (2, 5)) == 4 * theory.zaslavsky(5, 2)
    assert theory.montufar2017_upper(3, (5, 1, 5)) == theory.zaslavsky(5, 3) * 2 * 6


def drawn(rng, widths, bias=0.5):
    pairs = zip(widths, widths[1:], strict=False)
    return [(rng.normal(size=p) * 2, rng.normal(size=p[1]) * bias) for p in pairs]


@pytest.mark.parametrize("widths", [(2, 3, 3), (2, 1, 4), (2, 2, 2, 2), (2, 6, 4)])
def test_no_relu_network_exceeds_an_upper_bound(widths, rng):
    n_in, *above = widths
    counts = [len(rational.cells(drawn(rng, widths), [-20, -20], [20, 20])) for _ in range(10)]
    table = theory.region_bounds(n_in, above, count=max(counts))
    assert table.holds
    assert max(counts) > 1


@pytest.mark.parametrize("widths", [(2, 2, 2), (2, 1, 3), (1, 4, 4)])
def test_no_hard_tanh_network_exceeds_an_upper_bound(widths, rng):
    n_in, *above = widths
    for _ in range(5):
        found = rational.cells(drawn(rng, widths), [-9] * n_in, [9] * n_in, rational.HARD_TANH)
        assert theory.region_bounds(n_in, above, "hard_tanh", count=len(found)).holds
        assert len(found) <= theory.montufar2017_upper(n_in, above, "hard_tanh")


def test_serra_is_attained_by_one_layer_and_nearly_by_two(rng):
    found = rational.cells(drawn(rng, (2, 6), bias=2.0), [-1000, -1000], [1000, 1000])
    assert len(found) == theory.serra2018_upper(2, (6,)) == 22


@pytest.mark.parametrize("widths", [(2, 5), (2, 4, 4), (2, 1, 5), (2, 3, 3, 3)])
def test_zero_bias_upper(widths, rng):
    # Regions are cones at the origin: a square around it meets them all.
    n_in, *above = widths
    most = theory.zero_bias_upper(n_in, above)
    counts = [
        len(rational.cells(drawn(rng, widths, bias=0.0), [-1, -1], [1, 1])) for _ in range(20)
    ]
    assert max(counts) <= most
    if len(above) == 1:
        assert max(counts) == most


def test_zero_bias_upper_is_reached_in_one_dimension_and_counts_in_three(rng):
    assert theory.zero_bias_upper(1, (7, 3, 4)) == 2
    for _ in range(3):
        params = drawn(rng, (3, 3, 3), bias=0.0)
        found = rational.patterns(params, [-1.0] * 3, [1.0] * 3)
        assert 8 < len(found) <= theory.zero_bias_upper(3, (3, 3)) == 8 * theory.zaslavsky(3, 2)


# Lower bounds


@given(st.integers(1, 5), st.lists(st.integers(5, 12), min_size=1, max_size=4).map(tuple))
def test_lower_bounds_lie_below_upper_bounds(n_in, widths):
    pascanu = theory.pascanu2013_lower(n_in, widths)
    montufar = theory.montufar2014_lower(n_in, widths)
    assert pascanu <= montufar <= theory.serra2018_upper(n_in, widths)
    last = theory.zaslavsky(widths[-1], n_in)
    assert pascanu == math.prod(n // n_in for n in widths[:-1]) * last
    assert montufar == math.prod((n // n_in) ** n_in for n in widths[:-1]) * last
    assert theory.telgarsky2015_lower(len(widths)) <= theory.line_upper(widths)
    if len(widths) == 1:
        assert pascanu == montufar == theory.serra2018_upper(n_in, widths)


@given(st.integers(1, 5), st.integers(1, 6))
def test_folding_lower_bound_as_printed(n_in, depth):
    found = theory.pascanu2013_folding_lower(n_in, depth)
    total = sum(comb(2 * n_in, j) for j in range(n_in + 1))
    assert found == 2 ** ((depth - 1) * n_in) * total
    assert found <= theory.serra2018_upper(n_in, (2 * n_in,) * depth)


def test_the_table_of_pascanu():
    deep = [theory.pascanu2013_folding_lower(2, k) for k in range(1, 6)]
    shallow = [theory.zaslavsky(4 * k, 2) for k in range(1, 6)]
    assert deep == [11, 44, 176, 704, 2816]
    assert shallow == [11, 37, 79, 137, 211]


# Asymptotics


def relative_gaps(exact, leading):
    """|exact / leading - 1| at some width and at ten times that."""
    return [abs(float(exact(n) / leading(n)) - 1) for n in (600, 6000)]


LEADING = {
    "zaslavsky": (lambda n: theory.zaslavsky(n, 3), lambda n: theory.zaslavsky_leading(n, 3)),
    "raghu": (
        lambda n: theory.raghu2017_upper(3, (n,) * 4),
        lambda n: theory.raghu2017_leading(3, n, 4),
    ),
    "hard tanh": (
        lambda n: theory.raghu2017_upper(2, (n,) * 3, "hard_tanh"),
        lambda n: theory.raghu2017_leading(2, n, 3, "hard_tanh"),
    ),
    "parallel": (
        lambda n: theory.raghu2017_upper(2, (n,) * 3, "hard_tanh", parallel=True),
        lambda n: theory.raghu2017_leading(2, n, 3, "hard_tanh"),
    ),
    "montufar 2017": (
        lambda n: theory.montufar2017_upper(2, (n,) * 3),
        lambda n: theory.raghu2017_leading(2, n, 3),
    ),
    "serra": (
        lambda n: theory.serra2018_upper(2, (n,) * 3),
        lambda n: theory.raghu2017_leading(2, n, 3),
    ),
    "pascanu": (
        lambda n: theory.pascanu2013_lower(3, (n,) * 4),
        lambda n: theory.pascanu2013_leading(3, n, 4),
    ),
    "montufar 2014": (
        lambda n: theory.montufar2014_lower(3, (n,) * 4),
        lambda n: theory.montufar2014_leading(3, n, 4),
    ),
    "deep": (
        lambda n: theory.regions_per_parameter(
            theory.pascanu2013_lower(3, (n,) * 4), 3, (n,) * 4, 2
        ),
        lambda n: theory.deep_density_leading(3, n, 4),
    ),
    "shallow": (
        lambda n: theory.regions_per_parameter(theory.zaslavsky(n, 3), 3, (n,), 2),
        lambda n: theory.shallow_density_leading(3, n, 2),
    ),
}


@pytest.mark.parametrize("name", LEADING)
def test_leading_terms_are_approached_at_least_like_one_over_the_width(name):
    exact, leading = LEADING[name]
    assert isinstance(Fraction(leading(6)), Fraction)
    near, nearer = relative_gaps(exact, leading)
    assert 0 < nearer < near / 9
    assert near < 0.1


def test_the_printed_order_lacks_the_factorials():
    order, leading = theory.raghu2017_order(3, 50, 4), theory.raghu2017_leading(3, 50, 4)
    assert order == 50**12
    assert order / leading == 6**4
    assert theory.raghu2017_order(2, 5, 3, "hard_tanh") == 10**6


@pytest.mark.parametrize(
    ("n_in", "widths", "n_out"), [(2, (4, 4), 1), (3, (5,), 2), (7, (2, 9), 0)]
)
def test_parameters_are_those_of_a_network(n_in, widths, n_out):
    net = MLP((n_in, *widths, *[n_out] * bool(n_out)), laws.Gaussian(1.0), laws.Zero())
    shapes = jax.tree.leaves(jax.eval_shape(net.init, jax.random.key(0)))
    assert theory.parameters(n_in, widths, n_out) == sum(math.prod(x.shape) for x in shapes)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 6), st.integers(1, 4))
def test_parameters_in_the_papers_form(n_in, n, k, n_out):
    deep = (k - 1) * n**2 + (k + n_in + n_out) * n + n_out
    assert theory.parameters(n_in, (n,) * k, n_out) == deep
    shallow = (n_in + n_out + 1) * k * n + n_out
    assert theory.parameters(n_in, (k * n,), n_out) == shallow


def test_deep_networks_have_more_regions_per_parameter():
    def both(depth):
        widths = (8,) * depth
        deep = theory.regions_per_parameter(theory.pascanu2013_lower(2, widths), 2, widths)
        units = 8 * depth
        return deep, theory.regions_per_parameter(theory.zaslavsky(units, 2), 2, (units,))

    ratios = [deep / shallow for deep, shallow in map(both, range(2, 30))]
    assert all(after > before for before, after in itertools.pairwise(ratios))
    # Exponential in the depth: floor(n / n_0) = 4 a layer.
    assert ratios[-1] / ratios[-2] == pytest.approx(4, rel=0.1)


# Splits of a budget


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 72), st.sampled_from(["relu", "hard_tanh"]))
def test_depth_chain_rises_exactly_while_the_width_exceeds_the_inputs(m, units, activation):
    chain = theory.depth_chain(m, units, activation)
    breakpoints = 2 if activation == "hard_tanh" else 1
    assert [s.depth for s in chain] == [d for d in range(1, units + 1) if units % d == 0]
    for split, deeper in itertools.pairwise(chain):
        assert split.depth * split.width == units
        wide = breakpoints * split.width > m
        assert split.upper_grows is wide
        assert (deeper.upper > split.upper) is wide
        assert wide or split.upper == deeper.upper == 2 ** (breakpoints * units)
        # The order form rises up to N / d = e.
        if breakpoints * deeper.width > math.e:
            assert split.order_grows
        if breakpoints * split.width <= math.e:
            assert not split.order_grows
    assert not chain[-1].upper_grows
    assert not chain[-1].order_grows


def test_depth_chain_of_eight_units():
    chain = theory.depth_chain(2, 8)
    assert [(s.depth, s.width, s.upper, s.order) for s in chain] == [
        (1, 8, 37, 64),
        (2, 4, 121, 256),
        (4, 2, 256, 256),
        (8, 1, 256, 1),
    ]
    assert [s.upper_grows for s in chain] == [True, True, False, False]
    assert [s.order_grows for s in chain] == [True, False, False, False]


# The table


def test_table_of_a_small_network():
    table = theory.region_bounds(2, (4, 4), count=44)
    assert (table.upper, table.reached, table.holds) == (121, 44, True)
    assert {b.name for b in table.bounds if not b.applies} == {
        "line_upper",
        "raghu2017_upper, parallel",
        "zero_bias_upper",
    }
    text = str(table)
    assert "activation regions in a plane, relu 2-4-4: 44" in text
    assert "at most (every network)" in text
    assert "for the best network (a construction reaches it)" in text
    assert len(text.splitlines()) == 1 + 2 + len(table.bounds)
    assert "FAILS" not in text
    assert table["serra2018_upper"].value == 121
    assert "FAILS" in str(theory.region_bounds(2, (4, 4), count=122))


def test_a_count_beyond_any_upper_bound_fails_and_one_below_a_lower_bound_does_not():
    assert not theory.region_bounds(2, (4, 4), count=122).holds
    assert theory.region_bounds(2, (4, 4), count=121).holds
    assert "FAILS" not in str(theory.region_bounds(2, (4, 4), count=121))  # a bound of 121 is met
    few = theory.region_bounds(2, (4, 4), count=1)
    assert few.holds
    assert "the count is below" in str(few)


@pytest.mark.parametrize(
    ("options", "applying"),
    [
        ({"dim": 1}, {"line_upper", "serra2018_upper", "montufar2014_lower"}),
        ({"zero_bias": True}, {"zero_bias_upper", "serra2018_upper"}),
        ({"activation": "hard_tanh"}, {"raghu2017_upper, parallel"}),
        ({"activation": "leaky_relu", "zero_bias": True}, {"zero_bias_upper"}),
        ({}, {"serra2018_upper", "pascanu2013_lower", "pascanu2013_folding_lower"}),
    ],
)
def test_which_bounds_apply(options, applying):
    found = {b.name for b in theory.region_bounds(3, (6, 7, 3), **options).bounds if b.applies}
    always = {"trivial_upper", "raghu2017_upper", "montufar2017_upper"}
    special = found - always
    if "activation" in options:
        assert special == applying
    else:
        expected = applying - {"pascanu2013_folding_lower"}
        assert expected <= special
    assert always <= found
    for bound in theory.region_bounds(3, (6, 7, 3), **options).bounds:
        assert bound.applies or bound.note


def test_a_slice_is_a_network_of_fewer_inputs():
    full, plane = theory.region_bounds(5, (8, 8)), theory.region_bounds(5, (8, 8), dim=2)
    assert plane.upper == theory.serra2018_upper(2, (8, 8)) < full.upper
    for name in ("raghu2017_upper", "montufar2017_upper", "serra2018_upper"):
        assert plane[name].value == getattr(theory, name)(2, (8, 8)), name
    assert plane["montufar2014_lower"].value == theory.montufar2014_lower(2, (8, 8))
    line = theory.region_bounds(5, (8, 8), dim=1)
    assert line["line_upper"].value == theory.line_upper((8, 8))


def test_lower_bounds_say_which_regions_they_reach():
    wide = theory.region_bounds(2, (4, 4))["montufar2014_lower"]
    assert wide.counts == "linear regions, so activation too"
    narrow = theory.region_bounds(2, (4, 2))["montufar2014_lower"]
    assert narrow.counts == "activation regions"
    assert theory.region_bounds(2, (4, 4))["serra2018_upper"].counts.startswith("activation")


def test_table_takes_a_mean_with_its_error():
    estimate = Estimate.of([10.0, 12.0, 11.0])
    table = theory.region_bounds(2, (4, 4), count=estimate, of="linear")
    assert table.count == 11.0
    assert table.sem == pytest.approx(1 / math.sqrt(3))
    assert "linear regions in a plane, relu 2-4-4: 11 +- 0.58" in str(table)
    # A mean of counts that all attain the bound may be rounded above it.
    rounded = SimpleNamespace(mean=np.nextafter(121.0, 200.0), sem=0.0)
    assert theory.region_bounds(2, (4, 4), count=rounded).holds
    assert not theory.region_bounds(2, (4, 4), count=121.5).holds


def test_large_numbers_are_written_with_exponents():
    text = str(theory.region_bounds(784, (1000,) * 10))
    assert "1.995e3010" in text  # 2^10000
    assert max(map(len, text.splitlines())) < 120
    assert "9.999e10" in str(theory.region_bounds(1, (1,), count=99_990_000_000))
    assert "1.000e11" in str(theory.region_bounds(1, (1,), count=99_999_999_999))


BAD = [
    (lambda: theory.zaslavsky(-1, 2), "hyperplanes", "=-1", ">= 0"),
    (lambda: theory.zaslavsky(3, 1.5), "dim", "1.5", ">= 0"),
    (lambda: theory.zaslavsky_central(3, 0), "dim", "=0", ">= 1"),
    (lambda: theory.zaslavsky_parallel(-2, 2), "families", "=-2", ">= 0"),
    (lambda: theory.zaslavsky_parallel(2, 2, -1), "parallel", "=-1", ">= 0"),
    (lambda: theory.trivial_upper(()), "widths", "()", "with L >= 1"),
    (lambda: theory.trivial_upper(4), "widths", "=4", "give a sequence"),
    (lambda: theory.line_upper("44"), "widths", "'44'", "give a sequence"),
    (lambda: theory.line_upper((4, 0)), "widths[1]", "=0", ">= 1"),
    (lambda: theory.raghu2017_upper(0, (4,)), "n_in", "=0", ">= 1"),
    (lambda: theory.raghu2017_upper(2, (4,), "tanh"), "activation", "'tanh'", "use relu"),
    (lambda: theory.raghu2017_upper(2, (4,), "rellu"), "activation", "'rellu'", "mean 'relu'"),
    (lambda: theory.montufar2017_upper(2, (4.0,)), "widths[0]", "4.0", ">= 1"),
    (lambda: theory.serra2018_upper(True, (4,)), "n_in", "True", ">= 1"),
    (lambda: theory.zero_bias_upper(2, ()), "widths", "()", "with L >= 1"),
    (lambda: theory.pascanu2013_lower(4, (8, 3)), "widths[1]", "=3", "fewer inputs"),
    (lambda: theory.montufar2014_lower(4, (3, 8)), "widths[0]", "=3", "fewer inputs"),
    (lambda: theory.pascanu2013_folding_lower(2, 0), "depth", "=0", ">= 1"),
    (lambda: theory.telgarsky2015_lower(0), "depth", "=0", ">= 1"),
    (lambda: theory.zaslavsky_leading(2, -1), "dim", "=-1", ">= 0"),
    (lambda: theory.raghu2017_order(2, 4, 0), "depth", "=0", ">= 1"),
    (lambda: theory.raghu2017_leading(2, 4, 2, "erf"), "activation", "'erf'", "use relu"),
    (lambda: theory.pascanu2013_leading(2, 0, 2), "width", "=0", ">= 1"),
    (lambda: theory.montufar2014_leading(0, 4, 2), "n_in", "=0", ">= 1"),
    (lambda: theory.deep_density_leading(2, 4, 1), "depth", "=1", ">= 2"),
    (lambda: theory.shallow_density_leading(2, 0), "units", "=0", ">= 1"),
    (lambda: theory.parameters(2, (4,), -1), "n_out", "=-1", ">= 0"),
    (lambda: theory.regions_per_parameter(2.5, 2, (4,)), "regions", "2.5", ">= 0"),
    (lambda: theory.depth_chain(2, 0), "units", "=0", ">= 1"),
    (lambda: theory.region_bounds(2, (4,), dim=3), "dim", "=3", "n_in=2"),
    (lambda: theory.region_bounds(2, (4,), count=0), "count", "=0", ">= 1"),
    (lambda: theory.region_bounds(2, (4,), count=0.5), "count", "0.5", ">= 1"),
    (lambda: theory.region_bounds(2, (4,), count="many"), "count", "'many'", "number"),
    (
        lambda: theory.region_bounds(2, (4,), count=Estimate.of([[1.0, 2.0]])),
        "count.mean",
        "(2,)",
        "one number",
    ),
    (
        lambda: theory.region_bounds(2, (4,), count=SimpleNamespace(mean=np.nan, sem=1.0)),
        "count.mean",
        "nan",
        ">= 1",
    ),
    (lambda: theory.region_bounds(2, (4,), of="cells"), "of", "'cells'", "activation, linear"),
    (lambda: theory.region_bounds(2, (4,), "tanh"), "activation", "'tanh'", "use relu"),
    (
        lambda: theory.region_bounds(2, (4,))["sera2018"],
        "name",
        "'sera2018'",
        "mean 'serra2018_upper'",
    ),
]


@pytest.mark.parametrize(("call", "argument", "value", "fix"), BAD)
def test_bad_input_is_refused(call, argument, value, fix):
    with pytest.raises(ValueError) as caught:
        call()
    message = str(caught.value)
    assert argument in message
    assert value in message
    assert fix in message


@pytest.mark.parametrize(
    ("widths", "joined"), [((2,), False), ((4, 2), True), ((4, 3), False), ((2, 4), False)]
)
def test_a_narrow_last_layer_above_others_may_join_linear_regions(widths, joined):
    """A single layer of as many units as inputs joins none: its constructions have 2^n regions."""
    bounds = {b.name: b for b in theory.region_bounds(2, widths).bounds}
    what = "activation regions" if joined else "linear regions, so activation too"
    for name in ("pascanu2013_lower", "montufar2014_lower"):
        assert bounds[name].counts == what
