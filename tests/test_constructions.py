"""Constructions have the regions they are built for, by rational arithmetic and by LPs."""

import itertools
import math

import jax
import numpy as np
import pytest
import rational

from jaxexpr import exact, theory


def counted(net, low=None, high=None):
    """Activation and linear regions in a box, the domain by default."""
    low, high = net.box if low is None else (low, high)
    found = rational.cells(net.params, low, high)
    assert len({cell.pattern for cell in found}) == len(found)
    return len(found), rational.linear_regions(found)


def stated(net):
    return net.activation_regions, net.linear_regions


def square(net, half):
    n = net.widths[0]
    return np.full(n, -float(half)), np.full(n, float(half))


@pytest.mark.parametrize(("n_in", "depth"), [(1, 1), (1, 5), (2, 1), (2, 2), (2, 3), (2, 4)])
def test_folding(n_in, depth):
    net = exact.folding(n_in, depth)
    assert stated(net) == counted(net) == (2 ** (n_in * depth),) * 2
    assert net.everywhere
    assert counted(net, *square(net, 100)) == stated(net)


def test_folding_2_4_4_4_has_64_regions_on_its_square():
    net = exact.folding(2, 3)
    assert net.widths == (2, 4, 4, 4)
    assert counted(net) == (64, 64)


@pytest.mark.parametrize(("n_in", "depth"), [(1, 3), (2, 1), (2, 3)])
def test_folding_computes_what_it_says(n_in, depth, rng):
    net = exact.folding(n_in, depth)
    x = rng.uniform(-2, 2, size=(50, n_in))
    expected = x
    for _ in range(depth):
        expected = 2 * np.abs(expected) - 1
    np.testing.assert_allclose(output(net, x), expected, rtol=1e-12, atol=1e-12)


def output(net, x):
    for W, b in net.params:
        x = np.maximum(x @ W + b, 0)
    U, c = net.readout
    return x @ U + c


@pytest.mark.parametrize(("depth", "regions"), [(1, 11), (2, 44), (3, 176), (4, 704)])
def test_pascanu_folding_in_the_plane(depth, regions):
    net = exact.pascanu2013_folding(2, depth)
    assert net.widths == (2, *[4] * depth)
    assert stated(net) == counted(net) == (regions, regions)
    if depth == 3:
        assert counted(net, *square(net, 1000)) == stated(net)


@pytest.mark.parametrize("depth", [1, 4])
def test_pascanu_folding_on_the_line(depth):
    net = exact.pascanu2013_folding(1, depth)
    assert stated(net) == counted(net) == (3 * 2 ** (depth - 1),) * 2
    assert counted(net, *square(net, 1000)) == stated(net)


@pytest.mark.parametrize(("depth", "regions"), [(1, 42), (2, 336)])
def test_pascanu_folding_in_space(depth, regions):
    net = exact.pascanu2013_folding(3, depth)
    assert net.activation_regions == regions
    assert len(set(rational.patterns(net.params, *square(net, 1)))) == regions
    if depth == 1:
        assert len(rational.patterns(net.params, *square(net, 100))) == regions


MONTUFAR = [
    *[(1, w) for w in [(1,), (4, 4), (3, 1), (2, 3, 1), (3, 3, 1), (2, 2, 2), (1, 1, 1)]],
    *[(2, w) for w in [(2,), (7,), (4, 4), (5, 3), (4, 2), (6, 2), (2, 2), (6, 4, 3), (4, 6, 2)]],
]


@pytest.mark.parametrize(("n_in", "widths"), MONTUFAR)
def test_montufar(n_in, widths):
    net = exact.montufar2014(n_in, widths)
    assert net.widths == (n_in, *widths)
    assert stated(net) == counted(net)


@pytest.mark.parametrize(("widths", "regions"), [((4,), 15), ((6, 4), 8 * 15), ((3, 7, 4), 8 * 15)])
def test_montufar_in_space(widths, regions):
    net = exact.montufar2014(3, widths)
    assert net.activation_regions == regions
    assert len(set(rational.patterns(net.params, *net.box))) == regions


def test_montufar_joins_regions_where_the_last_layer_is_closed():
    net = exact.montufar2014(1, (3, 3, 1))
    assert stated(net) == counted(net) == (18, 14)


PASCANU = [(2, (4, 4)), (2, (7, 5, 3)), (2, (4, 4, 4)), (2, (6, 2)), (2, (2, 2, 3))]


@pytest.mark.parametrize(("n_in", "widths"), PASCANU)
def test_pascanu_copies_the_last_arrangement_to_every_box(n_in, widths):
    net = exact.pascanu2013(n_in, widths)
    assert net.widths == (n_in, *widths)
    each = theory.zaslavsky(widths[-1], n_in)
    found = [rational.cells(net.params, low, high) for low, high in net.boxes]
    assert [len(cells) for cells in found] == [each] * len(net.boxes)
    assert [rational.linear_regions(cells) for cells in found] == [each] * len(net.boxes)
    patterns = {cell.pattern for cells in found for cell in cells}
    assert len(patterns) == net.activation_regions == net.linear_regions
    for (low, high), (other_low, other_high) in itertools.combinations(net.boxes, 2):
        assert np.any((high < other_low) | (other_high < low))


@pytest.mark.parametrize("widths", [(4,), (7, 4), (6, 3, 4)])
def test_pascanu_in_space(widths):
    net = exact.pascanu2013(3, widths)
    found = [p for low, high in net.boxes for p in rational.patterns(net.params, low, high)]
    assert len(set(found)) == len(found) == net.activation_regions


def test_pascanu_has_more_regions_outside_and_no_more_than_can_be():
    net = exact.pascanu2013(2, (4, 4))
    everywhere = len(rational.cells(net.params, *square(net, 1000)))
    assert net.activation_regions == 22 < everywhere <= theory.serra2018_upper(2, (4, 4))


@pytest.mark.parametrize("depth", range(1, 9))
def test_sawtooth(depth):
    net = exact.sawtooth(depth)
    assert net.widths == (1, *[2] * depth)
    assert stated(net) == counted(net) == (2**depth,) * 2
    # On the whole line: all closed on the left, and the fall below 0 on the right.
    assert counted(net, [-5.0], [5.0])[0] == 2**depth + (1 if depth == 1 else 2)


def test_sawtooth_has_its_teeth():
    net = exact.sawtooth(4)
    x = np.linspace(0, 1, 2**4 + 1)[:, None]
    assert output(net, x)[:, 0].tolist() == [0.0, 1.0] * 8 + [0.0]
    between = x[:-1] + np.array([[1 / 64]])
    np.testing.assert_allclose(output(net, between)[:, 0], [0.25, 0.75] * 8)


def test_noise_destroys_most_pieces_of_a_sawtooth():
    net = exact.sawtooth(8)
    rng = np.random.default_rng(0)
    counts = [len(rational.cells(exact.noisy(net, 0.3, rng), [0.0], [1.0])) for _ in range(20)]
    assert np.mean(counts) < 2**8 / 2
    assert max(counts) <= theory.line_upper((2,) * 8)


@pytest.mark.parametrize("make", [jax.random.key, np.random.default_rng])
def test_noise_is_normal_in_float64_and_follows_its_key(make):
    zero = [(np.zeros((50, 80)), np.zeros(80)), (np.ones((80, 40)), np.ones(40))]
    moved = exact.noisy(zero, 0.5, make(3))
    pairs = zip(itertools.chain(*moved), itertools.chain(*zero), strict=True)
    flat = np.concatenate([np.ravel(noisy - still) for noisy, still in pairs])
    n = len(flat)
    assert {x.dtype for pair in moved for x in pair} == {np.dtype(np.float64)}
    assert abs(flat.mean()) < 5 * 0.5 / math.sqrt(n)
    assert abs(flat.std() / 0.5 - 1) < 5 / math.sqrt(2 * n)
    assert abs(np.corrcoef(moved[0][0][0], moved[0][1])[0, 1]) < 5 / math.sqrt(80)
    # More digits than float32 has.
    assert np.any(flat.astype(np.float32).astype(np.float64) != flat)
    same, other = exact.noisy(zero, 0.5, make(3)), exact.noisy(zero, 0.5, make(4))
    assert np.array_equal(same[1][0], moved[1][0])
    assert not np.array_equal(other[1][0], moved[1][0])
    still = exact.noisy(zero, 0.0, make(3))
    assert np.array_equal(still[1][0], zero[1][0])


@pytest.mark.parametrize("units", range(1, 9))
def test_consecutive_runs_are_active_sets(units):
    layer = exact.consecutive(units)
    far = 4.0 * units**2
    found = rational.cells([layer], [-far, -far], [far, far])
    assert len(found) == theory.zaslavsky(units, 2)
    active = {tuple(np.flatnonzero(cell.pattern[0])) for cell in found}
    runs = {tuple(range(a, b)) for a in range(units) for b in range(a + 1, units + 1)}
    assert runs <= active


@pytest.mark.parametrize(("units", "dim"), [(n, m) for m in (1, 2, 3) for n in range(m, 8)])
def test_general_position(units, dim):
    W, b = exact.general_position(units, dim)
    found = rational.patterns([(W, b)], [-1.0] * dim, [1.0] * dim)
    assert len(set(found)) == theory.zaslavsky(units, dim)
    if units > dim:
        assert np.all(W != 0)
        assert all(any(pattern[0]) for pattern in found)


def test_general_position_keeps_vertices_inside():
    W, b = exact.general_position(9, 3)
    for chosen in itertools.combinations(range(9), 3):
        vertex = np.linalg.solve(W[:, chosen].T, -b[list(chosen)])
        assert np.all(np.abs(vertex) <= 0.8 + 1e-9)


SIZES = [(n, w) for n in (1, 2, 3) for w in [(3,), (3, 3), (5, 4), (6, 7, 5), (4, 9, 3)]]


@pytest.mark.parametrize(("n_in", "widths"), SIZES)
def test_counts_are_the_lower_bounds_of_theory(n_in, widths):
    net = exact.montufar2014(n_in, widths)
    assert net.activation_regions == theory.montufar2014_lower(n_in, widths)
    if n_in > 1:
        net = exact.pascanu2013(n_in, widths)
        assert net.activation_regions == theory.pascanu2013_lower(n_in, widths)
    depth = len(widths)
    folded = exact.pascanu2013_folding(n_in, depth)
    assert folded.activation_regions == theory.pascanu2013_folding_lower(n_in, depth)
    assert exact.sawtooth(depth).linear_regions == theory.telgarsky2015_lower(depth)


def test_params_are_what_every_measure_takes(segment):
    from jaxexpr import measure

    nets = [
        exact.folding(2, 3),
        exact.pascanu2013_folding(2, 3),
        exact.montufar2014(2, (5, 4, 3)),
        exact.pascanu2013(2, (4, 5, 3)),
    ]
    for net in nets:
        assert all(x.dtype == np.float64 for pair in net.params for x in pair)
        assert measure(net.params, segment(2))["length"].shape == (3,)


REFUSED = [
    (lambda: exact.folding(0, 2), "n_in", "=0", "give an integer >= 1"),
    (lambda: exact.folding(2, 0), "depth", "=0", "give an integer >= 1"),
    (lambda: exact.pascanu2013_folding(2, 1.5), "depth", "1.5", "give an integer >= 1"),
    (lambda: exact.sawtooth(-1), "depth", "=-1", "give an integer >= 1"),
    (lambda: exact.consecutive(0), "units", "=0", "give an integer >= 1"),
    (lambda: exact.general_position(2, 3), "units", "=2", "at least as many"),
    (lambda: exact.montufar2014(2, (4, 1)), "widths[1]", "=1", "as many units as inputs"),
    (lambda: exact.montufar2014(2, ()), "widths", "()", "with L >= 1"),
    (lambda: exact.montufar2014(2, 4), "widths", "=4", "give a sequence"),
    (lambda: exact.montufar2014(2, (4, 4.0)), "widths[1]", "4.0", "give an integer >= 1"),
    (lambda: exact.pascanu2013(3, (2, 4)), "widths[0]", "=2", "as many units as inputs"),
    (lambda: exact.pascanu2013(1, (4, 4)), "n_in", "=1", "use montufar2014"),
    (lambda: exact.pascanu2013(2, (12,) * 6), "widths", "float64", "give fewer layers"),
    (lambda: exact.pascanu2013(2, (40,) * 8), "widths", "boxes", "give fewer layers"),
    (lambda: exact.pascanu2013(2, (4, 4)).box, "domain", "2 boxes", "use boxes"),
    (lambda: exact.noisy(exact.sawtooth(2), -0.1, jax.random.key(0)), "scale", "-0.1", ">= 0"),
    (
        lambda: exact.noisy(exact.sawtooth(2), [0.1], jax.random.key(0)),
        "scale",
        "0.1",
        "one number",
    ),
    (lambda: exact.noisy(exact.sawtooth(2), 0.1, 3), "key", "=3", "give jax.random.key(seed)"),
]


@pytest.mark.parametrize(("call", "argument", "value", "fix"), REFUSED)
def test_bad_input_is_refused(call, argument, value, fix):
    with pytest.raises(ValueError) as caught:
        call()
    message = str(caught.value)
    assert argument in message
    assert value in message
    assert fix in message
