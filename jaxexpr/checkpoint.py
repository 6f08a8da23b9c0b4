"""Moments on disk: one small file, replaced in one step, so that a killed run loses little."""

from __future__ import annotations

import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jaxexpr.moments import Gathered, Moments

# What NumPy and zipfile raise on files that are damaged, or of another kind.
DAMAGE = (
    OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, NotImplementedError,
    RuntimeError, IndexError, struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


def write_atomically(path: Path, write: Callable[[Path], Any]) -> None:
    """Call ``write`` on a temporary file beside `path`, then put it in its place.

    Readers see the old file or the new one, whole, also if the process is killed in between.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with open(temporary, "rb") as done:
            os.fsync(done.fileno())
        temporary.chmod(0o644)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def save_gathered(path: Path, gathered: dict[str, Gathered]) -> None:
    """Write the moments of all probes to `path`."""
    arrays: dict[str, Any] = {"names": np.array(list(gathered))}
    for i, item in enumerate(gathered.values()):
        arrays[f"{i}.draws"], arrays[f"{i}.fingerprint"] = item.draws, item.fingerprint
        arrays[f"{i}.left_out"], arrays[f"{i}.failed"] = item.left_out, item.failed
        for part in ("moments", "coarser"):
            for field, array in getattr(item, part)._asdict().items():
                arrays[f"{i}.{part}.{field}"] = array

    def write(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            np.savez(file, **arrays)

    write_atomically(path, write)


def load_gathered(path: Path, fingerprint: str) -> dict[str, Gathered]:
    """Read the moments back.

    Raises ValueError naming the file if it is damaged or belongs to another estimate.
    """
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = dict(file)
        gathered = {}
        for i, name in enumerate(arrays["names"].tolist()):
            parts = [
                Moments(*(arrays[f"{i}.{part}.{field}"] for field in Moments._fields))
                for part in ("moments", "coarser")
            ]
            gathered[name] = Gathered(
                parts[0],
                parts[1],
                arrays[f"{i}.left_out"],
                arrays[f"{i}.failed"],
                int(arrays[f"{i}.draws"]),
                str(arrays[f"{i}.fingerprint"]),
            )
    except DAMAGE as error:
        raise ValueError(
            f"checkpoint={str(path)!r} cannot be read ({error}): delete it to start anew"
        ) from error
    if any(item.fingerprint != fingerprint for item in gathered.values()):
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to another net, curve, key, method or points: "
            "give another path, or delete it"
        )
    return gathered
