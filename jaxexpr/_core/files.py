"""Files that are whole or absent, whoever is killed while writing them."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import platform
import re
import shutil
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

# What NumPy and zipfile raise on files that are damaged, or of another kind.
DAMAGE = (
    OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, NotImplementedError,
    RuntimeError, IndexError, struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


_UNFINISHED = re.compile(r"\.([0-9a-f]{8})\.\w{8}\.unfinished")  # host and chance, at the end


_DAY = 24 * 3600.0


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` on a temporary file, then put it in its place, `path`.

    Readers see the old file or the new one, whole, also if the process is killed in between. What
    killed processes left unfinished of this file is cleared.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_unfinished(path.parent, path.name)
    with _own_folder(path) as folder:
        temporary = folder / path.name
        write(temporary)
        with open(temporary, "rb") as done:
            os.fsync(done.fileno())
        temporary.chmod(0o644)
        os.replace(temporary, path)


@contextlib.contextmanager
def _own_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path`, locked while the writer lives, and removed after that."""
    kind = f".{path.name[:100]}.{_host()}."
    while True:
        folder = Path(tempfile.mkdtemp(prefix=kind, suffix=".unfinished", dir=path.parent))
        lock, _ = _locked(folder, wait=True)
        if folder.is_dir():
            break
        _release(lock)  # another run found it before it was locked, and cleared it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _release(lock)


def clear_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove what writers that are dead left in a folder: of the file `name`, or of any.

    A writer of this machine is dead if its lock is free. Of a writer on another machine, or where
    there are no locks, only the age is known: a day.
    """
    start = "" if name is None else f"{glob.escape(name[:100])}."
    for left in folder.glob(f".{start}*.unfinished"):
        found = _UNFINISHED.search(left.name)
        if found is None or not left.is_dir():
            continue
        lock, free = _locked(left, wait=False) if found[1] == _host() else (None, None)
        if free or (free is None and _age(left) > _DAY):
            shutil.rmtree(left, ignore_errors=True)
        _release(lock)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process is between these lines with the same folder.

    Does nothing where there are no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock, _ = _locked(folder, wait=True)
    try:
        yield
    finally:
        _release(lock)


def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def _locked(folder: Path, *, wait: bool) -> tuple[int | None, bool | None]:
    """Lock a folder; the open folder to release, and whether it was free, None if nobody can say.

    The system takes the lock back when the process ends, however it ends.
    """
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None, None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return handle, False
    except OSError:  # a file system without locks
        return handle, None
    except BaseException:
        os.close(handle)
        raise
    return handle, True


def _release(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _age(folder: Path) -> float:
    """Seconds since something in a folder changed."""
    with contextlib.suppress(OSError):  # its writer has just ended
        return time.time() - max(x.stat().st_mtime for x in (folder, *folder.iterdir()))
    return 0.0
