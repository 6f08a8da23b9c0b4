"""The runner: thousands of random networks, one curve, means with errors.

Network i of an estimate is the one of ``jax.random.fold_in(key, i)`` in every cell of a sweep;
nothing depends on how networks are cut into chunks.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxexpr import checks
from jaxexpr.batches import Pace, default_memory, layout, stepper
from jaxexpr.checkpoint import load_gathered, save_gathered
from jaxexpr.curves import Curve
from jaxexpr.exactly import more_room
from jaxexpr.identity import fingerprint
from jaxexpr.kernels import ROOM, checked, probe_names
from jaxexpr.moments import Estimate, Gathered, Moments
from jaxexpr.networks import MLP, precision
from jaxexpr.probes import Pass
from jaxexpr.progress import Bar


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during ``estimate``; ``estimates`` holds what was gathered, ready to be extended."""

    def __init__(self, estimates: dict[str, Estimate]) -> None:
        super().__init__("interrupted; .estimates holds the networks done so far")
        self.estimates = estimates


def estimate(
    net: MLP,
    curve: Curve,
    *,
    key: jax.Array,
    draws: int,
    probes: Any = ("length", "growth"),
    method: str = "auto",
    points: int | None = None,
    target: float | None = None,
    extend: Mapping[str, Estimate] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
    batch: int | None = None,
    memory: float | None = None,
    progress: bool | None = None,
    title: str = "networks",
) -> dict[str, Estimate]:
    """Measure a curve in many random networks.

    Parameters
    ----------
    net : arrays in its laws are a sweep; all cells see the same draws, so differences between
        cells have smaller errors than the cells (and cells are not independent).
    curve : in the space of ``net.widths[0]`` dimensions.
    key : typed key; with the number of a network it determines that network, nothing else does.
    draws : how many networks to draw (the most, if `target` is given).
    probes : names out of length, growth, growth_squared, log_growth, length_ratio, log_length,
        norm, angle, transitions, pieces, or your own (``jaxexpr.probe``).
    method : ``"exact"`` (piecewise linear networks on lines, polylines, arcs, circles, ellipses
        and semicircles: every breakpoint, no discretisation), ``"tangent"`` (derivatives at
        midpoints; no cancellation), ``"grid"`` (a polyline), ``"gram"`` (dense Gaussian laws:
        pre-activations are drawn in place of weights; same law, far cheaper in wide networks),
        ``"auto"`` (see ``probes.plan``).
    points : tangents, or points of the grid; by default 30, 300 or 1001 by probe.
    target : stop as soon as every relative standard error is at most this. Looked at after 64
        networks and after every quarter more (or after every `chunk`), so that the number drawn
        does not depend on the machine.
    extend : estimates of the same net, curve, key, probes and points; `draws` further networks
        are added to theirs.
    checkpoint : a file that is kept up to date, and continued from if it exists already; then
        `draws` is the total. Not together with `extend`.
    chunk : most networks between two updates of the progress bar; changes no number.
    batch : networks computed side by side; default 1 on CPU unless they are small, and what
        `memory` allows elsewhere. Changes no number beyond rounding.
    memory : bytes for what is in flight; default 1 GiB on CPU, half the device's memory
        elsewhere.
    progress : whether to show a bar; by default where the error stream is a terminal.

    Returns
    -------
    ``{probe: Estimate}``; each ``mean`` and ``sem`` has shape ``net.sweep_shape + (depth,)``.

    Raises
    ------
    ValueError
        naming the argument, for anything that does not fit together (see the parameters).
    Interrupted
        on Ctrl-C, with the estimates so far.

    >>> from jaxexpr import curves, laws
    >>> net = MLP((2, 64, 64), laws.Gaussian(2.0), laws.Zero())
    >>> line = curves.line([1.0, 0.0], [0.0, 1.0])
    >>> growth = estimate(net, line, key=jax.random.key(0), draws=500)["growth"]
    >>> abs(growth.mean[1] - 2.0 * 0.70035) < 4 * growth.sem[1]  # the exact law, width 64
    np.True_
    """
    curve, passes = checked(net, curve, probes, method, points, grows=True)
    checks.random_key("key", key)
    draws = checks.integer("draws", draws)
    target = None if target is None else checks.positive("target", target)
    chunk = None if chunk is None else checks.integer("chunk", chunk)
    budget = default_memory() if memory is None else checks.positive("memory", memory)

    if not isinstance(checkpoint, str | os.PathLike | None):
        raise ValueError(f"checkpoint={checks.shown(checkpoint)}: give a path")
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and extend:
        raise ValueError(
            f"checkpoint={str(path)!r} and extend are two places to go on from: give one of them"
        )
    mark = fingerprint(net, curve, key, passes)
    gathered = _continued(extend, mark, probe_names(passes))
    if path is not None and path.exists():
        gathered = load_gathered(path, mark)
    first = next(iter(gathered.values())).draws if gathered else 0
    total = draws + (next(iter(extend.values())).draws if extend else 0)

    shape = layout(net, passes, budget, batch)
    with precision(net.dtype), Bar(total, title, progress) as bar:
        step = stepper(net, curve, key, passes, shape)
        pace, saved = Pace(shape, chunk, steady=target is not None), time.monotonic()
        try:
            while first < total and not _reached(gathered, target):
                count = min(pace.count(first), total - first)
                numbers = pace.timed(lambda: step(first, count))  # noqa: B023
                needed = numbers.pop(ROOM, None)
                wider = None if needed is None else _wider(passes, needed, net, budget)
                if wider is not None:  # these networks again, and all that follow, with more room
                    passes = wider
                    shape = layout(net, passes, budget, batch)
                    step = stepper(net, curve, key, passes, shape)
                    continue
                gathered = _merge(gathered, numbers, mark, count)
                first += count
                if path is not None and time.monotonic() - saved > 5:
                    save_gathered(path, gathered)
                    saved = time.monotonic()
                bar.update(first)
        except KeyboardInterrupt as stop:
            if path is not None and gathered:
                save_gathered(path, gathered)
            raise Interrupted(_estimates(gathered, passes)) from stop
    if path is not None:
        save_gathered(path, gathered)
    return _estimates(gathered, passes)


def _wider(
    passes: tuple[Pass, ...], needed: np.ndarray, net: MLP, budget: float
) -> tuple[Pass, ...] | None:
    """Passes with the room that these networks needed; ``None`` if they had it."""
    exact = next(item for item in passes if item.method == "exact")
    room = more_room(exact.room, needed, net, budget)
    if room is None:
        return None
    wider = dataclasses.replace(exact, room=room)
    return tuple(wider if item is exact else item for item in passes)


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


def _estimates(gathered: dict[str, Gathered], passes: tuple[Pass, ...]) -> dict[str, Estimate]:
    return {
        probe.name: gathered[probe.name].estimate(probe.name, item.method, item.nodes.count)
        for item in passes
        for probe in item.probes
        if probe.name in gathered
    }


def _reached(gathered: dict[str, Gathered], target: float | None) -> bool:
    if target is None or not gathered:
        return False
    for one in gathered.values():
        count, mean, squares, _ = one.moments
        if np.any(count < 2):
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
