"""Exact pieces of functions made at random of small whole numbers, against rational arithmetic.

Ties abound in them: values equal on whole pieces, units that cancel, three lines through a point.
"""

import jax.numpy as jnp
import numpy as np
import pytest
import rational
from jax import lax

from jaxexpr.exact.functions import values
from jaxexpr.exact.functions.function_pieces import pieces_of

N = 4


class Along:
    """Rational values that are linear between the rows t, and what the steps did so far."""

    def __init__(self):
        self.t = [rational.Fraction(0), rational.Fraction(1)]
        self.values, self.breakpoints, self.counts = [], set(), []

    def add(self, rows):
        self.values.append(list(rows))
        return self.values[-1]

    def constant(self, c):
        return self.add([rational.Fraction(c)] * len(self.t))

    def insert(self, t):
        if t in self.t:
            return
        i = next(i for i, s in enumerate(self.t) if s > t)
        part = (t - self.t[i - 1]) / (self.t[i] - self.t[i - 1])
        for v in self.values:
            v.insert(i, v[i - 1] + part * (v[i] - v[i - 1]))
        self.t.insert(i, t)

    def cross(self, us, vs):
        """Rows where differences change their signs."""
        for u, v in zip(us, vs, strict=True):
            d = [a - b for a, b in zip(u, v, strict=True)]
            crossed = [
                s + (t - s) * a / (a - b)
                for s, t, a, b in zip(self.t, self.t[1:], d, d[1:], strict=False)
                if a * b < 0
            ]
            for t in crossed:
                self.insert(t)

    def ends(self, *vs):
        """Values at both ends of every piece: ``((v0, v1), ...)`` for each v."""
        return [tuple((v[i], v[i + 1]) for v in vs) for i in range(len(self.t) - 1)]

    def count(self, all_states):
        """States of scalars on the pieces; of sets those without a common member differ."""
        total = 0
        for states in all_states:
            for t, a, b in zip(self.t[1:], states, states[1:], strict=False):
                differ = not (a & b) if isinstance(a, frozenset) else a != b
                total += differ
                if differ:
                    self.breakpoints.add(t)
        self.counts.append(total)

    def compared(self, us, vs, beyond, made):
        """A step that compares: `beyond` a state of both ends, `made` a value of both numbers."""
        self.cross(us, vs)
        pairs = list(zip(us, vs, strict=True))
        self.count([[beyond(*ends) for ends in self.ends(u, v)] for u, v in pairs])
        return [self.add(made(a, b) for a, b in zip(u, v, strict=True)) for u, v in pairs]

    def largest(self, groups, sign):
        """Upper envelopes, corner after corner from the left."""
        for group in groups:
            i = 0
            while i < len(self.t) - 1:
                left, right = ([sign * v[i + e] for v in group] for e in (0, 1))
                k = max(range(len(group)), key=lambda k: (left[k], right[k]))
                parts = [
                    (left[k] - a) / (left[k] - a - right[k] + b)
                    for a, b in zip(left, right, strict=True)
                    if b > right[k]
                ]
                if parts:
                    self.insert(self.t[i] + min(parts) * (self.t[i + 1] - self.t[i]))
                i += 1
        states = [[winners(ends, sign) for ends in self.ends(*group)] for group in groups]
        self.count(states)
        best = max if sign > 0 else min
        return [self.add(best(row) for row in zip(*group, strict=True)) for group in groups]

    def linear_breakpoints(self, us):
        found = []
        for i in range(1, len(self.t) - 1):
            before, after = self.t[i] - self.t[i - 1], self.t[i + 1] - self.t[i]
            if any((u[i] - u[i - 1]) * after != (u[i + 1] - u[i]) * before for u in us):
                found.append(float(self.t[i]))
        return found


def winners(ends, sign):
    at = [[sign * pair[e] for pair in ends] for e in (0, 1)]
    top = [{k for k, x in enumerate(row) if x == max(row)} for row in at]
    return frozenset(top[0] & top[1])


def above(u, v):
    return u[0] > v[0] or u[1] > v[1]


def below(u, v):
    return above(v, u)


def not_below(u, v):
    return not below(u, v)


def equal(u, v):
    return u == v


def turned(x, p):
    return jnp.stack([x[p], jnp.roll(x[p], -1), jnp.roll(x[p], -2)])


# Each step: what JAX is told, a level (None: another entry), the state of its scalars, its value.
STEPS = {
    "relu": (lambda x, p: jnp.maximum(x, 0), 0, above, max),
    "relu the other way round": (lambda x, p: jnp.maximum(0.0, x), 0, above, max),
    "abs": (lambda x, p: jnp.abs(x), 0, above, lambda a, b: abs(a)),
    "max": (lambda x, p: jnp.maximum(x, x[p]), None, above, max),
    "min": (lambda x, p: jnp.minimum(x, x[p]), None, above, min),
    "min with 1": (lambda x, p: jnp.minimum(1.0, x), 1, above, min),
    "where >": (lambda x, p: jnp.where(x > 0, x, 0.0), 0, above, max),
    "where >=": (
        lambda x, p: jnp.where(x >= 0, x, x / 2), 0, not_below, lambda a, b: max(a, a / 2)
    ),
    "where <": (lambda x, p: jnp.where(x < x[p], x[p], x), None, below, max),
    "where <=": (
        lambda x, p: jnp.where(x <= x[p], x, x[p]), None, lambda u, v: not above(u, v), min
    ),
    "mask": (lambda x, p: x * (x > 0), 0, above, max),
    "divided by a mask": (
        lambda x, p: x / jnp.where(x > 0, 1.0, 4.0), 0, above, lambda a, b: max(a, a / 4)
    ),
    "sign": (
        lambda x, p: x * jnp.sign(x), 0, lambda u, v: above(u, v) - below(u, v),
        lambda a, b: abs(a),
    ),
    "where ==": (lambda x, p: jnp.where(x == x[p], x, x[p]), None, equal, lambda a, b: b),
}  # fmt: skip


def program(seed):
    """Steps at random: ``(name, matrix or permutation, shift)``."""
    r = np.random.default_rng(seed)
    steps = [("linear", r.integers(-2, 3, (1, N)), r.integers(-3, 4, N))]
    for name in r.choice([*STEPS, "linear", "linear", "largest", "smallest"], r.integers(1, 6)):
        if name == "linear":
            steps.append((name, r.integers(-1, 2, (N, N)), r.integers(-1, 2, N)))
        else:
            steps.append((str(name), r.permutation(N), None))
    return steps


def follow(steps):
    """What ``pieces_of`` is to find, in rational numbers."""
    along = Along()
    us = [along.add(along.t)]
    for name, matrix, shift in steps:
        if name == "linear":
            us = [
                along.add(
                    sum((int(w) * x for w, x in zip(column, row, strict=True)), int(c))
                    for row in zip(*us, strict=True)
                )
                for column, c in zip(matrix.T, shift, strict=True)
            ]
        elif name in ("largest", "smallest"):
            order = [us[i] for i in matrix]
            groups = [[order[(i + j) % N] for j in range(3)] for i in range(N)]
            us = along.largest(groups, 1 if name == "largest" else -1)
        else:
            _, level, beyond, made = STEPS[name]
            vs = [us[i] for i in matrix] if level is None else [along.constant(level)] * N
            if beyond is equal:
                along.count(
                    [[u == v for u, v in along.ends(u, v)] for u, v in zip(us, vs, strict=True)]
                )
                us = [along.add(v) for v in vs]
            else:
                us = along.compared(us, vs, beyond, made)
    return along, us


def written(steps):
    def fn(t):
        x = t
        for name, matrix, shift in steps:
            if name == "linear":
                x = x @ matrix.astype(float) + shift
            elif name in ("largest", "smallest"):
                x = (jnp.max if name == "largest" else jnp.min)(turned(x, matrix), axis=0)
            else:
                x = STEPS[name][0](x, matrix)
        return x

    return fn


def agrees(steps, memory=2.0**30):
    along, us = follow(steps)
    found = pieces_of(written(steps), np.zeros(1), np.ones(1), memory=memory)
    inner = sorted(float(t) for t in along.breakpoints)
    assert found.count == len(inner) + 1, steps
    np.testing.assert_allclose(found.breakpoints[1:-1], inner, atol=1e-13)
    assert [c.count for c in found.crossings] == along.counts
    linear = along.linear_breakpoints(us)
    assert found.linear_count == len(linear) + 1, steps
    np.testing.assert_allclose(found.linear_breakpoints[1:-1], linear, atol=1e-13)
    at = {t: i for i, t in enumerate(map(float, along.t))}
    for t, row in ((0.0, 0), (1.0, -1)):
        np.testing.assert_allclose(found.values[row], [float(u[at[t]]) for u in us], atol=1e-12)
    return found


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_functions_of_small_whole_numbers(first):
    for seed in range(first, first + 20):
        agrees(program(seed))


def test_functions_in_parts_and_in_blocks(monkeypatch):
    for seed in range(100, 115):
        agrees(program(seed), memory=400.0)  # twelve rows of four numbers
    monkeypatch.setattr(values, "BLOCK", 8)  # two rows at a time
    for seed in range(115, 130):
        agrees(program(seed))


@pytest.mark.parametrize("end", [1.0, 0.9])
def test_where_parts_meet_only_what_changes_there_counts(end):
    """Tents of tents bend where a segment is halved, again and again, or else nowhere near."""

    def tents(x):
        for _ in range(4):
            x = 1 - 2 * jnp.abs(x - 0.5)
        return x[0]

    ends = np.zeros(1), np.full(1, end)
    whole, parts = (pieces_of(tents, *ends, memory=memory) for memory in (2.0**20, 48.0))
    bent = np.arange(1, 16) / 16
    for found in (whole, parts):  # in parts of up to six rows
        np.testing.assert_allclose(found.breakpoints[1:-1] * end, bent[bent < end], rtol=1e-12)
        counts = [sum(bent[2**i - 1 :: 2 ** (i + 1)] < end) for i in range(4)][::-1]
        assert [c.count for c in found.crossings] == counts
    assert parts.linear_count == whole.linear_count == whole.count


@pytest.mark.parametrize("name", STEPS)
def test_a_step_after_dead_and_equal_units(name):
    """Up to 1/3 two entries are 0 and go on alike, one is 0 throughout, one rises up to 0."""
    dead = ("linear", np.array([[1, 1, 0, -1]]), np.array([0, 0, -1, 0]))
    mixed = np.array([[3, 3, 0, -3], [0, 0, 0, 0], [0, 0, 1, 0], [0, -3, 0, 3]])
    turned = ("linear", np.diag([1, 1, 1, -1]), np.zeros(N, int))
    relu = ("relu", np.arange(N), None)
    steps = [dead, relu, ("linear", mixed, np.array([-1, -1, 0, 1])), relu, turned]
    agrees([*steps, (name, np.array([1, 3, 0, 2]), None), ("abs", np.arange(N), None)])


@pytest.mark.parametrize("sign", [1, -1])
def test_of_lines_that_begin_together_the_steepest_goes_on(sign):
    """max(x, 2 x, 3 x - 1/2, 0) from 0 on; and the same from the other end."""

    def fn(x):
        t = x[0] if sign > 0 else 1 - x[0]
        return jnp.max(jnp.stack([t, 2 * t, 3 * t - 0.5, 0 * t]))

    found = pieces_of(fn, np.zeros(1), np.ones(1))
    assert found.breakpoints.tolist() == [0, 0.5, 1]
    assert found.linear_count == 2
    assert found.crossings[0].count == 1
    assert found.values[1] == 1


def test_three_lines_through_one_point_and_one_far_above():
    def fn(x):
        t = x[0]
        return jnp.max(jnp.stack([-t, -0.5 + 0 * t, t - 1, 0.5 * t - 0.75]))

    assert pieces_of(fn, np.zeros(1), np.ones(1)).breakpoints.tolist() == [0, 0.5, 1]

    def steep(x):
        t = x[0]
        return jnp.max(jnp.stack([1 - 4 * t, 0.25 + 0 * t, 4 * t - 3.2, 0.3 - 0.1 * t]))

    found = pieces_of(steep, np.zeros(1), np.ones(1))
    np.testing.assert_allclose(found.breakpoints, [0, 0.7 / 3.9, 0.5, 3.45 / 4, 1], rtol=1e-14)


def test_padding_of_windows_is_no_entry():
    def fn(x):
        entries = jnp.stack([9 + x[0], x[0], 1 - x[0], 2 * x[0] - 3])
        return lax.reduce_window(entries, -jnp.inf, lax.max, (3,), (1,), "SAME")

    found = pieces_of(fn, np.zeros(1), np.ones(1))
    assert found.breakpoints.tolist() == [0, 0.5, 1]
    assert found.values.tolist() == [[9, 9, 1, 1], [9.5, 9.5, 0.5, 0.5], [10, 10, 1, 0]]


def test_values_from_before_several_steps_are_read_after_them():
    """Rows lie between rows that were put in since: 1/12 is a quarter of the way to 1/3."""

    def fn(x):
        once = jnp.abs(x - 1 / 3)
        twice = jnp.abs(once - 0.25)
        return jnp.concatenate([jnp.abs(twice - 0.05), once, x])

    found = pieces_of(fn, np.zeros(1), np.ones(1))
    t = found.breakpoints
    once = np.abs(t - 1 / 3)
    assert t.size == 9
    np.testing.assert_allclose(found.values[:, 0], np.abs(np.abs(once - 0.25) - 0.05), atol=1e-15)
    np.testing.assert_allclose(found.values[:, 1:], np.stack([once, t], axis=1), atol=1e-15)


def test_a_chain_of_near_crossings_has_rows_all_along():
    """Each is within rounding of the one before; the last is not within rounding of the first."""
    at = 0.5 + 1.5e-9 * np.arange(10)

    def fn(x):
        return jnp.maximum((x + 1e6) - 1e6 - at, 0)  # rounded to about 1e-10

    found = pieces_of(fn, np.zeros(1), np.ones(1)).breakpoints[1:-1]
    assert 1 < found.size < 10
    assert np.abs(found[:, None] - at).min(axis=0).max() < 4e-9


def test_equality_at_one_point_is_no_breakpoint():
    for fn in (
        lambda x: jnp.where(x == 0.25, x, x)[0],
        lambda x: jnp.where(x != 1 - x, x, x)[0],
        lambda x: jnp.where(x == 0.5, 0.5, x)[0],
    ):
        assert pieces_of(fn, np.zeros(1), np.ones(1)).breakpoints.tolist() == [0, 1]
    # Equal on a whole piece: the state changes at its end.
    found = pieces_of(
        lambda x: jnp.where(jnp.maximum(x - 0.5, 0) == 0, 0.0, x - 0.5), np.zeros(1), np.ones(1)
    )
    assert found.breakpoints.tolist() == [0, 0.5, 1]
    assert [c.count for c in found.crossings] == [1, 1]


def test_jumps_far_smaller_than_the_values_are_refused():
    def fn(x):
        return jnp.where(x > 0.5, x + 1e-9, x)

    with pytest.raises(ValueError, match=r"jumps by 1e-09 at t = 0\.5"):
        pieces_of(fn, np.zeros(1), np.ones(1))


def test_the_precision_is_the_lowest_of_a_value_that_depends_on_x():
    def half(x):
        return jnp.abs(x.astype(jnp.float32)).astype(x.dtype)

    assert pieces_of(half, -np.ones(2), np.ones(2)).dtype == "float32"
    assert pieces_of(jnp.abs, -np.ones(2), np.ones(2)).dtype == "float64"
