"""Activation regions in boxes and in all of space, against independent counts."""

import itertools
import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rational
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from jaxexpr import activations
from jaxexpr.exact import cells
from jaxexpr.exact.polytopes import complexes
from jaxexpr.exact.polytopes.partition import partition

ACTIVATIONS = {
    "relu": ("relu", rational.RELU),
    "leaky": (activations.leaky_relu(0.25), ((0,), (rational.Fraction(1, 4), 1))),
    "abs": ("abs", ((0,), (-1, 1))),
    "hard_tanh": ("hard_tanh", rational.HARD_TANH),
    "three": (
        activations.piecewise_linear([-1, 0, 0.5], [0, 1, -1, 2]),
        ((-1, 0, rational.Fraction(1, 2)), (0, 1, -1, 2)),
    ),
}
KINDS = ("dense", "sparse", "zero_bias", "integer", "signs", "repeated")


def network(sizes, seed=0, bias=0.3):
    """He weights, normal biases; the last of `sizes` is the output, which has no boundaries."""
    r = np.random.default_rng(seed)
    params = []
    for i, o in itertools.pairwise(sizes):
        W = r.normal(0, math.sqrt(2 / i), (o, i))
        params.append((W.T, bias / 0.3 * r.normal(0, 0.3, (o,))))
    return params[:-1]


def odd_network(sizes, seed, kind):
    """Networks with many coincidences: what generic algorithms get wrong."""
    r = np.random.default_rng(seed)
    params = []
    for i, o in itertools.pairwise(sizes):
        W, b = r.normal(size=(i, o)), r.normal(0, 0.3, o)
        if kind == "sparse":
            W, b = W * (r.random((i, o)) < 0.4), b * (r.random(o) < 0.5)
        elif kind == "zero_bias":
            b = np.zeros(o)
        elif kind == "integer":
            W, b = r.integers(-2, 3, (i, o)) * 1.0, r.integers(-2, 3, o) / 2
        elif kind == "signs":
            W, b = r.choice([-1.0, 1.0], (i, o)), np.zeros(o)
        elif kind == "repeated":
            unit, scale = r.integers(0, o, o), r.choice([-1.0, 1.0, 2.0, -0.5], o)
            W, b = W[:, unit] * scale, b[unit] * scale
        params.append((W, b))
    return params


def pieces_of_units(params, x, phi=activations.relu):
    """The linear piece of every unit at points ``(m, n)``, by going through the network."""
    states, z = [], np.asarray(x, np.float64)
    with jax.enable_x64(True):
        for W, b in params:
            h = z @ W + b
            states.append(sum((h > at).astype(int) for at in phi.breakpoints))
            z = np.asarray(phi(jnp.asarray(h)))
    return np.concatenate(states, axis=1)


def listed(found):
    return {tuple(row) for row in np.concatenate(found.patterns, axis=1).tolist()}


# Known counts


@pytest.mark.parametrize(
    ("sizes", "count"),
    [((2, 16, 16, 1), 333), ((2, 32, 32, 1), 1382), ((2, 64, 64, 1), 5356), ((3, 16, 16, 1), 2200)],
)
def test_random_networks_on_the_cube(sizes, count):
    found = cells(network(sizes), -1, 1)
    assert found.count == count
    assert len(listed(found)) == count


def test_zero_biases_on_the_square():
    assert cells(network((2, 16, 16, 1), bias=0), -1, 1).count == 60


def test_all_of_the_plane():
    assert cells(network((2, 10, 5, 1))).count == 119


def folding(n, depth):
    """Each layer takes every coordinate x to 2 |x| - 1, as relu(x) and relu(-x) below."""
    split = np.concatenate([np.eye(n), -np.eye(n)], axis=1)
    again = 2 * np.concatenate([split, split])
    return [(split, np.zeros(2 * n))] + [(again, -split.sum(axis=0))] * (depth - 1)


@pytest.mark.parametrize(("n", "depth"), [(1, 5), (2, 3), (2, 4), (3, 2), (4, 2)])
def test_folding_networks(n, depth):
    params = folding(n, depth)
    assert cells(params, -1, 1).counts.tolist() == [2 ** (n * d) for d in range(1, depth + 1)]


def zaslavsky(hyperplanes, n):
    return sum(math.comb(hyperplanes, i) for i in range(n + 1))


@pytest.mark.parametrize(("n", "width"), [(1, 7), (2, 9), (3, 8), (4, 7), (5, 6), (5, 4)])
def test_one_layer_in_general_position(n, width):
    assert cells(network((n, width, 1), seed=n)).count == zaslavsky(width, n)


@pytest.mark.parametrize(("n", "width"), [(1, 3), (2, 40), (3, 20), (4, 10), (5, 8)])
@pytest.mark.parametrize("shift", [False, True], ids=["at_origin", "elsewhere"])
def test_one_central_layer(n, width, shift, rng):
    """Hyperplanes through one point: 2 sum_{i<n} C(width - 1, i), in space and around the point."""
    W, point = rng.normal(size=(n, width)), rng.uniform(-0.5, 0.5, n) * shift
    params = [(W, -point @ W)]
    central = 2 * sum(math.comb(width - 1, i) for i in range(n))
    assert cells(params).count == central
    assert cells(params, point - 1e-3, point + 2e-3).count == central


@pytest.mark.parametrize("sizes", [(2, 64, 64, 1), (3, 16, 16, 8, 1), (4, 8, 8, 1), (2, *[8] * 9)])
def test_deep_networks_without_biases_have_cones(sizes):
    """Every box around the origin meets every region."""
    params = network(sizes, seed=2, bias=0)
    everywhere, around = cells(params), cells(params, -0.25, np.arange(1.0, 1 + sizes[0]))
    np.testing.assert_array_equal(everywhere.counts, around.counts)
    assert listed(everywhere) == listed(around)


def test_parallel_boundaries_of_one_unit(rng):
    """Two hyperplanes a unit, parallel: sum_i 2^i C(width, i)."""
    params = [(rng.normal(size=(2, 5)), rng.normal(size=5))]
    assert cells(params, activation="hard_tanh").count == 51
    assert cells(params).count == 16
    assert cells(params, activation="linear").count == 1
    assert cells(params, -1, 1, "linear").patterns[0].tolist() == [[0] * 5]


# Exact arithmetic and linear programs


@given(
    n=st.integers(1, 2),
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    seed=st.integers(0, 2**16),
    kind=st.sampled_from(KINDS),
    name=st.sampled_from(sorted(ACTIVATIONS)),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_equals_rational_arithmetic(n, widths, seed, kind, name):
    params = odd_network((n, *widths), seed, kind)
    phi, exact = ACTIVATIONS[name]
    box = rational.cells(params, [-1] * n, [1] * n, exact)
    found = cells(params, -1, 1, phi)
    assert found.count == len(box)
    # A unit that is on its breakpoint throughout a cell may be given either state.
    if kind in ("dense", "repeated") and name != "relu":
        assert listed(found) == {tuple(itertools.chain(*c.pattern)) for c in box}
    far = 10**9
    assert cells(params, activation=phi).count == len(
        rational.cells(params, [-far] * n, [far] * n, exact)
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_equals_linear_programs_in_three_and_four_dimensions(seed, kind):
    n = 3 + seed % 2
    params = odd_network((n, 4, 3), seed, kind)
    assert cells(params, -1, 1).count == len(rational.patterns(params, [-1] * n, [1] * n))


def flipped(params, low, high, x):
    """All patterns of a generic network on a box, from that of x by flipping one unit at a time.

    A pattern is kept if a linear program finds a ball of radius above 1e-9 in its cell.
    """
    n, queue, seen = len(x), [], set()

    def feasible(pattern):
        rows, limits, J, c, k = [], [], np.eye(n), np.zeros(n), 0
        for W, b in params:
            J, c = J @ W, c @ W + b
            on = np.array(pattern[k : k + len(b)])
            sign, k = np.where(on, -1.0, 1.0), k + len(b)
            rows.append((J * sign).T)
            limits.append(-c * sign)
            J, c = J * on, c * on
        A, limit = np.concatenate(rows), np.concatenate(limits)
        length = np.linalg.norm(A, axis=1)
        done = linprog(
            np.append(np.zeros(n), -1.0),
            A_ub=np.column_stack([A, length]),
            b_ub=limit,
            bounds=[*zip(low, high, strict=True), (None, 1.0)],
        )
        return done.status == 0 and done.x[n] > 1e-9 and np.all((length > 0) | (limit > 0))

    def visit(pattern):
        if pattern not in seen and feasible(pattern):
            seen.add(pattern)
            queue.append(pattern)

    visit(tuple(pieces_of_units(params, [x])[0].tolist()))
    while queue:
        pattern = queue.pop()
        for i in range(len(pattern)):
            visit((*pattern[:i], 1 - pattern[i], *pattern[i + 1 :]))
    return seen


@pytest.mark.parametrize("sizes", [(2, 6, 5, 1), (3, 5, 4, 1), (4, 5, 3, 1)])
def test_equals_flipping_from_cell_to_cell(sizes):
    n = sizes[0]
    params = network(sizes, seed=7)
    reached = flipped(params, [-1] * n, [1] * n, np.full(n, 0.05))
    assert len(reached) > 15
    assert listed(cells(params, -1, 1)) == reached


def interval_pieces(params, low, high, phi):
    """Pieces on an interval: cut at the sign changes of each layer in turn."""
    t = np.array([low, high])
    for depth, (W, b) in enumerate(params):
        z = t[:, None]
        for V, c in params[:depth]:
            z = np.asarray(phi(jnp.asarray(z @ V + c)))
        h = z @ W + b
        new = []
        for at in phi.breakpoints:
            start, end = h[:-1] - at, h[1:] - at
            row, unit = np.nonzero(start * end < 0)
            s, e = start[row, unit], end[row, unit]
            new.append(t[row] + s / (s - e) * (t[row + 1] - t[row]))
        t = np.sort(np.concatenate([t, *new]))
    return len(t) - 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("phi", [activations.relu, activations.hard_tanh], ids=lambda a: a.name)
def test_equals_intervals_in_one_dimension(seed, phi):
    params = network((1, 30, 30, 20, 1), seed)
    with jax.enable_x64(True):
        pieces = interval_pieces(params, -2.0, 3.0, phi)
    assert pieces > 40
    assert cells(params, -2, 3, phi).count == pieces


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize(("n", "side"), [(2, 300), (3, 40)])
def test_no_pattern_on_a_grid_is_missed(n, side, name):
    """Every pattern seen at a point is listed; every listed point has the pattern listed for it."""
    params, phi = network((n, 9, 6, 1), seed=3), activations.get(ACTIVATIONS[name][0])
    found = cells(params, -1, 1, phi)
    axes = [np.linspace(-1, 1, side) + 1e-4] * n
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, n)
    grid = grid[np.all(grid < 1, axis=1)]
    seen = {tuple(row) for row in np.unique(pieces_of_units(params, grid, phi), axis=0).tolist()}
    assert seen <= listed(found)
    assert len(seen) > found.count / 2
    states = np.concatenate(found.patterns, axis=1)
    np.testing.assert_array_equal(pieces_of_units(params, found.points, phi), states)
    assert np.all(np.abs(found.points) < 1)
    everywhere = cells(params, activation=phi)
    states = np.concatenate(everywhere.patterns, axis=1)
    np.testing.assert_array_equal(pieces_of_units(params, everywhere.points, phi), states)
    assert listed(found) <= listed(everywhere)


# Bounds and invariances


def serra(n_in, widths):
    """Serra et al. 2018, by enumeration of the dimensions j_l that each layer may lose."""
    total = 0
    for j in itertools.product(*(range(w + 1) for w in widths)):
        left = [n_in]
        for width, lost in zip(widths, j, strict=True):
            if lost > min(*left, width):
                break
            left.append(width - lost)
        else:
            total += math.prod(math.comb(w, i) for w, i in zip(widths, j, strict=True))
    return total


@pytest.mark.parametrize("widths", [(3,), (2, 2), (4, 4), (3, 2, 3), (1, 4), (2, 2, 2, 2)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_never_above_the_upper_bound(n, widths):
    assert serra(2, (4, 4)) == 121
    most = 0
    for seed in range(12):
        params = network((n, *widths, 1), seed)
        most = max(most, cells(params).count)
        assert cells(params, -1, 1).count <= cells(params).count <= serra(n, widths)
    assert most > serra(n, widths) / 12  # the bound is not out of reach


def test_counts_are_those_of_the_first_layers():
    params = network((3, 8, 6, 5, 1), seed=4)
    counts = [cells(params[:d], -1, 1).count for d in (1, 2, 3)]
    assert cells(params, -1, 1).counts.tolist() == counts


def test_space_does_not_depend_on_coordinates(rng):
    params = network((3, 7, 6, 1), seed=5)
    (W, b), (V, c) = params
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    order, scale = rng.permutation(7), rng.uniform(0.5, 2, 7)
    turned = [
        (rotation @ W[:, order] * scale, (b + np.array([3.0, -40.0, 5e3]) @ W)[order] * scale),
        (V[order] / scale[:, None], c),
    ]
    assert cells(turned).counts.tolist() == cells(params).counts.tolist()


def test_a_box_far_larger_than_all_vertices_is_space():
    params = network((2, 9, 6, 1), seed=6)
    assert cells(params, -1e7, 1e7).count == cells(params).count


# Degenerate boundaries


def test_hyperplanes_in_the_faces_of_the_box():
    assert cells([(np.eye(2), np.array([1.0, -1.0]))], -1, 1).count == 1
    assert cells([(np.eye(2), np.array([1.0, -1.0]))], -1.5, 1).count == 2
    assert cells([(np.ones((2, 1)), np.array([-2.0]))], -1, 1).count == 1  # through a corner
    assert cells([(np.ones((2, 1)), np.array([0.0]))], -1, 1).count == 2  # through two corners


def test_units_without_weights():
    W = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    params = [(W, np.array([0.0, 0.0, 1.0])), (np.eye(3), np.zeros(3))]
    for found in (cells(params, -1, 1), cells(params)):
        assert found.counts.tolist() == [2, 2]
        assert sorted(found.patterns[0].tolist()) == [[0, 0, 1], [1, 0, 1]]


@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-9, 1e-11])
def test_thin_regions_are_found(width, rng):
    """Between two units that are one but for a shift of their biases."""
    W, b = rng.normal(size=(3, 6)), 0.1 * rng.normal(size=6)
    W /= np.linalg.norm(W, axis=0)
    repeated = [(np.column_stack([W, W[:, 0]]), np.append(b, b[0]))]
    shifted = [(np.column_stack([W, W[:, 0]]), np.append(b, b[0] + width))]
    assert cells(repeated, -1, 1).count == cells([(W, b)], -1, 1).count
    slabs = cells(shifted, -1, 1)
    on, off = slabs.patterns[0][:, 6], slabs.patterns[0][:, 0]
    assert slabs.count - cells([(W, b)], -1, 1).count == np.sum(on > off) > 5


def polytopes(found):
    """Vertices of each cell, collected through the face lattice."""
    levels = found.complex.faces
    inside = [{i} for i in range(levels[0].size)]
    for level in levels[1:]:
        above = []
        for start, length in zip(level.start.rows, level.length.rows, strict=True):
            facets = level.facets.rows[start : start + length]
            above.append(set().union(*(inside[f] for f in facets)))
        inside = above
    return [found.complex.points.rows[sorted(v), :-1] for v in inside]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_cells_fill_the_box(n, kind):
    """Their volumes add to that of the box, and the face lattice is that of a ball."""
    params = odd_network((n, 6, 4), 1, kind)
    found = partition(params, activations.relu, (np.full(n, -1.0), np.full(n, 2.0)))
    volume = sum(ConvexHull(points, qhull_options="QJ").volume for points in polytopes(found))
    assert volume == pytest.approx(3.0**n, rel=1e-9)
    assert found.complex.euler() == 1
    top, walls = found.complex.cells, found.complex.faces[-2]
    top.compact()
    shared = np.bincount(top.facets.rows, minlength=walls.size)
    assert set(shared.tolist()) <= {1, 2}


# Rounding


@pytest.fixture
def rounding(monkeypatch):
    def use(*values):
        monkeypatch.setattr(sys.modules[partition.__module__], "ROUNDINGS", values)

    return use


def test_the_count_does_not_hang_on_the_threshold(rounding):
    params = network((3, 12, 12, 8, 1), seed=8)
    usual = cells(params, -1, 1).count
    for threshold in (16, 2**20):
        rounding(threshold)
        assert cells(params, -1, 1).count == usual


def test_a_threshold_too_coarse_is_noticed_and_made_finer(rounding):
    params = network((2, 20, 20, 1), seed=9)
    usual = cells(params, -1, 1).count
    coarse = 2**46  # of eps: a hundredth
    rounding(coarse)
    with pytest.raises(ValueError, match=r"boundaries at layer \d, unit \d+ that float64 cannot"):
        cells(params, -1, 1)
    rounding(coarse, 4096)
    assert cells(params, -1, 1).count == usual


def test_a_face_lattice_that_is_no_ball_is_refused(monkeypatch):
    monkeypatch.setattr(complexes.Complex, "euler", lambda self: self.cells.size)
    assert cells([(W, B - 9)], -1, 1).count == 1
    with pytest.raises(ValueError, match="boundaries at layer 1 that float64 cannot"):
        cells([(W, B)], -1, 1)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_values_may_shrink_or_grow_far(scale):
    params = odd_network((2, 6, 6, 6, 6, 6, 6), 3, "zero_bias")
    scaled = [(scale * W, b) for W, b in params]
    np.testing.assert_array_equal(cells(scaled, -1, 1).counts, cells(params, -1, 1).counts)


def test_single_precision_parameters_are_taken_as_they_are():
    params = network((2, 12, 8, 1), seed=1)
    single = [(np.float32(W), np.float32(b)) for W, b in params]
    found = cells(jax.tree.map(jnp.asarray, single), -1, 1)
    assert found.count == cells([(np.float64(W), np.float64(b)) for W, b in single], -1, 1).count
    assert found.points.dtype == np.float64


# Errors

W, B = np.ones((2, 3)), np.zeros(3)


def call(params=((W, B),), low=-1, high=1, activation="relu", **options):
    return cells(params, low, high, activation, **options)


@pytest.mark.parametrize(
    ("run", "argument", "value", "fix"),
    [
        (lambda: call(5), "params", "=5", "give a sequence of pairs (W, b)"),
        (lambda: call(((W, B[:2]),)), "params[0][1]", "(2,)", "give b of shape (3,)"),
        (lambda: call(((W * np.nan, B),)), "params[0][0]", "nan", "give finite numbers"),
        (lambda: call(((np.ones((11, 3)), B),)), "params[0][0]", "11 rows", "a plane or a line"),
        (lambda: call(activation="tanh"), "activation", "'tanh'", "use relu"),
        (lambda: call(activation="rellu"), "activation", "'rellu'", "did you mean 'relu'"),
        (lambda: call(low=None), "low", "None", "give both corners"),
        (lambda: call(high=None), "high", "None", "give both corners"),
        (lambda: call(low=[-1, -1, -1]), "low", "(3,)", "shape (2,)"),
        (lambda: call(high=[0, -2]), "high", "[0, -2]", "give low < high"),
        (lambda: call(high=np.inf), "high", "inf", "give finite numbers"),
        (lambda: call(high="one"), "high", "'one'", "give a real number"),
        (lambda: call(((W * 1e200, B),)), "params", "layer 1", "rescale its weights"),
        (lambda: call(limit=0), "limit", "=0", "give an integer >= 1"),
        (lambda: cells(network((2, 9, 9, 1)), limit=30), "limit", "=30", "layer 1"),
        (
            lambda: jax.jit(lambda w: call(((w, B),)).counts)(W),
            "params",
            "traced",
            "outside jit",
        ),
    ],
)
def test_errors_name_argument_value_and_mend(run, argument, value, fix):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        run()
    message = str(caught.value)
    assert argument in message and value in message and fix in message
    assert len(message) < 300 and "\n" not in message


def test_complexes_begin_as_balls():
    for n in (1, 2, 3, 4):
        assert complexes.space(n, 0.0).euler() == 1
        assert complexes.box(np.zeros(n), np.ones(n), 0.0).euler() == 1
    apart = complexes.Complex(np.arange(4.0)[:, None], [[[0, 1], [2, 3]]], 0.0)
    assert apart.euler() == 2  # two segments that do not meet
