"""Networks of several architectures while they are trained: what their measurements share.

Hanin & Rolnick 2019, figures 5 and 6: ReLU networks with He weights and tiny biases, trained on
images by Adam. Regions along lines, and distances to boundaries, both say that regions grow at
first and shrink later. The paper's third question, whether memorisation shrinks regions, has a
curve of its own: networks of which part of the labels is random.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from jaxexpr import MLP, Estimate, datasets, laws, plotting, results, training
from sims.config import HeTraining
from sims.data_points import layers_of
from sims.findings import Claim, claim_positive, rise_and_fall
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Architectures(HeTraining):
    """Networks of several architectures while they are trained."""

    architectures: tuple[str, ...] = ("2x32", "4x16", "4x32", "6x32", "3x64")
    """Networks, LAYERSxUNITS."""
    label_noise: float = 0.5
    """Share of random labels of a further run of the last architecture; 0 is none."""
    records: int = 24
    """Looks at the networks, closer at first."""

    @property
    def cases(self) -> list[tuple[str, float]]:
        """Architecture and label noise of each run."""
        noisy = [(self.architectures[-1], self.label_noise)] if self.label_noise else []
        return [*((name, 0.0) for name in self.architectures), *noisy]


def closer_at_first(epochs: float, records: int) -> list[float]:
    """Return epochs to look at the networks: 0, and `records` more."""
    return list(epochs * (np.arange(records + 1) / records) ** 2)


def trained(
    config: Architectures,
    examples: datasets.Dataset,
    run: Run,
    tracker: Any,
    bounds: dict[str, Any],
) -> xr.Dataset:
    """Train each architecture and return what was tracked, ``(net, record, network, ...)``.

    bounds : functions of a random network, each a number beside the networks.
    """
    weights, biases = laws.Gaussian(config.sigma_w), laws.Gaussian(config.sigma_b)
    parts, rows = {}, []
    for name, noise in config.cases:
        net = MLP((examples.flat.shape[1], *layers_of(name)), weights, biases)
        label = f"{name}, {100 * noise:.0f} % random labels" if noise else name
        fit = run.train(
            label,
            net,
            examples,
            config,
            trackers=[tracker],
            record_at=closer_at_first(config.epochs, config.records),
            intervention=training.Intervention(label_noise=noise or None),
        )
        parts[label] = fit.dataset().drop_vars("loss")
        of_net = {key: float(bound(net)) for key, bound in bounds.items()}
        rows.append({"units": net.units, "noise": noise, **of_net})
    data = results.concat(parts, "net")
    return data.assign({key: ("net", [row[key] for row in rows]) for key in rows[0]})


def networks(data: xr.Dataset, name: str) -> np.ndarray:
    """Return numbers of each network, ``(net, record, network)``."""
    return np.asarray(data[name].transpose("net", "record", "network").values)


def claims_of_size(data: xr.Dataset, size: np.ndarray) -> list[Claim]:
    """Look for regions that grow and then shrink, and for smaller ones where labels are random.

    size : a measure of the size of regions, ``(net, record, network)``.
    """
    names, noisy = data.net.values.tolist(), np.flatnonzero(data.noise.values > 0)
    claims = []
    for label, of_case in zip(names, size, strict=True):
        rise, fall = rise_and_fall(of_case)
        claims.append(claim_positive(f"{label}: regions grow at first", rise))
        claims.append(claim_positive(f"{label}: and shrink later", fall))
    for i in noisy:
        clean = names.index(names[i].split(",")[0])
        gap = size[clean, -1] - size[i, -1]
        claims.append(claim_positive("random labels make regions smaller in the end", gap))
    return claims


def numbers(data: xr.Dataset, constant: np.ndarray) -> dict[str, Any]:
    """Return the numbers to quote; `constant` is ``(net, record, network)``."""
    accuracy = networks(data, "test_accuracy")[:, -1]
    return {
        "architecture": data.net.values.tolist(),
        "units": data.units.values,
        "epoch": data.epoch.values,
        "constant": constant.mean(axis=2),
        "error": constant.std(axis=2, ddof=1) / constant.shape[2] ** 0.5,
        "test_accuracy": accuracy.mean(axis=1),
        "least_test_accuracy": accuracy.min(axis=1),
        "networks": constant.shape[2],
    }


def draw_through_training(data: xr.Dataset, numbers: Sequence[np.ndarray], ax: Axes) -> None:
    """Draw means over networks against the epoch; `numbers` are ``(record, network)`` a case."""
    for i, label in enumerate(data.net.values.tolist()):
        mean = Estimate.of(numbers[i].T)
        plotting.curve_with_interval(data.epoch.values, mean, ax=ax, **style(data, i, label))
    ax.set_xlabel("epoch")


def style(data: xr.Dataset, i: int, label: str) -> dict[str, Any]:
    """Return how the line of a case is drawn: dashed where labels are random."""
    line = "--" if data.noise.values[i] else "-"
    return {"color": plotting.COLOURS[i % 7], "label": label, "markersize": 3, "linestyle": line}


def details(data: xr.Dataset) -> str:
    """Return what the caption says of accuracy."""
    end = data.test_accuracy.isel(record=-1, net=np.flatnonzero(data.noise.values == 0))
    least = f"least test accuracy of a network in the end {100 * float(end.min()):.1f} %"
    return f"95 % intervals over them; {least}"
