"""What runs left in a folder: whose it is, whether it is finished, and where it is kept.

NAME.nc, NAME.png and NAME.json are of the configuration that was asked for last. Those of other
ones lie beside them, under NAME.DATA-PRESET-SEED. Nothing heavy is imported here.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

# In the order in which they are moved: those that say whose they are stay with the others.
ENDINGS = (".json", ".png", ".nc")
CODE = ("jaxexpr", "sims")  # the packages whose code makes a result
CHANGED = "changed while it ran"

Provenance = dict[str, Any]


def code_now(*packages: str) -> str:
    """Return a digest of the Python files of packages; of one without files, its version."""
    total = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        folder = Path(spec.origin).parent if spec is not None and spec.origin else None
        files = [] if folder is None else sorted(folder.rglob("*.py"))
        if folder is None or not files:
            total.update(importlib.metadata.version(package).encode())
            continue
        for path in files:
            content = path.read_bytes()
            total.update(f"{package} {path.relative_to(folder)} {len(content)} ".encode() + content)
    return total.hexdigest()[:12]


@functools.cache
def code(*packages: str) -> str:
    """``code_now`` when this process asked first."""
    return code_now(*packages)


def configuration(config: Any) -> Provenance:
    """Return a configuration as files hold it."""
    content: Provenance = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    return content


def fingerprint(config: Provenance) -> str:
    """Return a short digest of a configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


def read_provenance(path: Path) -> Provenance:
    """Return what a .nc or .json says of how it was made; nothing if there is none, or damaged."""
    if not path.exists():
        return {}
    try:
        if path.suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
        else:
            import h5netcdf

            with h5netcdf.File(path, "r") as file:
                content = {name: _plain(value) for name, value in file.attrs.items()}
            content["config"] = json.loads(content["config"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    whole = isinstance(content, dict) and isinstance(content.get("config"), dict)
    return content if whole and "simulation" in content and "preset" in content else {}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "size", 0) == 1 else value


def described(provenance: Provenance) -> str:
    """Return which run it was."""
    config = provenance["config"]
    parts = [f"preset {provenance['preset']}"]
    parts += [f"{key} {config[key]}" for key in ("data", "seed", "draws") if key in config]
    return ", ".join(parts)


def file(out: Path, stem: str, ending: str) -> Path:
    """Return the path of a file of a result; a stem may hold dots."""
    return out / f"{stem}{ending}"


def _files(out: Path, stem: str) -> dict[str, Provenance]:
    """What the files of a result say, by ending; a figure is of the run of the file beside it."""
    there = [ending for ending in ENDINGS if file(out, stem, ending).exists()]
    content = {
        ending: read_provenance(file(out, stem, ending)) for ending in there if ending != ".png"
    }
    if ".png" in there:
        content[".png"] = content.get(".json") or content.get(".nc") or {}
    return content


def same(provenance: Provenance, name: str, config: Provenance) -> bool:
    """Whether a file is of this simulation and configuration.

    Files from before the code was kept hold their numbers rounded.
    """
    if provenance.get("simulation") != name:
        return False
    return provenance["config"] == config or (
        "code" not in provenance and provenance["config"] == _rounded(config)
    )


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


class Finished(NamedTuple):
    """What there is of a run that is asked for.

    Attributes
    ----------
    stem : of its files; None if it has to be run.
    whole : whether all three files are there and belong together.
    why : it has to be run again, though there is something of this configuration.
    """

    stem: str | None
    whole: bool
    why: str


def find(out: Path, name: str, config: Provenance) -> Finished:
    """Look for a finished run of this configuration and of the code that runs now."""
    beside = (path.name.removesuffix(".nc") for path in sorted(out.glob(f"{name}.*.nc")))
    stems, why = [name, *beside], ""
    for stem in stems:
        path = file(out, stem, ".nc")
        provenance = read_provenance(path)
        if same(provenance, name, config) and provenance.get("code") == code(*CODE):
            summary, when = read_provenance(file(out, stem, ".json")), provenance.get("created")
            together = same(summary, name, config) and summary.get("created") == when
            whole = together and "report" in summary and file(out, stem, ".png").exists()
            return Finished(stem, whole, "")
        why = why or _why(path, provenance, name, config, out / f"{stem}.json")
    return Finished(None, False, why)


def _why(path: Path, provenance: Provenance, name: str, config: Provenance, summary: Path) -> str:
    """Why a result does not count as finished; nothing if it is of another configuration."""
    if path.exists() and not provenance:
        return f"{path} cannot be read"
    if not path.exists():
        return f"{path} is not there" if same(read_provenance(summary), name, config) else ""
    if not same(provenance, name, config):
        return ""
    if "code" not in provenance:
        return f"{path} does not say which code made it"
    if provenance["code"] == CHANGED:
        return f"the code of jaxexpr/ or sims/ {CHANGED} for {path}"
    return f"the code of jaxexpr/ or sims/ is another than that which made {path}"


def put_aside(out: Path, name: str, config: Provenance) -> list[str]:
    """Move the files of NAME that are of another configuration out of the way.

    Returns lines that say so. Nothing is overwritten but an older result of the same configuration.
    """
    groups: dict[str, list[str]] = {}
    content = _files(out, name)
    for ending, provenance in content.items():
        if not same(provenance, name, config):
            groups.setdefault(_run_of(provenance), []).append(ending)
    lines = []
    for endings in groups.values():
        provenance = content[endings[0]]
        stem = next(s for s in _stems(name, provenance) if _fits(out, s, provenance, endings))
        for ending in sorted(endings, key=ENDINGS.index):
            os.replace(file(out, name, ending), file(out, stem, ending))
        names = ", ".join(f"{name}{ending}" for ending in endings)
        what = described(provenance) if provenance else "nothing says of which run"
        lines.append(f"kept: {names} ({what}): now {stem}.*")
    return lines


def bring_back(out: Path, name: str, stem: str, config: Provenance) -> list[str]:
    """Make the files of a stem those of NAME again, after what is there was put aside."""
    lines = put_aside(out, name, config)
    for ending in ENDINGS:
        if file(out, stem, ending).exists():
            os.replace(file(out, stem, ending), file(out, name, ending))
    return [*lines, f"{stem}.* are {name}.* again"]


class Outcome(NamedTuple):
    """How many statements a result bears out, for a table; and how it came about."""

    how: str
    seconds: float
    holds: int
    fails: int
    seen: int
    unresolved: int
    not_seen: int


def report(out: Path, name: str, how: str) -> Outcome:
    """Print what is in NAME.json: verdicts, claims, where the figure is."""
    content = read_provenance(file(out, name, ".json"))
    for line in content["report"]:
        print(f"  {line}")
    print(f"  figure: {file(out, name, '.png')}", flush=True)
    proven = [item["holds"] for item in (*content["facts"], *content["verdicts"])]
    claimed = [item["met"] for item in content["claims"]]
    return Outcome(
        how,
        content["seconds"],
        proven.count(True),
        proven.count(False),
        *(claimed.count(met) for met in (True, None, False)),
    )


def _run_of(provenance: Provenance) -> str:
    return json.dumps([provenance.get("simulation"), provenance.get("config")], sort_keys=True)


def _stems(name: str, provenance: Provenance) -> Iterator[str]:
    """Names to keep a result under, the simplest first."""
    if provenance:
        config = provenance["config"]
        preset, _, changed = str(provenance["preset"]).partition(",")
        parts = (config.get("data"), preset, config.get("seed"))
        label = "-".join(re.sub(r"\W", "_", str(part)) for part in parts if part is not None)
        full = f"{name}.{label}-{fingerprint(config)[:8]}"
        if not changed:
            yield f"{name}.{label}"
    else:
        full = f"{name}.unknown"
    yield full
    yield from (f"{full}-{number}" for number in itertools.count(2))


def _fits(out: Path, stem: str, provenance: Provenance, endings: list[str]) -> bool:
    """Whether files may go to a stem: it is free, or holds files of the same configuration.

    Of the latter all are replaced, or none, so that files of two runs are never mixed.
    """
    there = _files(out, stem)
    if not there:
        return True
    if not provenance or any(_run_of(other) != _run_of(provenance) for other in there.values()):
        return False
    return not set(there) & set(endings) or set(there) <= set(endings)
