"""Length of a trajectory at each layer of a convolutional network, by scale of the weights.

Raghu et al. 2017, figure 4: untrained, ReLU, an arc between two images. The claims: length grows
in the convolutions as it does in fully connected layers, and falls in the pooling layers. Shown
beside it: the composed root of a bound on the second moment, which holds for every even law.
"""

from __future__ import annotations

import dataclasses

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import cifar10_convnet, curves, datasets, laws, plotting, results, theory, verdict
from sims.config import Images
from sims.data_points import on_the_sphere
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Images):
    """Length of an arc between two images in the conv net of the CIFAR-10 experiments."""

    scales: tuple[float, ...] = (5, 8, 12, 16, 20, 32)
    """sigma_w^2."""
    sigma_b: float = 0.1
    """Scale of the biases."""
    features: tuple[int, int] = (16, 32)
    """Channels before and after the first pool."""
    dense: tuple[int, int] = (128, 64)
    """Units of the fully connected layers."""
    points: int = 10
    """Tangents."""


NAMES = ("c1", "c2", "p1", "c3", "c4", "c5", "p2", "fc1", "fc2")
POOLS = (2, 6)


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return the length by scale and layer, with its composed upper bound."""
    shape = datasets.load(config.data, "test").images.shape[1:]
    shape = shape if len(shape) == 3 else (*shape, 1)
    curve = curves.arc(*(x.reshape(shape) for x in on_the_sphere(config)))
    scales = np.array(config.scales, float)
    net = cifar10_convnet(
        laws.Gaussian(np.sqrt(scales)),
        laws.Gaussian(config.sigma_b),
        features=config.features,
        dense=config.dense,
        input_shape=curve.shape,
    )
    estimates = run.estimate(
        "lengths",
        net,
        curve,
        key=jax.random.key(config.seed),
        draws=config.draws,
        probes=("length", "length_ratio"),
        method="tangent",
        points=config.points,
    )
    data = results.dataset(estimates, ("scale",), {"scale": scales})
    start = curve.length()
    factors = theory.per_layer(theory.second_moment_upper, net)
    data["upper"] = (("scale", "layer"), start * np.cumprod(factors, axis=-1))
    return data


def check(data: xr.Dataset, config: Config) -> Findings:
    """Judge the upper bound; see that convolutions stretch and pools shrink."""
    data = data.transpose("scale", "layer")
    length, ratio = (results.estimate_of(data, name) for name in ("length", "length_ratio"))
    verdicts = [verdict(length, upper=data.upper.values, name="length <= composed upper bound")]
    pools = list(POOLS)
    convs = [i for i in range(7) if i not in pools]
    below = ratio.mean[:, pools] + 4 * ratio.sem[:, pools]
    above = ratio.mean[:, convs] - 4 * ratio.sem[:, convs]
    claims = [
        Claim(
            "pooling layers shrink the length",
            bool((below < 1).all()),
            f"times {ratio.mean[:, pools].min():.2f} to {ratio.mean[:, pools].max():.2f}",
        ),
        Claim(
            "convolutions stretch it, at every scale",
            bool((above > 1).all()),
            f"times {ratio.mean[:, convs].min():.2f} to {ratio.mean[:, convs].max():.2f}",
        ),
        Claim(
            "length rises with the scale",
            bool((np.diff(length.mean, axis=0) > 0).all()),
            f"in the last layer from {length.mean[0, -1]:.3g} to {length.mean[-1, -1]:.3g}",
        ),
    ]
    numbers = {
        "scale": data.scale.values,
        "layers": NAMES,
        "length": length.mean,
        "error": length.sem,
        "ratio": ratio.mean,
    }
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw lengths against the layer, pools shaded."""
    figure, ax = plt.subplots(figsize=(6.8, 4.8))
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, data.sizes["scale"]))
    for colour, scale in zip(colours, data.scale.values, strict=True):
        cell = data.sel(scale=scale)
        length = results.estimate_of(cell, "length")
        label = rf"$\sigma_w^2$ = {scale:g}"
        plotting.layers(length, ax=ax, color=colour, label=label, linewidth=0.9)
        plotting.reference(data.layer, cell.upper, ax=ax, kind="upper", color=colour, alpha=0.5)
    plotting.reference([], [], ax=ax, color="grey", kind="upper", label="upper bound, composed")
    for pool in POOLS:
        ax.axvspan(pool + 0.6, pool + 1.4, color="grey", alpha=0.15, linewidth=0)
    ax.set_xticks(range(1, len(NAMES) + 1), NAMES)
    ax.set_yscale("log")
    ax.set_ylabel("expected length")
    ax.legend(fontsize=8, ncols=2)
    return figure, "bars: 95 % intervals"
