"""Training many networks at once: the steps themselves, what stays, and what is recorded."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxexpr import MLP, Conv, ConvNet, Dense, Pool, curves, datasets, exact, laws, measure
from jaxexpr.training import (
    Classifier,
    Intervention,
    Normalisation,
    Prune,
    add_noise,
    prune,
    track,
    train,
    wrong_labels,
)

KEY = jax.random.key(3)
FAST = optax.adam(1e-2)
BATCH = Normalisation("batch")
NET = MLP((64, 16, 16), laws.Gaussian(1.5), laws.Gaussian(0.1))


@pytest.fixture(scope="module")
def digits():
    return datasets.load("digits")


@pytest.fixture(scope="module")
def held_out():
    return datasets.load("digits", "test")


def small(net=NET, examples=None, **options):
    given = {"key": KEY, "networks": 2, "epochs": 1, "batch": 64, "record_at": 2}
    examples = datasets.load("digits") if examples is None else examples
    return train(net, examples, **(given | options))


def leaves(fit):
    return [np.asarray(x) for x in jax.tree.leaves(fit.last.values)]


def descended(params, readout, x, y, steps, rate):
    """Gradient descent by hand, in NumPy, on all examples at once: ReLU layers and a read-out."""
    layers = [[w.copy(), b.copy()] for w, b in (*params, readout)]
    losses = []
    for _ in range(steps):
        images, signs = [x], []
        for w, b in layers[:-1]:
            h = images[-1] @ w + b
            signs.append(h > 0)
            images.append(np.where(h > 0, h, 0))
        logits = images[-1] @ layers[-1][0] + layers[-1][1]
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        losses.append(-np.log(chances[np.arange(len(y)), y]).mean())
        back = (chances - np.eye(logits.shape[1])[y]) / len(y)
        for i in reversed(range(len(layers))):
            w = layers[i][0]
            step = images[i].T @ back, back.sum(axis=0)
            back = back @ w.T * (signs[i - 1] if i else 1)
            layers[i] = [layers[i][0] - rate * step[0], layers[i][1] - rate * step[1]]
    return layers, losses


def test_steps_are_those_of_gradient_descent_by_hand(digits):
    net = MLP((64, 9, 7), laws.Gaussian(1.5), laws.Gaussian(0.1), dtype="float64")
    x, y = digits.flat[:100].astype(np.float64), digits.labels[:100]
    options = {"key": KEY, "networks": 2, "batch": 100, "epochs": 5, "optimiser": optax.sgd(0.3)}
    fit = train(net, (x, y), record_at=[0, 1, 2, 3, 4], **options)
    for i in range(2):
        key = jax.random.fold_in(KEY, i)
        with jax.enable_x64(True):
            model = Classifier(net, 10, key=key)
            start = jax.tree.map(np.asarray, net.init(key))
            readout = model.readout.kernel[...], model.readout.bias[...]
        found, losses = descended(start, [np.asarray(a) for a in readout], x, y, 5, 0.3)
        for (w, b), (own_w, own_b) in zip(fit.params(i), found, strict=False):
            np.testing.assert_allclose(w, own_w, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(b, own_b, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(fit.history["loss"][1:, i], losses, rtol=1e-10)
    assert fit.history["loss"].dtype == np.float64


def test_the_first_record_is_of_the_networks_that_the_laws_draw(digits):
    seen = []
    small(trackers=[lambda now: seen.append(now.network(1)) or {}], epochs=0.1)
    drawn = NET.init(jax.random.fold_in(KEY, 1))
    for (w, b), (own_w, own_b) in zip(seen[0], drawn, strict=True):
        np.testing.assert_allclose(w, own_w, rtol=1e-6)
        np.testing.assert_allclose(b, own_b, rtol=1e-6)
    assert any(
        (np.abs(w - own) > 1e-4).any() for (w, _), (own, _) in zip(seen[-1], drawn, strict=True)
    )


def test_the_readout_is_the_next_layer_of_a_deeper_network():
    deeper = MLP((64, 16, 16, 10), [laws.Gaussian(1.5)] * 2 + [laws.Gaussian(1.0)], laws.Zero())
    model = Classifier(NET, 10, key=KEY)
    np.testing.assert_allclose(model.readout.kernel[...], deeper.init(KEY)[2][0], rtol=1e-6)


def test_networks_depend_on_their_number_alone(digits):
    together = small(networks=3, batching="map")
    alone = small(networks=1, batching="map")
    for many, one in zip(leaves(together), leaves(alone), strict=True):
        assert (many[:1] == one).all()
    other = small(networks=3, batching="vmap")
    for a, b in zip(leaves(together), leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)
    first, second = together.params(0)[0][0], together.params(1)[0][0]
    assert (first != second).all()


def test_training_learns(digits, held_out):
    fit = small(epochs=10, test_data=held_out, optimiser=FAST)
    accuracy = fit.history["test_accuracy"]
    assert (accuracy[0] < 0.3).all()
    assert (accuracy[-1] > 0.85).all()
    assert (fit.history["loss"][-1] < 0.4).all()
    np.testing.assert_allclose(fit.accuracy(held_out), accuracy[-1])
    logits = fit.model(1)(jnp.asarray(held_out.flat))
    share = np.mean(np.argmax(logits, axis=1) == held_out.labels)
    assert share == pytest.approx(accuracy[-1, 1], abs=1e-6)


def test_a_sweep_of_readouts(digits):
    net = MLP((64, 16, 16), laws.Gaussian(1.5), laws.Zero())
    fit = small(net, readout=laws.Gaussian(np.array([0.25, 1.0])),
        intervention=Intervention(train_layer=1), epochs=0.1,
    )  # fmt: skip
    low, high = (fit.last.model(i).readout.kernel[...] for i in (0, 2))
    np.testing.assert_allclose(4 * low, high, rtol=1e-6)


def test_a_sweep_leads_and_compiles_once(digits):
    sigma = np.array([1.0, 2.0, 3.0])
    net = MLP((64, 16, 16), laws.Gaussian(sigma), laws.Zero())
    fit = small(net, trackers=[track.weight_scale()])
    assert fit.shape == (3, 2)
    scale = fit.history["weight_scale"]
    assert scale.shape == (3, 3, 2, 2)
    np.testing.assert_allclose(scale[0].mean(axis=(1, 2)), sigma, rtol=0.1)
    one = small(MLP((64, 16, 16), laws.Gaussian(2.0), laws.Zero()))
    np.testing.assert_allclose(fit.params(1, 1)[0][0], one.params(1)[0][0], rtol=2e-3, atol=2e-4)
    data = fit.dataset(["sigma"], {"sigma": sigma})
    assert data.weight_scale.dims == (
        "record", "sigma", "network", "weight_scale_0",
    )  # fmt: skip
    assert data.step.values.tolist() == [0, 11, 22]


def test_one_layer_is_trained_and_the_rest_stays(digits):
    fit = small(intervention=Intervention(train_layer=np.array([0, 1, 2])), networks=1)
    for cell in range(3):
        drawn = NET.init(jax.random.fold_in(KEY, 0))
        model = Classifier(NET, 10, key=jax.random.fold_in(KEY, 0))
        trained = fit.model(cell, 0)
        same = [
            bool((w == own_w).all() and (b == own_b).all())
            for (w, b), (own_w, own_b) in zip(fit.params(cell, 0), drawn, strict=True)
        ]
        same.append(bool((trained.readout.kernel[...] == model.readout.kernel[...]).all()))
        assert same == [[False, False, False], [False, True, True], [True, False, True]][cell]


def test_zeros_of_a_sparse_law_stay(digits):
    net = MLP((64, 16, 16), laws.Sparse(laws.Gaussian(1.5), 0.3), laws.Zero())
    fit = small(net, trackers=[track.density()], epochs=2)
    drawn = net.init(jax.random.fold_in(KEY, 0))
    for (w, _), (own, _) in zip(fit.params(0), drawn, strict=True):
        assert ((w == 0) == (own == 0)).all()
    density = fit.history["density"]
    assert (density == density[0]).all()
    assert density.mean() == pytest.approx(0.3, abs=0.05)


def test_only_layers_of_a_sparse_law_stay_sparse(digits):
    sparse = laws.Sparse(laws.Gaussian(1.5), 0.5)
    net = MLP((64, 16, 16), [sparse, laws.DiscreteUniform(1)], laws.Zero())
    fit = small(net, epochs=1, trackers=[track.density()], networks=1)
    first, last = fit.history["density"][[0, -1], 0]
    assert first[1] < 0.8
    assert last[1] > first[1] + 0.1
    assert last[0] == first[0] < 0.6


def test_measures_refuse_what_is_more_than_its_layers(digits):
    line = curves.line(digits.flat[0], digits.flat[1])
    with pytest.raises(ValueError, match=r"a normalisation between them: use track\.lengths"):
        small(normalisation=BATCH, trackers=[track.measures(line)], epochs=0.1)


def test_noise_is_no_weight_of_the_network_whose_key_it_has():
    params = NET.init(KEY)
    for layer in (1, 2):
        noisy = add_noise(params, layer, laws.Gaussian(1.0), key=KEY)
        added = np.ravel(noisy[layer - 1][0] - params[layer - 1][0])
        for weights, _ in params:
            count = min(added.size, weights.size)
            found = np.corrcoef(added[:count], np.ravel(weights)[:count])[0, 1]
            assert abs(found) < 5 / count**0.5


def test_each_network_has_a_change_of_its_own(digits):
    fit = small(networks=3, epochs=0.1)
    scales = np.array([0.0, 1.0, 0.0], np.float32)

    def change(params, shift, own):
        return tuple((w * own + shift, b * own) for w, b in params)

    found = fit.accuracy(digits, change=change, args=np.float32(0), per_network_args=scales)
    assert found[1] == fit.accuracy(digits)[1]
    with pytest.raises(
        ValueError, match=r"per_network_args\[0\] has shape \(2,\) and networks have \(3,\)"
    ):
        fit.accuracy(digits, change=change, per_network_args=scales[:2])


def test_pruning_follows_its_schedule(digits):
    plan = Prune(np.array([0.1, 0.5]), begin=4, end=14, every=5)
    steps = np.arange(0, 18) / 22
    fit = small(
        intervention=Intervention(prune=plan), record_at=list(steps), trackers=[track.density()]
    )
    density = fit.history["density"].mean(axis=2)  # (records, cells, layers)
    for cell, last in enumerate((0.1, 0.5)):
        left = {0: 1.0, 4: 1.0, 9: last + (1 - last) * 0.5**3, 14: last}
        now = 1.0
        for step in range(18):
            now = left.get(step, now)
            for layer, size in enumerate((64 * 16, 16 * 16)):
                assert density[step, cell, layer] == pytest.approx(round(now * size) / size)
    assert fit.steps[:18].tolist() == list(range(18))
    before, after = (fit.params(cell, 0)[0][0] for cell in (0, 1))
    assert (before != 0).sum() < (after != 0).sum()


def test_pruning_leaves_what_was_asked_for_though_gone_weights_have_gradients(digits):
    # Steps so large that what is gone would outrank what is left, were it not 0 when ranked.
    plan = Prune(0.3, begin=1, end=21, every=1)
    fit = small(
        intervention=Intervention(prune=plan), optimiser=optax.adam(0.1), trackers=[track.density()]
    )
    sizes = (64 * 16, 16 * 16)
    wanted = [round(0.3 * size) / size for size in sizes]
    np.testing.assert_allclose(fit.history["density"][-1], [wanted, wanted])


def test_pruning_after_the_first_step(digits):
    fit = small(
        intervention=Intervention(prune=Prune(0.5, begin=1, end=1)),
        epochs=0.1,
        trackers=[track.density()],
    )
    assert (fit.history["density"][-1] == 0.5).all()


@pytest.mark.parametrize("norm", ["batch", "trajectory"])
def test_layers_between_are_of_the_precision_of_the_network(digits, norm):
    net = MLP((64, 8, 8), laws.Gaussian(1.5), laws.Zero(), dtype="float64")
    fit = small(net, normalisation=Normalisation(norm), epochs=0.2, networks=1)
    assert {leaf.dtype for leaf in leaves(fit)} == {np.dtype(np.float64)}


def test_pruning_keeps_the_largest(rng):
    weights, biases = rng.normal(size=(7, 5)), rng.normal(size=5)
    ((left, same),) = prune([(weights, biases)], 0.4)
    assert np.count_nonzero(left) == 14
    assert np.abs(weights[np.asarray(left) == 0]).max() < np.abs(left)[np.asarray(left) != 0].min()
    assert (same == biases).all()
    ((none, _),) = prune([(weights, biases)], 0.0)
    assert not np.any(none)
    ((equal, _),) = prune([(np.ones((2, 3)), np.zeros(3))], 0.5)
    assert np.asarray(equal).tolist() == [[1, 1, 1], [0, 0, 0]]


def test_wrong_labels_are_as_many_as_asked_for():
    labels = jnp.asarray(np.arange(40_000) % 10, jnp.int32)
    for fraction in (0.2, 1.0):
        wrong = np.asarray(wrong_labels(labels, fraction, 10, KEY) != labels)
        share = fraction * 0.9
        assert wrong.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 40_000))
    few, many = (np.asarray(wrong_labels(labels, f, 10, KEY)) for f in (0.2, 0.6))
    changed = few != labels
    assert (few[changed] == many[changed]).all()
    counts = np.bincount(np.asarray(wrong_labels(labels, 1.0, 10, KEY)), minlength=10)
    assert np.sum((counts - 4000) ** 2 / 4000) < 28  # chi-square, 9 degrees of freedom, 0.1 %


def test_random_labels_are_learnt_and_say_nothing(digits, held_out):
    x = (digits.images[:256], digits.labels[:256])
    options = {"epochs": 150, "batch": 64, "test_data": held_out, "optimiser": optax.adam(3e-3)}
    net = MLP((64, 64, 64), laws.Gaussian(1.5), laws.Zero())
    fit = small(
        net, x, intervention=Intervention(label_noise=np.array([0.0, 1.0])), networks=1, **options
    )
    assert (fit.history["train_accuracy"][-1] > 0.95).all()
    test = fit.history["test_accuracy"][-1, :, 0]
    assert test[0] > 0.8
    assert test[1] < 0.3


def test_noise_on_a_layer_has_its_scale():
    params = MLP((400, 300, 200), laws.Gaussian(1.5), laws.Zero()).init(KEY)
    noisy = add_noise(params, 1, laws.Gaussian(0.5), key=jax.random.key(1))
    added = np.asarray(noisy[0][0] - params[0][0])
    assert added.std() * 400**0.5 == pytest.approx(0.5, rel=0.01)
    assert abs(added.mean()) * 400**0.5 < 4 * 0.5 / added.size**0.5
    assert (noisy[1][0] == params[1][0]).all()
    images = ConvNet((8, 8, 2), [Conv(4), Dense(10)], laws.Gaussian(1.0), laws.Zero()).init(KEY)
    assert add_noise(images, 1, laws.Gaussian(1.0), key=KEY)[0][0].shape == (3, 3, 2, 4)


def test_a_change_of_the_layers_is_tested(digits, held_out):
    fit = small(epochs=5, optimiser=FAST)
    plain = fit.accuracy(held_out)
    gone = fit.accuracy(held_out, change=lambda params: prune(params, 0.0))
    kept = fit.accuracy(held_out, change=lambda params: prune(params, 1.0))
    assert (kept == plain).all()
    assert (gone < 0.2).all()


def test_convolutional_networks_train_both_ways(digits, held_out):
    layers = [Conv(4), Pool(2), Conv(8), Pool(2), Dense(16)]
    net = ConvNet((8, 8, 1), layers, laws.Gaussian(2**0.5), laws.Zero())
    fits = [
        small(net, test_data=held_out, epochs=4, batching=t, optimiser=FAST)
        for t in ("map", "vmap")
    ]
    assert (fits[0].history["test_accuracy"][-1] > 0.5).all()
    for a, b in zip(*(leaves(fit) for fit in fits), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=2e-3)
    assert [w.shape for w, _ in fits[0].params(0)] == [(3, 3, 1, 4), (3, 3, 4, 8), (32, 16)]


def test_trackers_find_what_the_package_finds(digits):
    x = digits.flat[:2].astype(np.float64)
    arc, lines = curves.arc(*x), [curves.line(np.zeros(64), p, whole=True) for p in x]
    square = (np.zeros(64), x[0], x[1], 1.0)
    trackers = [
        track.lengths(arc, points=50),
        track.measures(arc, probes=("transitions",)),
        track.regions(lines),
        track.distances(x),
        track.plane(*square),
        track.plane(*square, networks=1, name="first"),
    ]
    fit = small(trackers=trackers)
    np.testing.assert_array_equal(fit.history["first"][:, 0], fit.history["plane"][:, 0])
    assert np.isnan(fit.history["first"][:, 1]).all()
    with pytest.raises(ValueError, match="networks=0: give an integer"):
        track.plane(*square, networks=0)
    for i in range(2):
        params = jax.tree.map(lambda a: np.asarray(a, np.float64), fit.params(i))
        found = measure(params, arc, probes=("length", "transitions"))
        np.testing.assert_allclose(fit.history["length"][-1, i], found["length"], rtol=0.01)
        np.testing.assert_array_equal(fit.history["transitions"][-1, i], found["transitions"])
        counts = [exact.pieces(params, line).counts[-1] for line in lines]
        np.testing.assert_array_equal(fit.history["regions"][-1, i], counts)
        nearest = exact.distance_to_boundary(params, x)
        np.testing.assert_allclose(fit.history["distance"][-1, i], nearest)
        np.testing.assert_array_equal(
            fit.history["plane"][-1, i], exact.plane(params, *square).counts
        )
    assert set(fit.seconds) == {"first_step", "training", "first_look", "testing", "tracking"}


def test_lengths_of_stages_with_normalisation_between_them(digits):
    x = digits.flat[:2].astype(np.float64)
    arc = curves.arc(*x)
    fit = small(
        normalisation=Normalisation("batch", after=[1]),
        trackers=[track.lengths(arc, points=2000)],
    )
    model = fit.model(0)
    assert model.names == ("fc1", "bn1", "fc2")
    t = np.linspace(*arc.domain, 20_001)
    points = np.cos(t)[:, None] * x[0] + np.sin(t)[:, None] * x[1]
    rows = model.images(jnp.asarray(points, jnp.float32))
    polylines = [np.linalg.norm(np.diff(np.asarray(r, float), axis=0), axis=1).sum() for r in rows]
    np.testing.assert_allclose(fit.history["length"][-1, 0], polylines, rtol=5e-3)


def test_batch_norm_is_on_before_the_first_step(digits):
    """Running means are those of the examples: not 0 and 1, with which it would do nothing."""
    seen = []

    def look(now):
        if now.step == 0:
            seen.extend((now.network(i), now.model(i)) for i in range(now.count))
        return {}

    net = MLP((64, 8, 6), laws.Gaussian(3.0), laws.Gaussian(0.5))
    small(net, normalisation=BATCH, trackers=[look], epochs=0.1)
    assert len(digits.labels) < 2000  # all of them count
    for params, model in seen:
        z = x = digits.flat.astype(np.float64)
        images = iter(model.images(jnp.asarray(x, jnp.float32)))
        for w, b in params:
            z = np.maximum(z @ w + b, 0)
            np.testing.assert_allclose(next(images), z, rtol=1e-3, atol=1e-3)
            z = (z - z.mean(axis=0)) / np.sqrt(z.var(axis=0) + 1e-5)
            np.testing.assert_allclose(next(images), z, rtol=1e-3, atol=1e-3)
        # For inference: the image of an example does not hang on those beside it.
        three = list(model.images(jnp.asarray(x[:3], jnp.float32)))[-1]
        np.testing.assert_allclose(three, z[:3], rtol=1e-3, atol=1e-3)


WRONG = {
    "labels below 0": ({"examples": (np.zeros((4, 64)), np.array([0, 1, -1, 0]))}, "label -1"),
    "labels above": (
        {"test_data": (np.zeros((4, 64)), np.array([0, 1, 12, 0]))},
        "label 12: give classes from 0 to 9",
    ),
    "labels not whole": ({"examples": (np.zeros((4, 64)), np.zeros(4))}, "whole number"),
    "images": ({"examples": (np.zeros((4, 65)), np.zeros(4, int))}, r"\(64,\)"),
    "not finite": ({"examples": (np.full((4, 64), np.nan), np.zeros(4, int))}, r"examples\[0\]"),
    "no pair": ({"examples": np.zeros(3)}, r"give \(images, labels\)"),
    "layer": (
        {"intervention": Intervention(train_layer=3)}, "net has 2 layers with weights: give 1 to 2"
    ),
    "intervention": ({"intervention": 0.5}, "intervention=0.5: give training.Intervention"),
    "batch": ({"batch": 5000}, "there are 1437 examples"),
    "norm": ({"normalisation": "batch"}, "give training.Normalisation"),
    "after": (
        {"normalisation": Normalisation("batch", after=[3])}, r"after\[0\]=3 and net has 2 layers"
    ),
    "prune too late": (
        {"intervention": Intervention(prune=Prune(0.5, 5, 30))},
        "prune.end=30 and the run ends after 22",
    ),
    "records": ({"record_at": [0.5, 7]}, "give epochs from 0 to epochs=1"),
    "batching": ({"batching": "scan"}, "batching='scan'"),
    "sweeps": (
        {"intervention": Intervention(train_layer=np.array([1, 2]), label_noise=np.zeros(3))},
        "do not broadcast",
    ),
    "trackers": ({"trackers": [lambda now: {"a": np.zeros(3)}]}, "first axis is the 2 networks"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_named(case):
    options, words = WRONG[case]
    with pytest.raises(ValueError, match=words):
        small(**options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Intervention(train_layer=1.5), "train_layer=1.5: give the number of a layer"),
        (lambda: Intervention(train_layer=-1), "train_layer=-1: give the number of a layer"),
        (lambda: Intervention(label_noise=1.2), "label_noise=1.2"),
        (lambda: Intervention(prune=0.5), "prune=0.5: give Prune"),
        (lambda: Normalisation("layer"), "kind='layer'"),
        (lambda: Normalisation("batch", after=2), "after=2: give numbers of layers"),
        (lambda: Normalisation("batch", after=(0,)), r"after\[0\]=0"),
        (lambda: Normalisation("trajectory", weight=0), "weight=0"),
    ],
)
def test_objects_that_gather_arguments_check_them(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"norm": "batch"}, "Normalisation"),
        ({"after": (1,)}, "Normalisation"),
        ({"weight": 0.1}, "Normalisation"),
        ({"only": 1}, "train_layer"),
        ({"label_noise": 0.5}, "Intervention"),
        ({"prune": None}, "Intervention"),
        ({"test": None}, "test_data="),
        ({"records": 3}, "record_at="),
        ({"together": "map"}, "batching="),
    ],
)
def test_former_arguments_lead_to_their_names(old, new):
    with pytest.raises(TypeError, match=f"takes no argument {next(iter(old))}=.*{new}"):
        train(NET, datasets.load("digits"), key=KEY, **old)


def test_wrong_arguments_of_interventions_are_named():
    params = NET.init(KEY)
    with pytest.raises(ValueError, match="layer=3 and the network has 2 layers: give 1 to 2"):
        add_noise(params, 3, laws.Gaussian(1.0), key=KEY)
    with pytest.raises(ValueError, match="density"):
        prune(params, 1.5)
    with pytest.raises(ValueError, match="end"):
        Prune(0.5, begin=10, end=5)
    with pytest.raises(ValueError, match="infinite line"):
        track.lengths(curves.line(np.zeros(3), np.ones(3), whole=True))
    with pytest.raises(ValueError, match="pieces_of"):
        small(normalisation=BATCH, trackers=[track.distances(np.zeros((1, 64)))])
    fit = small(networks=1, epochs=0.1)
    with pytest.raises(ValueError, match=r"networks have shape \(1,\)"):
        fit.params(0, 0)
    with pytest.raises(ValueError, match="outside"):
        fit.params(1)
