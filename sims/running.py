"""One simulation from configuration to files: simulate, save, check, draw.

A run leaves ``NAME.nc`` (the labelled result), ``NAME.png`` and ``NAME.json`` (the numbers that a
reader would quote) in the output folder, each replaced in one step; ``stored`` keeps those of other
configurations. While it runs, each estimate keeps a checkpoint under ``.partial/``; a run that was
killed goes on from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import jaxexpr
from jaxexpr import datasets, plotting, results
from jaxexpr._core.files import alone_in, clear_unfinished, write_atomically
from jaxexpr._core.fingerprint import fingerprint
from jaxexpr._core.progress import Bar
from sims import stored
from sims.catalogue import CATALOGUE, Simulation
from sims.config import Training
from sims.findings import Findings

if TYPE_CHECKING:
    from jaxexpr.training import Fit

_STARTED = time.time()


class Run:
    """What a simulation is given to run with.

    Parameters
    ----------
    folder : of the checkpoints.
    fresh : train networks again that were trained before this process began.

    Attributes
    ----------
    earlier : seconds that training took before this run, which went on from there.
    """

    def __init__(
        self, folder: Path, *, progress: bool | None, say: Any = print, fresh: bool = False
    ) -> None:
        self._folder, self._progress, self.say, self._fresh = folder, progress, say, fresh
        self._began, self.earlier = time.monotonic(), 0.0

    def estimate(self, label: str, net: Any, curve: Any, **options: Any) -> Any:
        """``jaxexpr.estimate`` with a checkpoint, a progress bar and a line when it is done."""
        return self.do(jaxexpr.estimate, label, net, curve, **options)

    def do(self, work: Callable[..., Any], label: str, *arguments: Any, **options: Any) -> Any:
        """As ``estimate``, for anything that takes a checkpoint: ``jaxexpr.dichotomies``."""
        result = work(
            *arguments,
            checkpoint=self._folder / f"{label}.npz",
            progress=self._progress,
            title=label,
            **options,
        )
        first = next(iter(result.values()))
        self.note(f"{label}: {first.draws} networks")
        return result

    def train(
        self,
        label: str,
        net: Any,
        examples: datasets.Dataset,
        config: Training,
        **options: Any,
    ) -> Fit:
        """``training.train`` with a checkpoint, a progress bar and a line when it is done.

        The checkpoint stays in ``.trained/`` of the output folder: simulations of the same networks
        train them once, as long as the code of the package is the same.

        Parameters
        ----------
        config : data, draws, epochs, batch and seed are those of the run, where `options` do not
            say otherwise.
        """
        from jaxexpr import training
        from jaxexpr.training.loop import FORMAT

        options = {
            "networks": config.draws, "epochs": config.epochs, "batch": config.batch,
        } | options  # fmt: skip
        if "test_data" not in options:
            options["test_data"] = datasets.load(config.data, "test")
        rest = sorted(options.items())
        trained = fingerprint(FORMAT, stored.code("jaxexpr"), net, examples, config.seed, rest)[:16]
        checkpoint = self._folder.parents[1] / ".trained" / f"{trained}.npz"
        if self._fresh and checkpoint.exists() and checkpoint.stat().st_mtime < _STARTED:
            checkpoint.unlink()
        began = time.monotonic()
        fit = training.train(
            net,
            examples,
            key=jax.random.key(config.seed),
            checkpoint=checkpoint,
            progress=self._progress,
            title=label,
            **options,
        )
        self.earlier += max(sum(fit.seconds.values()) - (time.monotonic() - began), 0.0)
        last = fit.history["train_accuracy"][-1]
        settings = f"train accuracy {100 * np.nanmean(last):.1f} %"
        tested = fit.history["test_accuracy"][-1]
        settings += f", test accuracy {100 * tested.mean():.1f} (least {100 * tested.min():.1f}) %"
        cost = fit.seconds["tracking"] / max(fit.seconds["training"], 1e-9)
        self.note(
            f"{label}: {last.size} networks, {settings}; tracking {100 * cost:.0f} % of training, "
            f"{fit.seconds['first_look']:.0f} s before it"
        )
        return fit

    def samples(
        self, label: str, measure: Callable[[int], Any], draws: int, each: int = 1
    ) -> np.ndarray:
        """Call ``measure(0)``, ``measure(1)``, ...; numbers ``(draws, ...)``, float64.

        As ``estimate``, it keeps what was done and goes on from there. A call measures `each`
        networks.
        """
        path = self._folder / f"{label}.npy"
        done = list(np.load(path)) if path.exists() else []

        def keep(kept: Path) -> None:
            np.save(kept, np.array(done))

        saved = time.monotonic()
        with Bar(draws * each, label, self._progress) as bar:
            bar.resumed(min(len(done), draws) * each, draws * each)
            try:
                while len(done) < draws:
                    done.append(np.asarray(measure(len(done)), np.float64))
                    bar.update(len(done) * each)
                    if time.monotonic() - saved > 5:
                        write_atomically(path, keep)
                        saved = time.monotonic()
            except KeyboardInterrupt:
                write_atomically(path, keep)
                raise
        write_atomically(path, keep)
        self.note(f"{label}: {draws * each} networks")
        return np.array(done[:draws])

    def note(self, text: str) -> None:
        """Say something with the time since the start."""
        self.say(f"  {time.monotonic() - self._began:6.1f} s  {text}")


def run(
    name: str,
    config: Any,
    *,
    preset: str,
    out: Path,
    redraw: bool = False,
    again: bool = False,
    progress: bool | None = None,
) -> stored.Outcome:
    """Run one simulation and write its files, whether there is such a run already or not.

    Parameters
    ----------
    redraw : check and draw what is stored; `config` is not looked at.
    again : train networks again as well.

    Raises
    ------
    ValueError
        if `redraw` finds a result of another simulation.
    FileNotFoundError
        if it finds none.
    """
    entry = CATALOGUE[name]
    path = stored.file(out, name, ".nc")
    for folder in (out, out / ".trained", *(out / ".partial").glob("*")):
        clear_unfinished(folder)
    if redraw:
        with alone_in(out):
            data = results.load(path)
            if data.attrs.get("simulation") != name:
                raise ValueError(
                    f"path={str(path)!r} holds {data.attrs.get('simulation')!r}: not {name}"
                )
            made = stored.read_provenance(path)
            print(f"  drawn from {path}: {stored.described(made)}; made {made.get('created')}")
            return _finish(name, data, out, how="drawn again")
    partial = out / ".partial" / _part(name, config)
    data = _simulate(entry, config, partial, progress, again)
    changed = {} if _is_preset(config, entry.config(preset)) else {"preset": f"{preset}, changed"}
    data.attrs |= {"simulation": name, "title": entry.title, "preset": preset, **changed}
    with alone_in(out):
        for line in stored.put_aside(out, name, stored.configuration(config)):
            print(f"  {line}")
        results.save(data, path)
        shutil.rmtree(partial, ignore_errors=True)
        with contextlib.suppress(OSError):  # others are there
            partial.parent.rmdir()
        return _finish(name, data, out, how="run")


def _finish(name: str, data: xr.Dataset, out: Path, how: str) -> stored.Outcome:
    """Check and draw what is stored; other files of NAME that are of another run are kept."""
    settings = json.loads(data.attrs["config"])
    for line in stored.put_aside(out, name, settings):
        print(f"  {line}")
    entry = CATALOGUE[name]
    script, config = entry.module, entry.stored_config(settings)
    findings = script.check(data, config)
    findings.verdicts = jaxexpr.judge(findings.verdicts)
    with plt.rc_context(plotting.STYLE):
        figure, details = script.draw(data, config)
        figure.suptitle(caption(data, settings, details), fontsize=9)
    image = stored.file(out, name, ".png")
    write_atomically(image, lambda temporary: figure.savefig(temporary, dpi=150))
    plt.close(figure)
    text = summary(data, findings)
    write_atomically(stored.file(out, name, ".json"), lambda temporary: temporary.write_text(text))
    return stored.report(out, name, how)


def caption(data: xr.Dataset, settings: Mapping[str, Any], details: str) -> str:
    """Return the title of a figure, and below it preset, data, draws and the script's details."""
    parts = [f"preset {data.attrs['preset']}"] if "seed" in settings else []
    parts += [f"data {settings['data']}"] if "data" in settings else []
    parts += [f"{settings['draws']} draws"] if "draws" in settings else []
    line = ", ".join(part for part in (*parts, details) if part)
    return f"{data.attrs['title']}\n{line}".strip()


def _part(name: str, config: Any) -> str:
    """Name of the folder of an unfinished run; other code does not continue it."""
    digest = stored.fingerprint(stored.configuration(config))
    return f"{name}-{digest}-{stored.code(*stored.CODE)}"


def _simulate(
    entry: Simulation, config: Any, partial: Path, progress: bool | None, again: bool
) -> xr.Dataset:
    for other in partial.parent.glob(f"{partial.name.rpartition('-')[0]}*"):
        if other != partial:
            print(f"  {other} is of other code, and is not continued: delete it")
    fresh = again and not partial.exists()
    if again:
        partial.mkdir(parents=True, exist_ok=True)  # says that this repetition has begun
    began, code = time.monotonic(), stored.code(*stored.CODE)
    run = Run(partial, progress=progress, fresh=fresh)
    try:
        data = entry.module.simulate(config, run)
    except Exception:
        with contextlib.suppress(OSError):  # something is kept there
            partial.rmdir()
            partial.parent.rmdir()
        raise
    seconds = time.monotonic() - began + run.earlier
    data.attrs |= results.provenance(dataclasses.asdict(config), seconds)
    data.attrs["code"] = code if stored.code_now(*stored.CODE) == code else stored.CHANGED
    return data


def _is_preset(config: Any, preset: Any) -> bool:
    """Whether a configuration is the preset's, on whatever data."""
    settings, wanted = dataclasses.asdict(config), dataclasses.asdict(preset)
    return all(settings[k] == v for k, v in wanted.items() if k != "data")


def summary(data: xr.Dataset, findings: Findings) -> str:
    """Return the JSON beside a figure: where it comes from, what it found, numbers to quote."""
    kept = (
        "simulation", "title", "preset", "device", "precision", "seconds", "jaxexpr", "jax",
        "code", "created",
    )  # fmt: skip
    config = json.loads(data.attrs["config"])
    content = {key: data.attrs[key] for key in kept if key in data.attrs}
    content |= {"data": config.get("data"), "draws": config.get("draws"), "config": None}
    content["facts"] = [dataclasses.asdict(f) for f in findings.facts]
    content["verdicts"] = [dataclasses.asdict(v) for v in findings.verdicts]
    content["claims"] = [dataclasses.asdict(c) for c in findings.claims]
    lines = (*findings.facts, *findings.verdicts, *findings.claims)
    content["report"] = [str(line) for line in lines]
    content["numbers"] = findings.numbers
    exact = _plain(content) | {"config": config}
    return json.dumps(exact, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Turn arrays and floats into what JSON can hold, rounded to 6 digits; NaN becomes null."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
