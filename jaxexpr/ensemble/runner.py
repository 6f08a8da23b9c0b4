"""The one runner: many random networks, means with errors, continued where they were left.

Network i of a run is the one of ``jax.random.fold_in(key, i)`` in every cell of a sweep; nothing
depends on how networks are cut into chunks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import jax
import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.precision import precision
from jaxexpr._core.progress import Bar, Progress
from jaxexpr.ensemble.checkpoints import fingerprint, load_gathered, save_gathered
from jaxexpr.ensemble.devices import Pace, default_memory, layout, stepper
from jaxexpr.ensemble.statistics import Estimate, Gathered, Moments
from jaxexpr.ensemble.tasks import Job
from jaxexpr.measurement.observe import ROOM

PILOTS = 16  # networks at which a discretisation error is looked at
MOST_POINTS = 2**17
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


class Running(TypedDict, total=False):
    """How a run is run: options of everything that measures many networks, as of ``estimate``."""

    target: float | None
    refine: float | None
    most_points: int | None
    extend: Mapping[str, Estimate] | None
    checkpoint: str | os.PathLike[str] | None
    chunk: int | None
    batch: int | None
    memory: float | None
    progress: Progress
    title: str


def gather(
    job: Job,
    net: Any,
    data: Any,
    *,
    key: jax.Array,
    draws: int,
    target: float | None = None,
    refine: float | None = None,
    most_points: int | None = None,
    extend: Mapping[str, Estimate] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
    batch: int | None = None,
    memory: float | None = None,
    progress: Progress = None,
    title: str = "networks",
) -> dict[str, Estimate]:
    """Do a job in many random networks; the options are those of ``estimate``."""
    bar = Bar(0, title, progress)
    checks.random_key("key", key)
    draws = checks.integer("draws", draws)
    target = None if target is None else checks.positive("target", target)
    refine = None if refine is None else checks.positive("refine", refine)
    if most_points is not None and refine is None:
        raise ValueError(f"most_points={most_points} without refine: say refine=0.01, for instance")
    most = checks.integer("most_points", MOST_POINTS if most_points is None else most_points)
    chunk = None if chunk is None else checks.integer("chunk", chunk)
    budget = default_memory() if memory is None else checks.positive("memory", memory)
    path = None if checkpoint is None else checks.path("checkpoint", checkpoint)
    if path is not None and extend:
        raise ValueError(
            f"checkpoint={str(path)!r} and extend are two places to go on from: give one of them"
        )
    job = job.within(net, budget)
    if refine is not None:
        job = _refined(job, net, data, key, refine, most, budget, batch)
    mark = fingerprint(net, data, key, job)
    gathered = _continued(extend, mark, job.names)
    if path is not None and path.exists():
        gathered = load_gathered(path, mark)
    first = next(iter(gathered.values())).draws if gathered else 0
    total = draws + (next(iter(extend.values())).draws if extend else 0)
    bar.resumed(first, total)

    shape = layout(net, job, budget, batch)
    with precision(net.dtype), bar:
        step = stepper(net, data, key, job, shape)
        pace, saved, told = Pace(shape, chunk), time.monotonic(), False
        look = first if extend else _next_look(first - 1, chunk)
        try:
            while first < total:
                if target is not None and first == look:
                    if _reached(gathered, target):
                        break
                    look = _next_look(first, chunk)
                count = min(pace.count(), total - first)
                count = count if target is None else min(count, look - first)
                numbers = pace.timed(lambda: step(first, count), count)  # noqa: B023
                needed = numbers.pop(ROOM, None)
                wider = None if needed is None else job.wider(needed, net, budget)
                if wider is not None:  # these networks again, and all that follow, with more room
                    job = wider
                    shape = layout(net, job, budget, batch)
                    step = stepper(net, data, key, job, shape)
                    pace.compiles()
                    continue
                gathered = _merge(gathered, numbers, mark, count)
                first += count
                if path is not None and time.monotonic() - saved > 5:
                    save_gathered(path, gathered)
                    saved = time.monotonic()
                seconds = pace.seconds(total - first)
                if seconds > LONG and not told:
                    bar.say(f"{title}: {_long(seconds, job, target, path)}")
                    told = True
                bar.update(first)
        except KeyboardInterrupt as stop:
            if path is not None and gathered:
                save_gathered(path, gathered)
            raise Interrupted(_estimates(gathered, job, refine)) from stop
        if path is not None:
            save_gathered(path, gathered)
    return _estimates(gathered, job, refine)


def _next_look(done: int, chunk: int | None) -> int:
    """The number of networks, above `done`, at which a target is looked at next."""
    if chunk is not None:
        return (done // chunk + 1) * chunk
    look = 0
    while look <= done:
        look += max(ENOUGH, look // 4)
    return look


def _long(seconds: float, job: Job, target: float | None, path: Path | None) -> str:
    """What to say of a run that will take long."""
    most = "" if target is None else "up to "
    ways = ["fewer draws"]
    if target is None:
        ways.append("target=0.05 (stops at that relative error)")
    if job.exact:
        ways.append('method="grid" (where the probe has it)')
    safe = "" if path else '; checkpoint="run.npz" goes on where it was stopped'
    hours = f"about {most}{seconds / 3600:.3g} hours left at this pace"
    return f"{hours}; shorter: {', '.join(ways)}{safe}"


def _refined(
    job: Job,
    net: Any,
    data: Any,
    key: jax.Array,
    relative: float,
    most: int,
    budget: float,
    batch: int | None,
) -> Job:
    """The job at as many points as the error asks for, or as the budget of points allows."""
    while True:
        finer = job.finer()
        if finer is None or max(finer.how(name)[1] for name in finer.names) > most:
            return job
        if max(job.how(name)[1] for name in job.names) >= 3:  # fewer have no coarser look
            running: Running = {"memory": budget, "batch": batch, "progress": False}
            try:
                pilot = gather(job, net, data, key=key, draws=PILOTS, **running)
            except Interrupted as stop:
                raise Interrupted({}) from stop
            off = [one.discretisation > relative * np.abs(one.mean) for one in pilot.values()]
            if not any(wrong.any() for wrong in off):
                return job
        job = finer


def _merge(
    gathered: dict[str, Gathered], numbers: dict[str, Any], mark: str, count: int
) -> dict[str, Gathered]:
    merged = {}
    for name, (number, difference, dead, sound) in numbers.items():
        value = np.asarray(number.value, np.float64)
        broken = np.isinf(value) | (np.isnan(value) & ~sound)
        new = Gathered(
            Moments.of(value, number.exponent),
            Moments.of(difference, number.exponent),
            dead.sum(axis=0, dtype=np.float64),
            broken.sum(axis=0),
            count,
            mark,
        )
        merged[name] = gathered[name].merge(new) if gathered else new
    return merged


def _estimates(
    gathered: dict[str, Gathered], job: Job, tolerance: float | None
) -> dict[str, Estimate]:
    return {
        name: gathered[name].estimate(name, *job.how(name), tolerance)
        for name in job.names
        if name in gathered
    }


def _reached(gathered: dict[str, Gathered], target: float | None) -> bool:
    if target is None or not gathered:
        return False
    for one in gathered.values():
        count, mean, squares, _ = one.moments
        known = count > 0  # after many networks without a number, there is none to wait for
        if one.draws < ENOUGH and not known.all():
            return False
        count, mean, squares = count[known], mean[known], squares[known]
        if not count.size or np.any(count < 2):
            return False
        error = np.sqrt(squares / (count - 1) / count)
        if np.any(error > target * np.abs(mean)):
            return False
    return True


def _continued(
    extend: Mapping[str, Estimate] | None, mark: str, names: list[str]
) -> dict[str, Gathered]:
    if extend is None:
        return {}
    whole = isinstance(extend, Mapping) and all(isinstance(e, Estimate) for e in extend.values())
    if not whole:
        raise ValueError(f"extend={checks.shown(extend)}: give what estimate returned")
    if not extend:
        return {}
    if sorted(extend) != sorted(names):
        raise ValueError(
            f"extend holds {sorted(extend)} and probes are {sorted(names)}: give the same"
        )
    gathered = {name: item.gathered for name, item in extend.items() if item.gathered is not None}
    if len(gathered) < len(extend):
        raise ValueError("extend holds estimates read from a file or made of samples: draw anew")
    if any(item.fingerprint != mark for item in gathered.values()):
        raise ValueError(
            "extend comes from another net, curve, key, method or points: give the same ones"
        )
    return gathered
