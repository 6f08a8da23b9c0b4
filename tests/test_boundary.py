"""Boundary volumes from bias densities, beside exact counts, lengths and distances."""

import itertools

import jax
import numpy as np
import pytest
from scipy import stats

from jaxexpr import (
    MLP,
    activations,
    boundary_volume,
    curves,
    estimate,
    exact,
    laws,
    theory,
    verdict,
)

KEY = jax.random.key(3)
PLANE = np.random.default_rng(5).normal(size=(3, 3))


def drawn(net, draws):
    """Parameters of the first networks of KEY, stacked: ``(W, b)`` of each layer, float64."""
    keys = jax.vmap(lambda i: jax.random.fold_in(KEY, i))(np.arange(draws))
    with jax.enable_x64(net.dtype == "float64"):
        params = jax.jit(jax.vmap(net.init))(keys)
    return tuple((np.asarray(W, np.float64), np.asarray(b, np.float64)) for W, b in params)


def each(params):
    """The networks of stacked parameters, one after the other."""
    for i in range(len(params[0][0])):
        yield tuple((W[i], b[i]) for W, b in params)


def near(a, b, gate=4.0):
    """Whether two independent (or paired, then all the more) estimates agree."""
    z = (a.mean - b.mean) / np.hypot(a.sem, b.sem)
    assert np.all(np.abs(z) < gate), z
    assert np.all(np.hypot(a.sem, b.sem) < 0.02 * a.mean)


@pytest.mark.parametrize("activation", ["relu", "hard_tanh"])
def test_breakpoints_on_a_segment(activation):
    net = MLP((4, 8, 8, 8), laws.Gaussian(2**0.5), laws.Gaussian(0.5), activation)
    x0, x1 = np.random.default_rng(0).normal(size=(2, 4))
    middle, half = (x0 + x1) / 2, (x1 - x0) / 2
    found = boundary_volume(net, middle, [half], key=KEY, draws=8000)
    counted = estimate(net, curves.line(x0, x1), key=KEY, draws=8000, probes="transitions")
    near(found, counted["transitions"])


KINKS = activations.piecewise_linear([-0.5, 1.5], [0.3, -2.0, 1.0])
LAWS = [laws.Uniform(1.5), laws.Gaussian(2.0), laws.Gaussian(1.0)]


def bent(h):
    """KINKS and its slope, in NumPy."""
    slopes = np.select([h <= -0.5, h <= 1.5], [0.3, -2.0], 1.0)
    return np.interp(h, [-50.5, -0.5, 1.5, 51.5], [-14.0, 1.0, -3.0, 47.0]), slopes


def densities(law, values):
    """Sum over KINKS of the density of a bias that puts a unit there."""
    spread = stats.uniform(-law.limit, 2 * law.limit) if isinstance(law, laws.Uniform) else None
    rho = (spread or stats.norm(scale=getattr(law, "sigma", 1.0))).pdf
    return [rho(c - values) for c in (-0.5, 1.5)]


def above(params, x, frame, moved=None):
    """Values without biases and gradients of each layer; `moved` (layer, unit) stands on level."""
    z, dz, found = x, frame, []
    for i, (W, b) in enumerate(params):
        values, gradients = z @ W, dz @ W
        found.append((values, gradients))
        h = values + b
        slope = bent(h)[1]
        if moved is not None and moved[0] == i:
            h, slope = h.copy(), slope.copy()
            h[moved[1]], slope[moved[1]] = moved[2], 0.0
        z, dz = bent(h)[0], slope * gradients
    return found


def test_one_network_at_one_point_by_its_definition():
    # A set so small that everything is constant on it; two directions that are not orthogonal.
    net = MLP((3, 4, 3, 2), laws.Gaussian(1.5), LAWS, KINKS, dtype="float64")
    origin, directions, half = np.array([0.3, -0.8, 0.5]), PLANE[1:], 1e-9
    frame = np.linalg.qr(directions.T)[0].T
    area = np.linalg.norm(np.cross(*directions)) * (2 * half) ** 2
    options = {"key": KEY, "draws": 2, "points": 2}
    walls = boundary_volume(net, origin, directions, half, **options)
    pairs = boundary_volume(net, origin, directions, half, codimension=2, **options)
    one, two = np.zeros(3), np.zeros(3)
    for params in each(drawn(net, 2)):
        layers = above(params, origin, frame)
        for i, (values, gradients) in enumerate(layers):
            norms, rho = np.linalg.norm(gradients, axis=0), densities(LAWS[i], values)
            one[i] += (norms * sum(rho)).sum()
            for j, k in itertools.combinations(range(len(values)), 2):
                two[i] += abs(np.linalg.det(gradients[:, [j, k]])) * sum(rho)[j] * sum(rho)[k]
            for j, (level, at) in itertools.product(
                range(len(values)), zip((-0.5, 1.5), rho, strict=True)
            ):
                higher = above(params, origin, frame, (i, j, level))
                for m in range(i + 1, 3):
                    spans = [
                        abs(np.linalg.det(np.stack([gradients[:, j], g], axis=1)))
                        for g in higher[m][1].T
                    ]
                    two[m] += at[j] * (spans * sum(densities(LAWS[m], higher[m][0]))).sum()
    np.testing.assert_allclose(walls.mean, area * one / 2, rtol=1e-6)
    np.testing.assert_allclose(pairs.mean, area * two / 2, rtol=1e-6)


def test_the_number_of_the_theory_sheet():
    net = MLP((1, 8, 8, 8), laws.Gaussian(2**0.5), laws.Gaussian(0.5))
    found = boundary_volume(net, [0.0], [[1.0]], key=KEY, draws=20_000)
    assert abs(found.mean.sum() - 15.96) < 4 * np.hypot(found.sem.sum(), 0.04)


def test_sweeps_sparse_and_uniform_laws():
    biases = laws.Uniform(np.array([0.3, 3.0]))
    net = MLP((3, 10, 10), laws.Sparse(laws.Gaussian(1.5), 0.5), biases, "abs")
    found = boundary_volume(net, np.zeros(3), [[1.0, 1.0, 0.0]], key=KEY, draws=6000)
    line = curves.line([-1.0, -1.0, 0.0], [1.0, 1.0, 0.0])
    counted = estimate(net, line, key=KEY, draws=6000, probes="transitions")["transitions"]
    assert found.mean.shape == (2, 2)
    z = (found.mean - counted.mean) / np.hypot(found.sem, counted.sem)
    assert np.all(np.abs(z) < 4.0)


@pytest.mark.parametrize("activation", ["relu", "hard_tanh"])
def test_perimeters_and_crossings_in_a_plane(activation):
    net = MLP((3, 8, 8), laws.Gaussian(2.0), laws.Gaussian(0.5), activation)
    origin, u, v = PLANE
    options = {"key": KEY, "draws": 4000}
    walls = boundary_volume(net, origin, [u, v], 0.7, **options)
    crossings = boundary_volume(net, origin, [u, v], 0.7, codimension=2, **options)
    planes = [
        exact.plane(params, origin, u, v, 0.7, activation) for params in each(drawn(net, 800))
    ]
    lengths = np.array([p.perimeters for p in planes])
    error = np.hypot(walls.sem, lengths.std(axis=0) / np.sqrt(len(planes)))
    assert np.all(np.abs(walls.mean - lengths.mean(axis=0)) < 4 * error)
    counts = np.array([p.crossings for p in planes])
    error = np.hypot(crossings.sem.sum(), counts.std() / np.sqrt(len(planes)))
    assert abs(crossings.mean.sum() - counts.mean()) < 4 * error
    assert error < 0.04 * counts.mean()


def _joints(params, line):
    """Breakpoints of the function that the last layer computes, by its slopes on all pieces."""
    found = exact.pieces_batch(params, line)
    counts = []
    for one, layers in zip(found, each(params), strict=True):
        t = np.asarray(one.breakpoints)
        z = ((t[1:] + t[:-1]) / 2)[:, None] * 2 - 1
        slope = np.full_like(z, 2.0)
        for W, b in layers:
            h = z @ W + b
            z, slope = np.maximum(h, 0), (slope @ W) * (h > 0)
        counts.append((np.abs(np.diff(slope, axis=0)).max(axis=1, initial=0) > 1e-9).sum())
    return np.array(counts)


def test_boundaries_of_the_function_alone():
    net = MLP((1, 3, 2, 2), laws.Gaussian(2.0), laws.Gaussian(0.6))
    draws = 3000
    counts = _joints(drawn(net, draws), [curves.line([-1.0], [1.0])] * draws)
    found = boundary_volume(net, [0.0], [[1.0]], key=KEY, draws=20_000, function_only=True)
    every = boundary_volume(net, [0.0], [[1.0]], key=KEY, draws=20_000)
    error = np.hypot(found.sem.sum(), counts.std() / np.sqrt(draws))
    assert error < 0.02 * counts.mean()
    assert abs(found.mean.sum() - counts.mean()) < 4 * error
    assert abs(every.mean.sum() - counts.mean()) > 10 * error
    share = theory.good_probability(net.widths)
    assert np.all(np.abs(found.mean - share * every.mean) < 4 * np.hypot(found.sem, every.sem))


@pytest.mark.parametrize("widths", [(1, 3, 2), (1, 3, 2, 2)])
def test_a_share_of_the_boundaries_is_of_the_function(widths):
    net = MLP(widths, laws.Gaussian(2.0), laws.Gaussian(0.6))
    some = {"key": KEY, "draws": 4000, "points": 4}
    found = boundary_volume(net, [0.0], [[1.0]], function_only=True, **some)
    every = boundary_volume(net, [0.0], [[1.0]], **some)
    error = np.hypot(found.sem, every.sem)
    share = theory.good_probability(net.widths)
    assert share[0] < 0.8
    assert np.all(np.abs(found.mean - share * every.mean) < 4 * error)
    assert every.mean[0] - found.mean[0] > 10 * error[0]


def test_bounds_hold_and_have_power():
    net = MLP((2, 16, 16), laws.Gaussian(2**0.5), laws.Gaussian(0.5))
    found = boundary_volume(net, np.zeros(2), np.eye(2), 0.5, key=KEY, draws=4000)
    upper = theory.boundary_upper(net)
    assert verdict(found, upper=upper).holds
    assert np.all(found.mean > 0.45 * upper)


def test_distances_near_and_in_the_mean():
    net = MLP((2, 16, 16), laws.Gaussian(2**0.5), laws.Gaussian(0.5))
    draws, points = 600, 200
    density = boundary_volume(net, np.zeros(2), np.eye(2), 0.5, key=KEY, draws=4000).mean.sum()
    lower = theory.distance_lower(net)
    x = np.random.default_rng(1).uniform(-0.5, 0.5, size=(points, 2))
    nets = each(drawn(net, draws))
    found = np.stack([exact.distance_to_boundary(params, x) for params in nets])
    means = found.mean(axis=1)
    assert means.mean() - 4 * means.std() / np.sqrt(draws) > lower
    assert means.mean() < 4 * lower
    # P(distance <= r) is at most 2 r D, and nearly so for small r.
    r = 0.02 * means.mean()
    near = (found <= r).mean(axis=1)
    error = near.std() / np.sqrt(draws)
    assert abs(near.mean() - 2 * r * density) < 4 * error + 0.02 * near.mean()
    assert near.mean() - 4 * error < r / (2 * lower)


def test_gradients_have_the_second_moment():
    net = MLP((5, 20, 10, 30), laws.Gaussian(1.3), laws.Gaussian(0.2), dtype="float64")
    x = np.random.default_rng(0).normal(size=5)
    squares = []
    for params in each(drawn(net, 3000)):
        z, J, own = x, np.eye(5), []
        for W, b in params:
            h, J = z @ W + b, J @ W
            own.append((J**2).sum(axis=0).mean())
            z, J = np.maximum(h, 0), J * (h > 0)
        squares.append(own)
    squares = np.array(squares)
    error = squares.std(axis=0) / np.sqrt(len(squares))
    expected = theory.gradient_second_moment(net)
    assert np.all(np.abs(squares.mean(axis=0) - expected) < 4 * error)
    assert np.all(error < 0.03 * expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"net": "mlp"}, "jaxexpr.MLP"),
        ({"net": MLP((2, 4), laws.Gaussian(1.0), laws.Gaussian(1.0), "tanh")}, "smooth"),
        ({"net": MLP((2, 4), laws.Gaussian(1.0), laws.Zero())}, r"biases\[0\].*no density"),
        ({"net": MLP((2, 4), laws.Gaussian(1.0), laws.Gaussian(0.0))}, "scale above 0"),
        ({"origin": [0.0]}, r"origin has shape \(1,\)"),
        ({"directions": [1.0, 0.0]}, "one direction a row"),
        ({"directions": [[1.0, 1.0], [2.0, 2.0]]}, "not independent"),
        ({"half_width": -1.0}, "half_width=-1.0"),
        ({"codimension": 3}, "codimension=3"),
        ({"directions": [[1.0, 0.0]], "codimension": 2}, "codimension=2 with 1 directions"),
        ({"codimension": 2, "function_only": True}, "function_only=True with codimension=2"),
        ({"draws": 0}, "draws=0"),
        ({"points": 0}, "points=0"),
        ({"key": 1}, "key"),
    ],
)
def test_what_does_not_fit_is_named(change, words):
    net = MLP((2, 4), laws.Gaussian(1.0), laws.Gaussian(1.0))
    options = {"net": net, "origin": [0.0, 0.0], "directions": np.eye(2), "key": KEY, "draws": 3}
    with pytest.raises(ValueError, match=words):
        boundary_volume(**(options | change))
