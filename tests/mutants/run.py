"""Do the tests notice? Faults put into the package one at a time, each judged by the tests.

A fault is one entry of a list ``tests/mutants/NAME.toml``:

    [[fault]]
    file = "jaxexpr/theory/regions.py"
    old = "text that occurs exactly once in the file"
    new = "the faulty text"
    reason = "only where no test can notice it: why it changes nothing that can be observed"

``tests.toml`` says which tests concern which module. Every fault is made in a copy of the
checkout; the first test that fails ends it. ``make mutants`` runs each fourth of them, ``make
mutants-all`` all, ``python tests/mutants/run.py theory growth.py`` those of a list or of the files
whose names hold a word.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TESTS = "tests.toml"  # module -> tests; every other .toml is a list of faults
SHARE = 0.95  # of the faults without a reason, at least so many must be noticed
COPIED = ("jaxexpr", "sims", "tests", "benchmarks", "docs", "figures")
BESIDE = ("pyproject.toml", "README.md", "CHANGELOG.md", "mkdocs.yml", "Makefile", "LICENSE")


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault, with the list and the number by which messages name it."""

    name: str
    file: str
    old: str
    new: str
    reason: str = ""

    def made_in(self, text: str) -> str:
        """Return the text of the file with the fault in it."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.name}: old occurs {found} times in {self.file}, not once")
        return text.replace(self.old, self.new)

    def __str__(self) -> str:
        change = " ".join(f"{self.old!r} -> {self.new!r}".split())
        return f"{self.name} {self.file}: {change if len(change) < 90 else change[:87] + '...'}"


def faults() -> list[Fault]:
    """Return the faults of all lists, in their order."""
    found = []
    for path in sorted(HERE.glob("*.toml")):
        if path.name != TESTS:
            entries = tomllib.loads(path.read_text())["fault"]
            found += [Fault(f"{path.stem}:{i}", **entry) for i, entry in enumerate(entries, 1)]
    return found


def chosen(words: Iterable[str]) -> list[Fault]:
    """Faults whose list or name is one of `words`, or whose file holds one; all without words."""
    words = list(words)
    return [
        fault
        for fault in faults()
        if not words
        or any(w in (fault.name, fault.name.split(":")[0]) or w in fault.file for w in words)
    ]


def tests_of() -> dict[str, list[str]]:
    """Return the tests of every module, as pytest takes them."""
    found: dict[str, list[str]] = tomllib.loads((HERE / TESTS).read_text())
    return found


def copied(folder: Path) -> None:
    """Copy what the tests read of the checkout."""
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__", "results", "node_modules")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in BESIDE:
        shutil.copy2(ROOT / name, folder / name)


def tested(folder: Path, tests: list[str], seconds: float, *more: str) -> tuple[int | None, str]:
    """Run tests in a copy: pytest's exit code, None where time ran out, and what it printed."""
    cache = os.environ.get("JAXEXPR_TEST_CACHE") or str(ROOT / ".cache" / "tests")
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "JAXEXPR_TEST_CACHE": cache,
        "MPLBACKEND": "agg",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / ".hypothesis"),
    }
    command = [sys.executable, *("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"), *more]
    with subprocess.Popen(
        [*command, *tests],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            printed, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            return None, ""
    return running.returncode, printed


def judged(fault: Fault, number: int, folder: Path, limit: float) -> dict[str, Any]:
    """Put one fault into a copy, run the tests of its module, take it out again."""
    path = folder / fault.file
    text = path.read_text()
    began = time.perf_counter()
    try:
        path.write_text(fault.made_in(text))
        # Compiled Python is taken for a source of the same second and size: no two have the same.
        os.utime(path, (number, number))
        code, printed = tested(folder, tests_of()[fault.file], limit)
    finally:
        path.write_text(text)
        os.utime(path, (0, 0))
        shutil.rmtree(folder / ".hypothesis", ignore_errors=True)
    if code not in (None, 0, 1, 2):  # 2: the tests cannot be collected, the fault prevents it
        raise RuntimeError(f"{fault}: pytest ended with {code}\n{printed}")
    failed = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return {
        "fault": str(fault),
        "noticed": code != 0,
        "by": "time"
        if code is None
        else (failed[0].split(" - ")[0].split(" ", 1)[1] if failed else ""),
        "seconds": round(time.perf_counter() - began, 1),
        "reason": fault.reason,
    }


def sound(folder: Path, results: list[dict[str, Any]]) -> tuple[int | None, str]:
    """Run the tests that noticed something, without any fault: they must pass."""
    needed = dict.fromkeys(r["by"] for r in results if "::" in r["by"])
    return tested(folder, list(needed), 3600.0) if needed else (0, "")


def main() -> int:
    parser = argparse.ArgumentParser(description="Do the tests notice faults put in on purpose?")
    parser.add_argument("words", nargs="*", help="lists, single faults (NAME:3), parts of paths")
    parser.add_argument("--every", type=int, default=1, help="take one in so many of them")
    parser.add_argument("--jobs", type=int, default=2, help="faults at a time")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a fault may take")
    parser.add_argument("--json", type=Path, help="where to write the results")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves no copies behind
    todo = chosen(given.words)[:: given.every]
    if not todo:
        parser.error(f"{given.words} names no fault")
    for fault in todo:
        fault.made_in((ROOT / fault.file).read_text())
    began = time.perf_counter()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="jaxexpr-mutants-") as place:
        folders: queue.Queue[Path] = queue.Queue()
        for i in range(given.jobs):
            copied(Path(place) / str(i))
            folders.put(Path(place) / str(i))

        def one(numbered: tuple[int, Fault]) -> dict[str, Any]:
            folder = folders.get()
            try:
                return judged(numbered[1], numbered[0], folder, given.limit)
            finally:
                folders.put(folder)

        pool = concurrent.futures.ThreadPoolExecutor(given.jobs)
        try:
            for found in pool.map(one, enumerate(todo, 1)):
                results.append(found)
                word = "noticed " if found["noticed"] else "SURVIVED"
                print(f"{word} {found['seconds']:6.1f} s  {found['fault']}", flush=True)
        finally:  # after Ctrl-C the faults at work come to their end, no other begins
            pool.shutdown(cancel_futures=True)
        code, printed = sound(Path(place) / "0", results)
        if code != 0:
            print(printed)
            print("Tests that noticed a fault fail without it as well: fix them first.")
            return 2
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")
    return summed(results, time.perf_counter() - began)


def summed(results: list[dict[str, Any]], seconds: float) -> int:
    """Print the summary and return the exit code."""
    judged_ones = [r for r in results if not r["reason"]]
    noticed = sum(r["noticed"] for r in judged_ones)
    survivors = [r["fault"] for r in judged_ones if not r["noticed"]]
    share = noticed / max(len(judged_ones), 1)
    listed = "".join(f"\n  {name}" for name in survivors) or " none"
    print(
        f"{noticed} of {len(judged_ones)} noticed ({share:.1%}) in {seconds / 60:.0f} minutes; "
        f"survivors:{listed}"
    )
    for found in results:
        if found["reason"] and found["noticed"]:
            print(f"noticed, though a reason is given why it cannot be: {found['fault']}")
    return int(share < SHARE)


if __name__ == "__main__":
    sys.exit(main())
