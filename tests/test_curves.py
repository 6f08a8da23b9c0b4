"""Curves: end points, tangents, lengths in closed form, pytrees, precision."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from jaxexpr import curves, measure

N = 5
KEY = jax.random.key(3)
FIRST, SECOND, CENTRE = np.random.default_rng(8).normal(size=(3, N))
FRAME = np.linalg.qr(np.random.default_rng(9).normal(size=(N, 2)))[0].T  # two orthonormal rows
VERTICES = np.random.default_rng(10).normal(size=(4, N))


def helix(t: jax.Array) -> jax.Array:
    return jnp.stack([jnp.cos(t), jnp.sin(t), 0.5 * t, jnp.zeros_like(t), t * t])


MAKE = {
    "line": lambda: curves.line(FIRST, SECOND),
    "arc": lambda: curves.arc(FIRST, SECOND),
    "circle": lambda: curves.circle(FIRST, SECOND),
    "ellipse": lambda: curves.ellipse(FIRST, SECOND, CENTRE),
    "polyline": lambda: curves.polyline(VERTICES),
    "semicircles": lambda: curves.semicircles(KEY, FIRST, SECOND, planes=7),
    "function": lambda: curves.from_function(helix, (-1.0, 3.0)),
}
ENDS = {
    "line": (FIRST, SECOND),
    "arc": (FIRST, SECOND),
    "circle": (FIRST, FIRST),
    "ellipse": (CENTRE + FIRST, CENTRE + FIRST),
    "polyline": (VERTICES[0], VERTICES[-1]),
    "semicircles": (FIRST, SECOND),
    "function": (
        [math.cos(1), -math.sin(1), -0.5, 0, 1],
        [math.cos(3), math.sin(3), 1.5, 0, 9],
    ),
}
KINKS = {"polyline", "semicircles"}  # smooth between whole parameters only


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@functools.cache
def made(name: str) -> curves.Curve:
    return MAKE[name]()


def parameters(curve: curves.Curve, count: int = 40) -> np.ndarray:
    """Parameters inside the domain, none of them whole."""
    low, high = curve.domain
    return low + (high - low) * (np.arange(count) + 0.4567) / count


def points(curve: curves.Curve, t) -> np.ndarray:
    return np.asarray(curve.points(jnp.asarray(t, jnp.float64)))


def length(curve: curves.Curve, count: int = 4000) -> float:
    """Integral of the speed by the midpoint rule; `count` a multiple of the pieces."""
    low, high = curve.domain
    t = low + (high - low) * (np.arange(count) + 0.5) / count
    tangents = np.asarray(curve.points_and_tangents(jnp.asarray(t))[1]).reshape(count, -1)
    return np.linalg.norm(tangents, axis=1).mean() * (high - low)


@pytest.mark.parametrize("name", MAKE)
def test_end_points(name):
    curve = made(name)
    np.testing.assert_allclose(points(curve, curve.domain), ENDS[name], rtol=0, atol=1e-14)
    assert curve.shape == (N,) and not curve.whole


@pytest.mark.parametrize("name", MAKE)
def test_points_and_tangents_are_the_points_and_their_derivatives(name):
    curve = made(name)
    t = parameters(curve)
    both = [np.asarray(x) for x in curve.points_and_tangents(jnp.asarray(t))]
    np.testing.assert_allclose(both[0], points(curve, t), atol=1e-14)
    step = 1e-5
    central = (points(curve, t + step) - points(curve, t - step)) / (2 * step)
    np.testing.assert_allclose(both[1], central, atol=1e-8 * np.abs(central).max())
    assert both[0].dtype == both[1].dtype == np.float64
    assert both[0].shape == both[1].shape == (len(t), N)


def test_domains():
    quarter, turn = (0.0, math.pi / 2), (0.0, 2 * math.pi)
    domains = {"line": (0.0, 1.0), "arc": quarter, "circle": turn, "ellipse": turn}
    domains |= {"polyline": (0.0, 3.0), "semicircles": (0.0, 7.0), "function": (-1.0, 3.0)}
    assert {name: made(name).domain for name in MAKE} == domains
    assert {name: made(name).kind for name in MAKE} == {name: name for name in MAKE}


@pytest.mark.parametrize("name", sorted(set(MAKE) - KINKS))
def test_smooth_curves_are_where_their_formula_says(name):
    t = parameters(made(name))[:, None]
    turning = FIRST * np.cos(t) + SECOND * np.sin(t)
    expected = {
        "line": FIRST + t * (SECOND - FIRST),
        "arc": turning,
        "circle": turning,
        "ellipse": CENTRE + turning,
        "function": np.concatenate([np.cos(t), np.sin(t), t / 2, 0 * t, t * t], axis=1),
    }
    np.testing.assert_allclose(points(made(name), t[:, 0]), expected[name], atol=1e-14)


def test_lengths_in_closed_form():
    chord = np.linalg.norm(SECOND - FIRST)
    steps = np.linalg.norm(np.diff(VERTICES, axis=0), axis=1).sum()
    axes = 3.0 * FRAME[0], 2.0 * FRAME[1]
    quarter = 3.0 * special.ellipe(1 - (2.0 / 3.0) ** 2)  # of the ellipse with these axes
    exact = [
        (made("line"), chord),
        (curves.arc(*FRAME), math.pi / 2),
        (curves.circle(*FRAME), 2 * math.pi),
        (curves.circle(*(4 * FRAME)), 8 * math.pi),
        (curves.ellipse(*axes, CENTRE), 4 * quarter),
        (curves.semicircles(KEY, FIRST, SECOND, planes=1), math.pi / 2 * chord),
        (curves.semicircles(KEY, FIRST, SECOND, planes=8), math.pi / 2 * chord),
        (made("polyline"), steps),
    ]
    for curve, value in exact:
        assert length(curve, 4800) == pytest.approx(value, rel=1e-12), curve.kind


def test_the_default_of_semicircles_is_a_hundred_planes():
    curve = curves.semicircles(KEY, FIRST, SECOND)
    assert curve.domain == (0.0, 100.0)
    assert length(curve) == pytest.approx(math.pi / 2 * np.linalg.norm(SECOND - FIRST), rel=1e-12)


def test_every_semicircle_is_one_in_a_plane_through_the_line():
    curve, planes = made("semicircles"), 7
    chord = SECOND - FIRST
    along, radius = chord / np.linalg.norm(chord), np.linalg.norm(chord) / (2 * planes)
    normals = []
    for j in range(planes):
        x = points(curve, j + np.linspace(0.02, 0.98, 13)) - (FIRST + (j + 0.5) / planes * chord)
        np.testing.assert_allclose(np.linalg.norm(x, axis=1), radius, rtol=1e-12)
        across = x - np.outer(x @ along, along)
        assert np.linalg.matrix_rank(across, tol=1e-12) == 1
        heights = np.linalg.norm(across, axis=1)
        np.testing.assert_allclose(heights, radius * np.sin(np.pi * np.linspace(0.02, 0.98, 13)))
        assert np.all(across @ across[6] > 0)  # all on one side of the line
        normals.append(across[6] / heights[6])
    cosines = np.abs(np.array(normals) @ np.transpose(normals) - np.eye(planes))
    assert cosines.max() < 0.999  # every plane another


@pytest.mark.parametrize("name", sorted(KINKS))
def test_pieces_meet(name):
    curve = made(name)
    inner = np.arange(1, curve.domain[1])
    left, at, right = (points(curve, inner + shift) for shift in (-1e-9, 0.0, 1e-9))
    np.testing.assert_allclose(left, at, atol=1e-8)
    np.testing.assert_allclose(right, at, atol=1e-8)
    corners = {
        "polyline": VERTICES[1:-1],
        "semicircles": FIRST + inner[:, None] / 7 * (SECOND - FIRST),
    }
    np.testing.assert_allclose(at, corners[name], atol=1e-14)


def test_tangents_at_corners_are_those_of_the_piece_that_starts_there():
    curve = made("polyline")
    tangents = curve.points_and_tangents(jnp.array([0.0, 1.0, 2.0, 3.0]))[1]
    steps = np.diff(VERTICES, axis=0)
    np.testing.assert_allclose(tangents, [*steps, steps[-1]], rtol=1e-14)
    bent = made("semicircles")
    at_end, before = bent.points_and_tangents(jnp.array([7.0, 7.0 - 1e-9]))[1]
    np.testing.assert_allclose(at_end, before, atol=1e-7)


def test_planes_of_semicircles_are_spread_evenly():
    planes, x1 = 2000, np.eye(N)[0]
    curve = curves.semicircles(KEY, np.zeros(N), x1, planes=planes)
    tops = points(curve, np.arange(planes) + 0.5) * 2 * planes
    normals = tops[:, 1:]
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, rtol=1e-12)
    assert np.all(np.abs(normals.mean(axis=0)) < 4.5 * np.sqrt(1 / (N - 1) / planes))
    second = (normals**2).mean(axis=0) - 1 / (N - 1)
    assert np.all(np.abs(second) < 4.5 * (normals**2).std(axis=0) / np.sqrt(planes))
    other = curves.semicircles(jax.random.key(4), np.zeros(N), x1, planes=planes)
    assert np.abs(points(other, [0.5]) - points(curve, [0.5])).max() > 1e-3 / planes


def test_points_may_be_images():
    shape = (2, 3, 4)
    flat = np.random.default_rng(0).normal(size=(3, 24))
    pictures = flat.reshape(3, *shape)
    pairs = [
        (curves.line(*flat[:2]), curves.line(*pictures[:2])),
        (curves.arc(*flat[:2]), curves.arc(*pictures[:2])),
        (curves.ellipse(*flat), curves.ellipse(*pictures)),
        (curves.polyline(flat), curves.polyline(pictures)),
        (curves.semicircles(KEY, *flat[:2], 3), curves.semicircles(KEY, *pictures[:2], 3)),
    ]
    for vector, picture in pairs:
        t = parameters(vector, 6)
        assert picture.shape == shape
        np.testing.assert_allclose(points(picture, t).reshape(6, 24), points(vector, t), atol=1e-14)


def test_a_whole_line_has_no_ends():
    line = curves.line(FIRST, SECOND, whole=True)
    assert line.domain == (-math.inf, math.inf) and line.whole
    beyond = points(line, [-2.0, 5.0])
    np.testing.assert_allclose(beyond, [3 * FIRST - 2 * SECOND, 5 * SECOND - 4 * FIRST])


@pytest.mark.parametrize(
    ("x0", "x1"),
    [
        ([1, 0, 2], [0, 1, 1]),
        ((1.0, 0, 2), (0, 1.0, 1)),
        (np.array([1, 0, 2]), np.float32([0, 1, 1])),
        (jnp.array([1.0, 0, 2]), jnp.float32([0, 1, 1])),
        ([True, False, 2], [np.int8(0), 1, np.float64(1)]),
    ],
    ids=["ints", "tuples", "numpy", "jax", "mixed"],
)
@pytest.mark.parametrize("make", [curves.line, curves.arc, curves.circle])
def test_points_of_any_numbers(make, x0, x1):
    curve, plain = make(x0, x1), make([1.0, 0.0, 2.0], [0.0, 1.0, 1.0])
    t = parameters(plain, 5)
    np.testing.assert_allclose(points(curve.astype("float64"), t), points(plain, t), rtol=1e-15)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_directions_of_any_size_are_told_apart(size):
    curve = curves.arc([size, 0.0], [0.0, size])
    np.testing.assert_allclose(points(curve, [math.pi / 4])[0], size * np.sqrt([0.5, 0.5]))
    with pytest.raises(ValueError, match="parallel"):
        curves.arc([size, size], [size, size * (1 + 1e-9)])


def test_curves_are_pytrees_of_their_arrays():
    line = curves.line([1.0, 2.0], [3.0, 5.0])
    assert [leaf.tolist() for leaf in jax.tree.leaves(line)] == [[1.0, 2.0], [3.0, 5.0]]
    doubled = jax.tree.map(lambda x: 2 * x, line)
    np.testing.assert_array_equal(points(doubled, [0.5]), 2 * points(line, [0.5]))
    copies = (jax.tree.map(lambda x: x, made(name)) for name in MAKE)
    for copy, curve in zip(copies, map(made, MAKE), strict=True):
        for field in ("kind", "domain", "point", "shape", "whole"):
            assert getattr(copy, field) == getattr(curve, field)
    assert jax.tree.map(lambda x: x, curves.line([0.0], [1.0], whole=True)).whole
    same = jax.tree.structure(curves.line([0.0, 0.0], [1.0, 1.0]))
    assert jax.tree.structure(line) == same
    assert jax.tree.structure(curves.line([0.0, 0], [1.0, 1], whole=True)) != same
    assert jax.tree.structure(curves.arc([1.0, 0], [1.0, 1])) != same


def test_jit_traces_once_for_curves_of_one_kind():
    traces = []

    @jax.jit
    def middle(curve):
        traces.append(curve.kind)
        return curve.points(jnp.array([0.5]))[0]

    np.testing.assert_allclose(middle(curves.line([0.0, 0.0], [1.0, 3.0])), [0.5, 1.5])
    np.testing.assert_allclose(middle(curves.line([2.0, 0.0], [4.0, 3.0])), [3.0, 1.5])
    np.testing.assert_allclose(
        middle(curves.arc([1.0, 0.0], [0.0, 1.0])), [math.cos(0.5), math.sin(0.5)]
    )
    assert traces == ["line", "arc"]


def test_curves_are_made_inside_jit_vmap_and_grad():
    ends = jnp.asarray(VERTICES)

    @jax.jit
    @jax.vmap
    def middle(end):
        return curves.line(jnp.zeros(N), end).points(jnp.array([0.5]))[0]

    np.testing.assert_allclose(middle(ends), VERTICES / 2)

    def bent_length(end):
        curve = curves.semicircles(KEY, jnp.zeros(N), end, planes=2)
        tangents = curve.points_and_tangents(jnp.array([0.3, 1.3]))[1]
        return jnp.sum(jnp.sqrt(jnp.sum(tangents**2, axis=1)))

    slope = jax.grad(bent_length)(jnp.asarray(FIRST))
    np.testing.assert_allclose(slope, math.pi / 2 * FIRST / np.linalg.norm(FIRST), rtol=1e-12)


IDENTITY = [(np.eye(N), np.zeros(N))]


@pytest.mark.parametrize("name", sorted(MAKE))
def test_float64_whatever_the_flag(name):
    with jax.enable_x64(False):
        curve = MAKE[name]()
        seen = measure(IDENTITY, curve, activation="linear", points=4200, probes="length")
    assert all(x.dtype == np.float64 for x in curve.arrays)
    assert seen["length"][0] == pytest.approx(length(made(name), 4200), rel=1e-13)


@pytest.mark.parametrize("name", sorted(MAKE))
def test_the_flag_changes_no_more_than_the_rounding(name):
    t = parameters(made(name))
    with jax.enable_x64(False):
        single = np.asarray(MAKE[name]().points(jnp.asarray(t, jnp.float32)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, points(made(name), t), atol=1e-5)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_points_are_in_the_precision_asked_for(name, dtype):
    curve = made(name).astype(dtype)
    seen = jax.eval_shape(curve.points_and_tangents, jax.ShapeDtypeStruct((3,), dtype))
    assert [x.dtype for x in seen] == [dtype, dtype]
    assert all(x.dtype == dtype for x in curve.arrays)
