"""``python -m sims NAME --preset quick --data mnist``: the command line as a process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import types
from typing import NoReturn

STOPPED = "\nsims: stopped; the same command goes on where this run was"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from sims import command

    return command.main(arguments)


def _process() -> NoReturn:
    """End this process with the exit code of the command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
        sys.unraisablehook = _again
    try:
        code = main()
    except KeyboardInterrupt:
        _stop()
    except BrokenPipeError:  # the reader has seen enough: `| head`
        os._exit(1)
    sys.exit(code)


def _interrupted(number: int, frame: types.FrameType | None) -> None:
    """On Ctrl-C raise KeyboardInterrupt, as ever; but while a module is imported, end.

    Modules in C lose an exception in there, or crash on it. All that was done is on disk then.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _stop()
        frame = frame.f_back
    raise KeyboardInterrupt


def _again(ignored: sys.UnraisableHookArgs) -> None:
    """Raise a KeyboardInterrupt again that Python had to ignore, in a finaliser or in a collection.

    Others are reported as ever.
    """
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        main = threading.main_thread().ident
        threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(ignored)


def _stop() -> NoReturn:
    """End with 130, at once.

    Taken down in an orderly way, the interpreter crashes while jaxlib compiles in another thread.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, RuntimeError):  # closed, or in the midst of writing
        print(STOPPED, file=sys.stderr, flush=True)
        sys.stdout.flush()
    os._exit(130)


if __name__ == "__main__":
    _process()
