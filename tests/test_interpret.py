"""Exact pieces of any JAX function, against routes that know nothing of jaxprs."""

import functools
import itertools
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from jaxexpr.exact.functions import evaluator
from jaxexpr.exact.functions.function_pieces import pieces_of


def points(seed, *shape):
    return np.random.default_rng(seed).normal(size=(2, *shape))


def doubled(fn):
    """The function on float64 arrays, as one flat NumPy array."""
    compiled = jax.jit(fn)

    def call(x):
        with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
            leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(compiled(jnp.asarray(x)))]
        return np.concatenate(leaves).astype(np.float64)

    return call


def bends(fn, x0, x1, grid=512):
    """Breakpoints of the output: values and slopes on a fine grid, then bisection.

    Between two points with one tangent the function is taken for affine; where the tangents at two
    points meet and hold until there, that is the only breakpoint between them.
    """
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        a, b = jnp.asarray(x0), jnp.asarray(x1)

        def along(t):
            leaves = jax.tree.leaves(fn(a + t * (b - a)))
            return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float64) for leaf in leaves])

        @jax.jit
        def both(ts):
            return jax.vmap(lambda t: jax.jvp(along, (t,), (jnp.ones_like(t),)))(ts)

        def look(ts):
            values, slopes = [], []
            for part in range(0, len(ts), grid):
                some = np.asarray(ts[part : part + grid])
                full = np.concatenate([some, np.full(grid - some.size, 0.5)])
                value, slope = both(jnp.asarray(full))
                values.append(np.asarray(value)[: some.size])
                slopes.append(np.asarray(slope)[: some.size])
            return np.concatenate(values), np.concatenate(slopes)

        ts = np.concatenate([[0.0], (np.arange(grid - 2) + 0.4142) / (grid - 2), [1.0]])
        value, slope = look(ts)
        found, left, right = [], np.arange(grid - 1), np.arange(1, grid)
        for _ in range(60):
            step = (ts[right] - ts[left])[:, None]
            size = 1 + np.abs(slope[left]) + np.abs(slope[right])
            rise, change = value[right] - value[left], slope[right] - slope[left]
            same = np.abs(change) <= 1e-11 * size
            affine = same.all(1) & (np.abs(rise - step * slope[left]) <= 1e-13 * size).all(1)
            left, right = left[~affine], right[~affine]
            assert left.size < 10_000, "these tangents are not those of the function"
            if not left.size:
                return np.sort(found)
            step, rise, change, size = (x[~affine] for x in (step, rise, change, size))
            entry = np.abs(change / size).argmax(1)
            each = np.arange(left.size)
            divisor = np.where(change[each, entry] == 0, 1, change[each, entry])
            part = (step[:, 0] * slope[right][each, entry] - rise[each, entry]) / divisor
            inside = (part > 0) & (part < step[:, 0])
            part = np.where(inside, part, step[:, 0] / 2)
            # A corner is there if each tangent holds just up to it.
            near = 1e-6 * np.minimum(part, step[:, 0] - part)
            meets = inside
            for side, end in ((-1, left), (1, right)):
                at = ts[left] + part + side * near
                v, s = look(at)
                off = np.abs(v - value[end] - (at - ts[end])[:, None] * slope[end])
                turned = np.abs(s - slope[end]) > 1e-11 * size
                meets &= ((off <= 1e-13 * size) & ~turned).all(1)
            found += (ts[left] + part)[meets].tolist()
            left, right = left[~meets], right[~meets]
            middle = (ts[left] + ts[right]) / 2
            if not left.size:
                return np.sort(found)
            v, s = look(middle)
            new = np.arange(left.size) + ts.size
            ts = np.concatenate([ts, middle])
            value, slope = np.concatenate([value, v]), np.concatenate([slope, s])
            left, right = np.concatenate([left, new]), np.concatenate([new, right])
    raise AssertionError("the bisection found no end")


def interpolates(found, fn, x0, x1, count=64):
    """Whether the function at random places is what the values at the breakpoints say."""
    flat = [np.reshape(v, (len(found.breakpoints), -1)) for v in jax.tree.leaves(found.values)]
    values = np.concatenate(flat, axis=1)
    ts = np.random.default_rng(7).random(count)
    said = np.stack([np.interp(ts, found.breakpoints, column) for column in values.T], axis=1)
    true = np.stack([doubled(fn)(x0 + t * (x1 - x0)) for t in ts])
    return np.allclose(said, true, rtol=1e-9, atol=1e-9 * (1 + np.abs(true).max()))


def agrees(fn, x0, x1):
    found = pieces_of(fn, x0, x1)
    assert interpolates(found, fn, x0, x1)
    np.testing.assert_allclose(found.linear_breakpoints[1:-1], bends(fn, x0, x1), atol=1e-8)
    assert found.linear_count <= found.count
    assert sum(c.count for c in found.crossings) >= found.count - 1
    assert set(found.linear_breakpoints) <= set(found.breakpoints)
    return found


# MLPs, beside a plain interval algorithm

ACTIVATIONS = {
    "relu": (jax.nn.relu, (0.0,), lambda h: np.maximum(h, 0)),
    "abs": (jnp.abs, (0.0,), np.abs),
    "leaky_relu": (
        lambda h: jax.nn.leaky_relu(h, 0.1),
        (0.0,),
        lambda h: np.where(h >= 0, h, 0.1 * h),
    ),
    "hard_tanh": (lambda h: jnp.clip(h, -1, 1), (-1.0, 1.0), lambda h: np.clip(h, -1, 1)),
}


def mlp(widths, seed, scale=1.5, bias=0.5, density=1.0):
    r = np.random.default_rng(seed)
    return [
        (
            r.normal(0, scale / np.sqrt(i), (i, o)) * (r.random((i, o)) < density),
            r.normal(0, 1, o) * bias,
        )
        for i, o in itertools.pairwise(widths)
    ]


def layers(params, phi, out=None):
    def fn(x):
        for weights, biases in params:
            x = phi(x @ weights + biases)
        return x if out is None else x @ out

    return fn


def intervals(params, levels, phi, x0, x1):
    """Breakpoints of a line, and crossings a layer, one piece after another."""
    ts, z, crossings = [0.0, 1.0], [x0, x1], []
    for weights, biases in params:
        h = [row @ weights + biases for row in z]
        new_t, new_h, crossed = [ts[0]], [h[0]], 0
        for (t0, h0), (t1, h1) in itertools.pairwise(zip(ts, h, strict=True)):
            with np.errstate(divide="ignore", invalid="ignore"):
                parts = [(level - h0) / (h1 - h0) for level in levels]
            parts = sorted(p for row in parts for p in row if 0 < p < 1)
            crossed += len(parts)
            new_t += [t0 + p * (t1 - t0) for p in parts] + [t1]
            new_h += [h0 + p * (h1 - h0) for p in parts] + [h1]
        crossings.append(crossed)
        ts, z = new_t, [phi(row) for row in new_h]
    return np.array(ts), crossings


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(1, 24), min_size=2, max_size=5),
    st.integers(0, 10**6),
    st.sampled_from(sorted(ACTIVATIONS)),
    st.sampled_from([0.7, 1.5, 4.0]),
    st.sampled_from([1.0, 0.4]),
)
def test_an_mlp_has_the_pieces_of_the_interval_algorithm(widths, seed, name, scale, density):
    phi, levels, plain = ACTIVATIONS[name]
    params = mlp(widths, seed, scale, density=density)
    x0, x1 = points(seed + 1, widths[0])
    found = pieces_of(layers(params, phi), x0, x1)
    ts, crossings = intervals(params, levels, plain, x0, x1)
    np.testing.assert_allclose(found.breakpoints, ts, atol=1e-10)
    per_layer = np.array([c.count for c in found.crossings]).reshape(len(params), -1)
    assert per_layer.sum(axis=1).tolist() == crossings


def test_a_wide_deep_network_to_the_last_piece():
    phi, levels, plain = ACTIVATIONS["relu"]
    params = mlp((64,) * 5, 0, np.sqrt(2), 0.3)
    x0, x1 = points(0, 64)
    ts, crossings = intervals(params, levels, plain, x0, x1)
    found = pieces_of(layers(params, phi), x0, x1)
    assert found.count == len(ts) - 1 > 60
    assert [c.count for c in found.crossings] == crossings


def test_patterns_on_a_fine_grid_are_the_pieces():
    params = mlp((5, 12, 12), 3)
    x0, x1 = points(4, 5)
    found = pieces_of(layers(params, jax.nn.relu), x0, x1)
    t = np.linspace(0, 1, 200_001)
    assert np.diff(found.breakpoints).min() > 2 * t[1]
    z, patterns = x0 + t[:, None] * (x1 - x0), []
    for weights, biases in params:
        h = z @ weights + biases
        patterns.append(h > 0)
        z = np.maximum(h, 0)
    pattern = np.concatenate(patterns, axis=1)
    assert 1 + (pattern[1:] != pattern[:-1]).any(axis=1).sum() == found.count


# Images: convolutions, pooling, normalisation, Flax

R = np.random.default_rng(0)
K1, K2 = R.normal(size=(6, 2, 3, 3)) / 3, R.normal(size=(6, 6, 3, 3)) / 5
W1 = R.normal(size=(6 * 4 * 4, 2)) / 4
NHWC = ("NHWC", "OIHW", "NHWC")


def conv(x, kernel, **options):
    strides = options.pop("strides", (1, 1))
    return lax.conv_general_dilated(x, kernel, strides, "SAME", dimension_numbers=NHWC, **options)


def pooled(x, size=3, stride=2):
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "SAME")


def conv_net(x):
    h = pooled(conv(x, K1))
    h = h + jax.nn.relu(conv(jnp.maximum(h, 0), K2))
    return h.reshape(-1) @ W1


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(4, (3, 3))(x)))
        x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.avg_pool(x, (2, 2), (2, 2)) + nn.leaky_relu(nn.Conv(4, (3, 3), strides=2)(x))
        return nn.Dense(3)(nn.Dropout(0.5, deterministic=True)(x.reshape(-1)))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(2, 4, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs, use_running_average=True)
        self.hidden = nnx.Linear(64, 8, rngs=rngs)
        self.out = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        x = nnx.max_pool(nnx.relu(self.norm(self.conv(x))), (2, 2), (2, 2))
        return self.out(nnx.leaky_relu(self.hidden(x.reshape(-1))))


@functools.cache
def linen():
    net = Linen()
    with jax.numpy_dtype_promotion("standard"):
        variables = net.init(jax.random.key(0), jnp.zeros((1, 8, 8, 2)))
    r = np.random.default_rng(1)
    # A fresh batch normalisation changes nothing: give it means, variances, scales.
    moved = jax.tree.map(
        lambda a: np.asarray(a) + r.uniform(0.1, 0.5, a.shape).astype(np.float32), variables
    )
    return lambda x: net.apply(moved, x)


IMAGES = {
    "max-pooling and a residual block": conv_net,
    "jitted": jax.jit(conv_net),
    "flax.linen": linen(),
    "flax.nnx": Nnx(nnx.Rngs(0)),
}


@pytest.mark.parametrize("name", IMAGES)
def test_a_convolutional_network_bends_where_bisection_finds_it(name):
    found = agrees(IMAGES[name], *points(0, 1, 8, 8, 2))
    assert found.count > 50


def test_max_pooling_has_the_pieces_of_a_fine_grid_of_winners():
    x0, x1 = points(5, 1, 6, 6, 2)
    found = pieces_of(lambda x: pooled(jnp.asarray(x), 2, 2), x0, x1)
    t = np.linspace(0, 1, 100_001)
    assert np.diff(found.breakpoints).min() > 2 * t[1]
    windows = (x0 + t[:, None, None, None, None] * (x1 - x0)).reshape(-1, 3, 2, 3, 2, 2)
    winner = windows.transpose(0, 1, 3, 5, 2, 4).reshape(len(t), -1, 4).argmax(axis=-1)
    changes = winner[1:] != winner[:-1]
    assert 1 + changes.any(axis=1).sum() == found.count
    assert found.crossings[0].primitive == "reduce_window_max"
    assert found.crossings[0].count == changes.sum()


def test_a_batch_of_images_at_once_has_the_breakpoints_of_all():
    x0, x1 = points(6, 2, 8, 8, 2)
    both = pieces_of(jax.vmap(lambda image: conv_net(image[None])), x0, x1)
    alone = [pieces_of(conv_net, x0[i : i + 1], x1[i : i + 1]).breakpoints for i in range(2)]
    np.testing.assert_allclose(both.breakpoints, np.unique(np.concatenate(alone)), atol=1e-12)


# Every primitive that is followed

V = R.normal(size=(10, 10)) / 2
SOURCE, TARGET = R.integers(0, 10, 30), R.integers(0, 10, 30)
KERNEL = R.normal(size=(2, 2, 3))


@jax.custom_vjp
def own_relu(x):
    return jnp.maximum(x, 0)


own_relu.defvjp(lambda x: (own_relu(x), x), lambda x, g: (jnp.where(x > 0, g, 0.0),))


def scanned(x):
    def body(carry, w):
        carry = carry + jax.nn.relu(carry @ w)
        return carry, jnp.abs(carry).sum()

    end, seen = lax.scan(body, x, np.stack([V, V.T, -V]) / 2, reverse=True)
    return jnp.concatenate([end, seen])


FUNCTIONS = {
    "clip": lambda x: jnp.clip(x @ V, -1, 1),
    "hard_tanh": lambda x: jax.nn.hard_tanh(2 * x @ V),
    "relu6": lambda x: jax.nn.relu6(9 * x @ V),
    "clamp": lambda x: lax.clamp(-0.3, x, 0.2),
    "clamp between values": lambda x: lax.clamp(x[:3], x[3:6], 1 + jnp.abs(x[6:9]) + x[:3]),
    "clamp of a constant": lambda x: lax.clamp(-0.3 * np.ones(10), 0.1 * np.ones(10), x),
    "where": lambda x: jnp.where(x @ V > x, x @ V, x),
    "where, nested": lambda x: jnp.where(jnp.abs(x) < 1, x, jnp.sign(x)),
    "where, constant": lambda x: jnp.abs(jnp.where(np.arange(10) % 2 == 0, x, -3.0)),
    "mask": lambda x: (x @ V) * (x @ V > 0),
    "logical": lambda x: x * ((x > 0) & jnp.logical_not(x <= 0)) / 2,
    "divided by a mask": lambda x: x / jnp.where(x > 0, 1.0, 2.0),
    "sign": lambda x: x * jnp.sign(x),
    "eq and ne": lambda x: jnp.nan_to_num(jnp.abs(x)),
    "isfinite": lambda x: jnp.where(jnp.isfinite(x), jnp.abs(x), 0.0),
    "min and max": lambda x: jnp.minimum(x @ V, x) - jnp.maximum(x, 0.3),
    "reduce_max": lambda x: jnp.max((x @ V).reshape(2, 5), 0) + jnp.min(x @ V.T),
    "min-pooling": lambda x: lax.reduce_window(x, jnp.inf, lax.min, (3,), (2,), "SAME"),
    "dilated pooling": lambda x: lax.reduce_window(
        x, -jnp.inf, lax.max, (3,), (1,), ((1, 2),), base_dilation=(2,), window_dilation=(3,)
    ),
    "average pooling": lambda x: nn.avg_pool(jax.nn.relu(x)[None, :, None], (3,), (1,), "SAME"),
    "norms": lambda x: jnp.linalg.norm(x, 1) + jnp.linalg.norm(x, jnp.inf),
    "cumsum": lambda x: jnp.abs(jnp.cumsum(x)) + jax.lax.cumsum(x, reverse=True),
    "mean": lambda x: jnp.mean(jnp.abs(x.reshape(2, 5)), axis=0),
    "moves": lambda x: jax.nn.relu(
        jnp.pad(jnp.roll(jnp.flip(x), 3), 2, constant_values=0.5).reshape(2, 7).T[::2, None]
    ),
    "put together": lambda x: jnp.abs(jnp.stack([jnp.tile(x[:2], 3), jnp.repeat(x[2:4], 3)])),
    "split": lambda x: jnp.maximum(*jnp.split(x, 2)) - jnp.concatenate([x[:2], np.ones(3)]),
    "gather": lambda x: jnp.abs(jnp.take(x, np.array([[3, 3], [9, 0]]))),
    "dynamic slices": lambda x: lax.dynamic_update_slice(
        jnp.abs(x), lax.dynamic_slice(x, (jnp.asarray(2),), (3,)), (jnp.asarray(5),)
    ),
    "set": lambda x: jnp.abs(x.at[np.array([0, 4])].set(1.5).at[2].set(x[3] - 1)),
    "add to places": lambda x: jnp.abs(x.at[np.array([0, 4, 4])].add(x[:3])),
    "graph": lambda x: jax.nn.relu(jax.ops.segment_sum(jnp.abs(x)[SOURCE], TARGET, 10) - 2),
    "product from the left": lambda x: jnp.ones((2, 10)) @ jnp.abs(x),
    "batched product": lambda x: jnp.einsum(
        "bi,bij->bj", jnp.abs(x).reshape(2, 5), KERNEL[0, 0, 0] * np.arange(40.0).reshape(2, 5, 4)
    ),
    "grouped convolution": lambda x: jax.nn.relu(
        lax.conv_general_dilated(
            x.reshape(1, 2, 5), KERNEL[:, :1], (1,), ((1, 2),), (2,), (2,), feature_group_count=2
        )
    ),
    "convolved kernel": lambda x: jnp.abs(
        lax.conv_general_dilated(
            np.arange(24.0).reshape(2, 2, 6) - 9, x[:8].reshape(2, 2, 2), (1,), "VALID"
        )
    ),
    "negation": lambda x: -jnp.abs(-x) / 3 - 1,
    "identity over the reals": lambda x: jnp.abs(
        lax.optimization_barrier(lax.reduce_precision(jnp.copy(x), 11, 52))
    ),
    "checkpoint": jax.checkpoint(lambda x: jnp.abs(2 * x)),
    "custom_jvp and jit": jax.jit(lambda x: jax.nn.relu(x @ V)),
    "scan": scanned,
    "scan, no rounds": lambda x: lax.scan(lambda c, _: (c, c), jnp.abs(x), None, length=0),
    "scan over steps": lambda x: x * lax.scan(lambda c, s: (c, s), 0.0, x > 0)[1],
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, z: jnp.abs(z) - 0.3 * (i + 1), x),
    "while_loop": lambda x: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.abs(s[1]) - 0.4), (0, x)
    )[1],
    "cond": lambda x: lax.cond(jnp.sum(np.ones(3)) > 2, jnp.abs, jnp.sin, x),
    "constant": lambda x: jnp.tanh(np.ones(3)),
    "pytree": lambda x: {"a": jnp.abs(x), "b": (x[0], jax.nn.relu(x[1:3]))},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_of_this_kind_is_followed(name):
    agrees(FUNCTIONS[name], *points(2, 10))


@pytest.mark.parametrize("fn", [own_relu, lambda x: x / 2 + lax.stop_gradient(jnp.abs(x))])
def test_a_derivative_of_its_own_is_not_looked_at(fn):
    # Bisection needs the true tangents, which these functions do not have.
    x0, x1 = points(2, 10)
    found = pieces_of(fn, x0, x1)
    assert interpolates(found, fn, x0, x1)
    np.testing.assert_allclose(found.breakpoints[1:-1], np.sort((x0 / (x0 - x1))[x0 * x1 < 0]))


def primitives(jaxpr):
    names = set()
    for equation in jaxpr.eqns:
        names.add(equation.primitive.name)
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                names |= primitives(inner) if hasattr(inner, "eqns") else set()
    return names


def test_the_cases_above_meet_every_rule():
    seen = {"custom_vjp_call", "stop_gradient"}  # in the test above
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        for fn in FUNCTIONS.values():
            seen |= primitives(jax.make_jaxpr(fn)(np.ones(10)).jaxpr)
        for fn in IMAGES.values():
            seen |= primitives(jax.make_jaxpr(fn)(np.ones((1, 8, 8, 2))).jaxpr)
    # Names of other versions of JAX, of other machines and of transformations.
    others = {"add_any", "copy_p", "device_put", "sharding_constraint", "name"}
    assert set(evaluator.RULES) - seen <= others
    assert set(evaluator.CALLS) & seen == {"jit", "custom_jvp_call", "custom_vjp_call", "remat2"}
    assert set(evaluator.LOOPS) <= seen


@st.composite
def programs(draw):
    """A few random piecewise linear steps on a vector of 6."""
    r = np.random.default_rng(draw(st.integers(0, 10**6)))
    steps = []
    for _ in range(draw(st.integers(1, 5))):
        w, b = r.normal(size=(6, 6)) / 2, r.normal(size=6) / 2
        steps.append(draw(st.sampled_from([
            lambda x, w=w, b=b: jax.nn.relu(x @ w + b),
            lambda x, w=w, b=b: x + jax.nn.leaky_relu(x @ w + b, 0.3) @ w.T,
            lambda x, w=w, b=b: jnp.clip(x @ w, -0.5, 0.7),
            lambda x, w=w, b=b: jnp.abs(x - b),
            lambda x, w=w, b=b: lax.reduce_window(x @ w, -jnp.inf, lax.max, (3,), (1,), "SAME"),
            lambda x, w=w, b=b: jnp.where(x @ w > b, x @ w, b),
            lambda x, w=w, b=b: jnp.max(jnp.outer(np.ones(6), x) @ w + w, axis=1),
            lambda x, w=w, b=b: jnp.minimum(x @ w, x[::-1]),
            lambda x, w=w, b=b: jnp.concatenate([x[3:] @ w[3:, :3], jnp.cumsum(x[:3])]),
            lambda x, w=w, b=b: (x @ w) * (x @ w > 0) - x,
        ])))  # fmt: skip
    return lambda x: functools.reduce(lambda y, step: step(y), steps, x)


@settings(deadline=None, max_examples=12)
@given(programs(), st.integers(0, 10**6))
def test_random_programs_bend_where_bisection_finds_it(program, seed):
    x0, x1 = points(seed, 6)
    found = pieces_of(program, x0, x1)
    assert interpolates(found, program, x0, x1)
    np.testing.assert_allclose(
        found.linear_breakpoints[1:-1], bends(program, x0, x1), rtol=0, atol=1e-8
    )


# Known numbers


def folded(depth):
    def fn(x):
        for _ in range(depth):
            x = 2 * jnp.abs(x) - 1
        return x

    return fn


@pytest.mark.parametrize("depth", [1, 2, 7, 16])
def test_folding_doubles_the_pieces(depth):
    found = pieces_of(folded(depth), np.array([-1.0]), np.array([1.0]))
    assert found.count == found.linear_count == 2**depth
    assert [c.count for c in found.crossings] == [2**d for d in range(depth)]
    np.testing.assert_array_equal(found.breakpoints, np.arange(2**depth + 1) / 2**depth)
    assert set(np.abs(found.values[:, 0])) == {1.0}


@pytest.mark.parametrize("width", [1e-9, 1e-12])
def test_a_narrow_piece_is_found(width):
    levels = np.array([0.3, 0.3 + width])
    found = pieces_of(lambda x: jnp.sum(jax.nn.relu(x - levels)), np.zeros(1), np.ones(1))
    np.testing.assert_allclose(found.breakpoints, [0, 0.3, 0.3 + width, 1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.diff(found.breakpoints)[1], width, rtol=1e-3)
    assert found.linear_count == 3


def test_a_narrow_piece_in_a_deep_layer_is_found():
    # On the longest piece of two layers, two units of the third that cross 1e-9 apart.
    hidden = layers(mlp((4, 8, 8), 11), jax.nn.relu)
    x0, x1 = points(12, 4)
    below = pieces_of(hidden, x0, x1)
    longest = np.diff(below.breakpoints).argmax()
    heights = (below.values @ np.ones(8))[longest : longest + 2]
    slope = np.diff(heights) / np.diff(below.breakpoints)[longest]
    levels = heights.mean() + np.array([0.0, 1e-9]) * slope
    found = pieces_of(lambda x: jax.nn.relu(jnp.sum(hidden(x)) - levels), x0, x1)
    middle = below.breakpoints[longest : longest + 2].mean()
    first = np.abs(found.breakpoints - middle).argmin()
    np.testing.assert_allclose(found.breakpoints[first], middle, rtol=0, atol=1e-14)
    np.testing.assert_allclose(np.diff(found.breakpoints)[first], 1e-9, rtol=1e-5)


def test_an_upper_envelope_has_its_corners_and_no_other_crossing():
    r = np.random.default_rng(3)
    for _ in range(50):
        # Few slopes and levels: many lines are parallel, equal, or meet in one point.
        slope, level = r.integers(-3, 4, (2, 2, 9)) / np.array([3.0, 10.0])[:, None, None]
        found = pieces_of(
            lambda x, a=slope, b=level: jnp.max(a * x[0] + b, axis=1),
            np.array([-1.0]),
            np.array([1.2]),
        )
        corners = set()
        for a, b in zip(slope, level, strict=True):
            for i, j in itertools.combinations(range(9), 2):
                if a[i] != a[j]:
                    x = (b[j] - b[i]) / (a[i] - a[j])
                    if -1 + 1e-9 < x < 1.2 - 1e-9 and a[i] * x + b[i] > (a * x + b).max() - 1e-12:
                        corners.add(round((x + 1) / 2.2, 9))
        np.testing.assert_allclose(found.breakpoints[1:-1], sorted(corners), atol=1e-8)


def test_crossings_name_the_equation_its_place_and_its_count():
    found = pieces_of(linen(), *points(0, 1, 8, 8, 2))
    assert [c.primitive for c in found.crossings] == ["max", "reduce_window_max", "ge"]
    here = Path(__file__).name
    assert all(here in c.place for c in found.crossings[::2])
    assert "Linen" in found.crossings[1].place
    assert sum(c.count for c in found.crossings) >= found.count - 1


def test_linear_pieces_leave_out_what_the_output_does_not_see():
    def fn(x):
        return jax.nn.relu(x) + jax.nn.relu(-x) - jnp.abs(x) + jnp.abs(x - 0.5)

    found = pieces_of(fn, np.array([-1.0]), np.array([1.0]))
    assert (found.count, found.linear_count) == (3, 2)
    assert found.linear_breakpoints.tolist() == [0.0, 0.75, 1.0]


# Degenerate cases


def test_a_line_through_the_origin_of_a_network_without_biases_has_two_pieces():
    for seed in range(10):
        params = mlp((6, 16, 16, 16), seed, bias=0.0)
        x = points(seed, 6)[0]
        found = pieces_of(layers(params, jax.nn.relu), -x, 2 * x)
        assert found.count == found.linear_count == 2
        np.testing.assert_allclose(found.breakpoints[1], 1 / 3, rtol=1e-15)


def test_repeated_and_parallel_units_make_no_pieces_of_their_own():
    r = np.random.default_rng(4)
    for seed in range(10):
        ((w, b),) = mlp((6, 16), seed)
        scale = np.exp(r.normal(size=16))
        more = ((np.concatenate([w, w, w * scale], 1), np.concatenate([b, b, b * scale])),)
        x0, x1 = points(seed, 6)
        alone = pieces_of(layers(((w, b),), jax.nn.relu), x0, x1)
        together = pieces_of(layers(more, jax.nn.relu), x0, x1)
        np.testing.assert_allclose(together.breakpoints, alone.breakpoints, atol=1e-14)
        assert together.crossings[0].count == 3 * alone.crossings[0].count


def test_rounding_of_what_cancels_makes_no_pieces():
    r = np.random.default_rng(5)
    for seed in range(10):
        turn = np.linalg.qr(r.normal(size=(12, 12)))[0]
        x0, x1 = points(seed, 12)

        def zero(x, turn=turn):
            z = jax.nn.relu(x)
            return jax.nn.relu(z @ turn @ turn.T - z) + jax.nn.relu(z - jax.nn.relu(-x) - x)

        found = pieces_of(zero, x0, x1)
        assert found.count == pieces_of(jax.nn.relu, x0, x1).count
        assert found.linear_count == 1


TURN, MIX = np.linalg.qr(R.normal(size=(12, 12)))[0], 1e6 * R.normal(size=(12, 12))


@pytest.mark.parametrize("enlarge", [lambda x: x @ MIX, lambda x: x * MIX[0], lambda x: x / 1e-6])
def test_rounding_is_inherited(enlarge):
    # What is left of a difference is rounding, and large factors come after it.
    found = pieces_of(lambda x: jax.nn.relu(enlarge(x @ TURN @ TURN.T - x)), *points(6, 12))
    assert found.count == found.linear_count == 1


@pytest.mark.parametrize("sign", [-1, 1])
def test_rounding_is_that_of_the_largest_numbers_on_the_way(sign):
    def fn(x):
        x = sign * jnp.abs(x)
        return jax.nn.relu(x / 3 + x / 7 - x * (10 / 21))

    x0, x1 = -1000 * np.arange(1.0, 31), 900 * np.arange(30.0, 0, -1)
    found = pieces_of(fn, x0, x1)
    assert found.count == 31
    assert [c.count for c in found.crossings] == [30, 0]


def test_a_chain_of_near_crossings_is_not_one():
    # Neighbours cannot be told apart, but the first and the last can.
    levels = 0.3 + 1e-15 * np.arange(40)
    found = pieces_of(lambda x: jax.nn.relu(x - levels), np.zeros(1), np.ones(1))
    inner = found.breakpoints[1:-1]
    assert found.crossings[0].count == 40
    assert 5 < inner.size < 40
    assert np.abs(inner[:, None] - levels).min(axis=0).max() < 4e-15


def test_end_points_on_a_boundary_are_not_crossed():
    found = pieces_of(jax.nn.relu, np.array([0.0, -1.0]), np.array([1.0, 0.0]))
    assert found.count == 1
    assert found.crossings[0].count == 0
    touching = pieces_of(lambda x: jax.nn.relu(jnp.abs(x)), np.array([-1.0]), np.array([1.0]))
    assert [c.count for c in touching.crossings] == [1, 0]


def test_maxima_of_ties_keep_their_state():
    # Both entries are 0 on the first half, equal on the second.
    found = pieces_of(lambda x: jnp.max(jax.nn.relu(x)), -np.ones(2), np.ones(2))
    assert [c.count for c in found.crossings] == [2, 0]
    assert found.count == 2


# Memory, precision


@pytest.mark.parametrize("seed", range(5))
def test_a_segment_in_parts_has_the_same_pieces(seed):
    fn, (x0, x1) = layers(mlp((8, 32, 32, 32), seed), jax.nn.relu), points(seed, 8)
    whole, parts = pieces_of(fn, x0, x1), pieces_of(fn, x0, x1, memory=8 * 32 * 9)
    np.testing.assert_allclose(parts.breakpoints, whole.breakpoints, atol=1e-13)
    np.testing.assert_allclose(parts.values, whole.values, atol=1e-12)
    assert parts.crossings == whole.crossings
    assert parts.linear_count == whole.linear_count


def test_parts_that_meet_at_breakpoints():
    for depth in range(1, 8):
        ends = np.array([-1.0]), np.array([1.0])
        found = pieces_of(folded(depth), *ends, memory=8 * 3)
        assert found.count == found.linear_count == 2**depth
        assert [c.count for c in found.crossings] == [2**d for d in range(depth)]


def test_parts_of_max_pooling():
    x0, x1 = points(0, 1, 8, 8, 2)
    whole = pieces_of(conv_net, x0, x1)
    parts = pieces_of(conv_net, x0, x1, memory=8 * 400 * 30)
    assert parts.crossings == whole.crossings
    np.testing.assert_allclose(parts.breakpoints, whole.breakpoints, atol=1e-12)


def test_a_jump_where_two_parts_meet_is_refused():
    def fn(x):
        return jnp.where(x > 0, 1.0, 0.0) + jnp.abs(x + 0.5)

    with pytest.raises(ValueError, match="fn is discontinuous at t = 0.5"):
        pieces_of(fn, np.array([-1.0]), np.array([1.0]), memory=8 * 2)


@pytest.mark.parametrize("double", [False, True])
def test_float64_whatever_the_flag_says(double):
    w, b = mlp((3, 8), 0)[0]
    x0, x1 = points(0, 3)
    with jax.enable_x64(double):
        found = pieces_of(lambda x: jax.nn.relu(x @ w + b), x0, x1)
        assert jax.config.read("jax_enable_x64") is double
    assert found.dtype == "float64"
    assert found.values.dtype == found.breakpoints.dtype == np.float64
    np.testing.assert_allclose(found.values[0], np.maximum(x0 @ w + b, 0), rtol=1e-14)


def test_the_dtype_says_how_the_function_itself_would_compute():
    x0, x1 = points(0, 3)
    w, b = mlp((3, 8), 0)[0]
    small = w.astype(np.float32), b.astype(np.float32)
    wide = pieces_of(lambda x: jax.nn.relu(x @ small[0] + small[1]), x0, x1)
    cast = pieces_of(lambda x: jax.nn.relu(x.astype(jnp.float32) @ small[0] + small[1]), x0, x1)
    given = pieces_of(
        lambda x: jax.nn.relu(x @ small[0] + small[1]),
        *(jnp.asarray(x, jnp.float32) for x in (x0, x1)),
    )
    half = pieces_of(lambda x: jax.nn.relu(x.astype(jnp.bfloat16)).astype(jnp.float32), x0, x1)
    assert [f.dtype for f in (wide, cast, given, half)] == [
        "float64", "float32", "float32", "bfloat16",
    ]  # fmt: skip
    # Over the reals they agree; only the end points of `given` are rounded.
    np.testing.assert_array_equal(wide.breakpoints, cast.breakpoints)
    np.testing.assert_allclose(given.breakpoints, wide.breakpoints, atol=1e-5)


def test_a_function_that_lax_cannot_trace_in_float64_is_traced_in_float32():
    kernel = jnp.asarray(K1, jnp.float32)
    x0, x1 = points(1, 1, 8, 8, 2)
    found = pieces_of(lambda x: jax.nn.relu(conv(x, kernel)), x0, x1)
    wide = pieces_of(lambda x: jax.nn.relu(conv(x, np.asarray(kernel, np.float64))), x0, x1)
    assert (found.dtype, wide.dtype) == ("float32", "float64")
    np.testing.assert_allclose(found.breakpoints, wide.breakpoints, atol=1e-12)


def test_what_does_not_reach_the_output_is_left_out():
    def fn(x):
        jnp.sort(x)
        jax.debug.print("{}", jnp.sin(x))
        index = jnp.argmax(x)
        x = x + 0 * x[3]
        jnp.tanh(x[index])
        return jax.jit(lambda x: (jnp.abs(x), jnp.exp(x)))(x)[0]

    found = pieces_of(fn, *points(0, 5))
    assert [c.primitive for c in found.crossings] == ["abs"]


# Refusals

MUL = "multiplies values that depend on x by each other"
STEPS = "takes something that jumps where x crosses a boundary"
UNKNOWN = "which is not piecewise linear in x, or not known to be"
REFUSED = {
    "tanh": (lambda x: jnp.tanh(1.0 * x), "tanh", UNKNOWN),
    "in jit": (lambda x: jax.jit(jnp.sin)(x), "sin", UNKNOWN),
    "in scan": (
        lambda x: lax.scan(lambda c, _: (jnp.exp(c), None), x, None, length=2)[0],
        "exp",
        UNKNOWN,
    ),
    "square": (lambda x: jnp.square(x), "square", UNKNOWN),
    "power": (lambda x: x**3, "integer_pow", UNKNOWN),
    "sort": (lambda x: jnp.sort(x), "sort", UNKNOWN),
    "argmax": (lambda x: jnp.argmax(x), "argmax", UNKNOWN),
    "floor": (lambda x: jnp.floor(x), "floor", UNKNOWN),
    "product": (lambda x: x * x[0], "mul", MUL),
    "inner product": (lambda x: x @ x, "dot_general", MUL),
    "self-convolution": (lambda x: jnp.convolve(x, x), "conv_general_dilated", MUL),
    "quotient": (lambda x: x[0] / x[1], "div", "divides by a value that depends on x"),
    "inverse": (lambda x: 1 / x, "div", "divides by a value that depends on x"),
    "integers": (lambda x: x.astype(jnp.int32), "convert_element_type", "x into int32"),
    "jump": (lambda x: jnp.where(x > 0, x + 1, 0.0), "select_n", "jumps by 1 at t = 0."),
    "masked jump": (lambda x: (x + 1) * (x > 0), "mul", "jumps by 1 at t = 0."),
    "step": (lambda x: x + jnp.where(x > 0, 1.0, 0.0), "add", STEPS),
    "sign": (lambda x: jnp.abs(x) + jnp.sign(x), "add", STEPS),
    "boolean": (lambda x: x + (x > 0).astype(x.dtype), "add", STEPS),
    "index": (lambda x: x[jnp.sum(x > 0) - 1], "dynamic_slice", STEPS),
    "cond": (lambda x: lax.cond(x[0] > 0, jnp.abs, jnp.negative, x), "cond", "condition depends"),
    "while": (
        lambda x: lax.while_loop(lambda z: z[0] > 0, lambda z: z - 1, x),
        "while",
        "condition depends",
    ),
    "infinite": (lambda x: jax.nn.relu(x / 0.0), "max", "numbers are NaN or infinite"),
    "infinite window": (lambda x: jnp.max(x * np.inf), "reduce_max", "NaN or infinite"),
    "empty window": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1,), (1,), ((1, 0),)),
        "reduce_window_max",
        "window without entries",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_primitive_place_and_reason(name):
    fn, primitive, reason = REFUSED[name]
    with pytest.raises(ValueError, match=f"fn holds {primitive}") as caught:
        pieces_of(fn, *points(2, 4))
    message = str(caught.value)
    assert reason in message
    assert Path(__file__).name in message
    assert "give a function made of affine and continuous piecewise linear steps" in message


X = np.ones(3)
INPUTS = [
    (lambda: pieces_of(3, X, -X), "fn=3 is not callable: give a function"),
    (lambda: pieces_of(jnp.abs, X, X), "x1=array([1., 1., 1.]) equals x0"),
    (lambda: pieces_of(jnp.abs, X, np.ones(4)), "x1 has shape (4,) and x0 has shape (3,)"),
    (lambda: pieces_of(jnp.abs, X, np.array([1, np.nan, 2])), "x1 holds nan at index (1,)"),
    (lambda: pieces_of(jnp.abs, 1.0, 2.0), "x0=1.0 has shape ()"),
    (lambda: pieces_of(lambda x: x @ np.ones((4, 2)), X, -X), "an array of shape (3,), that of x0"),
    (lambda: pieces_of(lambda x: x if x[0] > 0 else -x, X, -X), "fn cannot be traced"),
    (lambda: pieces_of(lambda x: x > 0, X, -X), "fn returns something that jumps"),
    (lambda: pieces_of(lambda x: x * np.nan, X, -X), "fn returns NaN or infinity"),
    (lambda: pieces_of(jnp.abs, X, -X, memory=40), "memory=40 bytes do not hold 3 numbers"),
    (lambda: pieces_of(jnp.abs, X, -X, memory=0), "memory=0: give one number > 0"),
    (lambda: jax.jit(lambda x: pieces_of(jnp.abs, x, X).values)(-X), "x0, x1: traced arrays"),
]


@pytest.mark.parametrize("case", range(len(INPUTS)))
def test_bad_input_is_named(case):
    call, message = INPUTS[case]
    with pytest.raises(ValueError) as caught:
        call()
    assert message in str(caught.value)


def test_a_maximum_has_the_error_of_the_larger_one():
    """The larger value is 0.3 but for rounding: what comes after must not see it bend."""

    def f(x):
        noisy = (x[0] * 1e8 + 0.3) - x[0] * 1e8
        return jax.nn.relu(jnp.maximum(1e-3 * x[0] - 1, noisy) - 0.3)

    assert pieces_of(f, np.array([1.0]), np.array([3.0])).count == 1
