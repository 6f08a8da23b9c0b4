"""Activations: the derivative, breakpoints, slopes and flags each one claims."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxexpr import MLP, Activation, activations, curves, laws, measure
from jaxexpr.activations import NAMES, leaky_relu, piecewise_linear

EVERY = NAMES | {
    "leaky_relu(0.3)": leaky_relu(0.3),
    "leaky_relu(-1.5)": leaky_relu(-1.5),
    "stairs": piecewise_linear([-2.0, -0.5, 1.0, 3.0], [0.5, -1.0, 2.0, 0.0, 1.0]),
    "off_centre": piecewise_linear([1.0, 2.0], [0.0, 3.0, -1.0]),
    "shifted": piecewise_linear([1.0], [0.0, 1.0]),
    "bent": piecewise_linear([0.0], [-2.0, 0.5]),
}
PIECEWISE = {name: phi for name, phi in EVERY.items() if phi.piecewise_linear}


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def evaluate(function, h) -> np.ndarray:
    return np.asarray(function(jnp.asarray(h, jnp.float64)))


def away_from_breakpoints(phi: Activation, rng: np.random.Generator) -> np.ndarray:
    h = 3 * rng.normal(size=2000)
    for at in phi.breakpoints or ():
        h = h[np.abs(h - at) > 1e-4]
    return h


def inside_pieces(phi: Activation) -> np.ndarray:
    """A point inside each piece, one slope each."""
    edges = [-10.0, *phi.breakpoints, 10.0]
    return np.array([(a + b) / 2 for a, b in zip(edges, edges[1:], strict=False)])


@pytest.mark.parametrize("name", EVERY)
def test_derivative_is_that_of_the_function(name, rng):
    phi = EVERY[name]
    h = away_from_breakpoints(phi, rng)
    exact = jax.vmap(jax.grad(phi.function))(jnp.asarray(h))
    np.testing.assert_allclose(evaluate(phi.derivative, h), exact, rtol=1e-12, atol=1e-14)
    step = 1e-6
    central = (evaluate(phi, h + step) - evaluate(phi, h - step)) / (2 * step)
    np.testing.assert_allclose(evaluate(phi.derivative, h), central, atol=1e-8)


@pytest.mark.parametrize("name", PIECEWISE)
def test_a_unit_is_beyond_a_breakpoint_where_it_is_greater(name):
    phi = PIECEWISE[name]
    assert len(phi.slopes) == len(phi.breakpoints) + 1
    for at, left, right in zip(phi.breakpoints, phi.slopes, phi.slopes[1:], strict=False):
        around = [np.nextafter(at, -np.inf), at, np.nextafter(at, np.inf)]
        if at == 0:
            around[0], around[2] = -1e-300, 1e-300
        np.testing.assert_array_equal(evaluate(phi.derivative, around), [left, left, right])


def test_relu_is_off_at_zero():
    assert evaluate(activations.relu.derivative, [0.0, -0.0, 1e-300]).tolist() == [0, 0, 1]


@pytest.mark.parametrize("name", PIECEWISE)
def test_slopes_between_breakpoints(name):
    phi = PIECEWISE[name]
    inside = inside_pieces(phi)
    np.testing.assert_array_equal(evaluate(phi.derivative, inside), phi.slopes)
    difference = evaluate(phi, inside + 0.1) - evaluate(phi, inside - 0.1)
    np.testing.assert_allclose(difference / 0.2, phi.slopes, atol=1e-13)


@pytest.mark.parametrize("name", EVERY)
def test_lipschitz_constant_is_the_steepest_slope(name):
    phi = EVERY[name]
    points = [0.0] if phi.slopes is None else inside_pieces(phi)
    assert np.abs(evaluate(phi.derivative, points)).max() == pytest.approx(phi.lipschitz, rel=1e-15)
    everywhere = evaluate(phi.derivative, np.linspace(-8, 8, 4001))
    assert np.abs(everywhere).max() <= phi.lipschitz * (1 + 1e-12)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("factor", [1e-3, 0.5, 2.0, 1e3])
def test_homogeneous_where_it_says_so(name, factor, rng):
    phi = EVERY[name]
    h = away_from_breakpoints(phi, rng)
    same = np.allclose(evaluate(phi, factor * h), factor * evaluate(phi, h), rtol=1e-12, atol=0)
    assert same == phi.homogeneous


def test_only_smooth_activations_have_no_breakpoints():
    smooth = {name for name, phi in NAMES.items() if not phi.piecewise_linear}
    assert smooth == {"tanh", "erf"}
    for name in smooth:
        assert NAMES[name].breakpoints is None and NAMES[name].slopes is None


def test_values(rng):
    h = np.concatenate([3 * rng.normal(size=100), [-1.0, 0.0, 1.0]])
    expected = {
        "relu": np.maximum(h, 0),
        "leaky_relu": np.where(h > 0, h, 0.01 * h),
        "hard_tanh": np.clip(h, -1, 1),
        "tanh": np.tanh(h),
        "erf": np.vectorize(math.erf)(h),
        "abs": np.abs(h),
        "linear": h,
    }
    assert expected.keys() == NAMES.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(evaluate(NAMES[name], h), values, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize(
    ("built_in", "breakpoints", "slopes"),
    [
        ("relu", [0], [0, 1]),
        ("abs", [0], [-1, 1]),
        ("linear", [], [1]),
        ("leaky_relu", [0], [0.01, 1]),
        ("leaky_relu(0.3)", [0], [0.3, 1]),
        ("hard_tanh", [-1, 1], [0, 1, 0]),
    ],
)
def test_piecewise_linear_reproduces_the_built_in_ones(built_in, breakpoints, slopes, rng):
    made, known = piecewise_linear(breakpoints, slopes), EVERY[built_in]
    h = np.concatenate([3 * rng.normal(size=1000), breakpoints])
    np.testing.assert_allclose(evaluate(made, h), evaluate(known, h), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(evaluate(made.derivative, h), evaluate(known.derivative, h))
    for field in ("breakpoints", "slopes", "lipschitz", "homogeneous"):
        assert getattr(made, field) == getattr(known, field)


numbers = st.floats(-5, 5).map(lambda x: round(x, 3))


@given(data=st.data(), at=st.lists(numbers, max_size=5, unique=True).map(sorted))
@settings(max_examples=50, deadline=None)
def test_any_piecewise_linear_function_is_continuous_through_the_origin(data, at):
    slopes = data.draw(st.lists(numbers, min_size=len(at) + 1, max_size=len(at) + 1))
    phi = piecewise_linear(at, slopes)
    value = evaluate(phi, [0.0, *at, *(b + 1e-9 for b in at), *(b - 1e-9 for b in at)])
    assert value[0] == pytest.approx(0, abs=1e-12)
    middle, right, left = value[1:].reshape(3, -1)
    np.testing.assert_allclose(left, middle, atol=1e-7)
    np.testing.assert_allclose(right, middle, atol=1e-7)
    np.testing.assert_array_equal(evaluate(phi.derivative, inside_pieces(phi)), slopes)
    # Continuous, 0 at 0, with these slopes: the integral of the slopes.
    grid = np.linspace(0, 6, 7)[:, None] * [[1, -1]]
    fine = grid[..., None] * (np.arange(4000) + 0.5) / 4000
    integral = evaluate(phi.derivative, fine).mean(axis=-1) * grid
    np.testing.assert_allclose(evaluate(phi, grid), integral, atol=0.05)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shape_and_dtype_are_kept(name, dtype):
    h = jnp.linspace(-2, 2, 12, dtype=dtype).reshape(3, 4)
    for function in (EVERY[name], EVERY[name].derivative):
        made = jax.eval_shape(function, h)
        assert (made.shape, made.dtype) == ((3, 4), dtype)


def test_names():
    for name, phi in NAMES.items():
        assert activations.get(name) is phi
        assert activations.get(phi) is phi
        assert MLP((2, 3), laws.Gaussian(1.0), laws.Zero(), name).activation is phi
    assert MLP((2, 3), laws.Gaussian(1.0), laws.Zero()).activation is activations.relu


def test_equal_activations_are_one_static_argument():
    for make in (lambda: leaky_relu(0.2), lambda: piecewise_linear([0, 1], [1, 2, 3])):
        assert make() == make() and hash(make()) == hash(make())
    assert leaky_relu(0.2) != leaky_relu(0.3)
    assert leaky_relu(True) == leaky_relu(np.float32(1)) == leaky_relu(1)


def test_an_activation_of_ones_own_is_measured():
    cube = Activation("cube", lambda h: h**3, lambda h: 3 * h**2, None, None, math.inf)
    line = curves.line([0.0], [2.0])
    length = measure([(np.eye(1), np.zeros(1))], line, activation=cube, probes="length", points=999)
    assert length["length"][0] == pytest.approx(8.0, rel=1e-5)


def use(*args, **options):
    """An activation is held against its own function where it is first used."""
    return activations.get(Activation(*args, **options))


def test_what_an_activation_says_of_itself_is_derived():
    gelu = use("gelu", jax.nn.gelu, lipschitz=1.13)
    h = jnp.linspace(-3, 3, 13)
    expected = jax.vmap(jax.grad(jax.nn.gelu))(h)
    np.testing.assert_allclose(gelu.derivative(h), expected, atol=1e-6)
    assert not gelu.piecewise_linear and gelu == use("gelu", jax.nn.gelu, lipschitz=1.13)
    bent = use("bent", lambda h: jnp.clip(3 * h, 0, 6), breakpoints=[0, 2], slopes=(0, 3, 0))
    assert (bent.breakpoints, bent.slopes, bent.lipschitz) == ((0.0, 2.0), (0.0, 3.0, 0.0), 3.0)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: use("x", jnp.tanh, lambda h: 1 - jnp.tanh(h), lipschitz=1.0),
            r"activation 'x': its derivative is 2 and not .* at h=-7.999: give the derivative",
        ),
        (  # wrong by 1 % at its steepest, right far away
            lambda: use("x", jnp.tanh, lambda h: 1.01 / jnp.cosh(h) ** 2, lipschitz=1.0),
            "its derivative is .* or leave it out",
        ),
        (
            lambda: use("x", jax.nn.gelu, lipschitz=1.0),
            r"lipschitz=1 and the function's slope is 1.129 at h=1.41\d*: give its steepest slope",
        ),
        (lambda: use("x", jnp.sign, lipschitz=1.0), "the function's slope is 150"),  # a jump
        (lambda: use("x", jnp.log, lipschitz=1.0), "is nan at h=-7.999: give one that is finite"),
        (lambda: use("x", jnp.sum, lipschitz=1.0), r"returns float32\[\] for float32\[1201\]"),
        (lambda: use("x", np.tanh, lipschitz=1.0), "with jax.numpy in place of numpy"),
        (
            lambda: use("x", jax.nn.relu, None, (1.0,), (0.0, 1.0)),
            r"its slope is 0 and not 1 at h=0.01333: give slopes and breakpoints of the function",
        ),
        (
            lambda: use("x", jnp.tanh, lipschitz=1.0, homogeneous=True),
            r"with homogeneous=True: f\(2h\) is .*: say homogeneous=False",
        ),
    ],
    ids=["derivative", "slightly", "lipschitz", "jump", "nan", "shape", "numpy", "slopes", "scale"],
)
def test_an_activation_at_odds_with_its_function_is_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()


def test_an_activation_of_traced_numbers_passes():
    """Inside a gradient its numbers are not known: there is nothing to hold it against."""

    def slope(s):
        phi = use("mine", lambda h: jnp.where(h > 0, h, s * h), lipschitz=1.0)
        return phi(jnp.array([-2.0, 1.0]))[0]

    assert jax.jit(slope)(0.5) == -1.0
    assert jax.grad(slope)(0.5) == -2.0
