"""Networks at initialisation, one architecture after the other: what their measurements share.

Hanin & Rolnick 2019, the first epoch of figures 5 and 6: He weights, tiny biases.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from jaxexpr import MLP, Estimate, datasets, laws, plotting
from sims.config import HE, Data, Sampled
from sims.data_points import layers_of
from sims.running import Run

BATCH = 125  # networks that are measured in one call
Params = list[tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Architectures(Sampled):
    """Networks of several architectures at initialisation, each with its own examples."""

    data: Data = "digits"
    """The examples."""
    architectures: tuple[str, ...] = (
        "1x64", "2x16", "2x32", "2x64", "3x32", "4x16", "4x32", "4x64", "6x16", "6x32", "8x16",
    )  # fmt: skip
    """Layers x units."""
    sigma_w: float = HE
    """Standard deviation of the weights, before the division by sqrt(fan_in)."""
    sigma_b: float = 1e-3
    """Standard deviation of the biases."""

    def network(self, name: str, n_in: int) -> MLP:
        """Return the random network of an architecture."""
        weights, biases = laws.Gaussian(self.sigma_w), laws.Gaussian(self.sigma_b)
        return MLP((n_in, *layers_of(name)), weights, biases, dtype="float64")


def measured(
    config: Architectures,
    images: np.ndarray,
    run: Run,
    measure: Callable[[Params, np.ndarray, int], np.ndarray],
) -> xr.Dataset:
    """Return means and errors by architecture, ``(net, part, number)``, and the units.

    Parameters
    ----------
    measure : of the parameters of ``BATCH`` networks, an example for each, and the number of the
        batch, gives ``(BATCH, numbers)``.
    """
    key, random = jax.random.key(config.seed), np.random.default_rng(config.seed)
    n_in = int(images.shape[1])
    count = -(-config.draws // BATCH)
    rows = []
    for name in config.architectures:
        net = config.network(name, n_in)
        with jax.enable_x64(True):
            make = jax.jit(jax.vmap(net.init))
        chosen = random.permutation(len(images))[: config.draws]
        examples = np.resize(images[np.resize(chosen, config.draws)], (count * BATCH, n_in))

        def batch(
            number: int, make: Callable = make, examples: np.ndarray = examples
        ) -> np.ndarray:
            rows = slice(number * BATCH, (number + 1) * BATCH)
            numbers = np.arange(rows.start, rows.stop, dtype=np.uint32)
            with jax.enable_x64(True):
                keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(numbers)
                params = [(np.asarray(W), np.asarray(b)) for W, b in make(keys)]
            return measure(params, examples[rows], number)

        samples = run.samples(name, batch, count, BATCH)
        mean = Estimate.of(samples.reshape(count * BATCH, -1)[: config.draws])
        rows.append(np.stack([mean.mean, mean.sem]))
        run.note(f"{name}: {mean.mean[-1]:.4g}")
    return xr.Dataset(
        {
            "found": (("net", "part", "number"), np.array(rows)),
            "units": (("net",), [sum(layers_of(name)) for name in config.architectures]),
        },
        {"net": list(config.architectures), "part": ["mean", "sem"]},
    )


def images_of(config: Architectures) -> np.ndarray:
    """Return the training images, ``(n, pixels)``, float64."""
    return datasets.load(config.data, "train").flat.astype(np.float64)


def estimate(data: xr.Dataset, config: Architectures, number: int = -1) -> Estimate:
    """Return one of the numbers that were measured, an entry for each architecture."""
    mean, sem = data.found.isel(number=number).transpose("part", "net").values
    return Estimate.from_moments(mean, sem, config.draws, "found")


def panes(
    mean: Estimate, units: np.ndarray, scale: np.ndarray, names: list[str]
) -> tuple[Figure, Axes, Axes]:
    """Draw numbers against the units, and beside it, times `scale`, by architecture."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2))
    for i, name in enumerate(names):
        colour = plotting.COLOURS[len(layers_of(name)) % 7]
        for ax, x, factor in ((left, units[i], 1.0), (right, i, scale[i])):
            numbers = ([mean.mean[i] * factor], [mean.sem[i] * factor], int(mean.n[i]))
            plotting.curve_with_interval(
                [x], *numbers, ax=ax, color=colour, linestyle="none", markersize=5
            )
    left.set(xscale="log", yscale="log", xlabel="units")
    ticks = sorted(set(units.tolist()))
    left.set_xticks(ticks, [f"{n:.0f}" for n in ticks])
    left.xaxis.set_minor_locator(NullLocator())
    right.set_xticks(range(len(names)), names, rotation=60, fontsize=8)
    right.set_xlabel("layers x units")
    return figure, left, right
