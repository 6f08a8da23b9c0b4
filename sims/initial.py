"""Regions along lines, and distances to boundaries, of networks at initialisation.

Hanin & Rolnick 2019, the first epoch of figures 5 and 6: with He weights and tiny biases the number
of regions along a line through the origin and an example is close to the number of units, and the
distance from a random point to the nearest boundary close to a constant over the number of units,
whatever the architecture.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr import MLP, Estimate, curves, datasets, exact, laws, plotting, theory, verdict
from sims.inputs import layers_of
from sims.run import Claim, Findings, Run, caption

_TOGETHER = 125  # networks whose lines are followed in one call


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return the number of regions, or the distance, by architecture."""
    images = datasets.load(config.data, "train").flat.astype(np.float64)
    key, random = jax.random.key(config.seed), np.random.default_rng(config.seed)
    rows = []
    for name in config.architectures:
        laws_ = (laws.Gaussian(config.sigma_w), laws.Gaussian(config.sigma_b))
        net = MLP((images.shape[1], *layers_of(name)), *laws_, dtype="float64")
        with jax.enable_x64(True):
            make = jax.jit(jax.vmap(net.init))
        measure = _lines if config.what == "lines" else _distances
        count = -(-config.draws // _TOGETHER)
        chosen = random.permutation(len(images))[: config.draws]
        examples = images[np.resize(chosen, config.draws)]

        def chunk(
            number: int, make: Any = make, measure: Any = measure, examples: Any = examples
        ) -> np.ndarray:
            first = number * _TOGETHER
            numbers = np.arange(first, first + _TOGETHER, dtype=np.uint32)
            with jax.enable_x64(True):
                keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(numbers)
                params = [(np.asarray(W), np.asarray(b)) for W, b in make(keys)]
            own = np.resize(examples[first : first + _TOGETHER], (_TOGETHER, images.shape[1]))
            return np.asarray(measure(params, own, images, config, number))

        samples = run.samples(name, chunk, count, _TOGETHER)
        samples = samples.reshape(count * _TOGETHER, -1)[: config.draws]
        made = Estimate.of(samples)
        rows.append(np.stack([made.mean, made.sem], axis=-1))
        run.note(f"{name}: {made.mean[-1]:.4g}")
    units = [sum(layers_of(name)) for name in config.architectures]
    lower = [
        float(
            theory.distance_lower(
                MLP(
                    (images.shape[1], *layers_of(name)),
                    laws.Gaussian(config.sigma_w),
                    laws.Gaussian(config.sigma_b),
                )
            )
        )
        for name in config.architectures
    ]
    data = xr.Dataset(
        {
            "found": (("net", "part"), np.array([row[-1] for row in rows])),
            "first_layer": (("net", "part"), np.array([row[0] for row in rows])),
            "units": (("net",), units),
            "lower": (("net",), lower),
        },
        {"net": list(config.architectures), "part": ["mean", "sem"]},
    )
    data.attrs |= {"what": config.what, "draws": config.draws}
    return data


def _lines(params: Any, examples: Any, images: Any, config: Any, number: int) -> np.ndarray:
    """Regions met by the first layer and by all of them, along the whole line."""
    del images, config, number
    lines = [curves.line(np.zeros(x.size), x, whole=True) for x in examples]
    found = exact.pieces_batch(tuple(params), lines)
    return np.array([[one.counts[0], one.counts[-1]] for one in found])


def _distances(params: Any, examples: Any, images: Any, config: Any, number: int) -> np.ndarray:
    """Mean distance of random points in each network."""
    del examples
    random = np.random.default_rng([config.seed, number])
    size = (_TOGETHER, config.points, images.shape[1])
    x = images.mean(axis=0) + images.std(axis=0) * random.standard_normal(size)
    nets = (tuple((W[i], b[i]) for W, b in params) for i in range(_TOGETHER))
    return np.array(
        [[exact.distance_to_boundary(net, p).mean()] for net, p in zip(nets, x, strict=True)]
    )


def _estimate(data: xr.Dataset, name: str) -> Estimate:
    mean, sem = data[name].values.T
    return Estimate.from_moments(mean, sem, int(data.attrs["draws"]), name)


def check(data: xr.Dataset) -> Findings:
    """Judge what is proven; look for one constant for all architectures."""
    found, units = _estimate(data, "found"), data.units.values
    lines, axis = data.attrs["what"] == "lines", "network no."
    names = data.net.values.tolist()
    each = found.mean / units if lines else found.mean * units
    if lines:
        first = _estimate(data, "first_layer")
        widths = np.array([layers_of(name)[0] for name in names], float)
        most = np.array([theory.line_upper((1, *layers_of(name))) for name in names], float)
        verdicts = [
            verdict(
                first, widths + 1, widths + 1, "each unit of the first layer is crossed once",
                axis=axis,
            ),
            verdict(found, upper=most, name="regions <= prod (n + 1)", axis=axis),
        ]  # fmt: skip
        claims = [
            Claim(
                "regions along a line are close to the number of units (0.5 to 1.5 a unit)",
                bool((each > 0.5).all() and (each < 1.5).all()),
                f"{each.min():.3f} to {each.max():.3f} a unit",
            )
        ]
    else:
        verdicts = [
            verdict(found, lower=data.lower.values, name="distance >= 1 / (4 D)", axis=axis)
        ]
        claims = [
            Claim(
                "distance times units lies between 0.4 and 1.5",
                bool((each > 0.4).all() and (each < 1.5).all()),
                f"{each.min():.3f} to {each.max():.3f}",
            ),
            Claim(
                "one constant for all architectures (within a factor of 2)",
                float(each.max() / each.min()) < 2,
                f"largest over smallest {each.max() / each.min():.2f}",
            ),
        ]
    key = "regions_a_unit" if lines else "distance_times_units"
    numbers = {"architecture": names, "units": units, "found": found.mean, "error": found.sem}
    return Findings(verdicts, claims, numbers | {key: each})


def draw(data: xr.Dataset) -> Any:
    """Draw the numbers against the units, and the constant by architecture."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    lines = data.attrs["what"] == "lines"
    found, units = _estimate(data, "found"), data.units.values.astype(float)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2))
    line = {"linestyle": "none", "markersize": 5}
    names, scale = data.net.values.tolist(), 1 / units if lines else units
    every = zip(units, found.mean, found.sem, found.n, strict=True)
    for i, (size, mean, sem, n) in enumerate(every):
        style: Any = {"color": plotting.COLOURS[len(layers_of(names[i])) % 7], **line}
        plotting.curve_with_interval([size], [mean], [sem], n, ax=left, **style)
        y = mean * scale[i], sem * scale[i]
        plotting.curve_with_interval([i], [y[0]], [y[1]], n, ax=right, **style)
    x = np.geomspace(units.min() / 1.2, units.max() * 1.2, 50)
    if lines:
        plotting.reference(x, x, ax=left, kind="exact", color="grey", label="one region a unit")
        left.set(ylabel="regions along a line")
        right.set(ylabel="regions / units")
        right.axhline(1, color="grey", linewidth=1.1)
    else:
        for c, kind in ((0.4, "lower"), (1.5, "upper")):
            plotting.reference(x, c / x, ax=left, kind=kind, color="grey", label=f"{c} / units")
            right.axhline(c, color="grey", linestyle="--" if c < 1 else "-.", linewidth=1.1)
        left.set(ylabel="mean distance to the nearest boundary")
        right.set(ylabel="distance x units")
    left.set(xscale="log", yscale="log", xlabel="units")
    ticks = sorted(set(units.tolist()))
    left.set_xticks(ticks, [f"{n:.0f}" for n in ticks])
    left.xaxis.set_minor_locator(NullLocator())
    left.legend()
    highest = 1.15 * max(float((found.mean * scale).max()), 1.0)
    right.set(ylim=(0, highest if lines else 1.6), xticks=range(len(names)))
    right.set_xticklabels(names, rotation=60, fontsize=8)
    right.set_xlabel("layers x units")
    figure.suptitle(f"{data.attrs['title']}\n{caption(data)}, bars: 95 % intervals", fontsize=9)
    return figure
