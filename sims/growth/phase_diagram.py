"""Order and chaos: growth of small distances against the scales of weights and biases.

The phase diagram of mean field (Poole et al. 2016, Schoenholz et al. 2017): ``sqrt(chi_1)`` at the
fixed point of the length map, and the line where it is 1. Beside it finite networks: the growth in
the last layer, against mean field's along one row of the diagram, for several widths.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, activations, curves, laws, plotting, results, theory, verdict
from sims.config import Sampled
from sims.findings import Claim, Findings
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Sampled):
    """The phase diagram of mean field, and finite networks along one row of it."""

    activation: Literal["tanh", "erf", "hard_tanh"] = "tanh"
    """Activation, smooth or not; bounded."""
    sigma_w: tuple[float, float] = (0.5, 4.0)
    """From and to, horizontally."""
    sigma_b: tuple[float, float] = (0.01, 2.0)
    """From and to, vertically."""
    cells: int = 60
    """Cells of the diagram in each direction."""
    row: float = 0.3
    """sigma_b of the measured networks."""
    measured: int = 15
    """How many sigma_w are measured."""
    widths: tuple[int, ...] = (16, 64, 512)
    """Widths of the measured networks."""
    depth: int = 12
    """Layers."""
    points: int = 8
    """Tangents."""


def _network(config: Config, width: int, sigma_w: float | np.ndarray) -> MLP:
    biases = laws.Gaussian(config.row)
    return MLP((width,) * (config.depth + 1), laws.Gaussian(sigma_w), biases, config.activation)


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return mean field on a grid of scales, and growth of finite networks along one row of it."""
    sigma_w = np.linspace(config.sigma_w[0], config.sigma_w[1], config.cells)
    sigma_b = np.linspace(config.sigma_b[0], config.sigma_b[1], config.cells)
    w, b = np.meshgrid(sigma_w, sigma_b)
    q = theory.fixed_length(w, b, config.activation)
    chi = theory.chi_1(np.maximum(q, 1e-12), w, config.activation)
    data = xr.Dataset(
        {
            "factor": (("sigma_b", "sigma_w"), np.sqrt(chi)),
            "correlation": (
                ("sigma_b", "sigma_w"),
                theory.fixed_correlation(w, b, config.activation),
            ),
            "edge": (("sigma_b",), theory.edge_of_chaos(sigma_b, config.activation)),
        },
        {"sigma_w": sigma_w, "sigma_b": sigma_b},
    )
    run.note("mean field")
    row = np.linspace(config.sigma_w[0], config.sigma_w[1], config.measured)
    parts = {}
    for width in config.widths:
        ends = np.sqrt(width) * np.eye(2, width)
        estimates = run.estimate(
            f"width {width}",
            _network(config, width, row),
            curves.circle(*ends),
            key=jax.random.fold_in(jax.random.key(config.seed), width),
            draws=config.draws,
            probes=("growth", "log_growth"),
            method="gram",
            points=config.points,
        )
        parts[width] = results.dataset(estimates, ("measured",), {"measured": row})
    measured = results.concat(parts, "width")
    factors = np.stack([theory.mean_field_growth(_network(config, 2, s), 1.0) for s in row])
    measured["mean_field"] = (("measured", "layer"), factors)
    return xr.merge([data, measured], compat="no_conflicts", join="outer")


def check(data: xr.Dataset, config: Config) -> Findings:
    """See how near finite widths are to mean field, and where growth crosses 1."""
    last = data.growth.transpose("width", "measured", "layer").isel(layer=-1)
    wide = data.mean_field.isel(layer=-1)
    off = np.abs(last / wide - 1).max("measured").values
    edge = float(theory.edge_of_chaos(config.row, config.activation))
    widest = last.isel(width=-1).values
    above = np.flatnonzero((widest[1:] > 1) & (widest[:-1] <= 1))
    crossing = float("nan")
    if above.size:
        i = int(above[0])
        x = data.measured.values
        crossing = x[i] + (1 - widest[i]) / (widest[i + 1] - widest[i]) * (x[i + 1] - x[i])
    claims = [
        Claim(
            "wider networks are nearer to mean field",
            bool(np.all(np.diff(off) < 0)),
            f"largest distance {', '.join(f'{100 * o:.1f} %' for o in off)} "
            f"at widths {', '.join(map(str, data.width.values))}",
        ),
        Claim(
            "growth crosses 1 at the edge of chaos (within 5 %)",
            abs(crossing / edge - 1) < 0.05,
            f"at sigma_w = {crossing:.3f} at the largest width; the edge is {edge:.3f}",
        ),
    ]
    numbers = {
        "edge_sigma_w": data.edge.values,
        "edge_sigma_b": data.sigma_b.values,
        "width": data.width.values,
        "distance_from_mean_field": off,
        "crossing": crossing,
        "edge": edge,
    }
    growth = results.estimate_of(data.transpose("width", "measured", "layer", ...), "growth")
    upper = np.stack([theory.lipschitz_upper(data.measured.values, int(k)) for k in data.width])
    bound = "growth <= bound by the Lipschitz constant"
    lipschitz = activations.get(config.activation).lipschitz
    verdicts = [verdict(growth, upper=lipschitz * upper[:, :, None], name=bound)]
    return Findings(verdicts, claims, numbers)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw the diagram with its edge, and the measured row."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.2, 4.5))
    size = float(np.abs(np.log2(data.factor)).max())
    image = left.pcolormesh(
        data.sigma_w, data.sigma_b, np.log2(data.factor.transpose("sigma_b", "sigma_w")),
        cmap="RdBu_r", vmin=-size, vmax=size, shading="nearest", rasterized=True,
    )  # fmt: skip
    figure.colorbar(image, ax=left, label=r"$\log_2$ growth a layer, mean field")
    left.plot(data.edge, data.sigma_b, color="black", linewidth=1.6)
    left.axhline(config.row, color="black", linewidth=0.8, linestyle=":")
    high = data.sigma_b.values[-1]
    left.annotate("order", (config.sigma_w[0] + 0.1, 0.9 * high), fontsize=10)
    left.annotate("chaos", (0.8 * config.sigma_w[1], 0.1 * high), fontsize=10)
    left.set(xlabel=r"$\sigma_w$", ylabel=r"$\sigma_b$", xlim=config.sigma_w)
    left.grid(False)
    for i, width in enumerate(data.width.values):
        last = data.sel(width=width).isel(layer=-1)
        plotting.curve_with_interval(
            data.measured, last.growth, last.growth_sem, last.growth_n, ax=right,
            color=plotting.COLOURS[i], linewidth=0, elinewidth=1, label=f"measured, $k$ = {width}",
        )  # fmt: skip
    wide = data.mean_field.isel(layer=-1)
    plotting.reference(
        data.measured, wide, ax=right, kind="exact", color="black", label="mean field"
    )
    right.axhline(1, color="grey", linewidth=0.8)
    edge = float(theory.edge_of_chaos(config.row, config.activation))
    right.axvline(edge, color="black", linewidth=1, linestyle="--", label="edge of chaos")
    right.set(xlabel=r"$\sigma_w$", ylabel="growth in the last layer", ylim=(0, None))
    right.legend(fontsize=8)
    return figure, f"{config.activation}, bars: 95 % intervals"
