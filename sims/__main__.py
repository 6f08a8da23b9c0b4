"""Command line: ``python -m sims NAME --preset quick --data mnist``."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import os
import sys
from pathlib import Path
from typing import Any, get_args

from sims.presets import CATALOGUE, PRESETS, Data

_EPILOG = """\
Every field of a simulation's configuration is a flag as well: python -m sims NAME --help.
Results are kept in the output folder; a run that was killed goes on where it was.
The exit code is 1 if a proven statement fails beyond its error, 2 for wrong arguments.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sims",
        description="Run simulations: figures of the papers, with checks of what they claim.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("name", help="name of a simulation, 'all', or 'list'")
    parser.add_argument("--preset", choices=PRESETS, default="quick", help="size of the run")
    parser.add_argument("--data", choices=get_args(Data), help="data set of the end points")
    parser.add_argument("--out", type=Path, default=Path("results"), help="output folder")
    parser.add_argument("--redraw", action="store_true", help="draw again from the stored result")
    parser.add_argument("--no-cache", action="store_true", help="keep no compiled code on disk")
    return parser


def _catalogue() -> str:
    return "\n".join(f"{name:26} {entry.title}" for name, entry in CATALOGUE.items())


def _config(name: str, options: argparse.Namespace, rest: list[str]) -> Any:
    config = CATALOGUE[name].presets[options.preset]
    fixed = getattr(config, "data", None)
    if options.data and fixed not in (None, "random"):
        config = dataclasses.replace(config, data=options.data)
    if not rest:
        return config
    import tyro

    return tyro.cli(type(config), args=rest, default=config, prog=f"python -m sims {name}")


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


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    asked = [a for a in arguments if a in ("-h", "--help")]
    if not arguments or (asked and arguments[0] not in CATALOGUE):
        parser.print_help()
        print("\nsimulations:\n" + _catalogue())
        return 0
    options, rest = parser.parse_known_args([a for a in arguments if a not in asked])
    if options.name == "list":
        print(_catalogue())
        return 0
    names = list(CATALOGUE) if options.name == "all" else [options.name]
    if names[0] not in CATALOGUE:
        near = difflib.get_close_matches(options.name, CATALOGUE, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]}?" if near else ""
        print(f"sims: no simulation {options.name!r}{hint} (python -m sims list)", file=sys.stderr)
        return 2
    if asked:
        parser.print_help()
        print(f"\nconfiguration of {names[0]}, preset {options.preset}:", flush=True)
        rest = ["--help"]
    if len(names) > 1 and rest:
        print(f"sims: 'all' takes no flags of one simulation, and got {rest}", file=sys.stderr)
        return 2
    configs = {name: _config(name, options, rest) for name in names}
    return _run(configs, options)


def _run(configs: dict[str, Any], options: argparse.Namespace) -> int:
    os.environ.setdefault("MPLBACKEND", "agg")
    if not options.no_cache:
        _keep_compiled_code()
    from sims.run import run

    failed = []
    try:
        for name, config in configs.items():
            if not run(name, config, preset=options.preset, out=options.out, redraw=options.redraw):
                failed.append(name)
    except (ValueError, FileNotFoundError, ConnectionError) as error:
        print(f"sims: {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nsims: stopped; the same command goes on where this run was", file=sys.stderr)
        return 130
    if failed:
        print(f"FAILED: a proven statement does not hold in {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
