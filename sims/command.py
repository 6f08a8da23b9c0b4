"""The command line: what is asked, what is done already, what came out."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from pathlib import Path
from typing import Any, get_args

from sims import stored
from sims.catalogue import CATALOGUE, PRESETS
from sims.config import DataOrRandom
from sims.flags import Refused, asked_for, parsed

_USAGE = "python -m sims NAME [NAME ...] [flags], or 'all', or 'list'"
_EPILOG = """\
Every field of a simulation's configuration is a flag as well: python -m sims NAME --help.
Results are kept in the output folder; a run that was killed goes on where it was, and one that is
finished is shown, not repeated. The exit code is 1 if a proven statement fails beyond its error,
2 for wrong arguments.
"""
_FIGURES = Path(__file__).parents[1] / "figures"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sims",
        usage=_USAGE,
        description="Run simulations: figures of the papers, with checks of what they claim.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--preset", choices=PRESETS, help="size of the run (default: quick)")
    parser.add_argument("--data", choices=get_args(DataOrRandom), help="data set of the end points")
    parser.add_argument("--out", type=Path, help="output folder (default: results)")
    parser.add_argument("--redraw", action="store_true", help="draw again from the stored result")
    parser.add_argument("--again", action="store_true", help="repeat a run that is finished")
    parser.add_argument("--no-cache", action="store_true", help="keep no compiled code on disk")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    os.environ.setdefault("MPLBACKEND", "agg")
    stored.code(*stored.CODE)  # of now, before anything that makes a result is imported
    asked = [a for a in arguments if a in ("-h", "--help")]
    given = [a for a in arguments if a not in asked]
    options, rest = parser.parse_known_args(given)
    try:
        names, rest = _names(rest)
        if not names or (asked and names[0] in ("all", "list")):
            if not names and not asked and given:
                raise Refused(f"no simulation named in {given}: give a NAME, 'all' or 'list'")
            parser.print_help()
            print("\nsimulations:\n" + _catalogue())
            return 0
        if names == ["list"]:
            if len(given) > 1:
                raise Refused(f"{given[1:]} have no effect on 'list': leave them out")
            print(_catalogue())
            return 0
        if asked:
            return _help(parser, names, options.preset or "quick")
        if options.redraw and options.again:
            raise Refused("--again has no effect with --redraw: give one of them")
        options.out = options.out or Path("results")
        configs = asked_for(names, options, rest)
    except Refused as error:
        print(f"sims: {error}", file=sys.stderr)
        return 2
    return _run(configs, options)


def _names(rest: list[str]) -> tuple[list[str], list[str]]:
    """Split what is left of the arguments into names, ``all`` spelt out, and flags."""
    first = next((i for i, text in enumerate(rest) if text.startswith("-")), len(rest))
    names = rest[:first] + [text for text in rest[first:] if text in CATALOGUE]
    flags = [text for text in rest[first:] if text not in CATALOGUE]
    for name in names:
        if name in ("all", "list"):
            if len(names) > 1:
                raise Refused(f"{name!r} stands alone: got {names}")
        elif name not in CATALOGUE:
            near = difflib.get_close_matches(name, CATALOGUE, n=1, cutoff=0.3)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise Refused(f"no simulation {name!r}{hint} (python -m sims list)")
    return list(dict.fromkeys(names)), flags


def _help(parser: argparse.ArgumentParser, names: list[str], preset: str) -> int:
    parser.print_help()
    for name in names:
        print(f"\nconfiguration of {name}, preset {preset}:", flush=True)
        try:
            parsed(name, CATALOGUE[name].config(preset), ["--help"])
        except SystemExit as stop:
            if stop.code:
                raise
    return 0


def _catalogue() -> str:
    """The simulations, and how long the runs of the committed figures took."""
    took: dict[tuple[str, str], str] = {}
    for path in (*_FIGURES.glob("*.json"), *_FIGURES.glob("cpu/*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        took[path.stem, found["preset"]] = _span(found["seconds"])
    lines = [f"{'':26} {'quick':>6} {'cpu':>6}   (how long the figures of this checkout took)"]
    for name, entry in CATALOGUE.items():
        quick = took.get((name, "quick"), "-")
        same = entry.preset("cpu") == entry.preset("quick")
        cpu = took.get((name, "cpu"), quick if same else "-")
        lines.append(f"{name:26} {quick:>6} {cpu:>6}   {entry.title}")
    return "\n".join(lines)


def _span(seconds: float) -> str:
    if seconds < 1:
        return "< 1 s"
    for most, unit, size in ((100, "s", 1), (6000, "min", 60)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 3600:.1f} h"


def _run(configs: dict[str, Any], options: argparse.Namespace) -> int:
    """Run one after the other: one that cannot be run does not keep the others from it."""
    outcomes: dict[str, stored.Outcome | None] = {}
    try:
        for name, config in configs.items():
            try:
                outcomes[name] = _one(name, config, options)
            except (ValueError, FileNotFoundError, ConnectionError) as error:
                print(f"sims: {name}: {error}", file=sys.stderr)
                outcomes[name] = None
    finally:  # also of Ctrl-C
        _table(configs, outcomes)
    failed = [name for name, found in outcomes.items() if found is not None and found.fails]
    if failed:
        print(f"FAILED: a proven statement does not hold in {', '.join(failed)}", file=sys.stderr)
        return 1
    return 2 if None in outcomes.values() else 0


def _one(name: str, config: Any, options: argparse.Namespace) -> stored.Outcome:
    """Show what is finished, or run."""
    out, redraw = options.out, options.redraw
    print(f"{name}: {CATALOGUE[name].title}", flush=True)
    if not (redraw or options.again):
        wanted = stored.configuration(config)
        kept = stored.find(out, name, wanted)
        if kept.why:
            print(f"  repeated, since {kept.why}", flush=True)
        if kept.stem is not None:
            if kept.stem != name:
                from jaxexpr._core.files import alone_in

                with alone_in(out):
                    for line in stored.bring_back(out, name, kept.stem, wanted):
                        print(f"  {line}")
            made = stored.read_provenance(stored.file(out, name, ".nc"))
            when = f"{stored.described(made)}; {made['seconds']:.0f} s, {made.get('created')}"
            print(f"  finished before: {when} (--again repeats it)")
            if kept.whole:
                return stored.report(out, name, "finished before")
            redraw = True  # it was stopped before its figure was drawn
    if not options.no_cache:
        _keep_compiled_code()
    from sims.running import run

    return run(
        name,
        config,
        preset=options.preset or "quick",
        out=out,
        redraw=redraw,
        again=options.again,
    )


def _table(configs: dict[str, Any], outcomes: dict[str, stored.Outcome | None]) -> None:
    """Print what came out, if more than one was asked for."""
    if len(configs) < 2:
        return
    columns = ("seconds", "holds", "FAILS", "seen", "unresolved", "NOT SEEN")
    print("\n" + " ".join((f"{'':26}", *columns)))
    for name in configs:
        if name not in outcomes:
            print(f"{name:26} not finished")
            continue
        found = outcomes[name]
        if found is None:
            print(f"{name:26} could not be run: see above")
            continue
        cells = (f"{found.seconds:.1f}", *map(str, found[2:]))
        row = " ".join(f"{cell:>{len(head)}}" for head, cell in zip(columns, cells, strict=True))
        print(f"{name:26} {row}{'' if found.how == 'run' else f'  {found.how}'}")
    sys.stdout.flush()


def _keep_compiled_code() -> None:
    """Keep compiled code in the user's cache, apart by version and machine."""
    import platform

    import jax
    import jaxlib
    import pooch

    kind = f"jaxlib-{jaxlib.__version__}-{platform.machine()}-{_cpu()}"
    folder = Path(pooch.os_cache("jaxexpr")) / "compiled" / kind
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _cpu() -> str:
    import hashlib

    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        flags = ""
    return hashlib.sha256(flags.encode()).hexdigest()[:8]
