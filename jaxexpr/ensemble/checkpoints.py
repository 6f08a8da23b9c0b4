"""Checkpoints: one small file of moments, replaced atomically; a killed run loses little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxexpr._core.files import load_checkpoint, reading_checkpoint, save_checkpoint
from jaxexpr._core.fingerprint import fingerprint as fingerprint_of
from jaxexpr._core.shapes import Array, Key
from jaxexpr.curves import Curve
from jaxexpr.ensemble.statistics import Accumulator, Moments
from jaxexpr.ensemble.tasks import Task
from jaxexpr.networks import Network


def save_accumulators(path: Path, accumulators: dict[str, Accumulator]) -> None:
    """Write the moments of all probes to `path`."""
    arrays: dict[str, Any] = {"names": np.array(list(accumulators))}
    for i, item in enumerate(accumulators.values()):
        arrays[f"{i}.draws"], arrays[f"{i}.fingerprint"] = item.draws, item.fingerprint
        arrays[f"{i}.left_out"], arrays[f"{i}.failed"] = item.left_out, item.failed
        for part in ("moments", "coarser"):
            for field, array in getattr(item, part)._asdict().items():
                arrays[f"{i}.{part}.{field}"] = array
    save_checkpoint(path, arrays)


def load_accumulators(path: Path, fingerprint: str) -> dict[str, Accumulator]:
    """Read the moments back.

    Raises
    ------
    ValueError
        if the file is damaged or belongs to another estimate; the message names the file.
    """
    arrays, accumulators = load_checkpoint(path), {}
    with reading_checkpoint(path):
        for i, name in enumerate(arrays["names"].tolist()):
            parts = [
                Moments(*(arrays[f"{i}.{part}.{field}"] for field in Moments._fields))
                for part in ("moments", "coarser")
            ]
            accumulators[name] = Accumulator(
                parts[0],
                parts[1],
                arrays[f"{i}.left_out"],
                arrays[f"{i}.failed"],
                int(arrays[f"{i}.draws"]),
                str(arrays[f"{i}.fingerprint"]),
            )
    if any(item.fingerprint != fingerprint for item in accumulators.values()):
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to another net, curve, key, method or points: "
            "give another path, or delete it"
        )
    return accumulators


def run_fingerprint(net: Network, data: object, key: Key[Array, ""], task: Task) -> str:
    """Return the fingerprint of a network, the data (such as a curve), the key and the task."""
    leaves = jax.tree.leaves((net, data))
    parts = (
        (net.fingerprint_parts, net.activation, str(jax.tree.structure((net.weights, net.biases)))),
        (data.kind, data.domain, data.point, data.shape) if isinstance(data, Curve) else (),
        task.fingerprint_parts,
        [np.asarray(leaf).astype(net.dtype) for leaf in leaves],
        (str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key))),
    )
    return fingerprint_of(parts)
