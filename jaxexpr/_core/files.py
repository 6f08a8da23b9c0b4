"""Atomic file writes, and locks of folders between processes."""

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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

# Exceptions of NumPy and zipfile for files that are damaged or of another type.
DAMAGE = (
    OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, NotImplementedError,
    RuntimeError, IndexError, struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


_UNFINISHED = re.compile(r"\.([0-9a-f]{8})\.\w{8}\.unfinished")  # ends with hash of host, random


_DAY = 24 * 3600.0


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` on a temporary file, then rename that file to `path`.

    Readers see either the complete old file or the complete new one, even if the process is killed
    while writing. Unfinished versions of this file from killed processes are removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_unfinished(path.parent, path.name)
    with _temporary_folder(path) as folder:
        temporary = folder / path.name
        write(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        os.replace(temporary, path)


def save_checkpoint(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays, numbers and texts to `path`, atomically."""

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def load_checkpoint(path: Path) -> dict[str, np.ndarray]:
    """Read what ``save_checkpoint`` wrote; raise ValueError as ``reading_checkpoint`` does."""
    with (
        reading_checkpoint(path),
        open(path, "rb") as binary,
        np.load(binary, allow_pickle=False) as file,
    ):
        return dict(file)


@contextlib.contextmanager
def reading_checkpoint(path: Path) -> Iterator[None]:
    """Raise a ValueError that names `path` where its content cannot be read in the block."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be read ({error}): delete it to start anew"
        ) from error


@contextlib.contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a locked folder beside `path`, and remove it in the end."""
    prefix = f".{path.name[:100]}.{_host()}."
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".unfinished", dir=path.parent))
        lock, _ = _locked(folder, wait=True)
        if folder.is_dir():
            break
        _release(lock)  # another process cleared it before it was locked
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _release(lock)


def clear_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove unfinished writes of dead writers from a folder: of the file `name`, or of all files.

    A writer on this machine is dead if its lock is free. A writer on another machine, or on a file
    system without locks, counts as dead after a day without changes.
    """
    pattern = "" if name is None else f"{glob.escape(name[:100])}."
    for unfinished in folder.glob(f".{pattern}*.unfinished"):
        match = _UNFINISHED.search(unfinished.name)
        if match is None or not unfinished.is_dir():
            continue
        lock, free = _locked(unfinished, wait=False) if match[1] == _host() else (None, None)
        if free or (free is None and _age(unfinished) > _DAY):
            shutil.rmtree(unfinished, ignore_errors=True)
        _release(lock)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process holds this folder, and hold it inside the context.

    Does nothing on file systems without locks.
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
    """Try to lock a folder.

    The operating system releases the lock when the process ends, also if it is killed.

    Returns
    -------
    the handle to release, and whether the folder was free; ``None`` where locks do not work.
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
    """Return the seconds since something in a folder changed."""
    with contextlib.suppress(OSError):  # its writer has just ended
        return time.time() - max(x.stat().st_mtime for x in (folder, *folder.iterdir()))
    return 0.0
