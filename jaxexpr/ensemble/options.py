"""Options of a run over many networks, the same for all functions that run a task."""

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
    """Options of a run; only `target` (with `chunk`) and `refine` affect numbers beyond rounding.

    Attributes
    ----------
    target : stop when every relative standard error is at most this. Checked at 64 networks and
        then each time their number has grown by a quarter, at least by 64 (with `chunk`: at every
        multiple of it), so that the number drawn does not depend on the machine.
    refine : double the number of points, starting from `points` or the default, until every layer's
        mean at fewer points differs by at most this fraction of it (``discretisation``); checked on
        the first 16 networks. If that requires more than `max_points`, the refinement stops, and
        the estimate's ``converged`` is False for the layers concerned.
    max_points : largest number of points that `refine` may use; 2**17 by default.
    extend : estimates of the same net, curve, key, probes and points, whose networks are not drawn
        again.
    checkpoint : file that is updated during the run; if it exists, the run continues from it. If it
        holds more than `draws` networks, all of them are returned. Not together with `extend`.
    chunk : largest number of networks between two updates of the progress bar.
    batch : networks computed at once; by default 1 on CPU unless they are small, and elsewhere as
        many as `memory` allows. Changes no number beyond rounding.
    memory : bytes of device memory to use: a batch has as many networks as fit, and a curve whose
        exact pieces do not fit is split; the grid points or tangents of one network are never
        split. Default 1 GiB on CPU, half of the device's memory elsewhere.
    progress : None shows a bar if the error stream is a terminal, and in a notebook. True writes
        lines if it is neither, one every ten seconds and one at the end. False shows nothing. A
        function is called with (networks done, networks in all, seconds since the call began), at
        most ten times a second and at the end. Unless it is False, a run that will take more than
        an hour is announced.
    title : name of the networks in the progress bar.
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
    """The options of a run, checked and with defaults filled in."""

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
        if an option does not exist.
    ValueError
        if the value of an option is invalid; the message names the option.
    """
    unknown = [name for name in options if name not in RunOptions.__annotations__]
    if unknown:
        raise TypeError(f"{unknown[0]} is not an option of a run")
    target, refine = options.get("target"), options.get("refine")
    max_points, memory = options.get("max_points"), options.get("memory")
    chunk, batch = options.get("chunk"), options.get("batch")
    extend, checkpoint = options.get("extend"), options.get("checkpoint")
    if max_points is not None and refine is None:
        raise ValueError(f"max_points={max_points} without refine: give refine=0.01, for instance")
    path = None if checkpoint is None else checks.path("checkpoint", checkpoint)
    if path is not None and extend:
        raise ValueError(
            f"checkpoint={str(path)!r} and extend both give networks to continue "
            "from: give one of them"
        )
    is_mapping = extend is None or isinstance(extend, Mapping)
    if not is_mapping or not all(isinstance(e, Estimate) for e in (extend or {}).values()):
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
