"""Options of a run over many networks: the same for everything that measures many of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypedDict

from jaxexpr._core import checks
from jaxexpr._core.progress import Progress
from jaxexpr.ensemble.devices import default_memory
from jaxexpr.ensemble.statistics import Estimate

MAX_POINTS = 2**17


class RunOptions(TypedDict, total=False):
    """Options of a run over many networks; all but `target` and `refine` leave numbers as they are.

    Attributes
    ----------
    target : stop as soon as every relative standard error is at most this. Looked at after 64
        networks and after every quarter more (or after every `chunk`), so that the number drawn
        does not depend on the machine.
    refine : double the points, from `points` or the default on, until no layer's mean moves by more
        than this share of itself at fewer of them (``discretisation``); looked at in the first 16
        networks. Where that takes more than `max_points` the estimates say so, layer by layer
        (``converged``).
    max_points : the most points that `refine` may take; 2**17 by default.
    extend : estimates of the same net, curve, key, probes and points: their networks are not drawn
        again.
    checkpoint : a file that is kept up to date, and continued from if it exists already; one that
        holds more than `draws` networks is returned with all of them. Not together with `extend`.
    chunk : most networks between two updates of the progress bar.
    batch : networks computed side by side; default 1 on CPU unless they are small, and what
        `memory` allows elsewhere. Changes no number beyond rounding.
    memory : bytes for what is in flight: networks side by side are as many as fit, and a curve is
        cut where its exact pieces do not; points of a grid, and tangents, of one network are never
        cut. Default 1 GiB on CPU, half the device's memory elsewhere.
    progress : None shows a bar where the error stream is a terminal, and in a notebook; True
        writes lines to it where it is neither, one every ten seconds and one at the end; False
        shows nothing. A function is called with (networks done, in all, seconds since the call
        began), at most ten times a second and at the end. A run that will take more than an hour
        says so, unless with False.
    title : what the progress bar calls the networks.
    """

    target: float | None
    refine: float | None
    max_points: int | None
    extend: Mapping[str, Estimate] | None
    checkpoint: str | os.PathLike[str] | None
    chunk: int | None
    batch: int | None
    memory: float | None
    progress: Progress
    title: str


class Settings(NamedTuple):
    """The options of a run, checked, with the defaults of those not given."""

    memory: float
    batch: int | None
    target: float | None = None
    refine: float | None = None
    max_points: int = MAX_POINTS
    extend: Mapping[str, Estimate] = MappingProxyType({})
    checkpoint: Path | None = None
    chunk: int | None = None
    title: str = "networks"


def settings(options: RunOptions) -> Settings:
    """Check the options of a run.

    Raises
    ------
    TypeError
        for an option that does not exist.
    ValueError
        naming the option.
    """
    unknown = [name for name in options if name not in RunOptions.__annotations__]
    if unknown:
        raise TypeError(f"{unknown[0]} is not an option of a run")
    target, refine = options.get("target"), options.get("refine")
    max_points, memory = options.get("max_points"), options.get("memory")
    chunk, batch = options.get("chunk"), options.get("batch")
    extend, checkpoint = options.get("extend"), options.get("checkpoint")
    if max_points is not None and refine is None:
        raise ValueError(f"max_points={max_points} without refine: say refine=0.01, for instance")
    path = None if checkpoint is None else checks.path("checkpoint", checkpoint)
    if path is not None and extend:
        raise ValueError(
            f"checkpoint={str(path)!r} and extend are two places to go on from: give one of them"
        )
    whole = extend is None or isinstance(extend, Mapping)
    if not whole or not all(isinstance(e, Estimate) for e in (extend or {}).values()):
        raise ValueError(f"extend={checks.shown(extend)}: give what estimate returned")
    return Settings(
        target=None if target is None else checks.positive("target", target),
        refine=None if refine is None else checks.positive("refine", refine),
        max_points=MAX_POINTS if max_points is None else checks.integer("max_points", max_points),
        extend=extend or {},
        checkpoint=path,
        chunk=None if chunk is None else checks.integer("chunk", chunk),
        batch=None if batch is None else checks.integer("batch", batch),
        memory=default_memory() if memory is None else checks.positive("memory", memory),
        title=options.get("title", "networks"),
    )
