"""Derivatives of the kernels' numbers: right, or NaN; never 0 in silence.

Where a derivative exists it is held against finite differences of the same networks, their
difference in standard errors.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import MLP, curves, kernel, laws, measure, probe
from jaxexpr._core.derivatives import without_derivative

KEY = jax.random.key(3)
LINE = curves.line([1.0, 0.2, -0.3, 0.5], [-0.4, 0.9, 0.6, 0.1])
COUNTS = ("transitions", "network_transitions", "patterns", "sign_changes")


def steps(x, d):
    """Twice x, beside what has no derivative with respect to d."""
    return 2 * x, without_derivative(jnp.floor(d), d)


def test_a_step_has_derivative_nan_and_its_neighbours_have_theirs():
    at = (1.5, 2.5)
    value, (slope, none) = jax.value_and_grad(lambda x, d: sum(steps(x, d)), (0, 1))(*at)
    assert (value, slope) == (5.0, 2.0) and np.isnan(none)
    assert jax.grad(lambda x, d: steps(x, d)[0], 1)(*at) == 0  # it does not depend on d
    _, (moved, still) = jax.jvp(steps, at, (1.0, 0.0))
    assert (moved, still) == (2.0, 0.0)
    assert np.isnan(jax.jvp(steps, at, (0.0, 1.0))[1][1])


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("around", [lambda f: f, jax.jit, jax.checkpoint], ids=["", "jit", "remat"])
def test_jacobians_hold_nan_in_that_place_alone(jacobian, around):
    found = jacobian(around(lambda p: jnp.stack(steps(*p))))(jnp.array([1.5, 2.5]))
    np.testing.assert_array_equal(found, [[2, 0], [0, np.nan]])


def test_second_derivatives():
    def cubic(p):
        x, d = steps(p[0] ** 3, p[1])
        return x + d * p[0]

    found = np.asarray(jax.hessian(cubic)(jnp.array([1.0, 2.5])))
    assert found[0, 0] == 12 and np.isnan(found[0, 1]) and np.isnan(found[1, 0])


def test_cotangents_that_cancel_do_not_pass_as_zero():
    def difference(d):
        masks = without_derivative(jnp.ones(3), d)
        return masks[0] - masks[1]

    assert np.isnan(jax.grad(difference)(0.5))
    both = jax.vmap(jax.grad(difference))(jnp.array([0.5, 0.7]))
    assert np.isnan(both).all()


def test_tangents_that_cancel_do_not_pass_as_zero():
    def held(x):
        return without_derivative(jnp.ones(()), [x, -x])

    assert np.isnan(jax.jvp(held, (0.5,), (1.0,))[1])


def test_loops_keep_them_apart():
    def looped(x, d):
        def body(carry, step):
            own = without_derivative(carry[1], step[1])
            return (carry[0] * step[0], own), (carry[0] * step[0], own)

        _, out = jax.lax.scan(body, (x, jnp.ones(())), (jnp.ones(3) * 2, d * jnp.ones(3)))
        return out

    scaled = jax.jit(jax.grad(lambda x, d: looped(x, d)[0][-1], (0, 1)))
    np.testing.assert_array_equal(scaled(1.0, 0.5), [8, 0])
    masked = jax.jit(jax.grad(lambda x, d: looped(x, d)[1][-1], (0, 1)))
    np.testing.assert_array_equal(masked(1.0, 0.5), [0, np.nan])


def relu(sigma, density, **options):
    net = MLP((4, 5, 5), laws.Sparse(laws.Gaussian(sigma), density), laws.Zero())
    return kernel(net, LINE, **options)(KEY)


@pytest.mark.parametrize("options", [{"points": 4}, {"points": 4, "method": "grid"}], ids=str)
def test_a_density_has_no_derivative_and_sigma_beside_it_has(options):
    def growth(sigma, density):
        return jnp.sum(relu(sigma, density, probes="growth", **options)["growth"])

    value, (slope, none) = jax.jit(jax.value_and_grad(growth, (0, 1)))(1.7, 0.8)
    assert float(slope) == pytest.approx(float(value) / 1.7, rel=1e-5)
    assert np.isnan(none)


def test_parameters_drawn_with_a_density_too():
    def energy(sigma, density):
        net = MLP((4, 5), laws.Sparse(laws.Gaussian(sigma), density), laws.Zero())
        return jnp.sum(net.init(KEY)[0][0] ** 2)

    slope, none = jax.grad(energy, (0, 1))(1.5, 0.6)
    assert slope == pytest.approx(2 * float(energy(1.5, 0.6)) / 1.5, rel=1e-5) and np.isnan(none)


def test_a_limit_of_integers_has_no_derivative_and_a_size_has():
    def energy(law):
        return jnp.sum(law.sample(KEY, (5, 4)) ** 2)

    assert np.isnan(jax.grad(lambda x: energy(laws.DiscreteUniform(x)))(3.0))
    assert jax.grad(lambda c: energy(laws.TwoPoint(c)))(1.5) == pytest.approx(60)
    assert jax.grad(lambda c: energy(laws.Sparse(laws.TwoPoint(c), 1.0)))(1.5) == pytest.approx(60)


def test_counts_on_a_grid_have_no_derivative_and_growth_beside_them_has():
    def both(sigma, x1):
        net = MLP((4, 5, 5), laws.Gaussian(sigma), laws.Zero())
        line = curves.line(jnp.asarray(LINE.arrays[0], jnp.float32), x1)
        return kernel(net, line, probes=("growth", *COUNTS), method="grid", points=9)(KEY)

    at = (jnp.asarray(1.7), jnp.asarray(LINE.arrays[1], jnp.float32))
    values, slopes = jax.jit(lambda *p: (both(*p), jax.jacrev(both, (0, 1))(*p)))(*at)
    for name, (of_sigma, of_point) in slopes.items():
        if name == "growth":
            np.testing.assert_allclose(of_sigma, values[name] / at[0], rtol=1e-4)
            assert np.isfinite(of_point).all() and np.any(of_point != 0)
        else:
            assert np.isnan(of_sigma).all() and np.isnan(of_point).all(), name


def test_other_numbers_beside_a_count_keep_their_derivatives():
    @probe(degree=0)
    def turned(layer):
        return jnp.mean(layer.h[0] * layer.h[-1]) / jnp.mean(layer.h[0] ** 2)

    def own(x1):
        line, net = curves.line(jnp.ones(4), x1), MLP((4, 5), laws.Gaussian(1.0), laws.Zero())
        return kernel(net, line, probes=(turned, "transitions"), method="grid", points=3)(KEY)

    slopes = jax.jit(jax.jacfwd(own))(jnp.arange(4.0))
    assert np.isfinite(slopes["turned"]).all() and np.isnan(slopes["transitions"]).all()


# Where the slopes of tangents would lack a term: units change their state between the nodes


def last_growth(activation, method, keys, sigma, tau):
    net = MLP((4, 6, 6), laws.Gaussian(sigma), laws.Gaussian(tau), activation)
    one = kernel(net, LINE, probes="growth", method=method, points=5)
    return jax.vmap(one)(keys)["growth"][:, -1]


@functools.cache
def sampled(activation, method, draws):
    """Slopes in both numbers, and finite differences of the same networks: ``(2, draws)`` each."""
    of = functools.partial(last_growth, activation, method, jax.random.split(KEY, draws))
    at, step = jnp.array([1.8, 0.7]), 0.02
    cells = at[None] + step * jnp.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    slopes = jax.jit(jax.jacfwd(lambda p: of(*p)))(at)
    values = np.asarray(jax.jit(jax.vmap(lambda p: of(*p)))(cells), np.float64)
    return np.asarray(slopes).T, np.diff(-values.reshape(2, 2, -1), axis=1)[:, 0] / (2 * step)


def errors_apart(slope, difference):
    apart = (slope - difference)[np.isfinite(slope) & np.isfinite(difference)]
    return apart.mean() / (apart.std() / np.sqrt(apart.size))


def test_on_a_grid_slopes_are_those_of_finite_differences():
    slopes, differences = sampled("hard_tanh", "grid", 3000)
    for slope, difference in zip(slopes, differences, strict=True):
        assert abs(errors_apart(slope, difference)) < 5
        assert abs(errors_apart(1.2 * slope, difference)) > 5


@pytest.mark.parametrize("activation", ["hard_tanh", "relu"])
def test_at_tangents_states_that_move_have_no_derivative(activation):
    keys = jax.random.split(KEY, 2)
    slopes = jax.jit(
        jax.jacfwd(functools.partial(last_growth, activation, "tangent", keys), (0, 1))
    )(1.8, 0.7)
    assert np.isnan(slopes).all()


def test_smooth_activations_have_all_derivatives_at_tangents():
    np.testing.assert_allclose(*sampled("tanh", "tangent", 20), rtol=0.02, atol=5e-3)


def test_points_of_a_curve_move_states():
    def length(x1, activation, method):
        net = MLP((4, 5), laws.Gaussian(1.5), laws.Zero(), activation)
        line = curves.line(jnp.zeros(4), x1)
        return kernel(net, line, probes="length", method=method, points=4)(KEY)["length"][-1]

    slope = jax.jit(jax.grad(length), static_argnums=(1, 2))
    assert np.isnan(slope(jnp.ones(4), "relu", "tangent")).all()
    for how in (("linear", "tangent"), ("relu", "grid")):
        found = slope(jnp.ones(4), *how)
        assert np.isfinite(found).all() and np.any(found != 0)


def test_given_parameters():
    params = MLP((4, 6, 6), laws.Gaussian(1.5), laws.Gaussian(0.4)).init(KEY)

    def last(params, method, name):
        return measure(params, LINE, probes=name, method=method, points=21)[name][-1]

    slope = jax.jit(jax.grad(last), static_argnums=(1, 2))
    for method, name in (("tangent", "length"), ("grid", "transitions")):
        for array in jax.tree.leaves(slope(params, method, name)):
            assert np.isnan(array).all()
    found = slope(params, "grid", "length")[0][1]
    (W, b), above = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    step = 1e-6 * np.eye(6)
    ends = [
        [last(((W, b + sign * row), above), "grid", "length") for row in step] for sign in (1, -1)
    ]
    np.testing.assert_allclose(found, np.subtract(*ends) / 2e-6, rtol=1e-3, atol=1e-4)


def test_exact_slopes_are_those_of_finite_differences():
    """Breakpoints move with the numbers, and the exact numbers know it."""

    def numbers(sigma, tau, keys):
        net = MLP((4, 6, 6), laws.Gaussian(sigma), laws.Gaussian(tau), "hard_tanh")
        one = kernel(net, LINE, probes=("growth", "length", "transitions"), method="exact")
        return jax.vmap(one)(keys)

    keys, step = jax.random.split(KEY, 400), 0.02
    at = (jnp.asarray(1.8), jnp.asarray(0.7))
    slopes = jax.jit(jax.jacfwd(numbers, (0, 1)))(*at, keys)
    value = jax.jit(numbers)
    for i in (0, 1):
        up, down = ([x + sign * step * (i == j) for j, x in enumerate(at)] for sign in (1, -1))
        high, low = value(*up, keys), value(*down, keys)
        for name in ("growth", "length"):
            difference = (np.asarray(high[name]) - np.asarray(low[name])) / (2 * step)
            slope = np.asarray(slopes[name][i])
            assert np.isfinite(slope).mean() > 0.99
            for layer in (0, 1):
                assert abs(errors_apart(slope[:, layer], difference[:, layer])) < 5
            assert abs(errors_apart(1.5 * slope[:, 1], difference[:, 1])) > 5
        assert np.isnan(slopes["transitions"][i]).all()
