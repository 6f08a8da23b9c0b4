"""Exact pieces against patterns and lengths found by plain NumPy in float64."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from jaxexpr import MLP, activations, curves, laws, measure
from jaxexpr.exact.along_curves import segments
from jaxexpr.exact.along_curves.solve import pieces, pieces_batch

LEAKY = activations.leaky_relu(0.2)
STAIRS = activations.piecewise_linear([-1.0, 0.25, 2.0], [0.5, 1.0, -0.5, 0.1])
KINDS = [activations.relu, activations.absolute, activations.hard_tanh, LEAKY, STAIRS]


def network(widths, seed=0, sigma=1.414, sigma_b=0.3, density=1.0):
    """He-like weights and normal biases in NumPy."""
    r = np.random.default_rng(seed)
    params = []
    for i, o in zip(widths, widths[1:], strict=False):
        w = r.normal(0, sigma / np.sqrt(i), (o, i)).T
        mask = r.random((i, o)) < density if density < 1 else 1.0
        params.append((np.ascontiguousarray(w * mask), r.normal(0, 1, o) * sigma_b))
    return tuple(params)


def forward(params, x, phi):
    """Images and patterns of points ``(m, n)``; NumPy's own arithmetic for the common functions."""
    images, patterns, z = [], [], x
    for w, b in params:
        h = z @ w + b
        patterns.append(np.stack([h > c for c in phi.breakpoints], axis=-1).reshape(len(x), -1))
        with jax.enable_x64(True):
            z = np.asarray(phi(h))
        images.append(z)
    return images, patterns


def at(curve, t):
    with jax.enable_x64(True):
        return np.asarray(curve.astype(np.float64).points(np.asarray(t)))


def check(params, curve, phi, found=None):
    """Every claim of ``pieces`` against patterns at points inside the pieces."""
    found = pieces(params, curve, phi) if found is None else found
    t = found.breakpoints
    assert np.all(np.diff(t) > 0)
    inside = t[:-1, None] + np.diff(t)[:, None] * np.array([0.02, 0.3, 0.5, 0.8, 0.98])
    _, patterns = forward(params, at(curve, inside.ravel()), phi)
    whole = np.concatenate(patterns, axis=1).reshape(len(t) - 1, 5, -1)
    assert np.all(whole == whole[:, :1]), "a pattern changes inside a piece"
    pieces_ = whole[:, 2]
    assert np.all((pieces_[1:] != pieces_[:-1]).any(axis=1)), "neighbours have one pattern"
    for layer, pattern in enumerate(patterns):
        p = pattern.reshape(len(t) - 1, 5, -1)[:, 2]
        assert found.crossings[layer] == np.sum(p[1:] != p[:-1])
        below = np.concatenate(
            [q.reshape(len(t) - 1, 5, -1)[:, 2] for q in patterns[: layer + 1]], 1
        )
        changes = (below[1:] != below[:-1]).any(axis=1)
        assert found.counts[layer] == changes.sum() + 1
        assert np.all((found.layers <= layer + 1) == changes)
    return found


CURVES = {
    "line": lambda r, n: curves.line(*r.normal(size=(2, n))),
    "polyline": lambda r, n: curves.polyline(r.normal(size=(5, n))),
    "arc": lambda r, n: curves.arc(*r.normal(size=(2, n))),
    "circle": lambda r, n: curves.circle(*r.normal(size=(2, n))),
    "ellipse": lambda r, n: curves.ellipse(*r.normal(size=(3, n))),
    "semicircles": lambda r, n: curves.semicircles(jax.random.key(5), *r.normal(size=(2, n)), 3),
}


EVERYWHERE = [(kind, STAIRS) for kind in CURVES]
ELSEWHERE = [("line", activations.relu), ("circle", activations.relu), ("line", LEAKY)]


@pytest.mark.parametrize(
    ("kind", "phi"), EVERYWHERE + ELSEWHERE, ids=lambda x: getattr(x, "name", x)
)
def test_patterns_and_lengths_along_every_curve(kind, phi):
    params = network((12, 12, 12, 12), seed=3)
    curve = CURVES[kind](np.random.default_rng(7), 12)
    found = check(params, curve, phi)
    assert found.count > 10
    assert repr(found).startswith(f"Pieces(count={found.count}, depth=3, lengths=[")
    # Between breakpoints the image is smooth: there a fine rule of float64 is its length.
    x, share = np.polynomial.legendre.leggauss(30)
    t = found.breakpoints
    if kind == "polyline":
        t = np.union1d(t, np.arange(5.0))
    if kind == "semicircles":
        t = np.union1d(t, np.arange(4.0))
    h = 1e-6
    nodes = (t[:-1, None] + t[1:, None]) / 2 + np.diff(t)[:, None] / 2 * x
    step = np.minimum(h, np.diff(t)[:, None] * 1e-3) + 0 * nodes
    ahead, _ = forward(params, at(curve, (nodes + step).ravel()), phi)
    behind, _ = forward(params, at(curve, (nodes - step).ravel()), phi)
    for layer, (a, b) in enumerate(zip(ahead, behind, strict=True)):
        speed = np.linalg.norm(a - b, axis=1).reshape(nodes.shape) / (2 * step)
        length = np.sum(speed * np.diff(t)[:, None] / 2 * share)
        assert found.lengths[layer] == pytest.approx(length, rel=2e-4)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    widths=st.sampled_from([(8, 8, 8, 8), (3, 33)]),
    phi=st.sampled_from([activations.relu, activations.hard_tanh]),
    sigma=st.sampled_from([0.5, 1.5, 4.0]),
    sigma_b=st.sampled_from([0.0, 0.3]),
    density=st.sampled_from([1.0, 0.4]),
    kind=st.sampled_from(["line", "circle"]),
)
def test_patterns_over_sizes_seeds_scales(seed, widths, phi, sigma, sigma_b, density, kind):
    params = network(widths, seed, sigma, sigma_b, density)
    check(params, CURVES[kind](np.random.default_rng(seed), widths[0]), phi)


def he(widths, seed):
    """He-like weights N(0, 2 / fan_in) and biases N(0, 0.09), drawn row by row."""
    r = np.random.default_rng(seed)
    params = []
    for i, o in zip(widths, widths[1:], strict=False):
        w = r.normal(0, np.sqrt(2 / i), (o, i)).T
        params.append((np.ascontiguousarray(w), r.normal(0, 0.3, o)))
    return tuple(params)


def test_counts_of_known_networks():
    def line(s, d):
        r = np.random.default_rng(10_000 + s)
        return curves.line(r.normal(size=d), r.normal(size=d))

    widths = (64, 64, 64, 64, 64)
    rays = [line(s, 64) for s in range(200)]
    one = pieces_batch(he(widths, 0), rays)
    assert sum(found.count for found in one) == 21_126
    many = [he(widths, s) for s in range(200)]
    stacked = jax.tree.map(lambda *x: np.stack(x), *many)
    assert sum(found.count for found in pieces_batch(stacked, rays)) == 24_069
    for s in (0, 7, 199):
        check(he(widths, 0), rays[s], activations.relu, one[s])


def test_pieces_of_a_line_have_all_different_patterns():
    params = he((5, 24, 24), 3)
    curve = curves.line(*np.random.default_rng(3).normal(size=(2, 5)) * 4)
    t = pieces(params, curve).breakpoints
    _, patterns = forward(params, at(curve, (t[1:] + t[:-1]) / 2), activations.relu)
    assert len(np.unique(np.concatenate(patterns, axis=1), axis=0)) == len(t) - 1


def test_grids_of_n_and_2n_points_close_in_on_the_exact_length():
    params = network((8, 32, 32, 32), 5, sigma=2.0)
    curve = curves.line(*np.random.default_rng(1).normal(size=(2, 8)))
    exact = pieces(params, curve).lengths

    def grid(points):
        images, _ = forward(params, at(curve, np.linspace(0, 1, points + 1)), activations.relu)
        return np.array([np.linalg.norm(np.diff(z, axis=0), axis=1).sum() for z in images])

    errors = []
    for n in (1000, 2000, 4000, 8000):
        once, twice = grid(n), grid(2 * n)
        assert np.all(exact >= once - 1e-9)
        assert np.all(exact - once <= 3 * (twice - once) + 1e-9)
        errors.append(exact - once)
    assert np.all(errors[-1] < errors[0] / 4)


def test_an_infinite_line_has_all_crossings(phi=STAIRS):
    params = network((4, 10, 10), seed=2)
    x0, x1 = np.random.default_rng(3).normal(size=(2, 4))
    found = pieces(params, curves.line(x0, x1, whole=True), phi)
    assert found.breakpoints[0] == -np.inf
    assert found.breakpoints[-1] == np.inf
    assert np.all(np.isinf(found.lengths))
    far = 1e5
    ends = x0 - far * (x1 - x0), x0 + (1 + far) * (x1 - x0)
    segment = check(params, curves.line(*ends), phi)
    np.testing.assert_array_equal(found.crossings, segment.crossings)
    inner = -far + segment.breakpoints[1:-1] * (1 + 2 * far)
    np.testing.assert_allclose(found.breakpoints[1:-1], inner, rtol=1e-6, atol=1e-6)


def test_a_line_through_the_origin_without_biases_breaks_once():
    params = network((5, 30, 30, 30), seed=1, sigma_b=0.0)
    x = np.random.default_rng(0).normal(size=5)
    for whole in (False, True):
        found = pieces(params, curves.line(-x, 2 * x, whole=whole))
        assert found.count == 2
        assert found.breakpoints[1] == pytest.approx(1 / 3, abs=1e-15)
        assert found.crossings[0] == 30


def test_a_circle_through_a_network_without_biases_cuts_at_opposite_points():
    params = network((3, 9), seed=4, sigma_b=0.0)
    found = check(params, curves.circle([1.0, 0, 0], [0, 1.0, 0]), activations.relu)
    assert found.crossings.tolist() == [18]
    inner = found.breakpoints[1:-1]
    np.testing.assert_allclose(inner[9:] - inner[:9], np.pi, rtol=1e-12)


def test_repeated_parallel_and_dead_units():
    w = np.array([[1.0, 2.0, 1.0, -3.0, 0.0, 0.0]])
    b = np.array([-0.5, -1.0, -0.25, 1.5, 0.0, 1.0])
    found = check(((w, b),), curves.line([0.0], [1.0]), activations.relu)
    assert found.breakpoints.tolist() == [0.0, 0.25, 0.5, 1.0]
    assert found.crossings.tolist() == [4]


def test_end_points_on_a_boundary_are_no_breakpoints():
    w, b = np.array([[1.0, 1.0, 1.0]]), np.array([0.0, -1.0, -0.5])
    for phi in (activations.relu, activations.absolute):
        found = pieces(((w, b),), curves.line([0.0], [1.0]), phi)
        assert found.breakpoints.tolist() == [0.0, 0.5, 1.0]


def test_a_vertex_or_a_meeting_point_on_a_boundary_counts_once():
    w, b = np.array([[1.0], [0.0]]), np.array([-1.0])
    across = curves.polyline([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]])
    assert pieces(((w, b),), across).breakpoints.tolist() == [0.0, 1.0, 2.0]
    back = curves.polyline([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert pieces(((w, b),), back).count == 1
    # A circle is cut at quarter turns: a boundary there counts once too.
    sideways = pieces(
        ((np.array([[1.0], [0.0]]), np.array([0.0])),), curves.circle([1.0, 0], [0, 1.0])
    )
    np.testing.assert_allclose(sideways.breakpoints[1:-1], [np.pi / 2, 3 * np.pi / 2], rtol=1e-15)


@pytest.mark.parametrize("bias", [-1.0, 1.0])
def test_an_arc_that_touches_a_boundary_does_not_cross_it(bias):
    params = ((np.array([[1.0], [0.0]]), np.array([bias])),)
    assert pieces(params, curves.circle([0.0, 1.0], [1.0, 0.0])).count == 1
    near = ((np.array([[1.0], [0.0]]), np.array([bias * (1 - 1e-9)])),)
    assert pieces(near, curves.circle([0.0, 1.0], [1.0, 0.0])).count == 3


def test_a_piece_of_width_1e_9_is_found():
    w, b = np.array([[1.0, 1.0]]), np.array([-0.5, -0.5 - 1e-9])
    found = pieces(((w, b),), curves.line([0.0], [1.0]))
    assert found.count == 3
    assert np.diff(found.breakpoints)[1] == pytest.approx(1e-9, rel=1e-6)


def test_folding_doubles_the_pieces_of_every_layer():
    # x -> 2|x| - 1 of pairs of ReLU units, on [-1, 1].
    first = (np.array([[2.0, -2.0]]), np.zeros(2))
    later = (np.array([[2.0, -2.0], [2.0, -2.0]]), np.array([-2.0, 2.0]))
    params = (first, *(later,) * 6)
    found = pieces(params, curves.line([-1.0], [1.0]))
    assert found.counts.tolist() == [2**d for d in range(1, 8)]
    np.testing.assert_array_equal(found.breakpoints, np.linspace(0, 1, 2**7 + 1))


def test_more_pieces_than_memory_holds():
    params = network((24, 24, 24), 1, sigma=5.0)
    curve = curves.line(*np.random.default_rng(5).normal(size=(2, 24)), whole=True)
    whole = pieces(params, curve, "hard_tanh")
    cut = pieces(params, curve, "hard_tanh", memory=2.0**17)
    assert whole.count > 60
    np.testing.assert_array_equal(whole.crossings, cut.crossings)
    np.testing.assert_array_equal(whole.counts, cut.counts)
    np.testing.assert_allclose(whole.breakpoints, cut.breakpoints, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("thin", [1e-2, 1e-6, 0.0])
@pytest.mark.parametrize("turn", [0.0, 0.3, 1.2, 2.9])
def test_lengths_of_thin_ellipses(thin, turn):
    """An image that all but stops twice a turn, wherever on the circle that is."""
    along = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    circle = curves.circle(*along)
    (length,) = pieces(((np.diag([1.0, thin]), np.zeros(2)),), circle, "linear").lengths
    assert length == pytest.approx(4 * special.ellipe(1 - thin**2), rel=1e-9)


def test_deep_networks_keep_their_lengths():
    net = MLP((12,) * 81, laws.Gaussian(40.0), laws.Gaussian(1.0))
    params = net.init(jax.random.key(1))
    curve = curves.line(np.zeros(12), np.ones(12))
    lengths = pieces(params, curve).lengths
    # Far beyond float32: the exponent is carried.
    assert lengths[-1] > 1e60
    tangents = measure(params, curve, probes="log_length", method="tangent", points=9000)
    np.testing.assert_allclose(np.log(lengths), tangents["log_length"], rtol=1e-3)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (dict(activation="tanh"), "activation='tanh' is smooth"),
        (dict(curve=curves.from_function(lambda t: jax.numpy.stack([t, t]))), "no exact pieces"),
        (dict(curve=curves.line([0.0], [1.0])), r"lives in shape \(1,\) and params\[0\]\[0\] is 2"),
        (dict(memory=-1.0), "memory=-1"),
        (dict(params=((np.zeros((2, 3)), np.zeros(2)),)), r"params\[0\]\[1\] has shape \(2,\)"),
    ],
)
def test_faults_are_named(fault, message):
    good = {"params": network((2, 3)), "curve": curves.line([0.0, 0.0], [1.0, 0.0])}
    with pytest.raises(ValueError, match=message):
        pieces(**(good | fault))


def test_batches_must_fit():
    stacked = jax.tree.map(lambda *x: np.stack(x), *[network((2, 3), s) for s in range(3)])
    line, arc = curves.line([0.0, 0.0], [1.0, 0.0]), curves.arc([0.0, 1.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="3 networks for 2 curves"):
        pieces_batch(stacked, [line, line])
    with pytest.raises(ValueError, match=r"curves\[1\] is a arc|curves\[1\] is an arc"):
        pieces_batch(network((2, 3)), [line, arc])
    with pytest.raises(ValueError, match="curves="):
        pieces_batch(network((2, 3)), [])


def test_traced_networks_and_curves_are_refused():
    line = curves.line([0.0, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="params, curves: traced arrays; pieces are found on the"):
        jax.jit(lambda params: pieces(params, line))(network((2, 3)))
    with pytest.raises(ValueError, match="traced arrays"):
        jax.vmap(lambda x: pieces(network((2, 3)), curves.line(x, x + 1)))(np.zeros((4, 2)))


def test_segments_are_as_many_as_are_counted(rng):
    x, y, z = rng.normal(size=(3, 4))
    for curve, wanted in (
        (curves.line(x, y), 1),
        (curves.line(x, y, whole=True), 2),
        (curves.polyline([x, y, z]), 2),
        (curves.arc(x, y), 1),
        (curves.circle(x, y), 4),
        (curves.ellipse(x, y, z), 4),
        (curves.semicircles(jax.random.key(0), x, y, planes=3), 6),
    ):
        assert segments.count(curve) == wanted, curve.kind
        assert len(segments.begin(curve, 1, "float32")[0]) == wanted, curve.kind
