"""Distance to the nearest activation boundary, and regions in a ball, by brute force."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import nnls

from jaxexpr import activations
from jaxexpr.exact import (
    cells,
    distance_to_boundary,
    distances,
    nearest_boundary,
    regions_in_ball,
)

ACTIVATIONS = {
    "relu": activations.relu,
    "leaky_relu": activations.leaky_relu(0.1),
    "abs": activations.absolute,
    "hard_tanh": activations.hard_tanh,
    "three": activations.piecewise_linear([-1, 0, 0.5], [0, 1, -1, 2]),
}


def network(sizes, seed=0, bias=0.3):
    r = np.random.default_rng(seed)
    return [
        (r.normal(0, math.sqrt(2 / i), (i, o)), r.normal(0, bias, o))
        for i, o in itertools.pairwise(sizes)
    ]


def pre_activations(params, x, phi=activations.relu):
    """Of all units, ``(m, units)``, in float64."""
    found, z = [], np.asarray(x, np.float64)
    with jax.enable_x64(True):
        for W, b in params:
            found.append(z @ np.float64(W) + np.float64(b))
            z = np.asarray(phi(jnp.asarray(found[-1])))
    return np.concatenate(found, axis=1)


def states(params, x, phi=activations.relu):
    h = pre_activations(params, x, phi)
    return sum((h > at).astype(int) for at in phi.breakpoints)


def directions(count, n, seed=0):
    g = np.random.default_rng(seed).normal(size=(count, n))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


# Brute force


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_one_dimension_on_a_fine_grid(name):
    """The nearest change of any unit's state on a grid is at the distance, to its spacing."""
    params, phi = network((1, 12, 12, 8), 1), ACTIVATIONS[name]
    x = np.array([[-1.8], [-0.7], [0.013], [0.4], [1.1], [1.9]])
    t = np.linspace(-4, 4, 200_001)
    grid = states(params, t[:, None], phi)
    change = np.flatnonzero(np.any(grid[1:] != grid[:-1], axis=1))
    middles = (t[change] + t[change + 1]) / 2
    nearest = np.abs(middles - x).min(axis=1)
    np.testing.assert_allclose(distance_to_boundary(params, x, phi), nearest, atol=2.1e-5)


@pytest.mark.parametrize(("n", "name"), [(2, "relu"), (3, "relu"), (2, "hard_tanh"), (2, "three")])
def test_few_dimensions_along_many_rays(n, name):
    """No state changes before the distance on any ray, and on some it does just after."""
    params, phi = network((n, 10, 8, 6), 5), ACTIVATIONS[name]
    x = np.random.default_rng(1).normal(size=(10, n))
    found = nearest_boundary(params, x, phi)
    rays = directions(10_000, n)
    for point, d, unit in zip(x, found.distance, (found.layer - 1) * 8 + found.unit, strict=True):
        here = states(params, point[None], phi)
        assert np.all(states(params, point + 0.9999 * d * rays, phi) == here)
        beyond = states(params, point + 1.01 * d * rays, phi)
        assert np.any(beyond != here)
        assert unit >= 0


@pytest.mark.parametrize(
    ("sizes", "name"),
    [((40, 20, 20), name) for name in ACTIVATIONS]
    + [((6, 4, 7, 3), "relu"), ((5, 30, 30, 30), "hard_tanh"), ((3, 1, 4), "leaky_relu")],
)
def test_the_unit_that_is_nearest_changes_its_state(sizes, name):
    params, phi = network(sizes, 2), ACTIVATIONS[name]
    x = np.random.default_rng(2).normal(size=(12, sizes[0]))
    found = nearest_boundary(params, x, phi)
    first = np.cumsum([0, *sizes[1:]])

    for point, d, layer, unit in zip(x, *found, strict=True):
        index = first[layer - 1] + unit
        assert 0 <= unit < sizes[layer]
        step = 1e-6 * d * np.eye(sizes[0])
        around = pre_activations(params, np.concatenate([point + step, point - step]), phi)
        gradient = np.subtract(*np.split(around[:, index], 2))
        gradient /= np.linalg.norm(gradient)
        shifts = d * np.array([0.999, 1.001, -0.999, -1.001, 0])[:, None] * gradient
        *ends, here = states(params, point + shifts, phi)
        forth, back = ends[:2], ends[2:]
        assert np.all(forth[0] == here) and np.all(back[0] == here)
        assert forth[1][index] != here[index] or back[1][index] != here[index]


def test_against_the_jacobian_of_all_units():
    """The formula itself, with gradients by automatic differentiation; inputs beyond the width."""
    params = network((50, 12, 16, 9), 3)
    x = np.random.default_rng(3).normal(size=(7, 50))
    phi = activations.hard_tanh

    def all_units(point):
        found, z = [], point
        for W, b in params:
            found.append(jnp.dot(z, jnp.asarray(W)) + jnp.asarray(b))
            z = phi(found[-1])
        return jnp.concatenate(found)

    with jax.enable_x64(True):
        points = jnp.asarray(x)
        h = np.asarray(jax.vmap(all_units)(points))
        slope = np.linalg.norm(np.asarray(jax.vmap(jax.jacobian(all_units))(points)), axis=2)
    with np.errstate(divide="ignore"):
        expected = np.minimum(np.abs(h - 1), np.abs(h + 1)) / slope
    found = nearest_boundary(params, x, phi)
    np.testing.assert_allclose(found.distance, expected.min(axis=1), rtol=1e-11)
    unit = found.unit + np.array([0, 12, 28])[found.layer - 1]
    np.testing.assert_array_equal(unit, expected.argmin(axis=1))


# Special points and networks


def test_points_on_a_boundary():
    params = [(np.eye(2), np.array([-1.0, 0.0])), (np.ones((2, 1)), np.array([-2.0]))]
    x = [[1.0, -3.0], [3.0, 0.0], [2.0, 1.0], [2.5, 1.0]]
    d = distance_to_boundary(params, x)
    assert d[:3].tolist() == [0, 0, 0]
    assert d[3] == pytest.approx(0.5 / math.sqrt(2))


def test_without_gradients_there_is_no_boundary():
    params = [(np.zeros((2, 3)), np.zeros(3)), (np.ones((3, 2)), np.array([0.0, 1.0]))]
    found = nearest_boundary(params, [[1.0, 2.0]])
    assert found.distance.tolist() == [np.inf]
    assert found.layer.tolist() == found.unit.tolist() == [-1]
    assert distance_to_boundary(network((2, 4, 4)), [1.0, 2.0], "linear") == np.inf
    dead = [(np.eye(2), np.array([-1.0, -1.0])), (np.ones((2, 2)), np.zeros(2))]
    assert distance_to_boundary(dead, [0.0, -1.0]) == 1.0  # the second layer is constant here


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e5])
def test_gradients_that_cancel_are_none(scale):
    """0.1 + 0.2 - 0.3 is not 0 in binary; the unit it makes is constant nevertheless."""
    same = scale * np.array([[0.7, 0.7, 0.7], [0.3, 0.3, 0.3]])
    params = [(same, np.ones(3)), (np.array([[0.1], [0.2], [-0.3]]), np.zeros(1))]
    x = np.array([1.0, 2.0])
    expected = (1 + 1.3 * scale) / (scale * math.hypot(0.7, 0.3))
    assert distance_to_boundary(params, x) == pytest.approx(expected, rel=1e-12)


def test_far_scales_do_not_underflow():
    params = network((3, 8, 8), 4)
    small = [(np.float32(1e-15 * W), np.float32(1e-15 * b)) for W, b in params[:1]]
    small += [(np.float32(1e-15 * W), np.float32(1e-30 * b)) for W, b in params[1:]]
    x = np.random.default_rng(0).normal(size=(5, 3))
    usual = distance_to_boundary(params, x)
    np.testing.assert_allclose(distance_to_boundary(small, x), usual, rtol=1e-4)


# Batches, precision, JAX


def test_shapes_of_batches():
    params = network((3, 6, 5), 1)
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    d = distance_to_boundary(params, x)
    assert d.shape == (2, 4)
    assert distance_to_boundary(params, x[1, 2]) == pytest.approx(d[1, 2])
    assert np.shape(distance_to_boundary(params, x[1, 2])) == ()
    found = nearest_boundary(params, x)
    assert found.layer.shape == found.unit.shape == (2, 4)


def test_many_points_in_pieces(monkeypatch):
    """Chunks of any size, the last one not full, give the same numbers."""
    params = network((4, 9, 7), 1)
    x = np.random.default_rng(0).normal(size=(23, 4))
    whole = distance_to_boundary(params, x)
    sizes = set()
    kernel = distances._block

    def watched(params, first, points, phi):
        sizes.add(len(points))
        return kernel(params, first, points, phi)

    monkeypatch.setattr(distances, "_block", watched)
    monkeypatch.setattr(distances, "ENTRIES", 36 * 5)
    distances._compiled.clear_cache()
    np.testing.assert_allclose(distance_to_boundary(params, x), whole, rtol=1e-14)
    assert sizes == {5}
    distances._compiled.clear_cache()


def test_double_precision_whatever_the_flag_says():
    params = network((3, 6, 5), 1)
    x = [[1.0 + 1e-12, 0.5, -0.25]]
    d = distance_to_boundary(params, x)
    assert isinstance(d, np.ndarray) and d.dtype == np.float64
    with jax.enable_x64(True):
        np.testing.assert_array_equal(distance_to_boundary(params, x), d)
    single = [(np.float32(W), np.float32(b)) for W, b in params]
    assert distance_to_boundary(single, x).dtype == np.float32
    assert distance_to_boundary(single, x) == pytest.approx(d, rel=1e-4)


@pytest.fixture
def stacked():
    """Five networks in one pytree of JAX arrays."""
    nets = [network((3, 6, 5), seed) for seed in range(5)]
    return nets, jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves), jnp.float32), *nets)


def test_batched_over_networks_and_points(stacked):
    nets, params = stacked
    x = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    one = nearest_boundary
    found = jax.jit(jax.vmap(one, in_axes=(0, None)))(params, jnp.asarray(x))
    assert isinstance(found.distance, jax.Array) and found.distance.shape == (5, 7)
    for i, net in enumerate(nets):
        alone = nearest_boundary(net, x)
        np.testing.assert_allclose(found.distance[i], alone.distance, rtol=1e-3, atol=1e-6)
        np.testing.assert_array_equal(found.unit[i], alone.unit)


def test_jax_arrays_stay_jax(stacked):
    _, params = stacked
    params = jax.tree.map(lambda leaf: leaf[0], params)
    x = jnp.array([0.1, 0.2, -0.5])
    d = distance_to_boundary(params, x)
    assert isinstance(d, jax.Array) and d.dtype == jnp.float32
    assert float(jax.jit(distance_to_boundary)(params, x)) == pytest.approx(float(d), rel=1e-5)
    inside = jax.jit(lambda point: distance_to_boundary(network((3, 6, 5), 0), point))
    assert float(inside(x)) == pytest.approx(float(d), rel=1e-4)


def test_gradients(stacked):
    """Distance grows at rate 1 away from the boundary; parameters by finite differences."""
    net = network((3, 6, 5), 2)
    x = np.random.default_rng(5).normal(size=(20, 3))
    with jax.enable_x64(True):
        params = jax.tree.map(jnp.asarray, net)
        towards = jax.jit(jax.vmap(jax.grad(distance_to_boundary, argnums=1), in_axes=(None, 0)))
        np.testing.assert_allclose(
            np.linalg.norm(towards(params, jnp.asarray(x)), axis=1), 1, rtol=1e-12
        )
        slope_of = jax.jit(jax.grad(distance_to_boundary))
        slopes = slope_of(params, jnp.asarray(x[0]))
        for layer, which, index in [(0, 0, (1, 2)), (0, 1, (3,)), (1, 0, (2, 4)), (1, 1, (1,))]:
            ends = []
            for step in (1e-6, -1e-6):
                moved = jax.tree.map(np.array, net)
                moved[layer][which][index] += step
                ends.append(distance_to_boundary(moved, x[0]))
            slope = float(slopes[layer][which][index])
            assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)
        assert any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(slopes))
        nowhere = jax.tree.map(jnp.zeros_like, params)
        flat = jax.tree.leaves(slope_of(nowhere, jnp.asarray(x[0])))
        assert not any(np.any(np.isnan(leaf)) for leaf in flat)


# Regions in a ball


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_balls_in_one_dimension(name):
    """Runs of equal states on a fine grid."""
    params, phi = network((1, 8, 6), 3), ACTIVATIONS[name]
    x, radius = np.array([[-0.5], [0.1], [2.0]]), np.array([0.7, 0.02, 1.5])
    counts = regions_in_ball(params, x, radius, phi)
    for centre, r, count in zip(x[:, 0], radius, counts, strict=True):
        grid = states(params, np.linspace(centre - r, centre + r, 200_001)[1:-1, None], phi)
        assert count == 1 + np.sum(np.any(grid[1:] != grid[:-1], axis=1))
    assert counts[0] > 5


def distances_to_cells(params, x, patterns):
    """Distance from x to the polyhedron of each pattern of a ReLU network.

    Least distance programming: the least u with ``G u >= h`` from non-negative least squares
    (Lawson & Hanson 1974, chapter 23).
    """
    found = []
    for pattern in patterns:
        rows, limits, J, c, k = [], [], np.eye(len(x)), np.zeros(len(x)), 0
        for W, b in params:
            J, c = J @ W, c @ W + b
            on = pattern[k : k + len(b)].astype(float)
            sign, k = 2 * on - 1, k + len(b)
            rows.append((J * sign).T)
            limits.append(-(x @ J + c) * sign)
            J, c = J * on, c * on
        G, h = np.concatenate(rows), np.concatenate(limits)
        scale = np.linalg.norm(G, axis=1)
        G, h = G[scale > 0] / scale[scale > 0, None], h[scale > 0] / scale[scale > 0]
        E = np.vstack([G.T, h])
        goal = np.append(np.zeros(len(x)), 1.0)
        r = E @ nnls(E, goal)[0] - goal
        found.append(np.linalg.norm(r[:-1] / r[-1]))
    return np.array(found)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_balls_against_the_distance_to_every_cell(n, seed):
    params = network((n, 7, 5), seed, bias=0.5)
    centres = np.random.default_rng(seed).normal(0, 0.5, (4, n))
    radii = np.array([0.05, 0.2, 0.6, 1.0])
    patterns = np.concatenate(cells(params, -4, 4).patterns, axis=1)
    counts = regions_in_ball(params, centres, radii, method="exact")
    below = regions_in_ball(params, centres, radii, method="facets")
    nearest = distance_to_boundary(params, centres)
    for centre, r, count in zip(centres, radii, counts, strict=True):
        apart = distances_to_cells(params, centre, patterns)
        assert np.abs(apart - r).min() > 1e-6  # no cell is just touched
        assert count == np.sum(apart < r)
    assert np.all(below <= counts)
    np.testing.assert_array_equal(below == 1, nearest >= radii)
    np.testing.assert_array_equal(counts == 1, nearest >= radii)
    auto = regions_in_ball(params, centres, radii)
    np.testing.assert_array_equal(auto, counts if n <= 3 else below)
    assert counts.max() > 10


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_lower_bound_is_exact_among_parallel_and_orthogonal_walls(name):
    """A unit an axis: the facets of a cell that meet a ball are seen head on."""
    n, phi = 6, ACTIVATIONS[name]
    params = [(np.eye(n), np.zeros(n))]
    x = np.full(n, 3.0)
    x[:2] = phi.breakpoints[-1] + 0.1
    inner = regions_in_ball(params, x, 0.12, phi, method="facets")
    assert inner == 3  # and one region beyond both walls, behind no facet
    assert regions_in_ball(params, x, 0.12, phi, method="exact") == 3
    assert regions_in_ball(params, x, 0.2, phi, method="exact") == 4


def test_repeated_units_are_one_wall():
    W = np.array([[1.0, 2.0, -1.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    params = [(W, np.array([-0.1, -0.2, 0.1, -0.2]))]
    for method in ("exact", "facets"):
        assert regions_in_ball(params, np.zeros(3), 0.15, method=method) == 2
        assert regions_in_ball(params, np.zeros(3), 0.21, method=method) == 3
        assert regions_in_ball(params, [0.1, 0.0, 0.0], 0.05, method=method) == 2  # on the wall
        assert regions_in_ball([(0 * W, np.ones(4))], np.zeros(3), 9, method=method) == 1


@pytest.mark.parametrize("seed", range(5))
def test_walls_are_counted_once_however_many_units_make_them(seed):
    r = np.random.default_rng(seed)
    (W, b), x = network((5, 12), seed)[0], np.zeros(5)
    scale, unit = r.uniform(0.1, 9, 60) * r.choice([-1, 1], 60), r.integers(0, 12, 60)
    repeated = [(np.hstack([W, W[:, unit] * scale]), np.append(b, b[unit] * scale))]
    once = regions_in_ball([(W, b)], x, 0.6, method="facets")
    assert regions_in_ball(repeated, x, 0.6, method="facets") == once > 3


def test_many_inputs():
    params = network((200, 30, 30), 0)
    x = np.random.default_rng(0).normal(size=(3, 200))
    nearest = distance_to_boundary(params, x)
    counts = regions_in_ball(params, x, 30 * nearest)
    assert counts.shape == (3,) and np.all(counts > 2) and np.all(counts <= 61)
    assert regions_in_ball(params, x, 0.99 * nearest).tolist() == [1, 1, 1]
    assert regions_in_ball(params, x, 1.01 * nearest).tolist() == [2, 2, 2]


# Errors

W, B = np.ones((2, 3)), np.zeros(3)
PARAMS = ((W, B),)


@pytest.mark.parametrize(
    ("run", "argument", "value", "fix"),
    [
        (lambda: distance_to_boundary(((W, B[:2]),), [1, 2]), "params[0][1]", "(2,)", "shape (3,)"),
        (lambda: distance_to_boundary(PARAMS, [1.0]), "x", "(1,)", "shape (..., 2)"),
        (lambda: distance_to_boundary(PARAMS, 1.0), "x", "()", "shape (..., 2)"),
        (lambda: distance_to_boundary(PARAMS, [1, np.nan]), "x", "nan", "give finite numbers"),
        (lambda: distance_to_boundary(PARAMS, [1, 2], "tanh"), "activation", "'tanh'", "use relu"),
        (lambda: regions_in_ball(PARAMS, [1.0], 1), "x", "(1,)", "shape (..., 2)"),
        (lambda: regions_in_ball(PARAMS, [1, 2], 0), "radius", "=0", "give numbers > 0"),
        (lambda: regions_in_ball(PARAMS, [1, 2], [1, 2]), "radius", "(2,)", "one a point"),
        (lambda: regions_in_ball(PARAMS, [1, 2], "r"), "radius", "'r'", "give a real number"),
        (lambda: regions_in_ball(PARAMS, [1, 2], 1, method="al"), "method", "'al'", "one of auto"),
        (lambda: regions_in_ball(PARAMS, [1, 2], 1, "erf"), "activation", "'erf'", "use relu"),
        (
            lambda: regions_in_ball([(np.ones((20, 2)), B[:2])], np.ones(20), 1, method="exact"),
            "params[0][0]",
            "20 rows",
            "a plane or a line",
        ),
        (lambda: jax.jit(lambda x: regions_in_ball(PARAMS, x, 1))(B[:2]), "x", "traced", "outside"),
    ],
)
def test_errors_name_argument_value_and_mend(run, argument, value, fix):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        run()
    message = str(caught.value)
    assert argument in message and value in message and fix in message
    assert len(message) < 300 and "\n" not in message
