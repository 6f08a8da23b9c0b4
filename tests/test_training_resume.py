"""A run of training that is stopped goes on, and ends with the same bits."""

import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxexpr import MLP, Interrupted, datasets, laws
from jaxexpr.training import Intervention, Snapshot, checkpoints, parallel, track, train

CODE = """
import sys
import jax, numpy as np
from jaxexpr import MLP, datasets, laws
from jaxexpr.training import Intervention, Normalisation, track, train
from jaxexpr.training import loop
loop._SAVED_EVERY = 0.05
net = MLP((64, 32, 32), laws.Gaussian(np.array([1.0, 1.5])), laws.Zero())
fit = train(
    net, datasets.load("digits"), key=jax.random.key(0), networks=3, epochs=float(sys.argv[2]),
    test_data=datasets.load("digits", "test"), trackers=[track.weight_scale()],
    normalisation=Normalisation("batch"), intervention=Intervention(label_noise=0.2),
    checkpoint=sys.argv[1] or None,
)
values = {str(i): np.asarray(x) for i, x in enumerate(jax.tree.leaves(fit.last.values))}
np.savez(sys.argv[3], **values, **fit.history)
"""
NET = MLP((64, 8), laws.Gaussian(1.5), laws.Zero())


def command(*arguments):
    return [sys.executable, "-c", CODE, *map(str, arguments)]


def test_a_killed_run_ends_with_the_same_bits(tmp_path, root, compiled_once):
    kept = tmp_path / "run.npz"
    where = {"cwd": root, "env": compiled_once}
    process = subprocess.Popen(command(kept, 150, tmp_path / "killed.npz"), **where)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "it ended before it could be killed"
        if kept.exists():
            with np.load(kept) as file:
                if int(file["done"]) > 500:
                    break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with np.load(kept) as file:
        assert 500 < int(file["done"]) < 150 * 11
        assert int(file["records"]) < 21
    for name, path in (("killed", kept), ("whole", "")):
        subprocess.run(command(path, 150, tmp_path / f"{name}.npz"), check=True, **where)
    with np.load(tmp_path / "killed.npz") as a, np.load(tmp_path / "whole.npz") as b:
        assert set(a) == set(b)
        for name in a:
            assert a[name].tobytes() == b[name].tobytes(), name


def options(**changed):
    given = {"key": jax.random.key(0), "epochs": 1, "record_at": 2, "networks": 2}
    return given | changed


def test_ctrl_c_keeps_what_was_done(tmp_path):
    path, seen = tmp_path / "run.npz", []

    def stops_once(now: Snapshot):
        seen.append(now.step)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return {}

    digits = datasets.load("digits")
    with pytest.raises(Interrupted):
        train(NET, digits, trackers=[stops_once], checkpoint=path, **options())
    again = train(NET, digits, trackers=[stops_once], checkpoint=path, **options())
    assert seen == [0, 6, 6, 11]  # no record twice, no step again
    whole = train(NET, digits, **options())
    assert (again.history["loss"][1:] == whole.history["loss"][1:]).all()


def same_bits(fit, other):
    assert set(fit.history) == set(other.history)
    for name in fit.history:
        assert fit.history[name].tobytes() == other.history[name].tobytes(), name
    for a, b in zip(
        jax.tree.leaves(fit.last.values), jax.tree.leaves(other.last.values), strict=True
    ):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.fixture(scope="module")
def seen_whole():
    """A run that was not stopped, and the layers at each of its records."""
    layers = {}

    def look(now: Snapshot):
        layers[now.step] = now.networks
        return {}

    return train(NET, datasets.load("digits"), trackers=[look], **options()), layers


def interrupting(monkeypatch, name, call):
    """Send a real Ctrl-C from call number `call` of one of ``Advance``'s functions."""
    original, calls = getattr(parallel.Advance, name), []

    def wrapped(*arguments):
        calls.append(name)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    monkeypatch.setattr(parallel.Advance, name, wrapped)


# Before anything, at the first step, which compiles, at later ones, and after a record was made.
@pytest.mark.parametrize(
    ("name", "call"),
    [("apart", 1), ("__call__", 1), ("__call__", 3), ("apart", 2), ("apart", 3), ("joined", 3)],
)
def test_a_real_ctrl_c_at_any_place_goes_on_with_the_same_bits(
    tmp_path, monkeypatch, seen_whole, name, call
):
    path, digits = tmp_path / "run.npz", datasets.load("digits")
    with monkeypatch.context() as patch:
        interrupting(patch, name, call)
        with pytest.raises(Interrupted):
            train(NET, digits, checkpoint=path, **options())
    assert path.exists() == ((name, call) != ("apart", 1))
    same_bits(train(NET, digits, checkpoint=path, **options()), seen_whole[0])


def test_ctrl_c_without_a_checkpoint_hands_over_the_networks(seen_whole):
    digits = datasets.load("digits")
    whole, layers = seen_whole

    def stops(now: Snapshot):
        if now.step == 6:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(Interrupted, match="holds the networks as they are") as caught:
        train(NET, digits, trackers=[stops], **options())
    fit = caught.value.fit
    assert isinstance(caught.value, KeyboardInterrupt) and caught.value.estimates == {}
    assert fit.steps.tolist() == [0] and fit.last.step == 6
    assert fit.epochs.tolist() == [0.0] and fit.history["loss"].shape == (1, 2)
    for mine, expected in zip(fit.last.networks, layers[6], strict=True):
        np.testing.assert_array_equal(mine[0], expected[0])
        np.testing.assert_array_equal(mine[1], expected[1])
    assert fit.params(1)[0][0].shape == (64, 8)
    assert fit.accuracy(digits).shape == (2,)


def test_ctrl_c_before_the_first_record_hands_over_nothing():
    def stops(now: Snapshot):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="before anything was done") as caught:
        train(NET, datasets.load("digits"), trackers=[stops], **options())
    assert caught.value.fit is None


def test_a_finished_run_is_read_not_repeated(tmp_path):
    path = tmp_path / "run.npz"
    digits = datasets.load("digits")
    first = train(NET, digits, checkpoint=path, trackers=[track.weight_scale()], **options())
    stamp = path.stat().st_size
    seen = []
    again = options(progress=lambda *now: seen.append(now[:2]))
    second = train(NET, digits, checkpoint=path, trackers=[track.weight_scale()], **again)
    assert seen == [(11, 11)]
    assert second.seconds == first.seconds
    assert path.stat().st_size == stamp
    for name, found in first.history.items():
        np.testing.assert_array_equal(found, second.history[name])


def test_another_run_or_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    digits = datasets.load("digits")
    train(NET, digits, checkpoint=path, **options())
    other = MLP((64, 8), laws.Gaussian(1.6), laws.Zero())
    for net, changed in (
        (other, {}), (NET, {"epochs": 2}), (NET, {"batch": 64}),
        (NET, {"intervention": Intervention(label_noise=0.1)}),
        (NET, {"key": jax.random.key(1)}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="belongs to another run"):
            train(net, digits, checkpoint=path, **options(**changed))
    with pytest.raises(ValueError, match="belongs to another run"):
        train(NET, digits, checkpoint=path, optimiser=optax.sgd(0.1), **options())
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="cannot be read"):
        train(NET, digits, checkpoint=path, **options())


def test_trackers_of_other_points_are_another_run(tmp_path):
    digits = datasets.load("digits")

    def run(points):
        tracker = track.distances(digits.flat[:points])
        return train(NET, digits, checkpoint=tmp_path / "run.npz", trackers=[tracker], **options())

    run(3)
    assert run(3).history["distance"].shape == (3, 2, 3)
    with pytest.raises(ValueError, match="belongs to another run"):
        run(4)


@pytest.mark.parametrize(
    "optimiser",
    [
        optax.adam(1e-3, mu_dtype="bfloat16"),
        optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(3)), optax.sgd(0.1)),
    ],
    ids=["bfloat16", "keys"],
)
def test_states_that_numpy_does_not_know_are_kept(tmp_path, optimiser):
    digits, path = datasets.load("digits"), tmp_path / "run.npz"
    first = train(NET, digits, checkpoint=path, optimiser=optimiser, **options())
    second = train(NET, digits, checkpoint=path, optimiser=optimiser, **options())
    np.testing.assert_array_equal(first.history["loss"], second.history["loss"])


def test_types_that_numpy_does_not_know_are_kept_as_bits():
    leaf = jnp.asarray([1.5, -2.0, 3e30], jnp.bfloat16)
    kept = checkpoints._plain_array(leaf)
    assert kept.dtype == np.uint16
    back = checkpoints._like(leaf, kept)
    assert back.dtype == jnp.bfloat16 and (back == leaf).all()
