"""method="exact" in the runner: against tangents, closed forms, and network by network."""

import jax
import numpy as np
import pytest

from jaxexpr import MLP, crossings, curves, estimate, kernel, laws, measure
from jaxexpr._core.x64 import precision
from jaxexpr.exact.along_curves.capacity import Block, Capacity, grown, shortened
from jaxexpr.exact.along_curves.solve import pieces
from jaxexpr.measurement import plan
from jaxexpr.measurement.capacity_guess import initial_capacity
from jaxexpr.measurement.exact_pass import measured

KEY = jax.random.key(11)
PROBES = ("length", "growth", "growth_squared", "log_growth", "length_ratio", "log_length")
COUNTS = ("transitions", "pieces")
NET = MLP((16, 16, 16), laws.Gaussian(1.5), laws.Gaussian(0.3))
ENDS = np.random.default_rng(0).normal(size=(2, 16))


@pytest.mark.parametrize(
    "curve", [curves.line(*ENDS), curves.circle(*ENDS)], ids=["line", "circle"]
)
def test_agrees_with_ever_finer_tangents_network_by_network(curve):
    exact = estimate(NET, curve, key=KEY, draws=60, probes=PROBES + COUNTS, method="exact")
    fine = estimate(NET, curve, key=KEY, draws=60, probes=PROBES, method="tangent", points=4000)
    for name in PROBES:
        # The logarithm has spikes where an image turns back, which tangents step over.
        loose = 5e-4 if name == "log_growth" else 2e-5
        np.testing.assert_allclose(exact[name].mean, fine[name].mean, rtol=5e-4, atol=loose)
        np.testing.assert_allclose(exact[name].sem, fine[name].sem, rtol=5e-3)
        assert exact[name].converged.all()
        assert exact[name].method == "exact"
    grid = estimate(NET, curve, key=KEY, draws=60, probes="transitions", method="grid", points=8001)
    apart = exact["transitions"].mean - grid["transitions"].mean
    assert np.all(apart > -1e-9)
    assert np.all(apart < 0.1)
    assert np.all(exact["pieces"].mean <= 1 + np.cumsum(exact["transitions"].mean) + 1e-9)


def test_first_layer_transitions_are_those_of_an_angle():
    # Without biases a ReLU unit changes on a segment with probability angle / pi.
    x, y = ENDS
    angle = np.arccos(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    net = MLP((16, 200), laws.Gaussian(1.0), laws.Zero())
    found = estimate(net, curves.line(x, y), key=KEY, draws=4000, probes="transitions")
    found = found["transitions"]
    assert found.method == "exact"
    expected = 200 * angle / np.pi
    assert abs(found.mean[0] - expected) < 4 * found.sem[0]
    assert found.sem[0] < 0.002 * expected
    # Binomial: independent units.
    spread = np.sqrt(expected * (1 - angle / np.pi) / 4000)
    assert found.sem[0] == pytest.approx(spread, rel=0.05)


def test_kernel_measure_and_pieces_see_one_network():
    curve = curves.line(*ENDS)
    key = jax.random.fold_in(KEY, 3)
    params = NET.init(key)
    given = measure(params, curve, probes=PROBES + COUNTS, method="exact")
    drawn = jax.jit(kernel(NET, curve, probes=PROBES + COUNTS, method="exact"))(key)
    found = pieces(params, curve)
    np.testing.assert_array_equal(given["transitions"], found.crossings)
    np.testing.assert_array_equal(given["pieces"], found.counts)
    np.testing.assert_allclose(given["length"], found.lengths, rtol=1e-6)
    for name in PROBES + COUNTS:
        np.testing.assert_allclose(given[name], drawn[name], rtol=1e-5, atol=1e-6)
    double = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    np.testing.assert_allclose(
        measure(double, curve, probes="length", method="exact")["length"],
        given["length"],
        rtol=1e-5,
    )


def test_networks_that_need_more_room_are_measured_again(monkeypatch):
    def small(*arguments, **options):
        sizes = initial_capacity(*arguments, **options)
        return sizes._replace(blocks=tuple(b._replace(new=8, size=10) for b in sizes.blocks))

    monkeypatch.setattr(plan, "initial_capacity", small)
    net = MLP((16, 16, 16), laws.Gaussian(8.0), laws.Gaussian(1.0), "hard_tanh", dtype="float64")
    curve = curves.line(*4 * np.random.default_rng(1).normal(size=(2, 16)))
    found = estimate(net, curve, key=KEY, draws=12, probes=COUNTS, method="exact")
    grid = estimate(net, curve, key=KEY, draws=12, probes=COUNTS[:1], method="grid", points=20_001)
    missed = found["transitions"].mean - grid["transitions"].mean
    assert np.all(missed > -1e-9)
    assert np.all(missed < 0.01 * found["transitions"].mean)
    # In a kernel nobody can give more.
    with jax.enable_x64(True):
        alone = jax.jit(kernel(net, curve, probes=COUNTS, method="exact"))(KEY)
    assert all(np.isnan(number).all() for number in alone.values())


SHORT = {
    "arc": curves.arc(*3 * np.random.default_rng(1).normal(size=(2, 16))),
    "infinite": curves.line(*ENDS, whole=True),
    "polyline": curves.polyline(3 * np.random.default_rng(2).normal(size=(5, 16))),
}


@pytest.mark.parametrize("kind", SHORT)
def test_a_curve_is_cut_where_memory_is_short_and_says_so(kind):
    net = MLP(
        (16, 32, 32, 32), laws.Gaussian(6.0), laws.Gaussian(0.5), "hard_tanh", dtype="float64"
    )
    probes = COUNTS if kind == "infinite" else COUNTS + PROBES
    options = {"key": KEY, "draws": 3, "probes": probes, "method": "exact"}
    whole, parts = (estimate(net, SHORT[kind], memory=m, **options) for m in (None, 2e5))
    for name in probes:
        np.testing.assert_allclose(parts[name].mean, whole[name].mean, rtol=1e-11)
    assert whole["pieces"].method == "exact"
    assert parts["pieces"].method.startswith("exact in parts of up to ")
    assert "parts" in repr(parts["pieces"])


def test_parts_have_room_for_any_number_of_pieces():
    net = MLP((16, 48, 48), laws.Gaussian(1.5), laws.Gaussian(0.5), dtype="float64")
    curve = curves.polyline(3 * np.random.default_rng(2).normal(size=(9, 16)))
    ample = initial_capacity(net, curve)
    small = ample._replace(blocks=shortened(ample.blocks, 24), in_parts=True)
    made = []
    for sizes in (ample, small):

        def run(key, sizes=sizes):
            found, _, required = measured(net, key, curve, sizes, (0.5,))
            return {str(name): value for name, (value, _) in found.items()}, required

        with precision(net.dtype):
            made.append(jax.tree.map(np.asarray, jax.jit(run)(KEY)))
        assert not sizes.overflowed(made[-1][1])
    (whole, _), (parts, _) = made
    assert whole["pieces"][-1] > 8 * small.rows
    for name in ("transitions", "pieces", "0.5"):
        np.testing.assert_array_equal(parts[name], whole[name])
    np.testing.assert_allclose(parts["length"], whole["length"], rtol=1e-12)


@pytest.mark.parametrize("far", [1, 2])
@pytest.mark.parametrize("name", ["relu", "hard_tanh"])
def test_more_crossings_at_one_point_than_there_was_room_for(name, far):
    # Without biases all units are 0 at the origin: at the end of a part, or inside of one, and
    # then, if they are ReLU units, no part is short enough.
    net = MLP((16, 64), laws.Gaussian(6.0), laws.Zero(), name, dtype="float64")
    counts = (*COUNTS, crossings(0.0))
    options = {"key": KEY, "draws": 2, "probes": counts, "method": "exact"}
    found = estimate(net, curves.line(-ENDS[0], far * ENDS[0]), memory=1e4, **options)
    assert found["crossings(0)"].mean == 64
    assert found["pieces"].mean == (2 if name == "relu" else found["transitions"].mean + 1)
    assert "parts" in found["pieces"].method


def test_crossings_at_one_point_ask_for_few_rows():
    blocks = (Block(0, 1, 8, 8), Block(1, 1, 32, 40), Block(2, 1, 32, 80))
    at_one_point = np.array([[0, 1], [483, 3], [27, 12]])  # 32 of 483 made two rows
    apart = np.array([[0, 1], [483, 33], [27, 12]])
    few, many = grown(blocks, at_one_point), grown(blocks, apart)
    assert few[1].new >= 483
    assert few[2].size <= 128
    assert many[1].size >= 483
    # What half the length does not need less of gets a place, and segments are not halved again.
    small = Capacity(blocks, row_bytes=1.0).grown(apart, 100.0)
    assert small.splits > 1 and small.bytes <= 100 and small.blocks[1].new < 483
    same = small.grown(apart, 100.0)
    assert same.splits == small.splits and same.blocks[1].new >= 483


def test_segments_that_do_not_fit_side_by_side_are_done_one_after_another():
    blocks = (Block(0, 1, 8, 10), Block(1, 1, 64, 80))
    four = Capacity(blocks, row_bytes=1.0, segments=4)
    assert four.bytes == 320 and four.fitted(320.0) == four
    split = four.fitted(100.0)
    assert (split.splits, split.bytes) == (2, split.rows) and split.rows < 80
    # The memory takes what one segment requires, but not that of four.
    larger = four.grown(np.array([[8, 10], [70, 90]]), 120.0)
    assert larger.splits == 2 and larger.bytes <= 120


def test_a_kernel_has_no_number_where_there_is_no_room():
    # Inside a caller's own function nobody gives more room.
    # Nothing is guessed of infinite lines, and the transitions of this network grow with depth.
    net = MLP((16,) * 6, laws.Gaussian(12.0), laws.Gaussian(1.0), "hard_tanh")
    curve = curves.line(*4 * np.random.default_rng(1).normal(size=(2, 16)), whole=True)
    one = jax.jit(kernel(net, curve, probes="transitions", method="exact"))
    assert np.isnan(one(KEY)["transitions"]).all()
    found = measure(net.init(KEY), curve, activation="hard_tanh", probes="transitions")
    assert found["transitions"][-1] > 2 * found["transitions"][0]


def test_same_numbers_in_any_chunks_sweeps_and_extended():
    curve = curves.line(*ENDS)
    options = {"key": KEY, "probes": ("length", "transitions"), "method": "exact"}
    whole = estimate(NET, curve, draws=20, **options)
    parts = estimate(NET, curve, draws=12, chunk=5, batch=2, **options)
    parts = estimate(NET, curve, draws=20, extend=parts, **options)
    swept = MLP(NET.widths, laws.Gaussian(np.array([0.5, 1.5])), laws.Gaussian(0.3))
    cells = estimate(swept, curve, draws=20, **options)
    for name in whole:
        np.testing.assert_allclose(whole[name].mean, parts[name].mean, rtol=1e-6)
        np.testing.assert_allclose(whole[name].mean, cells[name].mean[1], rtol=1e-6)
    assert "exact" in repr(whole["length"])


def test_transitions_of_an_infinite_line():
    net = MLP(NET.widths, laws.Gaussian(1.5), laws.Gaussian(0.3), dtype="float64")
    whole = estimate(net, curves.line(*ENDS, whole=True), key=KEY, draws=50, probes=COUNTS)
    # With biases every unit of the first layer changes once.
    assert whole["transitions"].mean[0] == 16
    assert whole["pieces"].mean[0] == 17


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"probes": "norm"}, "method='exact' cannot measure probe 'norm'"),
        ({"points": 30}, "points=30 with method='exact'"),
        ({"net": MLP((16, 4), laws.Gaussian(1.0), laws.Zero(), "tanh")}, "'tanh', which is smooth"),
        ({"curve": curves.line(*ENDS, whole=True)}, "infinite line, which has no 'length'"),
        (
            {"curve": curves.from_function(lambda t: jax.numpy.ones(16) * t)},
            "curve is a function, which has no exact pieces",
        ),
    ],
)
def test_what_cannot_be_exact_is_refused(fault, message):
    good = {"net": NET, "curve": curves.line(*ENDS), "probes": "length", "method": "exact"}
    with pytest.raises(ValueError, match=message):
        estimate(key=KEY, draws=2, **(good | fault))


@pytest.mark.parametrize("probes", ["pieces", "transitions"])
def test_exact_counts_take_no_points(probes):
    curve = curves.line(*ENDS, whole=probes == "transitions")
    with pytest.raises(ValueError, match=f"points=9 and probe '{probes}', which is counted"):
        estimate(NET, curve, key=KEY, draws=2, probes=probes, points=9)


def test_pieces_have_no_grid():
    with pytest.raises(ValueError, match="cannot measure probe 'pieces'"):
        estimate(NET, curves.line(*ENDS), key=KEY, draws=2, probes="pieces", method="grid")


def test_traced_parameters_are_refused():
    params = NET.init(KEY)
    with pytest.raises(ValueError, match="params are traced"):
        jax.jit(lambda p: measure(p, curves.line(*ENDS), probes="transitions"))(params)


def test_lengths_are_exact_where_room_can_be_given():
    curve = curves.line(*ENDS)
    options = {"key": KEY, "draws": 3, "probes": ("length", "growth")}
    made = estimate(NET, curve, **options)
    assert (made["length"].method, made["growth"].method) == ("exact", "tangent")
    keys = [jax.random.fold_in(KEY, i) for i in range(3)]
    lengths = [measure(NET.init(key), curve)["length"] for key in keys]
    np.testing.assert_allclose(made["length"].mean, np.mean(lengths, axis=0), rtol=1e-5)
    swept = MLP(NET.widths, laws.Gaussian(np.array([0.5, 1.5])), laws.Gaussian(0.3))
    assert estimate(swept, curve, **options)["length"].method == "tangent"
    assert estimate(NET, curve, points=8, **options)["length"].method == "tangent"
    smooth = MLP(NET.widths, laws.Gaussian(1.0), laws.Zero(), "tanh")
    assert estimate(smooth, curve, **options)["length"].method == "tangent"


def test_exact_lengths_have_gradients_inside_jit():
    def last(sigma, method):
        net = MLP((16, 16, 16, 16), laws.Gaussian(sigma), laws.Zero())
        made = kernel(net, curves.line(*ENDS), probes="length", method=method)(KEY)
        return made["length"][-1]

    slope = jax.jit(jax.grad(last), static_argnums=1)
    exact, tangent = (float(slope(1.5, method)) for method in ("exact", "tangent"))
    # Without biases the length is proportional to sigma^3.
    assert exact == pytest.approx(2 * float(last(1.5, "exact")), rel=1e-4)
    assert exact == pytest.approx(tangent, rel=0.05)
