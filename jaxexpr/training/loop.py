"""Train many networks at once: checks of the arguments, the loop, records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from numpy.typing import ArrayLike

from jaxexpr import laws
from jaxexpr._core import checks
from jaxexpr._core.calls import advised
from jaxexpr._core.fingerprint import fingerprint
from jaxexpr._core.progress import Bar, Progress
from jaxexpr._core.x64 import precision
from jaxexpr.ensemble.runner import Interrupted
from jaxexpr.networks import Network
from jaxexpr.training import checkpoints, parallel, track
from jaxexpr.training.examples import Examples, as_examples
from jaxexpr.training.interventions import Intervention
from jaxexpr.training.models import Normalisation, as_normalisation
from jaxexpr.training.setup import Initialised, TrainingSpec
from jaxexpr.training.snapshots import Fit, Snapshot
from jaxexpr.training.steps import State

Tracker = Callable[[Snapshot], Mapping[str, Any]]

_SAVED_EVERY = 5.0  # seconds, or
_SAVED_FOR = 20.0  # times the duration of the last save, if that is longer
_STEP_SECONDS = 1.0  # aimed at for one call
_TIMED = ("first_step", "training", "first_look", "testing", "tracking")
FORMAT = 2  # increase it when the same arguments give other networks
_ADAM = optax.adam(1e-3)  # one object for all runs: a step is compiled for its optimiser


@advised(
    loss="it minimises the cross-entropy; for another loss write your own loop and use "
    "exact.pieces_of or measure on its model",
    every="give record_at=[...] in epochs; an epoch is N // batch steps",
    model="give net=MLP(...) or ConvNet(...)",
    metrics="give trackers=[...]",
    norm="give normalisation=training.Normalisation('batch')",
    after="give normalisation=training.Normalisation('batch', after=(2, 6))",
    weight="give normalisation=training.Normalisation('trajectory', weight=0.01)",
    only="give intervention=training.Intervention(train_layer=3)",
    label_noise="give intervention=training.Intervention(label_noise=0.5)",
    prune="give intervention=training.Intervention(prune=training.Prune(...))",
    test="give test_data=(images, labels)",
    records="give record_at=20, or epochs",
    together="give batching='vmap' or 'map'",
)
def train(
    net: Network,
    examples: tuple[ArrayLike, ArrayLike],
    *,
    key: jax.Array,
    networks: int = 1,
    epochs: float = 10.0,
    batch: int = 128,
    optimiser: optax.GradientTransformation | None = None,
    test_data: tuple[ArrayLike, ArrayLike] | None = None,
    readout: laws.Law | None = None,
    normalisation: Normalisation | None = None,
    intervention: Intervention | None = None,
    trackers: Sequence[Tracker] = (),
    record_at: int | Sequence[float] = 20,
    batching: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    title: str = "training",
) -> Fit:
    """Train many random networks at once as classifiers.

    In every cell of a sweep, network i is drawn and its examples are shuffled with
    ``fold_in(key, i)``; nothing else is random. Training minimises the mean cross-entropy.

    Parameters
    ----------
    net : ``MLP`` or ``ConvNet``: the hidden layers. Arrays in its laws are a sweep, and so are
        arrays in `readout` and `intervention`; they broadcast together.
        Weights that a ``Sparse`` law sets to 0 stay 0.
    examples : ``(images, labels)``, such as ``datasets.load("mnist")``: images ``(N,) +
        input_shape`` or that many numbers each, labels ``(N,)`` from 0 on.
    key : JAX random key.
    networks : number of networks in each cell of the sweep.
    epochs : passes through the examples; need not be an integer.
    batch : examples in a minibatch. Those that do not fill one are not used in that epoch.
    optimiser : an Optax optimiser; the default is Adam with learning rate 1e-3.
    test_data : as `examples`, for the test accuracy; without it none is recorded.
    readout : law of the readout's weights, as for ``Classifier``.
    normalisation : normalisation between the layers. Initial running means and variances of batch
        normalisation are those of the first 2,000 examples of the first epoch.
    intervention : train a single layer, replace labels, prune weights.
    trackers : functions of a ``Snapshot``, called at each record; each returns names and arrays
        whose first axis is the networks. See ``jaxexpr.training.track``.
    record_at : number of records, evenly spaced, in addition to the one before training; or the
        epochs of the records.
    batching : ``"vmap"``, all networks in each operation, or ``"map"``, one network after the
        other; the default is the faster of the two on this backend.
    checkpoint : file in which the state of the run is saved, every few seconds and at its end. If
        it exists, the run continues from it, with the same result, bit for bit, as an uninterrupted
        run. A checkpoint of other arguments is refused; your own trackers are compared by name.
    progress, title : as for ``estimate``; the bar counts steps.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        for an invalid argument, which the message names: labels out of range, images of another
        shape, a layer out of range, sweeps that do not broadcast, a checkpoint of another run.
    Interrupted
        on Ctrl-C: a ``KeyboardInterrupt`` whose ``fit`` is a ``Fit`` of the current networks with
        the records so far, or None before the first record. The checkpoint is written.

    Examples
    --------
    >>> from jaxexpr import MLP, datasets
    >>> net = MLP((64, 32, 32), laws.Gaussian(1.5), laws.Zero())
    >>> digits = datasets.load("digits")
    >>> fit = train(net, digits, key=jax.random.key(0), networks=2, epochs=2, record_at=2)
    >>> fit.history["loss"].shape, fit.params(1)[0][0].shape
    ((3, 2), (64, 32))
    """
    if not isinstance(net, Network):
        raise ValueError(
            f"net={checks.shown(net)} is not a random network: give MLP(...) or ConvNet(...); a "
            "model of your own is trained in a loop of your own, and measured by exact.pieces_of"
        )
    checks.random_key("key", key)
    given = as_examples("examples", examples, net)
    classes = int(given.labels.max()) + 1
    held_out = None
    if test_data is not None:
        held_out = as_examples("test_data", test_data, net, classes=classes)
    batch = checks.integer("batch", batch)
    if batch > len(given.labels):
        raise ValueError(f"batch={batch} and there are {len(given.labels)} examples: give fewer")
    between, changes = as_normalisation(normalisation), _intervention(intervention, net)
    if between is not None:
        between.places(net)
    _optimises(optimiser)
    trackers = _trackers(trackers)
    path = None if checkpoint is None else checks.path("checkpoint", checkpoint)
    readout = None if readout is None else laws.as_law("readout", readout)
    spec = TrainingSpec(
        net=net,
        networks=checks.integer("networks", networks),
        classes=classes,
        batch=batch,
        optimiser=_ADAM if optimiser is None else optimiser,
        normalisation=between,
        readout=readout,
        intervention=changes,
    )
    shape = (*spec.sweep, spec.networks)
    an_epoch = len(given.labels) // batch
    stops, prune = _stops(epochs, record_at, an_epoch), changes.prune
    if prune is not None and prune.end > stops[-1]:
        raise ValueError(
            f"prune.end={prune.end} and the run ends after {stops[-1]} steps: give fewer, or more "
            "epochs"
        )
    batching = parallel.chosen_batching(batching)
    with precision(net.dtype), Bar(int(stops[-1]), title, progress, unit="steps") as bar:
        try:
            drawn = spec.draw(key)
            start = checkpoints.RunState(0, drawn.state, (), dict.fromkeys(_TIMED, 0.0))
            training = _Run(net, shape, drawn, given, held_out, stops, trackers, batching)
            if path is None:
                return training.train_to_end(start, lambda run: None, bar)
            key_data = (str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key)))
            names = [_name_of(tracker) for tracker in trackers]
            run_id = fingerprint(FORMAT, spec, key_data, given, held_out, stops, names, batching)
            if path.exists():
                start = checkpoints.load_run(path, run_id, start)
                bar.resumed(start.done, int(stops[-1]))
            return training.train_to_end(
                start, lambda run: checkpoints.save_run(path, run_id, run), bar
            )
        except Interrupted:
            raise
        except KeyboardInterrupt as stop:  # before the first step of this call
            raise Interrupted({}) from stop


def _optimises(optimiser: object) -> None:
    """Raise ValueError if `optimiser` is not an Optax optimiser."""
    if optimiser is None:
        return
    name = f"optimiser={checks.shown(optimiser)}"
    if isinstance(optimiser, str):
        raise ValueError(f"{name}: give one of Optax, such as optax.adam(1e-3)")
    if not (callable(getattr(optimiser, "init", None)) and hasattr(optimiser, "update")):
        fix = "give one of Optax, such as optax.adam(1e-3)"
        if callable(optimiser):
            fix = "call it with its learning rate, as in optax.adam(1e-3), where a schedule may be"
        raise ValueError(f"{name} is not an optimiser: {fix}")


def _trackers(trackers: Sequence[Tracker]) -> tuple[Tracker, ...]:
    """Return trackers, checked: functions of a snapshot in a sequence."""
    if not isinstance(trackers, Sequence) or isinstance(trackers, str):
        raise ValueError(
            f"trackers={checks.shown(trackers)}: give a list, such as [track.weight_scale()]"
        )
    for i, tracker in enumerate(trackers):
        name = getattr(tracker, "__name__", "")
        uncalled = getattr(track, name, None) is tracker
        if not callable(tracker) or uncalled:
            called = f"track.{name}(...)" if uncalled else "track.weight_scale()"
            raise ValueError(
                f"trackers[{i}]={checks.shown(tracker)}: give a function of a Snapshot, such as "
                f"{called}"
            )
    return tuple(trackers)


def _name_of(tracker: Tracker) -> str:
    """Identity of a tracker from ``track``; name of any other."""
    name = getattr(tracker, "__qualname__", type(tracker).__qualname__)
    return str(getattr(tracker, "identity", name))


def _intervention(value: Intervention | None, net: Network) -> Intervention:
    """Check the intervention, and that the network has its layer."""
    if value is None:
        return Intervention()
    if not isinstance(value, Intervention):
        raise ValueError(
            f"intervention={checks.shown(value)}: give training.Intervention(label_noise=0.5), for "
            "instance"
        )
    count = sum(hasattr(op, "fan_in") for op in net.ops)
    if value.train_layer is not None and np.max(value.train_layer) > count:
        raise ValueError(
            f"train_layer={checks.shown(value.train_layer)} and net has {count} layers with "
            f"weights: give 1 to {count}, or 0 for all"
        )
    return value


def _stops(epochs: float, record_at: int | Sequence[float], an_epoch: int) -> np.ndarray:
    """Steps of the records, 0 and the last among them."""
    total = max(round(checks.positive("epochs", epochs) * an_epoch), 1)
    if isinstance(record_at, int | np.integer):
        record_steps = np.linspace(0, total, checks.integer("record_at", record_at) + 1)
    else:
        steps = np.asarray(checks.sequence("record_at", record_at)) * an_epoch
        if steps.min(initial=0) < 0 or steps.max(initial=0) > total + 0.5:
            raise ValueError(
                f"record_at={checks.shown(record_at)}: give epochs from 0 to epochs={epochs}, each "
                f"of {an_epoch} steps"
            )
        record_steps = np.concatenate([[0], steps, [total]])
    return np.unique(np.round(record_steps).astype(int))


class _Run:
    """A training run: networks, examples, trackers, and the steps of its records."""

    def __init__(
        self,
        net: Network,
        shape: tuple[int, ...],
        drawn: Initialised,
        given: Examples,
        test: Examples | None,
        stops: np.ndarray,
        trackers: tuple[Tracker, ...],
        batching: str,
    ) -> None:
        self._net, self._shape = net, shape
        self._spec, self._per_network = drawn.spec, drawn.per_network
        self._images = jnp.asarray(given.images, net.dtype)
        self._labels = jnp.asarray(given.labels)
        self._test, self._stops, self._trackers = test, stops, trackers
        self._advance = parallel.Advance(drawn.spec, drawn.per_network, batching)
        self._count, self._compiled = self._advance.count, False
        self.an_epoch = len(given.labels) // drawn.spec.batch

    def train_to_end(
        self, run: checkpoints.RunState, save: Callable[[checkpoints.RunState], None], bar: Bar
    ) -> Fit:
        """Train up to the last record, saving the state regularly.

        Raises Interrupted on Ctrl-C, after the state was saved.
        """
        saved, pause, size, shown = time.monotonic(), _SAVED_EVERY, 1, ""
        shares = self._advance.apart(run.state)

        def joined() -> checkpoints.RunState:
            return run._replace(state=self._advance.joined(shares))

        # Ctrl-C may come between any two lines: `run` and `shares` change in one statement.
        try:
            while len(run.history) < len(self._stops):
                left = int(self._stops[len(run.history)]) - run.done
                if left:
                    began = time.monotonic()
                    run, shares = self._train_steps(run, shares, min(left, size))
                    ratio = _STEP_SECONDS / max(time.monotonic() - began, 1e-6)
                    size = int(np.clip(size * np.clip(ratio, 0.5, 8), 1, self.an_epoch))
                else:
                    recorded = self._add_record(joined())
                    run, shares = recorded, self._advance.apart(recorded.state)
                    shown = _shown(run.history[-1])
                bar.update(run.done, shown)
                if time.monotonic() - saved > pause:
                    began = time.monotonic()
                    save(joined())
                    saved = time.monotonic()
                    pause = max(_SAVED_EVERY, _SAVED_FOR * (saved - began))
            current = joined()
            save(current)
            return self._fit(current)
        except KeyboardInterrupt as stop:
            current = joined()
            save(current)
            raise Interrupted({}, self._fit(current) if current.history else None) from stop

    def _train_steps(
        self, run: checkpoints.RunState, shares: list[State], steps: int
    ) -> tuple[checkpoints.RunState, list[State]]:
        """Do at most `steps` steps, within one epoch, of `shares`; ``run.state`` is not updated."""
        number, first = divmod(run.done, self.an_epoch)
        last = min(self.an_epoch, first + steps)
        began = time.monotonic()
        arguments = (self._images, self._labels, np.int32(number), np.int32(first), np.int32(last))
        shares = jax.block_until_ready(self._advance(shares, *arguments))
        name = "training" if self._compiled else "first_step"
        self._compiled = True
        seconds = run.seconds[name] + time.monotonic() - began
        done = run.done + last - first
        return run._replace(done=done, seconds=run.seconds | {name: seconds}), shares

    def snapshot(self, run: checkpoints.RunState) -> Snapshot:
        """Return the current networks."""
        values, epoch = (run.state.params, run.state.rest), run.done / self.an_epoch
        return Snapshot(self._net, run.done, epoch, self._count, self._spec.graph, values)

    def _add_record(self, run: checkpoints.RunState) -> checkpoints.RunState:
        """Add a record and reset the sums."""
        index, state, began = len(run.history), run.state, time.monotonic()
        if not index and jax.tree.leaves(nnx.filter_state(state.rest, nnx.BatchStat)):
            arguments = (self._per_network, state.params, state.rest, self._images)
            state = state._replace(rest=parallel.calibrations(self._spec, *arguments))
            run = run._replace(state=state)
        steps = self._stops[index] - self._stops[index - 1] if index else 0
        examples = steps * self._spec.batch if steps else np.nan
        now = self.snapshot(run)
        record = {
            "loss": np.asarray(state.loss, np.float64) / examples,
            "train_accuracy": np.asarray(state.right, np.float64) / examples,
        }
        if self._test is not None:
            shares = parallel.accuracies(now.graph, now.values, *self._test)
            record["test_accuracy"] = np.asarray(shares, np.float64)
        middle = time.monotonic()
        for tracker in self._trackers:
            tracked = tracker(now)
            if not isinstance(tracked, Mapping):
                raise ValueError(
                    f"trackers: {_name_of(tracker)[:40]!r} returns {checks.shown(tracked)}: return "
                    "{name: array}, the networks along its first axis"
                )
            for name, value in tracked.items():
                array = np.asarray(value)
                if array.shape[:1] != (self._count,) or name in record:
                    raise ValueError(
                        f"trackers: {name!r} has shape {array.shape}: give each name once, and "
                        f"arrays whose first axis is the {self._count} networks"
                    )
                record[name] = array
        spent = dict(run.seconds)
        if index:
            spent["testing"] += middle - began
            spent["tracking"] += time.monotonic() - middle
        else:
            spent["first_look"] += time.monotonic() - began
        zero = state._replace(loss=jnp.zeros_like(state.loss), right=jnp.zeros_like(state.right))
        return run._replace(state=zero, history=(*run.history, record), seconds=spent)

    def _fit(self, run: checkpoints.RunState) -> Fit:
        """Return the current networks, with the records so far."""
        records, stops = run.history, self._stops[: len(run.history)]
        history = {
            name: np.stack([record[name] for record in records]).reshape(
                len(records), *self._shape, *first.shape[1:]
            )
            for name, first in records[0].items()
        }
        epochs, now = stops / self.an_epoch, self.snapshot(run)
        return Fit(self._net, self._shape, stops, epochs, history, run.seconds, now)


def _shown(record: checkpoints.Record) -> str:
    """Loss and accuracy of a record, for the progress bar."""
    parts = [f"loss {np.mean(record['loss']):.3g}"]
    for name, short in (("train_accuracy", "train"), ("test_accuracy", "test")):
        if name in record:
            parts.append(f"{short} {100 * np.mean(record[name]):.1f} %")
    return ", ".join(parts)
