"""Regions in the plane of three examples while networks are trained.

Hanin & Rolnick 2019, figure 8: the partition of the square around three examples of different
labels, of one network through training, where regions grow at first and then shrink; and the number
of regions of several networks, which the paper expects to be of the order of half the square of the
number of units. Every count is exact.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, Estimate, datasets, exact, laws, plotting, theory, training
from sims.config import HeTraining
from sims.data_points import three_examples
from sims.findings import Claim, Fact, Findings, claim_positive, rise_and_fall
from sims.running import Run
from sims.training.architectures import closer_at_first


@dataclasses.dataclass(frozen=True)
class Config(HeTraining):
    """Regions in the plane of three examples while a network is trained; the first is drawn."""

    widths: tuple[int, ...] = (64, 64, 64)
    """Units in each hidden layer."""
    records: int = 20
    """Looks at the networks, closer at first."""


_SHOWN = 4


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return counts of all networks at each record, and the first network at some of them."""
    examples = datasets.load(config.data, "train")
    corners = three_examples(config.data)
    weights, biases = laws.Gaussian(config.sigma_w), laws.Gaussian(config.sigma_b)
    net = MLP((corners.shape[1], *config.widths), weights, biases)
    square = exact.plane_through([(np.zeros((corners.shape[1], 1)), np.ones(1))], *corners)
    where = (square.origin, square.u, square.v, square.half_width)

    def parameters(now: Any) -> dict[str, np.ndarray]:
        """Weights and biases of the first network, as one row; nothing of the others."""
        row = np.concatenate([np.ravel(x) for pair in now.network(0) for x in pair])
        rows = np.zeros((now.count, row.size), np.float32)
        rows[0] = row
        return {"parameters": rows}

    fit = run.train(
        "networks",
        net,
        examples,
        config,
        trackers=[training.track.plane(*where), parameters],
        record_at=closer_at_first(config.epochs, config.records),
    )
    data = fit.dataset()
    data["drawn"] = (("record", "number"), data.parameters.values[:, 0])
    data = data.drop_vars("parameters")
    for name, array in zip(("origin", "u", "v"), where[:3], strict=True):
        data[name] = (("width0",), array)
    data.attrs["half_width"] = float(square.half_width)
    return data


def _drawn(data: xr.Dataset, record: int, config: Config) -> exact.Plane:
    """The partition by the first network at a record."""
    row, params = data.drawn.values[record].astype(np.float64), []
    for a, b in itertools.pairwise((data.sizes["width0"], *config.widths)):
        weights, biases, row = np.split(row, [a * b, a * b + b])
        params.append((weights.reshape(a, b), biases))
    origin, u, v = (data[name].values for name in ("origin", "u", "v"))
    return exact.plane(params, origin, u, v, data.attrs["half_width"])


def _counts(data: xr.Dataset) -> np.ndarray:
    """Regions of all layers, ``(record, network)``."""
    return np.asarray(data.plane.transpose("record", "network", "plane_0").values[..., -1])


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the bound; look for regions that grow and then shrink, and for their number."""
    counts, units = _counts(data), sum(config.widths)
    upper = float(theory.serra2018_upper(2, config.widths))
    partition = _drawn(data, -1, config)
    facts = [
        Fact(
            "no network has more regions than Serra et al.'s bound, at any time",
            bool((counts <= upper).all()),
            f"at most {counts.max():.0f} of {upper:.3g}",
        ),
        Fact(
            "regions fill the square",
            abs(float(partition.areas.sum()) / (2 * partition.half_width) ** 2 - 1) < 1e-9,
            f"areas of {partition.count} regions add up to {partition.areas.sum():.6g}",
        ),
        Fact(
            "the drawn network is the one that was counted",
            int(partition.count) == int(counts[-1, 0]),
            f"{partition.count} regions",
        ),
    ]
    rise, fall = rise_and_fall(-counts)
    share = counts.mean(axis=1) / (units**2 / 2)
    claims = [
        claim_positive("regions grow at first (fewer of them)", rise),
        claim_positive("and shrink later (more of them)", fall),
        Claim(
            "the square holds of the order of half the square of the number of units (0.1 to 1.5)",
            bool((share > 0.1).all() and (share < 1.5).all()),
            f"{share.min():.3f} to {share.max():.3f} N^2 / 2",
        ),
    ]
    mean = Estimate.of(counts.T)
    accuracy = data.test_accuracy.values[-1]
    numbers = {
        "epoch": data.epoch.values,
        "regions": mean.mean,
        "error": mean.sem,
        "units": units,
        "networks": counts.shape[1],
        "test_accuracy": accuracy.mean(),
        "least_test_accuracy": accuracy.min(),
    }
    return Findings([], claims, numbers, facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the first network's partition at four times, and the number of regions."""
    counts, epochs = _counts(data), data.epoch.values
    last = len(epochs) - 1
    lowest = max(int(np.argmin(counts.mean(axis=1))), 1)
    records = sorted({0, lowest, (lowest + last) // 2, last})[:_SHOWN]
    figure, panes = plt.subplots(1, len(records) + 1, figsize=(3.3 * (len(records) + 1), 3.9))
    for pane, record in zip(panes[:-1], records, strict=True):
        partition = _drawn(data, record, config)
        plotting.regions(partition, ax=pane)
        pane.set_title(f"epoch {epochs[record]:.3g}: {partition.count} regions", fontsize=9)
        pane.set(xticks=[], yticks=[])
    plotting.curve_with_interval(epochs, Estimate.of(counts.T), ax=panes[-1], color="black")
    panes[-1].set(xlabel="epoch", ylabel="regions in the square", ylim=(0, None))
    accuracy = data.test_accuracy.values[-1]
    least = f"test accuracy in the end at least {100 * accuracy.min():.1f} %"
    return figure, f"95 % intervals over them; {least}"
