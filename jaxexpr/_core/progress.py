"""Progress of long computations: a bar, lines in a log, or calls of a user's function."""

from __future__ import annotations

import abc
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from jaxexpr._core import checks

Progress: TypeAlias = bool | Callable[[int, int, float], object] | None

LINE_SECONDS = 10.0  # between two lines of a log
SHOW_SECONDS = 0.1  # between two calls, or two changes of a bar
WIDTH = 24  # characters of a bar in a notebook


class Now(NamedTuple):
    """State of a progress bar.

    Attributes
    ----------
    done, total : number of items done, and of all items.
    seconds : time since the start.
    text : the line to display.
    """

    done: int
    total: int
    seconds: float
    text: str


class Bar:
    """Shows the progress of a computation.

    Parameters
    ----------
    total : number of counted items.
    title : name of the computation.
    progress : ``None`` shows a bar in a notebook, and if the error stream is a terminal. True also
        writes lines to the error stream elsewhere. False shows nothing. A function is called with
        the number of items done, their total and the seconds since the start, at intervals and at
        the end.
    delay : seconds before a bar appears, so that short runs show none.
    unit : name of the counted items, in the plural.
    even : whether items take about the same time, so that a rate and the remaining time can be
        estimated.

    Raises
    ------
    ValueError
        for any other `progress`.
    """

    def __init__(
        self,
        total: int,
        title: str,
        progress: Progress = None,
        *,
        delay: float = 1.0,
        unit: str = "networks",
        even: bool = True,
    ) -> None:
        self._total, self._title, self._unit, self._even = total, title, unit, even
        self._view = _view(progress)
        self._silent = progress is not None and self._view is None
        self._done = self._done_before = 0
        self._note, self._began = "", time.monotonic()
        self._first: tuple[float, int] | None = None  # time and items done at the first update
        self._next = self._began + max(
            delay if isinstance(self._view, _SingleBar) else 0, self._interval
        )

    @property
    def _interval(self) -> float:
        return 0.0 if self._view is None else self._view.interval

    def __enter__(self) -> Self:
        return self

    def resumed(self, done: int, total: int) -> None:
        """Set how many items were done in an earlier run; they do not count for the rate."""
        self._done = self._done_before = done
        self._total = total

    def update(self, done: int, note: str = "") -> None:
        """Set how many items are done."""
        self._done, self._note = done, note
        if self._view is None:
            return
        now = time.monotonic()
        self._first = self._first or (now, done)
        if now >= self._next:
            self._next = now + self._interval
            self._view.show(self._now(now))

    def say(self, text: str) -> None:
        """Write a line to the error stream, unless `progress` is False."""
        if self._silent:
            return
        if isinstance(self._view, _Terminal):
            self._view.say(text)
        else:
            _write(text)

    def _now(self, now: float, end: str = "") -> Now:
        seconds, new = now - self._began, self._done - self._done_before
        parts = [f"{self._done}/{self._total}" + ("" if self._even else f" {self._unit}")]
        time_text = f"{_clock(seconds)}{end}"
        if self._even and end and new > 0:
            parts.append(f"{new / max(seconds, 1e-9):.3g} {self._unit}/s")
        elif self._even and self._first is not None:
            # Time before the first update is mostly compilation: no part of the rate.
            spent, new = now - self._first[0], self._done - self._first[1]
            if spent > 0 and new > 0:
                parts.append(f"{new / spent:.3g} {self._unit}/s")
                time_text = f"{_clock((self._total - self._done) * spent / new)} left"
        parts.append(time_text)
        if self._note:
            parts.append(self._note)
        return Now(self._done, self._total, seconds, f"{self._title}: {', '.join(parts)}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._view is not None:
            end = " in all" if kind is None else ", stopped"
            self._view.end(self._now(time.monotonic(), end), kind is None)


class _View(Protocol):
    """Where progress is shown, with at least `interval` seconds between updates."""

    interval: float

    def show(self, now: Now) -> None: ...

    def end(self, now: Now, whole: bool) -> None: ...


def _view(progress: object) -> _View | None:
    if callable(progress):
        return _Calls(progress)
    if not isinstance(progress, bool | np.bool_ | None):
        raise ValueError(
            f"progress={checks.shown(progress)}: give True, False, None or a function of "
            "(done, total, seconds)"
        )
    if progress is not None and not progress:
        return None
    if in_notebook():
        return _Notebook()
    if sys.stderr is not None and sys.stderr.isatty():
        return _Terminal()
    return _Log() if progress else None


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook (Jupyter, VS Code, Colab)."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)


def _write(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


class _Calls:
    """Calls of a user's function."""

    interval = SHOW_SECONDS

    def __init__(self, function: Callable[[int, int, float], object]) -> None:
        self._function = function

    def show(self, now: Now) -> None:
        self._function(now.done, now.total, now.seconds)

    def end(self, now: Now, whole: bool) -> None:
        if whole:
            self.show(now)


class _Log:
    """Lines on the error stream."""

    interval = LINE_SECONDS

    def show(self, now: Now) -> None:
        _write(now.text)

    def end(self, now: Now, whole: bool) -> None:
        _write(now.text)


class _SingleBar(abc.ABC):
    """A bar where only one can be shown at a time: nested computations show none."""

    interval = SHOW_SECONDS
    _owner: ClassVar[_SingleBar | None] = None

    def show(self, now: Now) -> None:
        if _SingleBar._owner is None:
            _SingleBar._owner = self
        if _SingleBar._owner is self:
            self._draw(now)

    def end(self, now: Now, whole: bool) -> None:
        if _SingleBar._owner is self:
            _SingleBar._owner = None
            self._close(now)

    @abc.abstractmethod
    def _draw(self, now: Now) -> None: ...

    @abc.abstractmethod
    def _close(self, now: Now) -> None: ...


class _Terminal(_SingleBar):
    """A line that is redrawn, and disappears at the end."""

    _bar: Any = None
    _task: Any = None

    def _draw(self, now: Now) -> None:
        if self._bar is None:
            self._open()
        self._bar.update(self._task, completed=now.done, total=now.total, description=now.text)

    def _open(self) -> None:
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.BarColumn(),
            progress.TextColumn("{task.description}", markup=False),
            console=Console(stderr=True, force_terminal=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("")

    def say(self, text: str) -> None:
        if self._bar is None:
            _write(text)
        else:
            self._bar.console.print(text, markup=False, highlight=False)

    def _close(self, now: Now) -> None:
        self._bar.stop()


class _Notebook(_SingleBar):
    """A line in the output of a notebook cell, without widgets; the final time stays there."""

    _handle: Any = None

    def _draw(self, now: Now) -> None:
        full = round(WIDTH * now.done / max(now.total, 1))
        self._put("█" * full + "░" * (WIDTH - full) + " " + now.text)

    def _put(self, text: str) -> None:
        from IPython.display import display

        content = {"text/plain": text}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def _close(self, now: Now) -> None:
        self._put(now.text)
