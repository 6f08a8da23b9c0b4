"""The one runner: many random networks, means with errors, continued where they were left.

Network i of a run is the one of ``jax.random.fold_in(key, i)`` in every cell of a sweep; nothing
depends on how networks are cut into chunks.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.precision import precision
from jaxexpr._core.progress import Bar
from jaxexpr._core.shapes import Array, Key, Shaped
from jaxexpr.ensemble.checkpoints import (
    load_accumulators,
    run_fingerprint,
    save_accumulators,
)
from jaxexpr.ensemble.devices import Pace, layout, stepper
from jaxexpr.ensemble.options import RunOptions, Settings, settings
from jaxexpr.ensemble.statistics import Accumulator, Estimate, Moments
from jaxexpr.ensemble.tasks import Task
from jaxexpr.networks import Network

PILOTS = 16  # networks at which a discretisation error is looked at
ENOUGH = 64  # networks after which a layer without a number has none
LONG = 3600.0  # seconds that nobody waits for unwarned


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; what was done until then is kept here.

    Attributes
    ----------
    estimates : of ``estimate`` and others like it: what was gathered, ready to be extended; empty
        if it came before the first networks.
    fit : of ``training.train``: the networks as they were then, with the records until then;
        None if it came before the first record, and of everything else.
    """

    def __init__(self, estimates: dict[str, Estimate], fit: Any = None) -> None:
        what = "interrupted before anything was done that could be handed over"
        if estimates:
            what = "interrupted; .estimates holds the networks done so far"
        elif fit is not None:
            what = "interrupted; .fit holds the networks as they are, and their records"
        super().__init__(what)
        self.estimates, self.fit = estimates, fit


@explained
def run_task(
    task: Task,
    net: Network,
    data: object = (),
    *,
    key: Key[Array, ""],
    draws: int,
    **options: Unpack[RunOptions],
) -> dict[str, Estimate]:
    """Do a task in many random networks: in chunks, on all devices, with errors and checkpoints.

    Parameters
    ----------
    task : what is measured in each network, a ``Task`` of your own.
    net : an ``MLP`` or a ``ConvNet``; arrays in its laws are a sweep.
    data : what ``Task.observe`` gets beside the network: an array, or a tuple, list or dictionary
        of arrays. Real numbers are computed in the precision of the network, integers stay.
    key : with the number of a network it determines that network.
    draws : number of networks in the result (the most, if `target` is given).
    options : see ``RunOptions``.

    Returns
    -------
    ``{name: Estimate}``, means of shape ``net.sweep_shape +`` the shape of the number.

    Raises
    ------
    ValueError
        naming the argument.
    Interrupted
        on Ctrl-C, with the estimates so far.
    """
    bar = Bar(0, options.get("title", "networks"), options.get("progress"))
    _check_task(task)
    if not isinstance(net, Network):
        raise ValueError(f"net={checks.shown(net)} is not a random network: give jaxexpr.MLP(...)")
    checks.on_host("run_task", "jax.vmap of task.observe", net, data, key)
    checks.random_key("key", key)
    draws, run = checks.integer("draws", draws), settings(options)
    data = jax.tree.map(lambda leaf: _in_precision(leaf, net.dtype), data)
    task = task.fit_memory(net, run.memory)
    if run.refine is not None:
        task = _refined(task, net, data, key, run)
    return _run(task, net, data, key, draws, run, bar)


def _check_task(task: object) -> None:
    if not isinstance(task, Task):
        raise ValueError(
            f"task={checks.shown(task)}: give a Task, a subclass of jaxexpr.Task with a method "
            "observe(self, net, key, data)"
        )
    fields = dataclasses.fields(task) if dataclasses.is_dataclass(task) else None
    if fields is None or not type(task).__dataclass_params__.frozen:
        raise ValueError(
            f"task={checks.shown(task)}: decorate its class with @dataclasses.dataclass("
            "frozen=True), so that equal tasks are compiled once"
        )
    for field in fields:
        value = getattr(task, field.name)
        try:
            hash(value)
        except TypeError:
            raise ValueError(
                f"task has {field.name}={checks.shown(value)}, which cannot be hashed: give arrays "
                "to run_task as data, and sequences as tuples"
            ) from None


def _in_precision(leaf: object, dtype: str) -> Shaped[np.ndarray, "..."]:
    """An array of the data: real numbers in the precision of the network."""
    array = checks.numeric("data", leaf)
    array = np.asarray(array)
    return array.astype(dtype) if jnp.issubdtype(array.dtype, jnp.inexact) else array


def _run(
    task: Task,
    net: Network,
    data: object,
    key: Key[Array, ""],
    draws: int,
    run: Settings,
    bar: Bar,
) -> dict[str, Estimate]:
    """Networks up to number `draws`, after those that are known already."""
    with precision(net.dtype):
        shape = layout(net, data, task, run.memory, run.batch)
        names = list(task.shapes(net, data))
    fingerprint = run_fingerprint(net, data, key, task)
    known = _continued(run.extend, fingerprint, names, draws)
    if run.checkpoint is not None and run.checkpoint.exists():
        known = load_accumulators(run.checkpoint, fingerprint)
    first = next(iter(known.values())).draws if known else 0
    bar.resumed(first, draws)
    with precision(net.dtype), bar:
        step = stepper(net, data, key, task, shape)
        pace, saved, warned = Pace(shape, run.chunk), time.monotonic(), False
        look = first if run.extend else _next_look(first - 1, run.chunk)
        try:
            while first < draws:
                if run.target is not None and first == look:
                    if _reached(known, run.target):
                        break
                    look = _next_look(first, run.chunk)
                count = min(pace.count(), draws - first)
                count = count if run.target is None else min(count, look - first)
                observed = pace.timed(lambda: step(first, count), count)  # noqa: B023
                larger = task.with_more_capacity(observed.required, net, run.memory)
                if larger is not None:  # these networks again, and all that follow
                    task = larger
                    shape = layout(net, data, task, run.memory, run.batch)
                    step = stepper(net, data, key, task, shape)
                    pace.compiles()
                    continue
                known = _merged(known, observed.numbers, fingerprint, count)
                first += count
                if run.checkpoint is not None and time.monotonic() - saved > 5:
                    save_accumulators(run.checkpoint, known)
                    saved = time.monotonic()
                seconds = pace.seconds(draws - first)
                if seconds > LONG and not warned:
                    bar.say(f"{run.title}: {_long(seconds, task, run)}")
                    warned = True
                bar.update(first)
        except KeyboardInterrupt as stop:
            if run.checkpoint is not None and known:
                save_accumulators(run.checkpoint, known)
            raise Interrupted(_estimates(known, names, task, run.refine)) from stop
        if run.checkpoint is not None:
            save_accumulators(run.checkpoint, known)
    return _estimates(known, names, task, run.refine)


def _next_look(done: int, chunk: int | None) -> int:
    """The number of networks, above `done`, at which a target is looked at next."""
    if chunk is not None:
        return (done // chunk + 1) * chunk
    look = 0
    while look <= done:
        look += max(ENOUGH, look // 4)
    return look


def _long(seconds: float, task: Task, run: Settings) -> str:
    """What to say of a run that will take long."""
    most = "" if run.target is None else "up to "
    ways = ["fewer draws"]
    if run.target is None:
        ways.append("target=0.05 (stops at that relative error)")
    if task.exact:
        ways.append('method="grid" (where the probe has it)')
    safe = "" if run.checkpoint else '; checkpoint="run.npz" goes on where it was stopped'
    hours = f"about {most}{seconds / 3600:.3g} hours left at this pace"
    return f"{hours}; shorter: {', '.join(ways)}{safe}"


def _refined(task: Task, net: Network, data: object, key: Key[Array, ""], run: Settings) -> Task:
    """The task at as many points as the error asks for, or as the budget of points allows."""
    pilot = Settings(memory=run.memory, batch=run.batch)
    with precision(net.dtype):
        names = list(task.shapes(net, data))
    while True:
        finer = task.refined()
        if finer is None or max(finer.method_of(name)[1] for name in names) > run.max_points:
            return task
        if max(task.method_of(name)[1] for name in names) >= 3:  # fewer have no coarser look
            try:
                made = _run(task, net, data, key, PILOTS, pilot, Bar(0, "networks", False))
            except Interrupted as stop:
                raise Interrupted({}) from stop
            off = [one.discretisation > run.refine * np.abs(one.mean) for one in made.values()]
            if not any(wrong.any() for wrong in off):
                return task
        task = finer


def _merged(
    known: dict[str, Accumulator], numbers: dict[str, Any], fingerprint: str, count: int
) -> dict[str, Accumulator]:
    """What is known of all networks, with the observations of `count` more."""
    merged = {}
    for name, (number, coarser, left_out, finite) in numbers.items():
        value = np.asarray(number.value, np.float64)
        failed = np.isinf(value) | (np.isnan(value) & ~finite)
        new = Accumulator(
            Moments.of(value, number.exponent),
            Moments.of(coarser, number.exponent),
            left_out.sum(axis=0, dtype=np.float64),
            failed.sum(axis=0),
            count,
            fingerprint,
        )
        merged[name] = known[name].merge(new) if known else new
    return merged


def _estimates(
    known: dict[str, Accumulator], names: list[str], task: Task, tolerance: float | None
) -> dict[str, Estimate]:
    return {
        name: known[name].estimate(name, *task.method_of(name), tolerance)
        for name in names
        if known
    }


def _reached(known: dict[str, Accumulator], target: float) -> bool:
    """Whether every relative standard error is at most `target`."""
    if not known:
        return False
    for one in known.values():
        count, mean, squares, _ = one.moments
        some = count > 0  # after many networks without a number, there is none to wait for
        if one.draws < ENOUGH and not some.all():
            return False
        count, mean, squares = count[some], mean[some], squares[some]
        if not count.size or np.any(count < 2):
            return False
        error = np.sqrt(squares / (count - 1) / count)
        if np.any(error > target * np.abs(mean)):
            return False
    return True


def _continued(
    extend: Mapping[str, Estimate], fingerprint: str, names: list[str], draws: int
) -> dict[str, Accumulator]:
    """What is known from estimates made before; nothing of none."""
    if not extend:
        return {}
    if sorted(extend) != sorted(names):
        raise ValueError(
            f"extend holds {sorted(extend)} and probes are {sorted(names)}: give the same"
        )
    known = {name: one.accumulated for name, one in extend.items() if one.accumulated is not None}
    if len(known) < len(extend):
        raise ValueError("extend holds estimates read from a file or made of samples: draw anew")
    if any(one.fingerprint != fingerprint for one in known.values()):
        raise ValueError(
            "extend comes from another net, curve, key, method or points: give the same ones"
        )
    held = next(iter(known.values())).draws
    if draws <= held:
        raise ValueError(
            f"draws={draws} and extend holds {held} networks already: draws is the number of "
            f"networks in the result; for {draws} more give draws={held + draws}"
        )
    return known
