"""Regions along lines, and distances to boundaries, while networks are trained.

Hanin & Rolnick 2019, figures 5 and 6: ReLU networks with He weights and tiny biases, trained on
images by Adam. The number of regions along the whole line through the origin and an example, over
the number of units, is close to 1 at first and stays within a small factor; the distance to the
nearest boundary, times the number of units, stays between about 0.4 and 1.5. Both say that regions
first grow and then shrink. Every count and every distance is exact. The paper's third question,
whether memorisation shrinks regions, has a curve of its own: networks whose labels are random in
part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from jaxexpr import MLP, Estimate, curves, datasets, laws, plotting, theory, training, verdict
from sims.inputs import layers_of
from sims.run import Claim, Fact, Findings, Run, above, caption, turn

_POINTS = {"distance": "random points", "distance_train": "training", "distance_test": "test"}


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return what was found in each network at each record, by architecture."""
    examples = datasets.load(config.data, "train")
    test = datasets.load(config.data, "test")
    cases = [(name, 0.0) for name in config.architectures]
    cases += [(config.architectures[-1], config.label_noise)] if config.label_noise else []
    rows = [_trained(config, run, examples, test, name, noise) for name, noise in cases]
    data = xr.concat(rows, "net").assign_coords(net=[_label(*case) for case in cases])
    nets = [_net(config, examples, name) for name, _ in cases]
    data["units"] = (("net",), [net.units for net in nets])
    data["layers"] = (("net",), [net.depth for net in nets])
    data["noise"] = (("net",), [noise for _, noise in cases])
    data["upper"] = (("net",), [float(theory.line_upper((1, *net.widths[1:]))) for net in nets])
    data["lower"] = (("net",), [float(theory.distance_lower(net)) for net in nets])
    data.attrs |= {"what": config.what}
    return data


def _label(name: str, noise: float) -> str:
    return f"{name}, {100 * noise:.0f} % random labels" if noise else name


def _net(config: Any, examples: datasets.Dataset, name: str) -> MLP:
    weights, biases = laws.Gaussian(config.sigma_w), laws.Gaussian(config.sigma_b)
    return MLP((examples.flat.shape[1], *layers_of(name)), weights, biases)


def _trained(
    config: Any, run: Run, examples: Any, test: Any, name: str, noise: float
) -> xr.Dataset:
    """History of the networks of one architecture."""
    random = np.random.default_rng(config.seed)
    images = examples.flat.astype(np.float64)
    if config.what == "lines":
        origin = np.zeros(images.shape[1])
        chosen = images[random.permutation(len(images))[: config.lines]]
        trackers = [training.track.regions([curves.line(origin, x, whole=True) for x in chosen])]
    else:
        x = random.standard_normal((config.points, images.shape[1]))
        some = random.permutation(len(test.labels))[: config.points]
        sets = (
            images.mean(axis=0) + images.std(axis=0) * x,
            images[random.permutation(len(images))[: config.points]],
            test.flat[some].astype(np.float64),
        )
        trackers = [training.track.distances(np.concatenate(sets))]
    fit = run.train(
        _label(name, noise),
        _net(config, examples, name),
        examples,
        config,
        test_data=test,
        trackers=trackers,
        record_at=list(config.epochs * (np.arange(config.records + 1) / config.records) ** 2),
        intervention=training.Intervention(label_noise=noise or None),
    )
    data = fit.dataset()
    # Points, or lines, of one network are not independent of one another.
    if config.what == "lines":
        data["regions"] = data.regions.mean("regions_0")
    else:
        kinds = np.split(np.arange(len(_POINTS) * config.points), len(_POINTS))
        found = {
            key: data.distance.isel(distance_0=at).mean("distance_0")
            for key, at in zip(_POINTS, kinds, strict=True)
        }
        data = data.assign(found)
    return data.drop_vars("loss")


def _constant(data: xr.Dataset, name: str) -> np.ndarray:
    """Regions a unit, or distance times units: ``(net, record, network)``."""
    units = data.units.values[:, None, None].astype(float)
    found = np.asarray(data[name].transpose("net", "record", "network").values)
    return np.asarray(found / units if name == "regions" else found * units)


def check(data: xr.Dataset) -> Findings:
    """Judge what is proven; look for one constant, and for growth before shrinking."""
    lines = data.attrs["what"] == "lines"
    name = "regions" if lines else "distance"
    each, names = _constant(data, name), data.net.values.tolist()
    found = np.asarray(data[name].transpose("net", "record", "network").values)
    facts, verdicts = [], []
    if lines:
        worst = float((found / data.upper.values[:, None, None]).max())
        facts.append(
            Fact(
                "no network has more regions than prod (n + 1)", worst <= 1,
                f"at most {worst:.2g} of the bound",
            )
        )  # fmt: skip
        low, high, near = 0.3, 3.0, "within a factor of 3 of one a unit"
    else:
        first = Estimate.of(found[:, 0].T)
        verdicts.append(
            verdict(first, lower=data.lower.values, name="at first: distance >= 1 / (4 D)",
                    axis="network no.")
        )  # fmt: skip
        low, high, near = 0.4, 1.5, "between 0.4 and 1.5"
    clean = data.noise.values == 0
    mean = each.mean(axis=2)
    claims = [
        Claim(
            f"{'regions a unit' if lines else 'distance times units'}: {near}, all the time",
            bool((mean[clean] > low).all() and (mean[clean] < high).all()),
            f"{mean[clean].min():.2f} to {mean[clean].max():.2f}",
        )
    ]
    if lines:
        start = mean[:, 0]
        claims.append(
            Claim("close to one region a unit at first (0.8 to 1.2)",
                  bool((abs(start - 1) < 0.2).all()), f"{start.min():.3f} to {start.max():.3f}")
        )  # fmt: skip
    sign = -1 if lines else 1  # regions are fewer while they are larger
    for i, label in enumerate(names):
        rise, fall = turn(sign * each[i])
        claims.append(above(f"{label}: regions grow at first", rise))
        claims.append(above(f"{label}: and shrink later", fall))
    if (~clean).any():
        place, other = int(np.flatnonzero(~clean)[0]), names.index(names[-1].split(",")[0])
        gap = sign * (each[other, -1] - each[place, -1])
        claims.append(above("random labels make regions smaller in the end", gap))
    accuracy = data.test_accuracy.transpose("net", "record", "network").values[:, -1]
    numbers: dict[str, Any] = {
        "architecture": names,
        "units": data.units.values,
        "epoch": data.epoch.values,
        "constant": mean,
        "error": each.std(axis=2, ddof=1) / each.shape[2] ** 0.5,
        "test_accuracy": accuracy.mean(axis=1),
        "least_test_accuracy": accuracy.min(axis=1),
        "networks": each.shape[2],
    }
    for key in list(_POINTS)[1:]:
        if key in data:
            numbers[f"constant_{key}"] = _constant(data, key).mean(axis=2)
    return Findings(verdicts, claims, numbers, facts)


def draw(data: xr.Dataset) -> Any:
    """Draw the constant through training; for distances also the distance, and the accuracy."""
    import matplotlib.pyplot as plt

    lines = data.attrs["what"] == "lines"
    name = "regions" if lines else "distance"
    each, names = _constant(data, name), data.net.values.tolist()
    epochs, units = data.epoch.values, data.units.values
    figure, panes = plt.subplots(1, 1 if lines else 3, figsize=(8 if lines else 13, 4.4))
    panes = np.atleast_1d(panes)
    accuracy = data.test_accuracy.transpose("net", "record", "network").values.mean(axis=2)
    for i, label in enumerate(names):
        style: Any = {"color": plotting.COLOURS[i % 7], "label": label, "markersize": 3}
        style |= {"linestyle": "--"} if data.noise.values[i] else {}
        made = Estimate.of(each[i].T)
        mean, sem, n = made.mean, made.sem, made.n
        if lines:
            plotting.curve_with_interval(epochs, mean, sem, n, ax=panes[0], **style)
            continue
        scale = 1 / units[i]
        plotting.curve_with_interval(epochs, mean * scale, sem * scale, n, ax=panes[0], **style)
        plotting.curve_with_interval(epochs, mean, sem, n, ax=panes[1], **style)
        panes[2].plot(accuracy[i], mean, marker="o", linewidth=1, **style)
    panes[-1].legend(fontsize=7.5, loc="lower left" if lines else "upper left")
    if lines:
        panes[0].axhline(1, color="grey", linewidth=1)
        panes[0].set(xlabel="epoch", ylabel="regions along a line / units", ylim=(0, None))
    else:
        panes[0].set(xlabel="epoch", ylabel="distance to the nearest boundary", yscale="log")
        panes[1].set(xlabel="epoch", ylabel="distance x units", ylim=(0, None))
        panes[2].set(xlabel="test accuracy", ylabel="distance x units", ylim=(0, None))
        for c in (0.4, 1.5):
            for pane in panes[1:]:
                pane.axhline(c, color="grey", linestyle=":", linewidth=1)
    end = data.test_accuracy.isel(record=-1, net=np.flatnonzero(data.noise.values == 0))
    figure.suptitle(
        f"{data.attrs['title']}\n{caption(data)}, 95 % intervals over them; "
        f"least test accuracy of a network in the end {100 * float(end.min()):.1f} %", fontsize=9,
    )  # fmt: skip
    return figure
