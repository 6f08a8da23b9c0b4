"""Run a task in many random networks; merge means and errors; resume.

Network i of a run is drawn from ``jax.random.fold_in(key, i)`` in every cell of a sweep, and does
not depend on how networks are split into chunks.
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
from jaxexpr._core.progress import Bar
from jaxexpr._core.shapes import Array, Key, Shaped
from jaxexpr._core.x64 import precision
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

PILOTS = 16  # networks on which `refine` checks the discretisation error
ENOUGH = 64  # networks after which `target` no longer waits for a layer without a number
LONG = 3600.0  # seconds; longer runs are announced


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C during a run; holds the results so far.

    Attributes
    ----------
    estimates : from ``estimate`` and other functions that run a task: the estimates so far, which
        `extend` accepts; empty if no network was finished.
    fit : from ``training.train``: the networks and the records so far; None before the first
        record, and for all other functions.
    """

    def __init__(self, estimates: dict[str, Estimate], fit: Any = None) -> None:
        message = "interrupted before anything was done that could be handed over"
        if estimates:
            message = "interrupted; .estimates holds the networks done so far"
        elif fit is not None:
            message = "interrupted; .fit holds the networks as they are, and their records"
        super().__init__(message)
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
    """Run a task in many random networks: in chunks, on all devices, with errors and checkpoints.

    Parameters
    ----------
    task : what is measured in each network, a ``Task`` of your own.
    net : an ``MLP`` or a ``ConvNet``; arrays in its laws are a sweep.
    data : further input of ``Task.observe``: an array, or a tuple, list or dictionary of arrays.
        Real numbers are converted to the precision of the network, integers are left as they are.
    key : the key and the number of a network determine the network.
    draws : number of networks; with `target`, the largest number of networks.
    options : see ``RunOptions``.

    Returns
    -------
    ``{name: Estimate}``, means of shape ``net.sweep_shape`` and the shape of one observation.

    Raises
    ------
    ValueError
        if an argument is invalid; the message names it.
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
    """One array of `data`, with real numbers in the precision of the network."""
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
    """Run networks until there are `draws`, continuing from `extend` or the checkpoint."""
    with precision(net.dtype):
        shape = layout(net, data, task, run.memory, run.batch)
        names = list(task.shapes(net, data))
    fingerprint = run_fingerprint(net, data, key, task)
    accumulators = _accumulators_of(run.extend, fingerprint, names, draws)
    if run.checkpoint is not None and run.checkpoint.exists():
        accumulators = load_accumulators(run.checkpoint, fingerprint)
    first = next(iter(accumulators.values())).draws if accumulators else 0
    bar.resumed(first, draws)
    with precision(net.dtype), bar:
        step = stepper(net, data, key, task, shape)
        pace, saved, warned = Pace(shape, run.chunk), time.monotonic(), False
        next_check = first if run.extend else _next_check(first - 1, run.chunk)
        try:
            while first < draws:
                if run.target is not None and first == next_check:
                    if _reached(accumulators, run.target):
                        break
                    next_check = _next_check(first, run.chunk)
                count = min(pace.count(), draws - first)
                count = count if run.target is None else min(count, next_check - first)
                observed = pace.timed(lambda: step(first, count), count)  # noqa: B023
                larger = task.with_more_capacity(observed.required, net, run.memory)
                if larger is not None:  # these networks again, and all that follow
                    task = larger
                    shape = layout(net, data, task, run.memory, run.batch)
                    step = stepper(net, data, key, task, shape)
                    pace.compiles()
                    continue
                accumulators = _merged(accumulators, observed.numbers, fingerprint, count)
                first += count
                if run.checkpoint is not None and time.monotonic() - saved > 5:
                    save_accumulators(run.checkpoint, accumulators)
                    saved = time.monotonic()
                seconds = pace.seconds(draws - first)
                if seconds > LONG and not warned:
                    bar.say(f"{run.title}: {_duration_warning(seconds, task, run)}")
                    warned = True
                bar.update(first)
        except KeyboardInterrupt as interrupt:
            if run.checkpoint is not None and accumulators:
                save_accumulators(run.checkpoint, accumulators)
            raise Interrupted(_estimates(accumulators, names, task, run.refine)) from interrupt
        if run.checkpoint is not None:
            save_accumulators(run.checkpoint, accumulators)
    return _estimates(accumulators, names, task, run.refine)


def _next_check(done: int, chunk: int | None) -> int:
    """Number of networks at which `target` is checked next, after `done`."""
    if chunk is not None:
        return (done // chunk + 1) * chunk
    check = 0
    while check <= done:
        check += max(ENOUGH, check // 4)
    return check


def _duration_warning(seconds: float, task: Task, run: Settings) -> str:
    """Message for a run that will take long."""
    bound = "" if run.target is None else "up to "
    advice = ["fewer draws"]
    if run.target is None:
        advice.append("target=0.05 (stops at that relative error)")
    if task.exact:
        advice.append('method="grid" (where the probe has it)')
    resumable = "" if run.checkpoint else '; checkpoint="run.npz" goes on where it was stopped'
    hours = f"about {bound}{seconds / 3600:.3g} hours left at this pace"
    return f"{hours}; shorter: {', '.join(advice)}{resumable}"


def _refined(task: Task, net: Network, data: object, key: Key[Array, ""], run: Settings) -> Task:
    """The task with as many points as `refine` requires, but at most `max_points`."""
    pilot_settings = Settings(memory=run.memory, batch=run.batch)
    with precision(net.dtype):
        names = list(task.shapes(net, data))
    while True:
        finer = task.refined()
        if finer is None or max(finer.method_of(name)[1] for name in names) > run.max_points:
            return task
        if max(task.method_of(name)[1] for name in names) >= 3:  # with fewer the error is unknown
            try:
                estimates = _run(
                    task, net, data, key, PILOTS, pilot_settings, Bar(0, "networks", False)
                )
            except Interrupted as interrupt:
                raise Interrupted({}) from interrupt
            exceeded = [
                item.discretisation > run.refine * np.abs(item.mean) for item in estimates.values()
            ]
            if not any(layers.any() for layers in exceeded):
                return task
        task = finer


def _merged(
    accumulators: dict[str, Accumulator], numbers: dict[str, Any], fingerprint: str, count: int
) -> dict[str, Accumulator]:
    """The accumulators with the observations of `count` more networks merged in."""
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
        merged[name] = accumulators[name].merge(new) if accumulators else new
    return merged


def _estimates(
    accumulators: dict[str, Accumulator], names: list[str], task: Task, tolerance: float | None
) -> dict[str, Estimate]:
    return {
        name: accumulators[name].estimate(name, *task.method_of(name), tolerance)
        for name in names
        if accumulators
    }


def _reached(accumulators: dict[str, Accumulator], target: float) -> bool:
    """Whether every relative standard error is at most `target`."""
    if not accumulators:
        return False
    for item in accumulators.values():
        count, mean, squares, _ = item.moments
        counted = count > 0  # a layer without a number after many networks has none
        if item.draws < ENOUGH and not counted.all():
            return False
        count, mean, squares = count[counted], mean[counted], squares[counted]
        if not count.size or np.any(count < 2):
            return False
        error = np.sqrt(squares / (count - 1) / count)
        if np.any(error > target * np.abs(mean)):
            return False
    return True


def _accumulators_of(
    extend: Mapping[str, Estimate], fingerprint: str, names: list[str], draws: int
) -> dict[str, Accumulator]:
    """Accumulators of the estimates given as `extend`; empty if none."""
    if not extend:
        return {}
    if sorted(extend) != sorted(names):
        raise ValueError(
            f"extend holds {sorted(extend)} and probes are {sorted(names)}: give the same"
        )
    accumulators = {
        name: item.accumulated for name, item in extend.items() if item.accumulated is not None
    }
    if len(accumulators) < len(extend):
        raise ValueError(
            "extend holds estimates read from a file or made of samples, which cannot be "
            "continued: draw anew"
        )
    if any(item.fingerprint != fingerprint for item in accumulators.values()):
        raise ValueError(
            "extend comes from another net, curve, key, method or points: give the same ones"
        )
    drawn = next(iter(accumulators.values())).draws
    if draws <= drawn:
        raise ValueError(
            f"draws={draws} and extend holds {drawn} networks already: draws is the number of "
            f"networks in the result; for {draws} more give draws={drawn + draws}"
        )
    return accumulators
