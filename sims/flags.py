"""Configurations from flags: each has an effect, or is refused."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, get_args, get_type_hints

from sims import stored
from sims.catalogue import CATALOGUE


class Refused(ValueError):
    """Arguments that cannot be followed; the message is all that the user sees."""


def parsed(name: str, config: Any, flags: list[str]) -> Any:
    """Change fields of a configuration as flags say."""
    if not flags:
        return config
    import tyro

    return tyro.cli(type(config), args=flags, default=config, prog=f"python -m sims {name}")


def asked_for(names: list[str], options: argparse.Namespace, rest: list[str]) -> dict[str, Any]:
    """Return what is to be run; a flag without any effect is refused, and some effect is told."""
    many = names == ["all"] or len(names) > 1
    names = list(CATALOGUE) if names == ["all"] else names
    presets = {name: CATALOGUE[name].config(options.preset or "quick") for name in names}
    if options.redraw:
        for name in names:
            _redrawable(name, options, rest)
        return presets
    configs = {}
    flags = _groups(rest) if many else []
    without: dict[str, list[str]] = {flag[0]: [] for flag in flags}
    if options.data:
        without["--data"] = []
    for name, config in presets.items():
        data = getattr(config, "data", None)
        fits = options.data and options.data in _choices(config)
        if data not in (None, "random") and options.data and not fits and not many:
            choices = ", ".join(_choices(config))
            raise Refused(f"--data {options.data}: {name} needs images, choose one of {choices}")
        if options.data and (not fits or (data == "random" and options.data != data)):
            without["--data"].append(name)
        elif options.data:
            config = dataclasses.replace(config, data=options.data)
        mine = [] if many else rest
        for group in flags:
            if _field(group[0], config):
                mine = mine + group
            else:
                without[group[0]].append(name)
        configs[name] = parsed(name, config, mine)
    for flag, left in without.items():
        value = f" {options.data}" if flag == "--data" else ""
        if len(left) == len(names):
            what = "which has no data of a data set" if value else "which has no such field"
            what = what if len(names) == 1 else "none of them has such a field"
            raise Refused(f"{flag}{value} has no effect on {', '.join(left)}, {what}: leave it out")
        if left:
            print(f"{flag}{value} has no effect on {', '.join(left)}")
    return configs


def _choices(config: Any) -> tuple[str, ...]:
    """The data that a configuration takes, if any."""
    return get_args(get_type_hints(type(config)).get("data"))


def _groups(rest: list[str]) -> list[list[str]]:
    """Split the flags of simulations: each with its values."""
    groups: list[list[str]] = []
    for text in rest:
        if text.startswith("--") or not groups:
            flag, equals, value = text.partition("=")
            groups.append([flag, *([value] if equals else [])])
        else:
            groups[-1].append(text)
    return groups


def _field(flag: str, config: Any) -> bool:
    """Whether a flag is that of a field."""
    name = flag.removeprefix("--").replace("-", "_")
    fields = {field.name for field in dataclasses.fields(config)}
    return name in fields or name.removeprefix("no_") in fields


def _redrawable(name: str, options: argparse.Namespace, rest: list[str]) -> None:
    """Refuse flags that say something else than the stored result, which is what is drawn."""
    path = stored.file(options.out, name, ".nc")
    provenance = stored.read_provenance(path)
    if not provenance or not (options.preset or options.data or rest):
        return
    drawn = f"{path} ({stored.described(provenance)})"
    stays = f"has no effect with --redraw, which draws {drawn}: leave it out"
    if options.preset not in (None, str(provenance["preset"]).partition(",")[0]):
        raise Refused(f"--preset {options.preset} {stays}")
    if options.data not in (None, provenance["config"].get("data")):
        raise Refused(f"--data {options.data} {stays}")
    if rest:
        try:
            config = CATALOGUE[name].stored_config(provenance["config"])
        except ValueError:  # a version with other fields
            raise Refused(f"{' '.join(rest)} {stays}") from None
        if parsed(name, config, rest) != config:
            raise Refused(f"{' '.join(rest)} {stays}")
