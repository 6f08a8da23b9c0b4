"""Labelled results on disk: estimates as an xarray dataset, with provenance.

Files are netCDF, written atomically, and readable by anything that reads netCDF-4. Attributes
hold versions, device, precision, configuration and wall time; nothing else is needed to draw a
figure again.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr.checkpoint import write_atomically
from jaxexpr.moments import Estimate

_PARTS = ("sem", "n", "left_out", "failed", "discretisation")


def dataset(
    estimates: Mapping[str, Estimate],
    dims: Sequence[str] = (),
    coords: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Label estimates of one run.

    Parameters
    ----------
    dims : names of the sweep axes, in order; the last axis of an estimate is called ``layer``.
    coords : values along the sweep axes. ``layer`` counts from 1.

    Returns
    -------
    Dataset with, for each probe P, variables ``P`` (the mean), ``P_sem``, ``P_n``,
    ``P_left_out``, ``P_failed`` and ``P_discretisation``, all with dimensions ``dims + (layer,)``.

    Raises
    ------
    ValueError
        if `dims` does not name every sweep axis.
    """
    axes = (*dims, "layer")
    variables: dict[str, Any] = {}
    depth = 0
    for name, item in estimates.items():
        if item.mean.ndim != len(axes):
            raise ValueError(
                f"dims={tuple(dims)} names {len(dims)} sweep axes and {name!r} has "
                f"{item.mean.ndim - 1}: name each axis of the sweep"
            )
        depth = item.mean.shape[-1]
        how = {"draws": item.draws, "method": item.method, "points": item.points}
        variables[name] = (axes, item.mean, how)
        for part in _PARTS:
            values = np.broadcast_to(getattr(item, part), item.mean.shape)
            variables[f"{name}_{part}"] = (axes, values)
    return xr.Dataset(variables, {**(coords or {}), "layer": np.arange(1, depth + 1)})


def estimate_of(data: xr.Dataset, name: str) -> Estimate:
    """Return the estimate of probe `name` again, to judge or to draw; it cannot be extended.

    Raises ValueError if the dataset does not hold it.
    """
    missing = [v for v in (name, *(f"{name}_{p}" for p in _PARTS)) if v not in data]
    if missing:
        raise ValueError(f"name={name!r}: the dataset lacks {missing}; it has {list(data)}")
    mean = data[name]
    parts: dict[str, Any] = {
        part: data[f"{name}_{part}"].transpose(*mean.dims).values for part in _PARTS
    }
    return Estimate(
        name=name,
        mean=mean.values,
        draws=int(mean.attrs["draws"]),
        method=str(mean.attrs["method"]),
        points=int(mean.attrs["points"]),
        **parts,
    )


def provenance(config: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Attributes that say how a result came about; numbers, text and JSON only."""
    import jaxexpr

    device = jax.devices()[0]
    return {
        "jaxexpr": jaxexpr.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": f"{len(jax.devices())} x {device.device_kind} ({device.platform})",
        "precision": str(config.get("dtype", "float32")),
        "config": json.dumps(dict(config), default=str),
        "seconds": round(float(seconds), 2),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def save(data: xr.Dataset, path: str | Path) -> Path:
    """Write a dataset to `path` (netCDF) in one step: readers see the old file or the new one."""
    path = Path(path)
    write_atomically(path, lambda temporary: data.to_netcdf(temporary, engine="h5netcdf"))
    return path


def load(path: str | Path) -> xr.Dataset:
    """Read a dataset into memory.

    Raises FileNotFoundError if there is none, ValueError if the file is damaged; both name it.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"path={str(path)!r} does not exist: run the simulation first")
    try:
        return xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"path={str(path)!r} cannot be read ({error}): delete it and run the simulation again"
        ) from error
