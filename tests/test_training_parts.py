"""What a step of training is made of, each by hand: order, losses, penalties, norms, marks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jaxexpr import MLP, ConvNet, Dense, Pool, curves, exact, laws
from jaxexpr.training import (
    Classifier,
    Intervention,
    Normalisation,
    Prune,
    TrajectoryRegularisation,
    add_noise,
    loop,
    polyline_length,
    prune,
    steps,
    track,
    train,
    wrong_labels,
)
from jaxexpr.training.models import Pooling
from jaxexpr.training.setup import TrainingSpec

KEY = jax.random.key(5)
NET = MLP((4, 7, 5), laws.Gaussian(1.5), laws.Gaussian(0.3))
R = np.random.default_rng(0)
X, Y = R.normal(size=(50, 4)).astype(np.float32), R.integers(0, 3, 50).astype(np.int32)


def split(model):
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    return graph, params, rest


def softmax_loss(logits, y):
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(y)), y]


# Examples


def test_every_epoch_has_an_order_of_its_own(monkeypatch):
    """Each example at most once an epoch, images with their labels, steps numbered through."""
    count, batch = 23, 5
    images = jnp.arange(count, dtype=jnp.float32)[:, None]
    labels = jnp.arange(count, dtype=jnp.int32)
    plan = steps.StepSpec(None, optax.sgd(0.1), batch, count, noisy=True)

    def noted(plan, held, state, x, y, done):
        both = jnp.stack([x[:, 0].astype(jnp.int32), y])
        return state._replace(params=state.params.at[done].set(both))

    monkeypatch.setattr(steps, "step", noted)

    def orders(key, wrong=0.0):
        share = jnp.asarray(wrong, jnp.float32)
        held = steps.PerNetwork(key, jnp.zeros((), jnp.int32), share, jnp.ones(()))
        state = steps.State(jnp.full((12, 2, batch), -1, jnp.int32), (), (), (), 0.0, 0)

        @jax.jit
        def one(state, number, first, last):
            return steps.epoch(plan, held, state, images, labels, number, first, last)

        for number in range(3):  # in two calls each, as the loop does
            for first, last in ((0, 1), (1, 4)):
                ends = (jnp.asarray(n, jnp.int32) for n in (number, first, last))
                state = one(state, *ends)
        return np.asarray(state.params)

    seen = orders(KEY)
    np.testing.assert_array_equal(seen[:, 0], seen[:, 1])
    epochs = seen[:, 1].reshape(3, 20)
    for order in epochs:
        assert len(set(order)) == 20 and order.min() >= 0
        assert np.any(np.diff(order) < 0)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.mean(epochs[a] == epochs[b]) < 0.5
    np.testing.assert_array_equal(seen, orders(KEY))
    noisy = orders(KEY, 0.6)  # the same examples, wrongly labelled throughout
    np.testing.assert_array_equal(noisy[:, 0], seen[:, 0])
    labelled = np.asarray(wrong_labels(labels, 0.6, count, KEY))
    np.testing.assert_array_equal(noisy[:, 1], labelled[seen[:, 0]])
    assert 0.3 < np.mean(labelled != labels) < 0.9
    assert np.mean(seen == orders(jax.random.key(6))) < 0.5


# Losses and layers between


def test_a_trajectory_penalty_has_its_weight_its_lambda_and_its_lengths():
    """The loss that is differentiated is cross-entropy + weight lambda length / original length."""
    model = Classifier(
        NET, 3, key=KEY, normalisation=Normalisation("trajectory", after=(1,), weight=0.3)
    )
    factor = 1.7
    model.stages[1].layer.scale[...] = jnp.asarray(factor, jnp.float32)
    graph, params, rest = split(model)
    plan = steps.StepSpec(graph, optax.sgd(0.1), 8, 3)
    x, y = X[:8], Y[:8]
    loss, (_, plain, right) = steps.objective(plan, params, rest, jnp.asarray(x), jnp.asarray(y))
    (w1, b1), (w2, b2) = (
        (np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in NET.init(KEY)
    )
    z = np.maximum(x @ w1 + b1, 0)
    out = np.maximum(factor * z @ w2 + b2, 0)
    readout = model.readout.kernel[...], model.readout.bias[...]
    logits = out @ np.asarray(readout[0], np.float64) + np.asarray(readout[1], np.float64)
    losses = softmax_loss(logits, y)

    def length(rows):
        return np.linalg.norm(np.diff(rows, axis=0), axis=1).sum()

    penalty = 0.3 * factor * length(z) / length(x)
    assert penalty > 0.1
    assert float(loss) == pytest.approx(losses.mean() + penalty, rel=1e-5)
    assert float(plain) == pytest.approx(losses.sum(), rel=1e-5)
    assert int(right) == np.sum(logits.argmax(axis=1) == y)
    # Its derivative with respect to lambda, all else in the loss held fixed: by differences.
    layer = TrajectoryRegularisation(weight=0.3)
    layer.scale[...] = jnp.asarray(factor, jnp.float32)
    np.testing.assert_allclose(
        layer(jnp.asarray(z, jnp.float32), jnp.asarray(x)), factor * z, rtol=1e-6
    )
    assert float(layer.penalty[...]) == pytest.approx(penalty, rel=1e-5)
    kept = float(layer.penalty[...])
    layer.deterministic = True
    np.testing.assert_allclose(layer(jnp.ones((2, 3)), jnp.ones((2, 4))), factor)
    assert float(layer.penalty[...]) == kept


def test_a_polyline_has_the_length_of_its_sides():
    rows = np.array([[0.0, 0, 0], [3, 4, 0], [3, 4, 0], [3, 4, 12]])
    assert float(polyline_length(jnp.asarray(rows))) == 17
    slope = jax.grad(polyline_length)(jnp.asarray(rows))
    np.testing.assert_allclose(slope, [[-0.6, -0.8, 0], [0.6, 0.8, 0], [0, 0, -1], [0, 0, 1]])


def test_batch_norm_follows_its_minibatches_with_momentum_nine_tenths():
    model = Classifier(NET, 3, key=KEY, normalisation=Normalisation("batch", after=(1,)))
    w, b = (np.asarray(a, np.float64) for a in NET.init(KEY)[0])
    z = np.maximum(X @ w + b, 0)
    mean, var = np.zeros(7), np.ones(7)
    norm = model.stages[1].norm
    for part in (slice(0, 20), slice(20, 50)):
        out = model.images(jnp.asarray(X[part]))[1]
        mean = 0.9 * mean + 0.1 * z[part].mean(axis=0)
        var = 0.9 * var + 0.1 * z[part].var(axis=0)
        own = (z[part] - z[part].mean(axis=0)) / np.sqrt(z[part].var(axis=0) + norm.epsilon)
        np.testing.assert_allclose(out, own, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(norm.mean[...], mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(norm.var[...], var, rtol=1e-4)
    # Tested with what was gathered, and without gathering more.
    graph, params, rest = split(model)
    share = steps.tested(graph, params, rest, jnp.asarray(X), jnp.asarray(Y))
    rows = (z - mean) / np.sqrt(var + norm.epsilon)
    (w2, b2), readout = NET.init(KEY)[1], model.readout.kernel[...]
    logits = np.maximum(rows @ np.asarray(w2) + np.asarray(b2), 0) @ np.asarray(readout)
    assert float(share) == pytest.approx(np.mean(logits.argmax(axis=1) == Y), abs=1e-6)


def test_more_examples_than_are_tested_at_once(monkeypatch):
    model = Classifier(NET, 3, key=KEY)
    logits = np.asarray(model(jnp.asarray(X)))
    monkeypatch.setattr(steps, "TOGETHER", 16)
    share = steps.tested(*split(model), jnp.asarray(X), jnp.asarray(Y))
    assert float(share) == pytest.approx(np.mean(logits.argmax(axis=1) == Y), abs=1e-6)


def test_the_readout_has_the_scale_of_its_law_and_draws_of_its_own():
    wide = MLP((60, 50, 60, 40), laws.Gaussian(1.0), laws.Zero())
    model = Classifier(wide, 50, key=KEY, readout=laws.Gaussian(3.0))
    kernel = np.asarray(model.readout.kernel[...])
    assert kernel.shape == (40, 50)
    assert 40**0.5 * kernel.std() == pytest.approx(3.0, rel=0.05)
    for w, _ in wide.init(KEY):
        rows, columns = np.minimum(w.shape, kernel.shape)
        own = np.corrcoef(np.ravel(w[:rows, :columns]), np.ravel(kernel[:rows, :columns]))[0, 1]
        assert abs(own) < 0.15


@pytest.mark.parametrize("kind", ["mean", "max"])
def test_pools_in_a_model(kind):
    net = ConvNet((4, 4, 2), [Pool(2, kind=kind), Dense(3)], laws.Gaussian(1.0), laws.Zero())
    x = np.random.default_rng(3).normal(size=(3, 4, 4, 2)).astype(np.float32)
    windows = x.reshape(3, 2, 2, 2, 2, 2)
    wanted = getattr(windows, kind)(axis=(2, 4)).reshape(3, -1)
    found = Pooling(net.ops[0])(jnp.asarray(x.reshape(3, -1)), None)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


# Interventions


def test_noise_has_the_scale_of_each_layer_and_is_new_in_each():
    params = tuple(
        (np.zeros(shape, np.float32), np.zeros(shape[-1], np.float32))
        for shape in ((40, 60), (60, 40), (3, 3, 4, 60))
    )
    added = [
        np.asarray(add_noise(params, i + 1, laws.Gaussian(0.5), key=KEY)[i][0]) for i in range(3)
    ]
    for noise, fan_in in zip(added, (40, 60, 36), strict=True):
        assert noise.std() * fan_in**0.5 == pytest.approx(0.5, rel=0.06)
    corner = [a.reshape(-1, a.shape[-1])[:36, :40] for a in added]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(corner[i].ravel(), corner[j].ravel())[0, 1]) < 0.12


def test_what_pruning_leaves_is_rounded():
    weights = np.random.default_rng(2).normal(size=(7, 5)).astype(np.float32)
    for density, left in ((0.57, 20), (0.55, 19), (0.013, 0), (0.99, 35)):
        ((kept, _),) = prune([(weights, np.zeros(5))], density)
        assert np.count_nonzero(kept) == left


def test_pruning_falls_by_a_cube_and_ends_where_it_is_told():
    plan = Prune(0.2, begin=3, end=14, every=4)
    assert [t for t in range(20) if plan.due(t)] == [3, 7, 11, 14]
    for t in (3, 7, 11, 14):
        rest = ((14 - t) / 11) ** 3
        assert plan.left(t, 0.2) == pytest.approx(0.2 + 0.8 * rest)
    at_once = Prune(0.2, begin=6, end=6)
    assert [t for t in range(20) if at_once.due(t)] == [6]
    assert at_once.left(6, 0.2) == 0.2


# Networks of a run: which is which


def test_networks_of_a_sweep_in_their_order():
    """Cells lead, networks follow; a network of the same number has one key in all cells."""
    noise, only = np.array([[0.0], [0.5]]), np.array([0, 1, 2])
    wanted = TrainingSpec(
        net=NET, networks=2, classes=3, batch=10, optimiser=optax.sgd(0.1),
        intervention=Intervention(train_layer=only, label_noise=noise),
    )  # fmt: skip
    assert wanted.sweep == (2, 3)
    drawn = wanted.draw(KEY)
    np.testing.assert_array_equal(drawn.per_network.train_layer, np.tile(np.repeat(only, 2), 2))
    np.testing.assert_array_equal(drawn.per_network.label_noise, np.repeat([0.0, 0.5], 6))
    keys = np.asarray(jax.random.key_data(drawn.per_network.key))
    np.testing.assert_array_equal(keys, np.tile(keys[:2], (6, 1)))
    assert not np.array_equal(keys[0], keys[1])
    own = [np.asarray(jax.random.key_data(jax.random.fold_in(KEY, i))) for i in range(2)]
    assert not any(np.array_equal(keys[i], own[i]) for i in range(2))  # those drew the weights
    kernels = np.asarray(drawn.state.params["stages"][0]["kernel"][...])
    for i in range(12):
        np.testing.assert_array_equal(kernels[i], NET.init(jax.random.fold_in(KEY, i % 2))[0][0])


@pytest.fixture(scope="module")
def fit():
    """Two cells, three networks each, of which the second cell's are trained on noise; pruned."""
    ends = np.random.default_rng(1).normal(size=(2, 4))
    lines = [curves.line(ends[0], ends[1]), curves.line(0 * ends[0], ends[1])]
    trackers = [
        track.lengths(curves.arc(*ends), points=400),
        track.regions(lines),
        track.weight_scale(),
        track.density(),
    ]
    made = train(
        NET, (X, Y), key=KEY, networks=3, batch=10, epochs=2.4, record_at=[0.4, 1.0, 1.6],
        intervention=Intervention(
            prune=Prune(np.array([0.25, 0.5]), begin=2, end=8, every=3),
            label_noise=np.array([0.0, 1.0]),
        ),
        trackers=trackers, optimiser=optax.adam(0.03),
        test_data=(X[:20], Y[:20]),
    )  # fmt: skip
    return made, ends, lines


def test_trackers_see_what_numpy_sees(fit):
    made, ends, lines = fit
    assert made.steps.tolist() == [0, 2, 5, 8, 12]
    t = np.linspace(0, np.pi / 2, 20_001)
    points = np.cos(t)[:, None] * ends[0] + np.sin(t)[:, None] * ends[1]
    for cell, number in ((0, 0), (1, 2)):
        params = [
            (np.asarray(w, float), np.asarray(b, float)) for w, b in made.params(cell, number)
        ]
        z, last = points, (-1, cell, number)
        for layer, (w, b) in enumerate(params):
            z = np.maximum(z @ w + b, 0)
            length = np.linalg.norm(np.diff(z, axis=0), axis=1).sum()
            assert made.history["length"][last][layer] == pytest.approx(length, rel=0.01)
            scale = np.sqrt(w.shape[0] * np.mean(w**2))
            assert made.history["weight_scale"][last][layer] == pytest.approx(scale, rel=1e-6)
            assert made.history["density"][last][layer] == pytest.approx(np.mean(w != 0))
        counts = [exact.pieces(tuple(params), line).count for line in lines]
        assert made.history["regions"][last].tolist() == counts
    assert made.history["regions"].max() > 3


def test_pruning_counts_the_steps_of_all_epochs(fit):
    """The cut after step 8 is one of the second epoch, as deep as its number says."""
    made, *_ = fit
    for cell, last in enumerate((0.25, 0.5)):
        left = [1.0, 1.0, last + (1 - last) / 8, last, last]
        wanted = [[round(share * size) / size for size in (28, 35)] for share in left]
        for number in range(3):
            np.testing.assert_allclose(made.history["density"][:, cell, number], wanted)


def test_records_are_means_over_the_examples_since_the_one_before(fit):
    made, *_ = fit
    assert np.isnan(made.history["loss"][0]).all()
    accuracy = made.history["train_accuracy"][1:]
    seen = 10 * np.diff(made.steps)[:, None, None]
    np.testing.assert_allclose(accuracy * seen, np.round(accuracy * seen), atol=1e-9)
    assert accuracy.max() <= 1
    assert np.all(np.abs(made.history["loss"][1:] - np.log(3)) < 0.6)  # of three classes


def test_an_index_names_one_network_and_its_own_number(fit):
    made, *_ = fit
    for cell in range(2):
        for number in range(3):
            kernel = made.last.params[0][0][3 * cell + number]
            np.testing.assert_array_equal(made.params(cell, number)[0][0], kernel)
            logits = np.asarray(made.model(cell, number)(jnp.asarray(X[:20])))
            share = np.mean(logits.argmax(axis=1) == Y[:20])
            assert made.history["test_accuracy"][-1, cell, number] == pytest.approx(share)
    factors = np.array([[1.0, -1.0, 2.0], [0.0, 3.0, -2.0]], np.float32)

    def scaled(params, own):
        return ((params[0][0] * own, params[0][1]), params[1])

    found = made.accuracy((X, Y), change=scaled, per_network_args=factors)
    for cell in range(2):
        for number in range(3):
            z, params = X, made.params(cell, number)
            for layer, (w, b) in enumerate(params):
                z = np.maximum(z @ (w * (factors[cell, number] if layer == 0 else 1)) + b, 0)
            readout = made.model(cell, number).readout
            logits = z @ np.asarray(readout.kernel[...]) + np.asarray(readout.bias[...])
            share = np.mean(logits.argmax(axis=1) == Y)
            assert found[cell, number] == pytest.approx(share, abs=0.021)


# What marks a run


class Marked(Exception):
    """Carries the mark of a run that is not run."""


@pytest.fixture
def mark(monkeypatch, tmp_path):
    fingerprint = loop.fingerprint

    def marked(*what):
        raise Marked(fingerprint(*what))

    monkeypatch.setattr(TrainingSpec, "draw", lambda self, key: loop.Initialised(None, None, None))
    monkeypatch.setattr(loop, "_Run", lambda *arguments: None)
    monkeypatch.setattr(loop, "fingerprint", marked)

    def of(net=NET, examples=(X, Y), **options):
        given = {"key": KEY, "networks": 2, "epochs": 2, "batch": 10, "checkpoint": tmp_path / "a"}
        with pytest.raises(Marked) as found:
            train(net, examples, **(given | options))
        return str(found.value)

    return of


LINE = curves.line(np.zeros(4), np.ones(4))
OTHERS = {
    "nothing": {},
    "net": {"net": MLP((4, 7, 5), laws.Gaussian(1.5), laws.Gaussian(0.2))},
    "images": {"examples": (X + 1, Y)},
    "labels": {"examples": (X, Y[::-1])},
    "key": {"key": jax.random.key(6)},
    "networks": {"networks": 3},
    "epochs": {"epochs": 3},
    "records": {"record_at": 7},
    "batch": {"batch": 11},
    "optimiser": {"optimiser": optax.adam(2e-3)},
    "schedule": {"optimiser": optax.sgd(lambda count: 0.1 / (1 + count))},
    "other schedule": {"optimiser": optax.sgd(lambda count: 0.2 / (1 + count))},
    "test": {"test_data": (X[:9], Y[:9])},
    "other test": {"test_data": (X[:8], Y[:8])},
    "norm": {"normalisation": Normalisation("batch")},
    "after": {"normalisation": Normalisation("batch", (1,))},
    "trajectory": {"normalisation": Normalisation("trajectory")},
    "weight": {"normalisation": Normalisation("trajectory", weight=0.02)},
    "readout": {"readout": laws.Gaussian(2.0)},
    "only": {"intervention": Intervention(1)},
    "label noise": {"intervention": Intervention(label_noise=0.1)},
    "prune": {"intervention": Intervention(prune=Prune(0.5, 1, 8))},
    "prune, other steps": {"intervention": Intervention(prune=Prune(0.5, 1, 9))},
    "prune, 1 and 10, 1": {"intervention": Intervention(prune=Prune(0.5, 1, 10, 1))},
    "prune, 1 and 1, 01": {"intervention": Intervention(prune=Prune(0.5, 1, 1, 1))},
    "batching": {"batching": "vmap"},
    "tracker": {"trackers": [track.weight_scale()]},
    "lengths": {"trackers": [track.lengths(LINE)]},
    "lengths, points": {"trackers": [track.lengths(LINE, points=7)]},
    "measures": {"trackers": [track.measures(LINE)]},
    "measures, method": {"trackers": [track.measures(LINE, method="exact")]},
    "plane": {"trackers": [track.plane(np.zeros(4), *np.eye(4)[:2])]},
    "plane, elsewhere": {"trackers": [track.plane(np.ones(4), *np.eye(4)[:2])]},
    "regions": {"trackers": [track.regions([LINE])]},
    "distances": {"trackers": [track.distances(np.zeros((1, 4)))]},
}


def test_every_option_is_in_the_mark_of_a_run(mark):
    marks = {name: mark(**options) for name, options in OTHERS.items()}
    assert len(set(marks.values())) == len(marks)
    again = {name: mark(**options) for name, options in OTHERS.items()}
    assert marks == again


def test_records_are_where_they_are_asked_for():
    assert loop._stops(2.0, 4, 10).tolist() == [0, 5, 10, 15, 20]
    assert loop._stops(0.5, [0.1, 0.3], 10).tolist() == [0, 1, 3, 5]
    assert loop._stops(1.26, 2, 10).tolist() == [0, 6, 13]


def test_labels_of_a_test_are_of_the_classes_that_are_trained():
    with pytest.raises(ValueError, match="holds the label 3: give classes from 0 to 2"):
        train(NET, (X, Y), key=KEY, test_data=(X[:2], np.array([0, 3])))
