"""Labelled results on disk: estimates as an xarray dataset, with provenance.

Files are netCDF, written atomically, and readable by anything that reads netCDF-4. ``dataset``
holds the numbers with their errors, counts of networks and methods. Versions, device, precision,
configuration and wall time are attributes returned by ``provenance``, which the caller adds:
``data.attrs |= provenance(config, seconds)``, as ``sims`` does.
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

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.files import write_atomically
from jaxexpr.ensemble.statistics import Estimate

_PARTS = ("sem", "n", "left_out", "failed", "discretisation")


@explained
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
        if `dims` does not name every sweep axis, or `coords` do not fit them.
    """
    estimates = _named_estimates(estimates)
    axes = (*_dims(dims), "layer")
    variables: dict[str, Any] = {}
    depth = 0
    for name, item in estimates.items():
        if item.mean.ndim != len(axes):
            raise ValueError(
                f"dims={tuple(dims)} names {len(dims)} sweep axes and {name!r} has "
                f"{item.mean.ndim - 1}: name each axis of the sweep"
            )
        _checked_dims(coords, axes, item.mean.shape)
        depth = item.mean.shape[-1]
        attributes = {"draws": item.draws, "method": item.method, "points": item.points}
        variables[name] = (axes, item.mean, attributes)
        for part in _PARTS:
            values = np.broadcast_to(getattr(item, part), item.mean.shape)
            variables[f"{name}_{part}"] = (axes, values)
    return xr.Dataset(variables, {**(coords or {}), "layer": np.arange(1, depth + 1)})


def _named_estimates(estimates: object) -> Mapping[str, Estimate]:
    """Return estimates by name; raise ValueError for another object."""
    if isinstance(estimates, Estimate):
        raise ValueError(
            f"estimates={checks.shown(estimates, 40)} is one Estimate: give "
            f"{{{estimates.name!r}: estimate}}, or all that estimate returned"
        )
    if not isinstance(estimates, Mapping) or not estimates:
        raise ValueError(f"estimates={checks.shown(estimates)}: give what estimate returned")
    for name, item in estimates.items():
        if not isinstance(item, Estimate):
            raise ValueError(f"estimates[{name!r}]={checks.shown(item)}: give an Estimate")
    return estimates


def _dims(dims: object) -> tuple[str, ...]:
    if isinstance(dims, str) or not isinstance(dims, Sequence):
        raise ValueError(f"dims={checks.shown(dims)}: give a list of names, such as ['sigma']")
    for i, dim in enumerate(dims):
        if not isinstance(dim, str) or dim == "layer" or dim in dims[:i]:
            raise ValueError(
                f"dims[{i}]={checks.shown(dim)}: give each sweep axis a name of its own ('layer' "
                "is the last axis)"
            )
    return tuple(dims)


def _checked_dims(coords: object, axes: Sequence[str], shape: tuple[int, ...]) -> None:
    """Raise ValueError for coordinates of unknown axes, or of another size than their axis."""
    if coords is None:
        return
    if not isinstance(coords, Mapping):
        raise ValueError(f"coords={checks.shown(coords)}: give {{name of an axis: its values}}")
    sizes = dict(zip(axes, shape, strict=True))
    for name, values in coords.items():
        along = isinstance(values, tuple | xr.DataArray)  # with axes of their own
        if name in sizes and not along and np.shape(values) != (sizes[name],):
            raise ValueError(
                f"coords[{name!r}] has shape {np.shape(values)} and the axis {sizes[name]} "
                f"entries: give {sizes[name]} values"
            )
        if name not in sizes and not along and np.ndim(values) > 0:
            raise ValueError(
                f"coords[{name!r}]={checks.shown(values)} is along no axis: give coordinates of "
                f"{', '.join(axes[:-1]) or 'nothing, there is no sweep'}"
            )


@explained
def concat(parts: Mapping[Any, xr.Dataset] | Sequence[xr.Dataset], dim: str) -> xr.Dataset:
    """Join datasets of several runs, such as those of networks of different widths.

    Parameters
    ----------
    parts : ``{coordinate: dataset}`` for a new axis `dim`, or datasets that have that axis.

    Returns
    -------
    Dataset for ``estimate_of``; the `draws` of its estimates is the smallest of all parts.

    Raises
    ------
    ValueError
        if there is nothing to join, or a part is not a dataset.

    Examples
    --------
    >>> narrow, wide = ({"growth": Estimate.of(np.full((5, 2), x), "growth")} for x in (1.0, 2.0))
    >>> data = concat({8: dataset(narrow), 64: dataset(wide)}, "width")
    >>> estimate_of(data.sel(width=64), "growth").mean.tolist()
    [2.0, 2.0]
    """
    each = list(parts.values() if isinstance(parts, Mapping) else parts)
    for part in each:
        if not isinstance(part, xr.Dataset):
            raise ValueError(
                f"parts holds {checks.shown(part)}: give what results.dataset returned"
            )
    if not each:
        raise ValueError("parts is empty: give one dataset at least")
    if isinstance(parts, Mapping):
        each = [part.expand_dims({dim: [x]}) for x, part in zip(parts, each, strict=True)]
    data = xr.concat(each, dim, combine_attrs="override")
    for name, variable in data.items():
        if "draws" in variable.attrs:
            variable.attrs["draws"] = min(int(part[name].attrs["draws"]) for part in each)
    return data


@explained
def estimate_of(data: xr.Dataset, name: str) -> Estimate:
    """Return the estimate of probe `name`, for verdicts or plots; it cannot be extended.

    For one cell of a sweep: ``estimate_of(data.isel(sigma=3), "growth")``.

    Raises
    ------
    ValueError
        if the dataset does not contain it, or has no axis of layers.

    Examples
    --------
    >>> made = {"growth": Estimate.of(np.arange(12.0).reshape(2, 3, 2), "growth")}
    >>> data = dataset(made, ["sigma"], {"sigma": [1.0, 2.0, 3.0]})
    >>> estimate_of(data.sel(sigma=3.0), "growth").mean.tolist()
    [7.0, 8.0]
    """
    if not isinstance(data, xr.Dataset):
        raise ValueError(f"data={checks.shown(data)}: give what results.dataset or load returned")
    missing = [v for v in (name, *(f"{name}_{p}" for p in _PARTS)) if v not in data]
    if missing:
        available = [v for v in map(str, data) if f"{v}_sem" in data]
        raise ValueError(f"name={name!r} is not in data: choose one of {', '.join(available)}")
    mean = data[name]
    if mean.ndim == 0 or ("layer" in data.coords and "layer" not in data.dims):
        raise ValueError(
            f"data has {name!r} along {mean.dims}, of which none are layers: give data.sel("
            "layer=[5]) in place of data.sel(layer=5), which drops the axis"
        )
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


@explained
def provenance(config: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Attributes that document how a result was computed: numbers, text and JSON only.

    Raises
    ------
    ValueError
        if `config` is no mapping or `seconds` is negative.
    """
    import jaxexpr

    if not isinstance(config, Mapping):
        raise ValueError(f"config={checks.shown(config)}: give a dict of what was configured")
    seconds = checks.non_negative("seconds", seconds)
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


@explained
def save(data: xr.Dataset, path: str | Path) -> Path:
    """Write a dataset to `path` (netCDF) atomically.

    Raises
    ------
    ValueError
        if `data` is no dataset.
    """
    path = checks.path("path", path)
    if not hasattr(data, "to_netcdf"):
        fix = "results.dataset(data)" if isinstance(data, Mapping) else "what dataset returned"
        if isinstance(data, Estimate):
            fix = f"results.dataset({{{data.name!r}: data}})"
        raise ValueError(f"data={checks.shown(data, 40)} is not a dataset: give {fix}")
    write_atomically(path, lambda temporary: data.to_netcdf(temporary, engine="h5netcdf"))
    return path


@explained
def load(path: str | Path) -> xr.Dataset:
    """Read a dataset into memory.

    Raises FileNotFoundError if there is none, ValueError if the file is damaged; both name it.
    """
    path = checks.path("path", path)
    if not path.exists():
        raise FileNotFoundError(
            f"path={str(path)!r} does not exist: run the simulation first, or give a file that "
            "results.save wrote"
        )
    if path.is_dir():
        raise ValueError(f"path={str(path)!r} is a folder: give a file in it")
    try:
        return xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"path={str(path)!r} cannot be read as netCDF ({error}): give a file that results.save "
            "wrote; if this was one, delete it and run again"
        ) from error
