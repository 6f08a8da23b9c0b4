"""Regions of planes: against rational arithmetic, LPs, closed forms, grids and constructions."""

import itertools
from fractions import Fraction

import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest
import rational
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxexpr import activations, curves, exact, plotting
from jaxexpr.exact.along_curves.solve import pieces
from jaxexpr.exact.planes import polygons

matplotlib.use("Agg")

E1, E2, ZERO = np.eye(2)[0], np.eye(2)[1], np.zeros(2)
KINKED = activations.piecewise_linear([-1, 0, 2], [1, -1, 2, 0])
SHAPES = {
    name: activations.get(name) if isinstance(name, str) else name
    for name in ("relu", "leaky_relu", "abs", "hard_tanh")
} | {"kinked": KINKED}


def workload(sizes, seed, zero_bias=False):
    """The network of the benchmarks; `sizes` includes an output layer, which is left out."""
    rng, params = np.random.default_rng(seed), []
    for i, o in itertools.pairwise(sizes):
        W, b = rng.normal(0, np.sqrt(2 / i), (o, i)), rng.normal(0, 0.3, (o,))
        params.append((W.T, 0 * b if zero_bias else b))
    return tuple(params[:-1])


def square(params, half_width=1.0, activation="relu"):
    return exact.plane(params, ZERO, E1, E2, half_width, activation)


def rationally(params, half_width, phi):
    exactly = tuple(tuple(map(Fraction, x)) for x in (phi.breakpoints, phi.slopes))
    return rational.cells(params, np.full(2, -half_width), np.full(2, half_width), exactly)


def flat(pattern):
    return tuple(int(s) for layer in pattern for s in layer)


def found_patterns(found):
    return {tuple(row) for row in np.concatenate(found.patterns, axis=1).tolist()}


def whole(found):
    """What every partition must be: a planar graph of convex polygons that fill the square."""
    cells = found.cells
    sides = polygons.edges(cells)
    assert np.unique(cells.corners).size == len(cells.points)
    assert len(cells.points) - sides.low.size + found.count == 1  # Euler
    side = 2 * found.half_width
    assert found.areas.sum() == pytest.approx(side**2, rel=1e-12)
    assert found.areas.min() > 0
    assert np.all(sides.corners[:, 1] < 0) == (found.count == 1)
    inner = sides.corners[sides.corners[:, 1] >= 0]
    assert np.array_equal(*cells.sides[inner].T)  # both cells say the same of their common side
    assert np.all(cells.sides[inner] >= 0)
    points = cells.points[cells.corners]
    step = points[polygons.following(cells)] - points
    turn = step[polygons.following(cells)]
    bend = step[:, 0] * turn[:, 1] - step[:, 1] * turn[:, 0]
    assert bend.min() > -1e-12 * side**2
    assert len(found_patterns(found)) == found.count
    assert np.all(np.diff(found.counts) >= 0)
    return True


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ((2, 16, 16, 1), 333),
        ((2, 32, 32, 1), 1382),
        ((2, 64, 64, 1), 5356),
        ((2, 128, 128, 128, 1), 43791),
    ],
)
def test_known_networks(sizes, count):
    found = square(workload(sizes, 0))
    assert (found.count, found.close) == (count, 0)
    assert len(found.polygons) == count
    assert whole(found)


def test_a_hundred_networks():
    found = [square(workload((2, 32, 32, 1), seed)) for seed in range(100)]
    assert sum(f.count for f in found) == 143_212
    assert sum(f.close for f in found) == 0


def test_zero_biases_meet_in_the_origin():
    found = square(workload((2, 16, 16, 1), 0, zero_bias=True))
    assert found.counts.tolist() == [32, 60]
    assert found.crossings == 1
    assert (found.close, whole(found)) == (0, True)


@st.composite
def networks(draw):
    """Small networks, most of them degenerate: few integers, zero biases, zeros, twins."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    widths = (2, *draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    limit, zero_bias = draw(st.integers(0, 3)), draw(st.booleans())
    density = draw(st.sampled_from([1.0, 0.7, 0.4]))
    params = []
    for i, o in itertools.pairwise(widths):
        if limit:
            W, b = rng.integers(-limit, limit + 1, (i, o)), rng.integers(-limit, limit + 1, o)
        else:
            W, b = rng.normal(0, np.sqrt(2 / i), (i, o)), rng.normal(0, 0.5, o)
        W, b = W * (rng.random((i, o)) < density) * 1.0, b * (0.0 if zero_bias else 1.0)
        if o > 1 and draw(st.booleans()):
            factor = draw(st.sampled_from([1.0, -1.0, 4.0]))
            W[:, -1], b[-1] = factor * W[:, 0], factor * b[0]
        params.append((W, b))
    return tuple(params)


def embedded(params, rng, n=5):
    """The same network seen on a skew plane of R^n, and origin, u, v of that plane."""
    (W, b), *rest = params
    basis, origin = rng.normal(size=(2, n)), rng.normal(size=n)
    inverse = np.linalg.pinv(basis)
    across = np.linalg.svd(basis)[2][2:]
    W = inverse @ W + across.T @ rng.normal(size=(n - 2, W.shape[1]))
    return ((W, b - origin @ W), *rest), origin, *basis


@settings(max_examples=60, deadline=None)
@given(
    networks(),
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.integers(0, 2**32),
)
def test_against_rational_arithmetic(params, name, half_width, seed):
    phi = SHAPES[name]
    cells = rationally(params, half_width, phi)
    rng = np.random.default_rng(seed)
    lifted, *where = embedded(params, rng)
    for found in (
        square(params, half_width, phi),
        exact.plane(lifted, *where, half_width, phi),
    ):
        assert found.count == len(cells)
        assert found_patterns(found) == {flat(cell.pattern) for cell in cells}
        assert exact.linear_regions(found).count == rational.linear_regions(cells)
        assert whole(found)
    for depth in range(1, len(params)):
        assert found.counts[depth - 1] == square(params[:depth], half_width, phi).count


@settings(max_examples=40, deadline=None)
@given(networks(), st.sampled_from(["relu", "abs", "leaky_relu"]), st.integers(0, 2**32))
def test_invariances(params, name, seed):
    """Rescaled, split and permuted units change nothing."""
    rng, before = np.random.default_rng(seed), square(params, 1.0, name)
    scale, changed = np.ones(2), []
    order = np.arange(2)
    for W, b in params:
        W = (W / scale[:, None])[order]
        scale, order = np.exp(rng.normal(size=b.size)), rng.permutation(b.size)
        changed.append(((W * scale)[:, order], (b * scale)[order]))
    after = square(tuple(changed), 1.0, name)
    assert after.counts.tolist() == before.counts.tolist()
    twins = [(np.hstack([W, W]), np.hstack([b, b])) for W, b in params[:1]]
    twins += [
        (np.hstack([np.vstack([0.3 * W, 0.7 * W])] * 2), np.hstack([b, b])) for W, b in params[1:]
    ]
    after = square(tuple(twins), 1.0, name)
    assert after.counts.tolist() == before.counts.tolist()
    assert exact.linear_regions(after).count == exact.linear_regions(before).count


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 24), min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.sampled_from([0.3, 1.0, 3.0, 10.0]),
    st.sampled_from([0.0, 0.3, 3.0]),
    st.sampled_from([1e-3, 1.0, 1e3]),
    st.sampled_from(["relu", "hard_tanh"]),
)
def test_partitions_fit_together(widths, seed, sigma_w, sigma_b, half_width, name):
    rng = np.random.default_rng(seed)
    params = [
        (rng.normal(0, sigma_w / np.sqrt(i), (i, o)), rng.normal(0, sigma_b, o) if sigma_b else 0.0)
        for i, o in itertools.pairwise([3, *widths])
    ]
    params = [(W, np.zeros(W.shape[1]) + b) for W, b in params]
    found = exact.plane(params, rng.normal(size=3), *rng.normal(size=(2, 3)), half_width, name)
    assert whole(found)
    states = [(0, 1), (0, 1, 2)][name == "hard_tanh"]
    seen = grid_patterns(params, found, 60, name)
    assert seen <= found_patterns(found)
    assert {s for row in seen for s in row} <= set(states)


def grid_patterns(params, found, points, name="relu"):
    """Patterns at the points of a grid, by a forward pass."""
    side = (np.arange(points) + 0.5) / points * 2 - 1
    z = found.inputs(found.half_width * np.stack(np.meshgrid(side, side), -1).reshape(-1, 2))
    beyond = []
    for W, b in params:
        h = z @ W + b
        beyond.append(sum(h > at for at in SHAPES[name].breakpoints).astype(int))
        z = np.maximum(h, 0) if name == "relu" else np.clip(h, -1, 1)
    return {tuple(row) for row in np.unique(np.concatenate(beyond, axis=1), axis=0).tolist()}


def test_a_fine_grid_sees_all_regions_that_are_wide_enough():
    for seed in range(5):
        params = workload((2, 4, 3, 1), seed)
        found = square(params)
        seen = grid_patterns(params, found, 300)
        assert seen <= found_patterns(found)
        wide = polygons_with_room(found, 0.014)
        states = np.concatenate(found.patterns, axis=1)
        assert {tuple(row) for row in states[wide].tolist()} <= seen
        assert wide.sum() >= 0.8 * found.count


def polygons_with_room(found, width):
    """Regions around whose centre a disc of this width fits."""
    room = []
    for corners, centre in zip(found.polygons, found.centres, strict=True):
        step = np.roll(corners, -1, axis=0) - corners
        to = centre - corners
        across = (step[:, 0] * to[:, 1] - step[:, 1] * to[:, 0]) / np.hypot(*step.T)
        room.append(across.min() > width / 2)
    return np.array(room)


@pytest.mark.parametrize("seed", range(3))
def test_linear_programs_find_the_same_patterns(seed):
    params = workload((2, 5, 4, 3, 1), seed)
    found = rational.patterns(params, [-1, -1], [1, 1], least=1e-9)
    assert {flat(pattern) for pattern in found} == found_patterns(square(params))


def arrangement(W, b, half_width):
    """Regions of lines in general position in a square: 1 + lines + crossings inside it."""
    corners = half_width * np.array(list(itertools.product([-1, 1], repeat=2)))
    h = corners @ W + b
    crossing = (h.min(axis=0) < 0) & (h.max(axis=0) > 0)
    i, j = np.triu_indices(b.size, 1)
    a, c = W[:, i], W[:, j]
    determinant = a[0] * c[1] - a[1] * c[0]
    x = (-b[i] * c[1] + b[j] * a[1]) / determinant
    y = (-b[j] * a[0] + b[i] * c[0]) / determinant
    inside = (np.abs(x) < half_width) & (np.abs(y) < half_width)
    return 1 + np.count_nonzero(crossing) + np.count_nonzero(inside), np.count_nonzero(inside)


@pytest.mark.parametrize(("units", "half_width"), [(1, 1.0), (7, 0.3), (60, 1.0), (400, 2.0)])
def test_one_layer_is_an_arrangement_of_lines(units, half_width, rng):
    W, b = rng.normal(size=(2, units)), rng.normal(size=units)
    found = square([(W, b)], half_width)
    assert (found.count, found.crossings) == arrangement(W, b, half_width)


def test_all_of_an_arrangement():
    rng = np.random.default_rng(5)
    W, b = rng.normal(size=(2, 12)), rng.normal(size=12)
    assert square([(W, b)], 1e4).count == 1 + 12 + 66  # Zaslavsky


def turned(params, angle):
    """The network seen on a turned plane, where no weight is a round number."""
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    (W, b), *rest = params
    return ((turn @ W, b), *rest), ZERO, *turn.T


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_folding_networks(depth, angle):
    for net in (exact.folding(2, depth), exact.pascanu2013_folding(2, depth)):
        found = exact.plane(*turned(net.params, angle))
        assert found.count == net.activation_regions
        assert exact.linear_regions(found).count == net.linear_regions
        assert (found.close, whole(found)) == (0, True)


def test_folding_2_4_4_4_has_64_regions():
    fold = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    pair = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    first, later = (pair, np.zeros(4)), (fold @ pair, -np.ones(2) @ pair)
    assert square((first, later, later)).count == 64
    assert square((first, later, later, later, later)).count == 4**5


@pytest.mark.parametrize("net", [exact.montufar2014(2, (4, 6, 5)), exact.pascanu2013(2, (4, 5))])
@pytest.mark.parametrize("angle", [0.0, 0.4])
def test_constructions(net, angle):
    for low, high in net.boxes[:4]:
        half = (high - low) / 2
        params, _, u, v = turned(net.params, angle)
        found = exact.plane(params, (low + half) @ np.stack([u, v]), u * half[0], v * half[1])
        cells = rational.cells(net.params, low, high)
        assert found.count == len(cells)
        assert exact.linear_regions(found).count == rational.linear_regions(cells)


def columns(*units):
    """One layer, from ``(w_x, w_y, b)`` of each unit."""
    rows = np.array(units, float).T
    return rows[:2], rows[2]


@pytest.mark.parametrize(
    ("layers", "count"),
    [
        ([columns((1, 0, -1), (0, 1, 1), (1, 1, 2))], 1),  # along edges, through a corner
        ([columns((1, 1, 0), (1, -1, 0))], 4),  # through all the corners
        ([columns((1, 0, 0), (2, 0, 0), (-3, 0, 0))], 2),  # one line
        ([columns((1, 0, 0.5), (1, 0, 0), (1, 0, -0.5))], 4),  # parallel
        ([columns((0, 0, 0), (0, 0, 1), (0, 0, -1))], 1),  # no lines
        ([columns((1, 0, 0), (0, 1, 0), (1, 1, 0), (1, -1, 0), (1, 3, 0))], 10),  # one point
        ([columns((1, 0, 0)), (np.ones((1, 1)), np.zeros(1))], 2),  # relu(relu(x))
        ([columns((1, 0, 0), (-1, 0, 0)), (np.array([[1.0], [-1.0]]), np.zeros(1))], 2),
        ([columns((1, 0, 0), (-1, 0, 0)), (np.array([[1.0], [1.0]]), np.zeros(1))], 2),
        ([columns((1, 0, 0), (0, 1, 0)), (np.array([[1.0], [-1.0]]), np.zeros(1))], 5),
        ([columns((1, 0, 0), (0, 1, 0)), (np.array([[1.0], [1.0]]), -np.ones(1))], 5),
    ],
)
def test_degenerate_networks(layers, count):
    found = square(layers)
    assert found.count == count == len(rationally(layers, 1.0, SHAPES["relu"]))
    assert (found.close, whole(found)) == (0, True)
    assert exact.plane(*turned(layers, 0.3)).close == 0


def through(point, direction):
    """The unit that is 0 on the line through a point."""
    return direction[1], -direction[0], direction[0] * point[1] - direction[1] * point[0]


@pytest.mark.parametrize("seed", range(40))
def test_lines_at_small_angles_through_common_points(seed):
    """Layer 2 passes through the vertices of layer 1, where lines cross at 1e-3 or 1e-5."""
    rng = np.random.default_rng(seed)
    far = int(rng.choice([1000, 30000]))
    points = [(0.0, 0.0), (0.5, 0.5), (-0.5, 0.0)]

    def line():
        point, step = points[rng.integers(3)], rng.integers(-3, 4, 3)
        return through(point, (far + step[0], step[1]) if rng.random() < 0.7 else step[1:])

    first = columns((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), *(line() for _ in range(3)))
    x, y, b = np.array([line() for _ in range(3)]).T  # of the first layer's x, -x, y, -y
    layers = [first, (np.vstack([x, -x, y, -y, np.zeros((3, 3))]), b)]
    cells = rationally(layers, 1.0, SHAPES["relu"])
    for where in (layers, ZERO, E1, E2), embedded(layers, rng):
        found = exact.plane(*where)
        assert found_patterns(found) == {flat(cell.pattern) for cell in cells}
        assert whole(found)


def test_errors_of_lower_layers_count():
    """Far from the origin layer 1 loses digits, and layer 2 takes differences of equal units."""
    layers = [
        columns((1, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 0)),
        (np.array([[1.0, 0, 1], [-1, 0, 0], [0, 1, -1], [0, -1, 0]]), np.zeros(3)),
    ]
    count = len(rationally(layers, 1.0, SHAPES["relu"]))
    for seed in range(20):
        lifted, origin, u, v = embedded(layers, np.random.default_rng(seed))
        shift = 1e4 * origin
        lifted = ((lifted[0][0], lifted[0][1] - shift @ lifted[0][0]), *lifted[1:])
        assert exact.plane(lifted, origin + shift, u, v).count == count == 5


def test_thin_regions_are_found_and_thinner_ones_are_flagged():
    for width in (1e-6, 1e-9, 1e-12):
        found = square([columns((1, 0.3, 0), (1, 0.3, width))])
        assert found.count == 3
        assert found.areas.min() == pytest.approx(2 * width, rel=1e-2)
        assert (found.close > 0) == (width < 1e-11)
    assert square([columns((1, 0.3, 0), (1, 0.3, 1e-17))]).count == 2
    for width, count in ((1e-6, 7), (1e-13, 7), (1e-17, 6)):  # of a triangle
        found = square([columns((1, 0.3, 0), (1, -0.3, 0), (0.2, 1, width))])
        assert found.count == count
        assert (found.close > 0) == (width == 1e-13)


@pytest.mark.parametrize("name", ["relu", "hard_tanh", "leaky_relu"])
def test_along_a_line_of_the_plane(name, rng):
    """The regions that a segment crosses are the pieces of the network along it."""
    params = workload((4, 12, 12, 1), 3)
    found = exact.plane(params, *rng.normal(size=(3, 4)), 1.0, name)
    for _ in range(5):
        ends = rng.uniform(-1, 1, size=(2, 2))
        along = pieces(params, curves.line(*found.inputs(ends)), name)
        normal = np.array([ends[1, 1] - ends[0, 1], ends[0, 0] - ends[1, 0]])
        assert crossed_regions(found, ends, normal) == len(along.breakpoints) - 1


def crossed_regions(found, ends, normal):
    """Regions whose inside meets a segment, polygon by polygon."""
    direction, count = ends[1] - ends[0], 0
    for corners in found.polygons:
        across = (corners - ends[0]) @ normal
        if across.min() < 0 < across.max():
            at = (corners - ends[0]) @ direction / (direction @ direction)
            low, high = 1.0, 0.0
            for k in range(len(corners)):
                f, g = across[k - 1], across[k]
                if f * g <= 0 and f != g:
                    t = at[k - 1] + f / (f - g) * (at[k] - at[k - 1])
                    low, high = min(low, t), max(high, t)
            count += low < 1 and high > 0 and min(high, 1) > max(low, 0)
    return count


def test_neighbours(rng):
    params = workload((3, 6, 5, 4, 1), 1)
    found = exact.plane(params, *rng.normal(size=(3, 3)), 1.5)
    beside = found.adjacency
    assert np.all(beside.cells[:, 0] < beside.cells[:, 1])
    ends = found.cells.points[beside.vertices]
    z = found.inputs(ends.mean(axis=1))
    states = found.patterns
    for index, (W, b) in enumerate(params):
        h = z @ W + b
        here = beside.layer == index + 1
        assert here.any()
        # The unit that is named stands on its breakpoint, and only it differs between the two.
        assert np.abs(h[here, beside.unit[here]]).max() < 1e-12
        differs = states[index][beside.cells[:, 0]] != states[index][beside.cells[:, 1]]
        expected = np.zeros_like(differs)
        expected[here, beside.unit[here]] = True
        assert np.array_equal(differs, expected)
        z = np.maximum(h, 0)
    length = np.linalg.norm(np.diff(found.inputs(ends), axis=1)[:, 0], axis=1)
    np.testing.assert_allclose(beside.length, length, rtol=1e-9, atol=1e-13)
    # Each inside edge is a side of just the two cells that are said to share it.
    sides = [
        {tuple(sorted(pair)) for pair in zip(ring, np.roll(ring, -1), strict=True)}
        for ring in np.split(found.cells.corners, found.cells.starts[1:-1])
    ]
    for pair, edge in zip(beside.cells, np.sort(beside.vertices, axis=1), strict=True):
        assert [tuple(edge) in ring for ring in sides].count(True) == 2
        assert all(tuple(edge) in sides[cell] for cell in pair)


def test_neighbours_across_hard_tanh_name_the_breakpoint():
    found = square([columns((2, 0, 0), (0, 1, 0.5))], activation="hard_tanh")
    beside = found.adjacency
    assert found.count == 6
    at = found.cells.points[beside.vertices].mean(axis=1)
    for unit, h in ((0, 2 * at[:, 0]), (1, at[:, 1] + 0.5)):
        mine = beside.unit == unit
        np.testing.assert_allclose(h[mine], np.array([-1.0, 1.0])[beside.level[mine]])


def test_lengths_and_areas():
    W, b = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([0.0, -1.0])
    u, v = np.array([2.0, 0.0, 0.0]), np.array([1.0, 3.0, 1.0])
    found = exact.plane([(W, b)], np.zeros(3), u, v)  # 2 a + b = 0 and 6 b = 1
    line = np.array([0.5, -1.0])
    along = line[0] * u + line[1] * v
    assert found.count == 4
    np.testing.assert_allclose(found.perimeters, [2 * np.linalg.norm(along) + 2 * 2], rtol=1e-14)
    np.testing.assert_allclose(found.perimeters_ab, [2 * np.linalg.norm(line) + 2], rtol=1e-14)
    assert found.area_scale == pytest.approx(np.linalg.norm(np.cross(u, v)))
    # Above b = 1/6 the first line is at a = -b / 2, and the mean of that is -(1 + 1/6) / 4.
    expected = sorted(
        side * (1 + sign * (x + y) / 4)
        for x, y, side, sign in (
            (1, 1 / 6, 5 / 6, 1),
            (1, 1 / 6, 5 / 6, -1),
            (-1, 1 / 6, 7 / 6, 1),
            (-1, 1 / 6, 7 / 6, -1),
        )
    )
    np.testing.assert_allclose(np.sort(found.areas), expected, rtol=1e-14)
    x = found.inputs(found.centres)
    np.testing.assert_allclose(found.coordinates(x), found.centres, atol=1e-14)


def test_boundaries_of_a_layer_do_not_depend_on_those_above():
    params = workload((2, 8, 8, 8, 1), 2)
    found, below = square(params), square(params[:2])
    np.testing.assert_allclose(found.perimeters[:2], below.perimeters, rtol=1e-12)
    W, b = params[0]
    length = 0.0
    for w, c in zip(W.T, b, strict=True):  # the chord of each line, clipped to the square
        point, along = -c * w / (w @ w), np.array([-w[1], w[0]]) / np.linalg.norm(w)
        t = np.sort(np.stack([(-1 - point) / along, (1 - point) / along]), axis=0)
        length += max(t[1].min() - t[0].max(), 0)
    assert found.perimeters[0] == pytest.approx(length, rel=1e-12)


def test_linear_regions_of_an_output():
    W, b = workload((2, 9, 1), 0)[0]
    found = square([(W, b)])
    assert exact.linear_regions(found).count == found.count
    weights = np.random.default_rng(0).normal(size=(9, 2))
    assert exact.linear_regions(found, (weights, np.zeros(2))).count == found.count
    weights[[2, 5]] = 0  # the output does not see these units
    rest = np.delete(np.arange(9), [2, 5])
    kept = arrangement(W[:, rest], b[rest], 1.0)[0]
    regions = exact.linear_regions(found, (weights, np.zeros(2)))
    assert regions.count == kept < found.count
    assert sorted(set(regions.of_cell)) == list(range(kept))
    areas = np.bincount(regions.of_cell, weights=found.areas)
    alone = square([(W[:, rest], b[rest])])
    np.testing.assert_allclose(np.sort(areas), np.sort(alone.areas), rtol=1e-9)


def test_linear_regions_of_a_dead_network():
    params = workload((2, 8, 8, 1), 0)
    dead = (*params, (np.ones((8, 3)), np.full(3, -1e3)))
    found = square(dead)
    assert found.count == square(params).count
    assert exact.linear_regions(found).count == 1


def test_touching_in_a_point_is_not_connected():
    # |x| + |y| - |x + y| is 0 on two opposite quadrants that touch in the origin.
    units = columns((1, 0, 0), (0, 1, 0), (1, 1, 0))
    found = square([units], activation="abs")
    output = (np.array([[1.0], [1.0], [-1.0]]), np.zeros(1))
    assert (found.count, exact.linear_regions(found, output).count) == (6, 6)
    assert exact.linear_regions(found, (np.zeros((3, 1)), np.zeros(1))).count == 1


def test_plane_through_three_points(rng):
    params = workload((7, 10, 10, 1), 0)
    p, q, r = rng.normal(size=(3, 7))
    found = exact.plane_through(params, p, q, r)
    at = found.coordinates(np.stack([p, q, r]))
    np.testing.assert_allclose(found.inputs(at), [p, q, r], atol=1e-12)
    np.testing.assert_allclose(np.hypot(*at.T) * 1.25, found.half_width, rtol=1e-12)
    np.testing.assert_allclose(
        [found.u @ found.u, found.u @ found.v, found.v @ found.v], [1, 0, 1], atol=1e-14
    )
    again = exact.plane(params, found.origin, found.u, found.v, found.half_width)
    assert again.counts.tolist() == found.counts.tolist()
    # Another order of the points turns the square: the same regions in the circle, and no more.
    other = exact.plane_through(params, r, p, q, half_width=found.half_width * 10)
    assert other.count > found.count
    assert other.half_width == 10 * found.half_width


def test_parameters_of_any_kind():
    params = workload((2, 8, 8, 1), 0)
    single = [(jnp.asarray(W, jnp.float32), jnp.asarray(b, jnp.float32)) for W, b in params]
    found = square(single)
    assert found.count == square([(np.float64(W), np.float64(b)) for W, b in single]).count
    assert all(W.dtype == np.float64 for W, _ in found.params)
    assert square([([[1.0], [0]], [0])]).count == 2


@pytest.mark.parametrize("exponent", [-600, -300, 300, 600])
def test_very_large_and_very_small_values(exponent):
    params = workload((2, 8, 8, 8, 1), 0)
    scaled = [(np.ldexp(W, exponent), 0 * b) for W, b in params]
    expected, found = square([(W, 0 * b) for W, b in params]), square(scaled)
    assert found.counts.tolist() == expected.counts.tolist()
    assert found_patterns(found) == found_patterns(expected)
    assert exact.linear_regions(found).count == exact.linear_regions(expected).count


def test_deep_networks():
    rng = np.random.default_rng(0)
    layers = [(rng.normal(0, 3.0, (8, 8)), np.zeros(8)) for _ in range(400)]
    found = square([(rng.normal(size=(2, 8)), np.zeros(8)), *layers])
    assert whole(found)
    assert 16 <= found.count < 1000


def test_a_linear_network_has_one_region():
    found = square(workload((2, 8, 8, 1), 0), activation="linear")
    assert found.counts.tolist() == [1, 1]
    assert exact.linear_regions(found).count == 1
    assert found.perimeters.tolist() == [0, 0]


def test_repr_and_flat_arrays():
    found = square(workload((2, 16, 16, 1), 0))
    assert repr(found) == "Plane(count=333, depth=2, half_width=1)"
    corners, starts = found.cells.corners, found.cells.starts
    for index in (0, 17, 332):
        ring = found.cells.points[corners[starts[index] : starts[index + 1]]]
        assert np.array_equal(ring, found.polygons[index])


W3, B3 = np.ones((2, 3)), np.zeros(3)


@pytest.mark.parametrize(
    ("call", "argument", "value", "fix"),
    [
        (lambda: square(((W3, B3[:2]),)), "params[0][1]", "(2,)", "give b of shape (3,)"),
        (lambda: square(()), "params", "()", "at least one layer"),
        (lambda: square(((W3, B3), (W3, B3))), "params[1][0]", "(2, 3)", "(3, fan_out)"),
        (lambda: square(((W3 * np.nan, B3),)), "params[0][0]", "nan", "give finite numbers"),
        (lambda: square([(W3, B3)], activation="tanh"), "activation", "'tanh'", "use relu"),
        (lambda: square([(W3, B3)], activation="rellu"), "activation", "'rellu'", "mean 'relu'"),
        (lambda: square([(W3, B3)], half_width=0), "half_width", "=0", "give one number > 0"),
        (lambda: square([(W3, B3)], half_width=np.inf), "half_width", "inf", "finite"),
        (lambda: exact.plane([(W3, B3)], 0.0, E1, E2), "origin", "()", "shape (2,)"),
        (lambda: exact.plane([(W3, B3)], ZERO, np.ones(3), E2), "u", "(3,)", "shape (2,)"),
        (lambda: exact.plane([(W3, B3)], ZERO, E1, [1, "x"]), "v", "'x'", "real number"),
        (lambda: exact.plane([(W3, B3)], ZERO, ZERO, E2), "u", "zero vector", "not zero"),
        (lambda: exact.plane([(W3, B3)], ZERO, E1, -2 * E1), "v", "[-2.", "two directions"),
        (lambda: exact.plane([(W3, B3)], ZERO, E1, E1 + 1e-9 * E2), "v", "1", "two directions"),
        (
            lambda: square([(1e200 * W3, B3), (1e200 * np.eye(3), B3)], activation="hard_tanh"),
            "params[1][0]",
            "cannot hold",
            "rescale",
        ),
        (lambda: exact.plane_through([(W3, B3)], E1, E2, E2), "r", "[0., 1.]", "three points"),
        (lambda: exact.plane_through([(W3, B3)], E1, E2, 3 * E2 - 2 * E1), "r", "3.", "span"),
        (lambda: exact.plane_through([(W3, B3)], E1, E2, ZERO, -1), "half_width", "-1", "> 0"),
        (lambda: exact.linear_regions(3), "partition", "=3", "what plane returned"),
        (lambda: exact.linear_regions(square([(W3, B3)]), 3), "output", "=3", "a pair (W, b)"),
        (
            lambda: exact.linear_regions(square([(W3, B3)]), (W3, B3)),
            "output[0]",
            "(2, 3)",
            "shape (3, outputs)",
        ),
        (
            lambda: exact.linear_regions(square([(W3, B3)]), (W3.T, B3)),
            "output[1]",
            "(3,)",
            "b of shape (2,)",
        ),
        (lambda: plotting.regions(square([(W3, B3)]), labels=[1]), "labels", "(1,)", "(2,)"),
        (lambda: plotting.regions(square([(W3, B3)]), widths=[1, 2]), "widths", "(2,)", "(1,)"),
    ],
)
def test_bad_input_is_refused(call, argument, value, fix):
    with pytest.raises(ValueError) as error:
        call()
    message = str(error.value)
    assert message.startswith(argument)
    assert value in message
    assert fix in message


def test_picture():
    found = square(workload((2, 8, 8, 1), 0))
    ax = plotting.regions(found)
    faces, *boundaries = ax.collections
    assert len(faces.get_paths()) == found.count
    assert len({tuple(colour) for colour in faces.get_facecolor()}) > 0.9 * found.count
    widths = [lines.get_linewidth()[0] for lines in boundaries]
    assert widths == sorted(widths)
    assert [len(lines.get_segments()) for lines in boundaries] == [
        np.count_nonzero(found.adjacency.layer == layer) for layer in (2, 1)
    ]
    own = plotting.axes()
    labels = exact.linear_regions(found, (np.eye(8)[:, :1], np.zeros(1))).of_cell
    assert plotting.regions(found, ax=own, labels=labels, widths=[1, 0]) is own
    assert len(own.collections) == 2
    colours = own.collections[0].get_facecolor()
    assert len(np.unique(colours, axis=0)) == len(set(labels.tolist()))
    matplotlib.pyplot.close("all")


def test_regions_on_both_sides_of_a_breakpoint_that_bends_nothing_are_one():
    phi = activations.piecewise_linear([0.0, 0.5], [0.0, 1.0, 1.0])
    found = exact.plane([(np.eye(2), np.zeros(2))], [0, 0], [1, 0], [0, 1], activation=phi)
    assert (found.count, exact.linear_regions(found).count) == (9, 4)


def test_large_biases_that_cancel_cut_nothing():
    below = np.array([[0.1, 0.3], [0.0, 0.0]]), np.array([1e8, 3e8])
    above = np.array([[3.0], [-1.0]]), np.zeros(1)
    assert exact.plane([below, above], [0.03, 0], [1, 0], [0, 1]).count == 1


def test_a_unit_that_stays_within_rounding_of_its_breakpoint_cuts_nothing():
    """Its rounded values are on both sides of 1; the bias says how much they are rounded."""
    weak = np.array([[2e-16], [0.0]]), np.ones(1)
    assert square((weak,), activation="hard_tanh").counts.tolist() == [1]
    below = np.array([[1.0], [0.0]]), np.zeros(1)
    above = np.array([[2e-16]]), np.ones(1)
    assert square((below, above), activation="hard_tanh").counts.tolist() == [1, 1]
