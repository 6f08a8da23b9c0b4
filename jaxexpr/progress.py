"""A progress bar for runs that take more than a moment."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self


class Bar:
    """Shows work done, rate and time left on the terminal's error stream.

    Parameters
    ----------
    total : units of work.
    title : what is being done.
    show : True or False; None shows it where the error stream is a terminal.
    delay : seconds before it appears, so that short runs stay silent.
    unit : what is counted.
    """

    def __init__(
        self,
        total: int,
        title: str,
        show: bool | None = None,
        delay: float = 1.0,
        unit: str = "networks",
    ) -> None:
        self._total, self._title, self._unit = total, title, unit
        self._show = sys.stderr.isatty() if show is None else show
        self._delay, self._began = delay, time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def update(self, done: int, note: str = "") -> None:
        """Say how many units are done."""
        if not self._show:
            return
        if self._bar is None:
            if time.monotonic() - self._began < self._delay:
                return
            self._open()
        rate = done / max(time.monotonic() - self._began, 1e-9)
        self._bar.update(self._task, completed=done, note=f"{rate:.3g} {self._unit}/s {note}")

    def _open(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[note]}"),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True, force_terminal=True if sys.stderr.isatty() else None),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(self._title, total=self._total, note="")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
