"""Counts that hang on a tie: arcs that only touch, units that cancel, dead layers, equal scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rational

from jaxexpr import activations, curves, measure
from jaxexpr._core import packed_bits
from jaxexpr.exact import pieces, pieces_batch
from jaxexpr.exact.along_curves import (
    arcs,
    crossing_rows,
    label_changes,
    level_crossings,
    lines,
    segments,
    traverse,
)
from jaxexpr.exact.along_curves.capacity import Block, Capacity, caps

ANGLES = np.array([0.0, np.pi / 2, np.pi, 1.5 * np.pi, 0.3, np.arccos(0.6), 2.0, 4.4])
UNIT_CIRCLE = curves.circle([1.0, 0.0], [0.0, 1.0])


def directions(angles, norm=1.0):
    return norm * np.stack([np.cos(angles), np.sin(angles)])


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


# Arcs that touch, against trigonometry

# On the unit circle units 0 and 1 are the parts of cos t, 2 and 3 those of the same, twice.
HALVES = np.array([[1.0, -1.0, 2.0, -2.0], [0.0, 0.0, 0.0, 0.0]]), np.zeros(4)
# In turn: |cos t|, cos t, a difference of equal units, |cos t| - 1 and 1 - |cos t| (which touch 0
# at 0 and pi), |cos t| - 1/2, a bias alone, and - |cos t|.
ABOVE = (
    np.array(
        [
            [1.0, 1.0, 2.0, 1.0, -1.0, 1.0, 0.0, -1.0],
            [1.0, -1.0, 2.0, 1.0, -1.0, 1.0, 0.0, -1.0],
            [0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    ),
    np.array([0.0, 0.0, 0.0, -1.0, 1.0, -0.5, 1.0, 0.0]),
)
CROSSED = [0, 2, 0, 0, 0, 4, 0, 0]


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_touching_a_boundary_is_no_crossing_wherever_it_happens(side):
    """At the beginning, where two quarter turns meet, and elsewhere; counted in both passes."""
    params = ((directions(ANGLES, 2.5), np.full(ANGLES.size, side * 2.5)),)
    found = measure(params, UNIT_CIRCLE, probes=("sign_changes", "transitions"))
    assert found["sign_changes"].tolist() == found["transitions"].tolist() == [0]
    nearly = ((params[0][0], params[0][1] * (1 - 1e-9)),)
    found = measure(nearly, UNIT_CIRCLE, probes=("sign_changes", "transitions"))
    # A unit that turns at the curve's ends is crossed there once at each of them.
    assert found["sign_changes"].tolist() == found["transitions"].tolist() == [2 * ANGLES.size]


def test_levels_of_hard_tanh_are_touched_at_the_ends_of_the_diameter():
    params = ((directions(ANGLES), np.zeros(ANGLES.size)),)
    found = measure(params, UNIT_CIRCLE, activation="hard_tanh", probes=("transitions", "pieces"))
    assert found["transitions"].tolist() == [0]
    assert pieces(params, UNIT_CIRCLE, "hard_tanh").count == 1
    wider = ((params[0][0] * 1.25, params[0][1]),)
    assert pieces(wider, UNIT_CIRCLE, "hard_tanh").crossings.tolist() == [4 * ANGLES.size]


def test_units_that_cancel_and_touch_in_the_second_layer():
    params = (HALVES, ABOVE)
    found = pieces(params, UNIT_CIRCLE)
    counted = measure(params, UNIT_CIRCLE, probes=("sign_changes", "transitions"))
    assert found.crossings.tolist() == counted["transitions"].tolist() == [8, sum(CROSSED)]
    assert counted["sign_changes"].tolist() == [8, sum(CROSSED)]
    # cos t = 0 and |cos t| = 1/2.
    t = np.pi * np.array([0, 1 / 3, 1 / 2, 2 / 3, 4 / 3, 3 / 2, 5 / 3, 2])
    np.testing.assert_allclose(found.breakpoints, t, atol=1e-15)
    assert found.counts.tolist() == [3, 7]
    assert found.layers.tolist() == [2, 1, 2, 2, 1, 2]
    x = np.linspace(0, 2 * np.pi, 200_001)
    z = np.maximum(np.stack([np.cos(x), np.sin(x)], 1) @ HALVES[0], 0)
    z = np.maximum(z @ ABOVE[0] + ABOVE[1], 0)
    polyline = np.linalg.norm(np.diff(z, axis=0), axis=1).sum()
    np.testing.assert_allclose(found.lengths[1], polyline, rtol=1e-6)


def test_multiples_of_one_unit_cross_together_and_cancel_up_to_rounding():
    """Above: four differences that are 0 but for rounding, the unit itself, its absolute value."""
    factors = np.array([1.0, 1.0, 1.0, -0.7])
    first = directions(np.array([0.3])) * factors, 0.4 * factors
    cancel = np.array([[0.1, 0.7], [0.2, -0.4], [-0.3, -0.3], [0, 0]])
    others = np.array([[0.7, 0.7], [0, 0], [0, 0], [-1, 1]])
    above = np.concatenate([cancel, -cancel, others], axis=1), np.zeros(6)
    found = pieces((first, above), UNIT_CIRCLE)
    assert found.crossings.tolist() == [8, 2]
    assert found.counts.tolist() == [3, 3]
    at = 0.3 + np.arccos(-0.4) * np.array([1.0, -1.0]) + np.array([0, 2 * np.pi])
    np.testing.assert_allclose(found.breakpoints[1:-1], at, rtol=1e-14)
    counted = measure((first, above), UNIT_CIRCLE, probes=("sign_changes", "transitions"))
    assert counted["sign_changes"].tolist() == counted["transitions"].tolist() == [8, 2]


def test_scales_that_move_between_layers_change_nothing():
    """Powers of two are exact: the numbers are the same to the last bit."""
    r = np.random.default_rng(23)
    params = [(r.normal(size=(a, b)), r.normal(size=b)) for a, b in ((3, 6), (6, 5), (5, 4))]
    (w0, b0), (w1, b1), (w2, b2) = params
    up, down = 2.0**70, 2.0**-150
    moved = [(w0 * up, b0 * up), (w1 * down, b1 * up * down), (w2 / up / down, b2)]
    ends = 4 * r.normal(size=(2, 3))
    for curve in (curves.line(*ends), curves.circle(*ends)):
        one, other = (pieces(tuple(p), curve) for p in (params, moved))
        assert (one.crossings >= 5).all()
        np.testing.assert_array_equal(one.breakpoints, other.breakpoints)
        np.testing.assert_array_equal(one.crossings, other.crossings)
        factors = np.array([up, up * down, 1.0])
        np.testing.assert_allclose(one.lengths * factors, other.lengths, rtol=1e-14)


def test_piecewise_linear_activations_on_arcs_have_their_heights():
    """Values on both sides of every breakpoint, where slopes and offsets are all different."""
    bends = activations.piecewise_linear([-1.0, 0.25, 2.0], [0.5, 1.0, -0.5, 0.1])
    params = ((np.array([[3.0], [0.0]]), np.array([0.5])), (np.array([[1.0]]), np.array([0.0])))
    found = pieces(params, UNIT_CIRCLE, bends)
    x = np.linspace(0, 2 * np.pi, 400_001)
    h = 3 * np.cos(x) + 0.5
    z = np.asarray(bends(jnp.asarray(h)))
    second = np.asarray(bends(jnp.asarray(z)))
    polylines = [np.abs(np.diff(v)).sum() for v in (z, second)]
    np.testing.assert_allclose(found.lengths, polylines, rtol=1e-4)
    for layer, values in enumerate((h, z)):
        seen = sum(np.sum((values[1:] > c) != (values[:-1] > c)) for c in bends.breakpoints)
        assert found.crossings[layer] == seen


# Lines, against rational arithmetic


def integers(seed, widths, count):
    """Networks of small whole numbers: repeated, parallel, dead and dependent units abound."""
    r = np.random.default_rng(seed)
    layers = [
        (
            r.integers(-2, 3, (count, a, b)).astype(float),
            r.integers(-1, 2, (count, b)) * r.integers(0, 2, (count, 1)) / 2,
        )
        for a, b in zip(widths, widths[1:], strict=False)
    ]
    return tuple(layers)


@pytest.mark.parametrize("name", ["relu", "hard_tanh"])
def test_degenerate_networks_on_a_line_have_the_rational_breakpoints(name):
    count, ends = 40, ([-2.0], [1.0])
    networks = integers(3, (1, 4, 4, 3), count)
    found = pieces_batch(networks, [curves.line(*ends)] * count, name)
    law = rational.RELU if name == "relu" else rational.HARD_TANH
    for i, one in enumerate(found):
        own = [(w[i], b[i]) for w, b in networks]
        cells = rational.cells(own, *ends, law)
        inner = sorted(float(c.corners[0][0]) for c in cells)[1:]
        # Neighbours in one state of every unit are one region.
        order = sorted(cells, key=lambda c: c.corners[0][0])
        kept = [
            float(b.corners[0][0])
            for a, b in zip(order, order[1:], strict=False)
            if a.pattern != b.pattern
        ]
        assert kept == inner
        lowest = [
            next(i + 1 for i in range(3) if a.pattern[i] != b.pattern[i])
            for a, b in zip(order, order[1:], strict=False)
        ]
        assert one.layers.tolist() == lowest
        np.testing.assert_allclose(3 * one.breakpoints[1:-1] - 2, inner, atol=1e-14)
        for layer in range(3):
            states = [sum(c.pattern[layer]) for c in order]  # levels passed, of all units
            changes = [
                np.abs(np.subtract(a.pattern[layer], b.pattern[layer])).sum()
                for a, b in zip(order, order[1:], strict=False)
            ]
            assert len(states) == one.count
            assert one.crossings[layer] == sum(changes)


def test_networks_without_biases_break_once_on_a_line_through_the_origin():
    """Whatever the slope on either side, at both of the line's ends at infinity too."""
    r = np.random.default_rng(1)
    params = tuple((r.normal(size=(a, b)), np.zeros(b)) for a, b in ((3, 6), (6, 6)))
    x = np.array([1.0, -2.0, 0.5])
    for curve, at in (
        (curves.line(-x, 2 * x, whole=True), 1 / 3),
        (curves.line(0 * x, x, whole=True), 0.0),
    ):
        found = pieces(params, curve, activations.leaky_relu(-0.7))
        assert found.crossings[0] == 6
        assert found.count == 2
        assert found.breakpoints[1] == pytest.approx(at, abs=1e-15)
        assert np.isinf(found.lengths).all()


# Pieces of curves


def test_breakpoints_of_semicircles_are_in_turns():
    curve = curves.semicircles(jax.random.key(0), [0.0, 0, 0], [4.0, 0, 0], planes=2)
    weights = np.array([[1.0], [0.3], [-0.2]])
    found = pieces(((weights, np.array([-1.9])),), curve)
    assert found.breakpoints[0] == 0 and found.breakpoints[-1] == 2
    inner = found.breakpoints[1:-1]
    assert inner.size == found.crossings[0] > 0
    h = np.asarray(curve.astype("float64").points(inner)) @ weights - 1.9
    np.testing.assert_allclose(h, 0, atol=1e-14)


def test_results_of_segments_add_up():
    """Lengths in units of their own; changes where segments meet, by the lowest layer."""
    r = np.random.default_rng(3)
    depth, exponents = 3, np.array([[0, 5, -7], [3, -2, 60], [1, 1, 0]], np.int32)
    reals = {name: r.uniform(1, 2, (3, depth)) for name in traverse.Totals._fields}
    whole = {name: r.integers(1, 50, (3, depth)).astype(np.int32) for name in reals}
    counted = ("still", "crossings", "pieces")
    told = {name: whole[name] if name in counted else reals[name] for name in reals}
    totals = traverse.Totals(**{k: jnp.asarray(v) for k, v in told.items()})
    totals = totals._replace(exponent=jnp.asarray(exponents))
    first = np.zeros((3, depth, 2), np.uint32)
    last = np.zeros((3, depth, 2), np.uint32)
    last[0, 1, 0] = 0b101  # two units of the second layer where the first segments meet
    first[2, 2, 1], last[1, 2, 1] = 0b110, 0b011  # and two of the third at the other joint
    said = traverse.SegmentResult(
        totals, [jnp.asarray(first)], [jnp.asarray(last)], jnp.zeros(()), jnp.zeros(()), ()
    )
    found, made = traverse.total(said)
    assert made.tolist() == [1, 2, crossing_rows.NEVER]
    length = np.asarray(found.length) * 2.0 ** np.asarray(found.exponent)
    np.testing.assert_allclose(length, (told["length"] * 2.0**exponents).sum(axis=0), rtol=1e-14)
    for name in ("share", "growth", "squared", "survives", "log", "still"):
        np.testing.assert_allclose(getattr(found, name), told[name].sum(axis=0))
    assert found.crossings.tolist() == (told["crossings"].sum(axis=0) + [0, 2, 2]).tolist()
    assert found.pieces.tolist() == (told["pieces"].sum(axis=0) + [1, 2, 3]).tolist()


def test_segments_hold_the_points_of_their_curve(rng):
    a, b, c = rng.normal(size=(3, 4))
    for curve in (
        curves.arc(a, b),
        curves.circle(a, b),
        curves.ellipse(a, b, c),
        curves.semicircles(jax.random.key(0), a, b, planes=3),
    ):
        t, coefficients = segments.begin(curve, 2, "float64")
        turn = np.pi if curve.kind == "semicircles" else 1.0
        for share in (0.0, 0.3, 1.0):
            at = (1 - share) * t[:, 0] + share * t[:, 1]
            basis = np.stack([np.cos(at), np.sin(at), np.ones_like(at)], axis=1)
            found = np.einsum("sb,sbn->sn", basis, coefficients)
            # At a joint of semicircles a point is that of the one before or after: the same.
            np.testing.assert_allclose(found, curve.astype("float64").points(at / turn), atol=1e-12)


def test_parts_of_an_infinite_line_meet(rng):
    x0, x1 = rng.normal(size=(2, 3))
    t, weight, points = segments.begin(curves.line(x0, x1, whole=True), 1, "float64")
    right = (t[1], weight[1], points[1])
    low, high = jnp.asarray(0.25), jnp.asarray(0.5)
    own, other, at = segments.between(right, low, high)
    assert other.tolist() == [1, 1]
    # In homogeneous coordinates: (share, 1 - share), so t = share / (1 - share).
    np.testing.assert_allclose(own, [1 / 3, 1.0], rtol=1e-15)
    np.testing.assert_allclose(at, x0 + np.asarray(own)[:, None] * (x1 - x0), rtol=1e-14)
    own, other, _ = segments.between(right, high, jnp.asarray(1.0))
    assert other.tolist() == [1, 0]


def test_overflow_is_noticed_in_every_layer():
    blocks = (Block(0, 2, 4, 10), Block(2, 1, 8, 20))
    sizes = Capacity(blocks)
    assert caps(blocks).tolist() == [[4, 10], [4, 10], [8, 20]]
    enough = np.array([[4, 10], [3, 9], [8, 20]])
    assert not sizes.overflowed(enough)
    for layer in range(3):
        for what in range(2):
            more = enough.copy()
            more[layer, what] = caps(blocks)[layer, what] + 1
            assert sizes.overflowed(np.stack([enough, more])).tolist() == [False, True]
    # A last layer whose crossings are counted requires nothing.
    assert not sizes.overflowed(np.concatenate([enough, [[99, 99]]]))


# Crossings that are only counted


def test_levels_are_counted_in_the_units_of_the_image():
    r = np.random.default_rng(0)
    t = jnp.asarray([0.0, 0.2, 0.7, 1.0, 1.0])
    z = r.normal(size=(5, 3))
    z[4] = z[3]
    rows = lines.start(t, jnp.ones(5), jnp.asarray(z))
    rows = rows._replace(real=jnp.asarray(4, jnp.int32), exponent=jnp.asarray(3, jnp.int32))
    weights, biases = r.normal(size=(3, 40)), r.normal(size=40)
    found = level_crossings.count_crossings(
        rows, jnp.asarray(weights), jnp.asarray(biases), (-1.5, 0.0, 4.0)
    )
    h = 8 * z[:4] @ weights + biases
    for i, level in enumerate((-1.5, 0.0, 4.0)):
        beyond = h > level
        assert int(found.total[i]) == np.sum(beyond[1:] != beyond[:-1]) > 10
        packed = np.packbits(np.pad(beyond[[0, 3]], ((0, 0), (0, 24))), axis=1, bitorder="little")
        ends = np.stack([found.first[i], found.last[i]])
        np.testing.assert_array_equal(ends, packed.view("<u4"))


def test_a_part_within_rounding_of_a_level_is_in_the_state_of_the_other():
    """Values at the beginning, the extremum and the end of pieces of an arc."""
    tiny, wanted = 1e-17, {}
    for values, states in (
        ((5, tiny, 3 * tiny), (True, True, 0)),
        ((3 * tiny, -tiny, 5), (True, True, 0)),
        ((-5, tiny, -3 * tiny), (False, False, 0)),
        ((tiny, -tiny, -5), (False, False, 0)),
        ((tiny, -tiny, 3 * tiny), (False, False, 0)),
        ((5, -5, tiny), (True, False, 1)),
        ((tiny, 5, -5), (True, False, 1)),
        ((-5, 5, -5), (False, False, 2)),
        ((-5, 5, 5), (False, True, 1)),
    ):
        wanted[values] = states
    ends = [jnp.asarray(x)[None] for x in np.array([*wanted]).T]
    slack = [jnp.full_like(ends[0], 1e-15)] * 3
    parts = level_crossings.Parts(ends, slack, [jnp.zeros((1, 1))] * 3, jnp.asarray(1))
    found = level_crossings.states_of(parts, 0.0)
    crossed = sum(np.asarray(x[0], int) for x in (*found.crosses, found.inner))
    told = zip(found.begins[0].tolist(), found.stops[0].tolist(), crossed.tolist(), strict=True)
    assert dict(zip(wanted, told, strict=True)) == wanted


def arc_of_pieces(exponent=0):
    """Three pieces of an image in R^2, the last of them twice (padding)."""
    t = np.array([0.1, 1.5, 2.9, 4.2, 4.2])
    r = np.random.default_rng(4)
    coefficients = r.normal(size=(4, 3, 2)) * np.array([1, 1, 0.3])[:, None]
    coefficients[3] = coefficients[2]
    never = jnp.full(4, crossing_rows.NEVER, jnp.int32)
    real = jnp.asarray(3, jnp.int32)
    made = arcs.Arcs(
        jnp.asarray(t), jnp.asarray(coefficients), never, real, jnp.asarray(exponent, jnp.int32)
    )

    def points(s):
        """The image at s, in its true units."""
        i = np.clip(np.searchsorted(t[:4], s, side="right") - 1, 0, 2)
        basis = np.stack([np.cos(s), np.sin(s), np.ones_like(s)], axis=1)
        return np.einsum("sb,sbn->sn", basis, coefficients[i]) * 2.0**exponent

    return made, points


@pytest.mark.parametrize("exponent", [0, 2])
def test_sign_changes_of_readouts_on_pieces_of_an_arc(exponent):
    """The image jumps between its pieces: changes at the joints count as well as those inside."""
    made, points = arc_of_pieces(exponent)
    r = np.random.default_rng(5)
    weights, biases = r.normal(size=(2, 60)), 2.0**exponent * 0.3 * r.normal(size=60)
    found = jax.jit(label_changes.sign_changes, static_argnums=3)(
        made, jnp.asarray(weights), jnp.asarray(biases), 4
    )
    s = np.linspace(0.1, 4.2, 500_001)[1:-1]
    positive = points(s) @ weights + biases > 0
    assert np.array_equal(found.first, positive[0])
    assert np.array_equal(found.last, positive[-1])
    twice = 0
    for unit in range(60):
        seen = s[np.flatnonzero(positive[1:, unit] != positive[:-1, unit])]
        assert found.total[unit] == seen.size
        times = np.asarray(found.times[unit])
        np.testing.assert_allclose(times[: seen.size], seen[:4], atol=1e-5)
        assert np.isinf(times[seen.size :]).all()
        twice += seen.size > 1
    assert twice > 5
    # Too small a capacity is told by the number, and the first flips are kept.
    short = jax.jit(label_changes.sign_changes, static_argnums=3)(
        made, jnp.asarray(weights), jnp.asarray(biases), 1
    )
    np.testing.assert_array_equal(short.total, found.total)
    np.testing.assert_array_equal(short.times, found.times[:, :1])


def test_sign_changes_before_and_after_an_extremum():
    """Parts of cos(t - phase) - cos(1/2), and of its opposite, on [0, 1.4]."""
    phases = np.array([0.3, 0.7, 1.2, -0.4])
    weights = np.concatenate([directions(phases), -directions(phases)], axis=1)
    biases = np.cos(0.5) * np.array([-1.0, 1.0]).repeat(4)
    image = arcs.start(jnp.asarray([0.0, 1.4]), jnp.asarray([[1.0, 0], [0, 1], [0, 0]]))
    found = label_changes.sign_changes(image, jnp.asarray(weights), jnp.asarray(biases), 2)
    wanted = np.array([[0.8, np.inf], [0.2, 1.2], [0.7, np.inf], [0.1, np.inf]])
    np.testing.assert_allclose(found.times, np.concatenate([wanted, wanted]), atol=1e-14)
    assert found.total.tolist() == [1, 2, 1, 1] * 2


def test_a_readout_that_touches_zero_or_is_zero_does_not_change():
    begun = segments.begin(UNIT_CIRCLE, 1, "float64")
    t, coefficients = begun
    # cos t + 1 touches 0 at pi, where two quarter turns meet; 1 - sin t at pi / 2; 0 throughout.
    weights = jnp.asarray([[1.0, 0.0, 0.0, -1.0], [0.0, -1.0, 0.0, 0.0]])
    biases = jnp.asarray([1.0, 1.0, 0.0, -1.0])
    for i in range(4):
        found = label_changes.sign_changes(arcs.start(t[i], coefficients[i]), weights, biases, 2)
        assert found.total.tolist() == [0, 0, 0, 0]
        assert found.first.tolist() == found.last.tolist() == [True, True, False, False]


# Labellings


def walked(times, first):
    """Labellings met, flip by flip."""
    label = list(first)
    seen = {tuple(label)}
    moments = sorted({t for row in times for t in row if np.isfinite(t)})
    for moment in moments:
        for i, row in enumerate(times):
            if moment in row:
                label[i] = not label[i]
        seen.add(tuple(label))
    return len(seen)


@pytest.mark.parametrize("points", [3, 31, 32, 62])
def test_labellings_of_any_number_of_points(points):
    """More than 31 labels take two words, whose bits are all their own."""
    r = np.random.default_rng(points)
    times = np.sort(r.choice(np.arange(1.0, 400.0), (points, 3), replace=False), axis=1)
    times[:, 1] = np.where(r.random(points) < 0.5, times[:, 0] + 500, times[:, 1])
    times[r.random(points) < 0.3, 2] = np.inf
    times[1] = times[0] = np.sort(times[0])  # two labels that flip together
    times = np.sort(times, axis=1)
    first = r.random(points) < 0.5
    found = jax.jit(label_changes.labellings)(jnp.asarray(times), jnp.asarray(first))
    assert found == walked(times.tolist(), first.tolist())
    bits = label_changes.point_bits(points)
    whole = bits[:, 0].astype(np.uint64) | bits[:, 1].astype(np.uint64) << np.uint64(32)
    assert len(set(whole.tolist())) == points
    assert all(int(b).bit_count() == 1 for b in whole)


def test_labels_that_flip_at_one_time_within_rounding_flip_together():
    times = np.array([[2.0, 5.0], [2.0 * (1 + 2**-52), 5.0 * (1 - 2**-53)], [3.0, np.inf]])
    first = jnp.zeros(3, bool)
    assert label_changes.labellings(jnp.asarray(times), first) == 4  # 000, 110, 111, 001
    apart = times + np.array([[0.0], [1e-9], [0.0]])
    assert label_changes.labellings(jnp.asarray(apart), first) == 6


def test_labels_that_go_back_and_forth_make_few_labellings():
    # 40 points of which the first and the 35th flip in turn: 00, 10, 11, 01, 00, ...
    times = np.full((40, 6), np.inf)
    times[0, :6], times[34, :6] = np.arange(0.0, 12, 2) + 1, np.arange(0.0, 12, 2) + 2
    found = label_changes.labellings(jnp.asarray(times), jnp.zeros(40, bool))
    assert found == 4


def test_distinct_codes_are_told_apart_by_both_words(rng):
    codes = rng.integers(0, 4, (200, 2)).astype(np.uint32)
    codes[:, 0] += np.where(rng.random(200) < 0.5, 2**31, 0).astype(np.uint32)
    for share in (1.0, 0.1, 0.0):
        valid = rng.random(200) < share
        found = packed_bits.distinct(jnp.asarray(codes), jnp.asarray(valid))
        assert found == len({tuple(row) for row in codes[valid].tolist()})
    codes[:, 0] = 7  # told apart by the second word alone
    assert packed_bits.distinct(jnp.asarray(codes), jnp.ones(200, bool)) == 4
