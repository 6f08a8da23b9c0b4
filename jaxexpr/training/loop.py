"""Training many networks at once: from the arguments to the last record."""

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
from jaxexpr._core.precision import precision
from jaxexpr._core.progress import Bar, Progress
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
_SAVED_FOR = 20.0  # times what keeping the run took the last time, if that is longer
_STEP_SECONDS = 1.0  # of one call
_TIMED = ("first_step", "training", "first_look", "testing", "tracking")
FORMAT = 2  # to be raised when the same arguments train other networks
_ADAM = optax.adam(1e-3)  # one for all runs: a step is compiled for its optimiser


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
    """Train many random networks at once, to classify.

    Network i is drawn, and its examples are shuffled, by ``fold_in(key, i)``, in every cell of a
    sweep; nothing else that is random enters. Training minimises the mean cross-entropy.

    Parameters
    ----------
    net : ``MLP`` or ``ConvNet``: the hidden layers. Arrays in its laws are a sweep, and so are
        arrays in `readout` and `intervention`; they broadcast together.
        Weights that a ``Sparse`` law leaves out stay 0.
    examples : ``(images, labels)``, such as ``datasets.load("mnist")``: images ``(N,) +
        input_shape`` or that many numbers each, labels ``(N,)`` from 0 on.
    key : of everything random.
    networks : for each cell of the sweep.
    epochs : passes through the examples; parts of one are allowed.
    batch : examples a step. Those that do not fill a minibatch wait for another epoch.
    optimiser : of Optax; Adam at 1e-3 unless said.
    test_data : as `examples`, for the test accuracy; without it none is recorded.
    readout : law of the read-out's weights, as for ``Classifier``.
    normalisation : between the layers. Running means and variances of batch normalisation begin as
        those of the first 2,000 examples that the network will be shown.
    intervention : one layer trained alone, labels replaced, weights pruned.
    trackers : functions of a ``Snapshot``, called at each record; each returns names and arrays
        whose first axis is the networks. See ``jaxexpr.training.track``.
    record_at : how many records, evenly spaced, beside the one before training; or their epochs.
    batching : ``"vmap"``, all networks in each operation, or ``"map"``, one network after the
        other; the faster of the two on this backend unless said.
    checkpoint : file in which the run is kept, every few seconds and at its end; a run that finds
        it goes on from there and ends with the same bits as if it had never stopped. A run with
        other arguments is refused; trackers of your own are known by their names alone.
    progress, title : as for ``estimate``; what is counted is steps.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        naming the argument: labels out of range, images of another shape, a layer out of range,
        sweeps that do not broadcast, a checkpoint of another run.
    Interrupted
        on Ctrl-C: a ``KeyboardInterrupt`` whose ``fit`` is a ``Fit`` of the networks as they are
        then, with the records until then; None before the first. The checkpoint is written.

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
    wanted = TrainingSpec(
        net=net,
        networks=checks.integer("networks", networks),
        classes=classes,
        batch=batch,
        optimiser=_ADAM if optimiser is None else optimiser,
        normalisation=between,
        readout=readout,
        intervention=changes,
    )
    shape = (*wanted.sweep, wanted.networks)
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
            drawn = wanted.draw(key)
            start = checkpoints.RunState(0, drawn.state, (), dict.fromkeys(_TIMED, 0.0))
            run = _Run(net, shape, drawn, given, held_out, stops, trackers, batching)
            if path is None:
                return run.to_the_end(start, lambda place: None, bar)
            key_data = (str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key)))
            looks = [_name_of(tracker) for tracker in trackers]
            own = fingerprint(FORMAT, wanted, key_data, given, held_out, stops, looks, batching)
            if path.exists():
                start = checkpoints.load_run(path, own, start)
                bar.resumed(start.done, int(stops[-1]))
            return run.to_the_end(start, lambda place: checkpoints.save_run(path, own, place), bar)
        except Interrupted:
            raise
        except KeyboardInterrupt as stop:  # before the first step of this call
            raise Interrupted({}) from stop


def _optimises(optimiser: object) -> None:
    """Refuse what is not an optimiser."""
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
    """What ``track`` says that a tracker is; of one of the user's own its name."""
    name = getattr(tracker, "__qualname__", type(tracker).__qualname__)
    return str(getattr(tracker, "identity", name))


def _intervention(value: Intervention | None, net: Network) -> Intervention:
    """Check what is done, and that the layer is one of the network."""
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
        wanted = np.linspace(0, total, checks.integer("record_at", record_at) + 1)
    else:
        found = np.asarray(checks.sequence("record_at", record_at)) * an_epoch
        if found.min(initial=0) < 0 or found.max(initial=0) > total + 0.5:
            raise ValueError(
                f"record_at={checks.shown(record_at)}: give epochs from 0 to epochs={epochs}, each "
                f"of {an_epoch} steps"
            )
        wanted = np.concatenate([[0], found, [total]])
    return np.unique(np.round(wanted).astype(int))


class _Run:
    """Networks that were drawn, what they are shown, and who looks at them when."""

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
        self._plan, self._held = drawn.plan, drawn.held
        self._images = jnp.asarray(given.images, net.dtype)
        self._labels = jnp.asarray(given.labels)
        self._test, self._stops, self._trackers = test, stops, trackers
        self._advance = parallel.Advance(drawn.plan, drawn.held, batching)
        self._count, self._compiled = self._advance.count, False
        self.an_epoch = len(given.labels) // drawn.plan.batch

    def to_the_end(
        self, place: checkpoints.RunState, keep: Callable[[checkpoints.RunState], None], bar: Bar
    ) -> Fit:
        """Train up to the last record, and keep where we are now and then.

        Raises Interrupted on Ctrl-C, after that was kept.
        """
        saved, pause, size, shown = time.monotonic(), _SAVED_EVERY, 1, ""
        apart = self._advance.apart(place.state)

        def whole() -> checkpoints.RunState:
            return place._replace(state=self._advance.joined(apart))

        # Ctrl-C may come between any two lines: `place` and `apart` change in one.
        try:
            while len(place.history) < len(self._stops):
                left = int(self._stops[len(place.history)]) - place.done
                if left:
                    began = time.monotonic()
                    place, apart = self._some(place, apart, min(left, size))
                    ratio = _STEP_SECONDS / max(time.monotonic() - began, 1e-6)
                    size = int(np.clip(size * np.clip(ratio, 0.5, 8), 1, self.an_epoch))
                else:
                    recorded = self._recorded(whole())
                    place, apart = recorded, self._advance.apart(recorded.state)
                    shown = _shown(place.history[-1])
                bar.update(place.done, shown)
                if time.monotonic() - saved > pause:
                    began = time.monotonic()
                    keep(whole())
                    saved = time.monotonic()
                    pause = max(_SAVED_EVERY, _SAVED_FOR * (saved - began))
            reached = whole()
            keep(reached)
            return self._fit(reached)
        except KeyboardInterrupt as stop:
            reached = whole()
            keep(reached)
            raise Interrupted({}, self._fit(reached) if reached.history else None) from stop

    def _some(
        self, place: checkpoints.RunState, apart: list[State], steps: int
    ) -> tuple[checkpoints.RunState, list[State]]:
        """Do at most so many steps, in one epoch, of the states `apart`; the place's own is old."""
        number, first = divmod(place.done, self.an_epoch)
        last = min(self.an_epoch, first + steps)
        began = time.monotonic()
        told = (self._images, self._labels, np.int32(number), np.int32(first), np.int32(last))
        apart = jax.block_until_ready(self._advance(apart, *told))
        name = "training" if self._compiled else "first_step"
        self._compiled = True
        seconds = place.seconds[name] + time.monotonic() - began
        done = place.done + last - first
        return place._replace(done=done, seconds=place.seconds | {name: seconds}), apart

    def snapshot(self, place: checkpoints.RunState) -> Snapshot:
        """Return the networks as they are."""
        values, epoch = (place.state.params, place.state.rest), place.done / self.an_epoch
        return Snapshot(self._net, place.done, epoch, self._count, self._plan.graph, values)

    def _recorded(self, place: checkpoints.RunState) -> checkpoints.RunState:
        """Add what is to be seen now, and start the sums again."""
        number, state, began = len(place.history), place.state, time.monotonic()
        if not number and jax.tree.leaves(nnx.filter_state(state.rest, nnx.BatchStat)):
            given = (self._held, state.params, state.rest, self._images)
            state = state._replace(rest=parallel.calibrations(self._plan, *given))
            place = place._replace(state=state)
        steps = self._stops[number] - self._stops[number - 1] if number else 0
        seen = steps * self._plan.batch if steps else np.nan
        now = self.snapshot(place)
        found = {
            "loss": np.asarray(state.loss, np.float64) / seen,
            "train_accuracy": np.asarray(state.right, np.float64) / seen,
        }
        if self._test is not None:
            shares = parallel.accuracies(now.graph, now.values, *self._test)
            found["test_accuracy"] = np.asarray(shares, np.float64)
        middle = time.monotonic()
        for tracker in self._trackers:
            seen = tracker(now)
            if not isinstance(seen, Mapping):
                raise ValueError(
                    f"trackers: {_name_of(tracker)[:40]!r} returns {checks.shown(seen)}: return "
                    "{name: array}, the networks along its first axis"
                )
            for name, value in seen.items():
                array = np.asarray(value)
                if array.shape[:1] != (self._count,) or name in found:
                    raise ValueError(
                        f"trackers: {name!r} has shape {array.shape}: give each name once, and "
                        f"arrays whose first axis is the {self._count} networks"
                    )
                found[name] = array
        spent = dict(place.seconds)
        if number:
            spent["testing"] += middle - began
            spent["tracking"] += time.monotonic() - middle
        else:
            spent["first_look"] += time.monotonic() - began
        zero = state._replace(loss=jnp.zeros_like(state.loss), right=jnp.zeros_like(state.right))
        return place._replace(state=zero, history=(*place.history, found), seconds=spent)

    def _fit(self, place: checkpoints.RunState) -> Fit:
        """Return the networks as they are, with the records so far."""
        records, stops = place.history, self._stops[: len(place.history)]
        made = {
            name: np.stack([record[name] for record in records]).reshape(
                len(records), *self._shape, *first.shape[1:]
            )
            for name, first in records[0].items()
        }
        epochs, now = stops / self.an_epoch, self.snapshot(place)
        return Fit(self._net, self._shape, stops, epochs, made, place.seconds, now)


def _shown(record: checkpoints.Record) -> str:
    """Loss and accuracy for the bar."""
    parts = [f"loss {np.mean(record['loss']):.3g}"]
    for name, short in (("train_accuracy", "train"), ("test_accuracy", "test")):
        if name in record:
            parts.append(f"{short} {100 * np.mean(record[name]):.1f} %")
    return ", ".join(parts)
