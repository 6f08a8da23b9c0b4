"""The CIFAR-10 convolutional network while it is trained: length, weights, noise, regularisation.

Raghu et al. 2017, sections 3.1 to 3.3. Figure 6: noise on the weights of one layer of a trained
network harms most in the lowest layers. Figures 8 and 18: training lengthens the image of a
circular trajectory, from sigma_w^2 = 2, where it hardly grows at first. Figure 9: so do the scales
of the weights grow. Figure 10: batch normalisation shortens the trajectory. Figure 11: trajectory
regularisation in its place does as well, and both do better than neither. Sizes that the text
leaves open are ours; each image has mean 0 and ``|x|^2 = n``, the scale at which the theory of such
networks takes its inputs. Magnitudes of noise are in units of weights that a law of that scale
draws.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxexpr import (
    MLP,
    Estimate,
    cifar10_convnet,
    curves,
    datasets,
    laws,
    plotting,
    theory,
    training,
    verdict,
)  # fmt: skip
from sims.run import Claim, Fact, Findings, Run, above, caption

_KINDS = ("none", "batch", "trajectory")
_NAMES = {"none": "neither", "batch": "batch norm", "trajectory": "trajectory regularisation"}


def simulate(config: Any, run: Run) -> xr.Dataset:
    """Return the history of the networks, and what was measured after it."""
    examples, test = (_first(datasets.load(config.data, part), n) for part, n in (
        ("train", config.examples), ("test", config.tested),
    ))  # fmt: skip
    shape = examples.images.shape[1:]
    weights, biases = laws.Gaussian(config.scale**0.5), laws.Zero()
    net: Any
    if config.network == "conv":
        net = cifar10_convnet(
            weights, biases, features=config.features, dense=config.dense,
            input_shape=shape if len(shape) == 3 else (*shape, 1),
        )  # fmt: skip
    else:
        widths = (int(np.prod(shape)), *(config.width,) * config.depth)
        net = MLP(widths, weights, biases, config.activation)
    curve = _circle(test, config, net)
    kinds = _KINDS if config.view == "compare" else (config.norm,)
    rows, stages = {}, {}
    for kind in kinds:
        fit = run.train(
            kind,
            net,
            examples,
            config,
            test_data=test,
            normalisation=None if kind == "none" else training.Normalisation(kind, _places(net)),
            trackers=[
                training.track.lengths(curve, points=config.points),
                training.track.weight_scale(),
            ],
            record_at=config.records,
        )
        rows[kind] = fit.dataset().rename(length_0=f"stage_{kind}", weight_scale_0="layer")
        stages[f"stage_{kind}"] = list(fit.last.model(0).names)
    data: xr.Dataset = rows[kinds[0]]
    if config.view == "compare":
        kept = [rows[kind].drop_vars("length") for kind in kinds]
        data = xr.concat(kept, "kind").assign_coords(kind=list(kinds))
        stages = {}
    elif config.view == "noise":
        data["noisy"] = (("noisy_layer", "magnitude", "network"), _noisy(fit, test, config, run))
        data = data.assign_coords(magnitude=list(config.magnitudes))
    start = curve.length()
    relu = net.activation.name == "relu"
    factors = theory.per_layer(theory.second_moment_upper if relu else _lipschitz, net)
    data = data.assign_coords(stages)
    data["upper"] = (("depth",), start * np.cumprod(factors))
    data.attrs |= {"view": config.view, "norm": config.norm, "input_length": start}
    data.attrs |= {"variance": config.scale}
    return data


def _lipschitz(law: Any, width: int, fan_in: int) -> np.ndarray:
    return theory.lipschitz_upper(law.std, width, fan_in)


def _first(data: datasets.Dataset, count: int) -> datasets.Dataset:
    """Return the first examples, all if `count` is 0; each image with mean 0 and ``|x|^2 = n``."""
    images = data.images[: count or None]
    axes = tuple(range(1, images.ndim))
    images = images - images.mean(axis=axes, keepdims=True)
    images /= np.maximum(images.std(axis=axes, keepdims=True), 1e-3)
    return datasets.Dataset(images, data.labels[: count or None])


def _places(net: Any) -> tuple[int, ...]:
    return training.CIFAR10_NORMS if hasattr(net, "apply") else tuple(range(1, net.depth + 1))


def _circle(test: datasets.Dataset, config: Any, net: Any) -> curves.Curve:
    """The circle through two test images of different classes."""
    other = int(np.flatnonzero(test.labels != test.labels[0])[0])
    ends = test.images[[0, other]].astype(np.float64).reshape(2, *net.input_shape)
    return curves.circle(*ends)


def _noisy(fit: training.Fit, test: Any, config: Any, run: Run) -> np.ndarray:
    """Test accuracy under noise: ``(layers, magnitudes, networks)``."""
    layers, networks = len(fit.params(0)), np.arange(config.draws, dtype=np.uint32)

    def changed(layer: int) -> Any:
        def change(params: Any, magnitude: Any, network: Any) -> Any:
            key = jax.random.fold_in(jax.random.key(config.seed + 1), network)
            return training.add_noise(params, layer, laws.Gaussian(magnitude), key=key)

        return change

    def measured(number: int) -> np.ndarray:
        change = changed(number + 1)
        shares = [
            fit.accuracy(test, change=change, args=np.float32(m), per_network_args=networks)
            for m in config.magnitudes
        ]
        return np.array(shares)

    return run.samples("noise", measured, layers, config.draws)


def check(data: xr.Dataset) -> Findings:
    """Judge what is proven of the networks as they were drawn; look for what the paper reports."""
    found = {"noise": _robust, "length": _lengthened, "scale": _scaled, "compare": _compared}
    findings = found[str(data.attrs["view"])](data)
    accuracy = data.test_accuracy.transpose("record", ..., "network").values[-1]
    findings.numbers |= {
        "epoch": data.epoch.values,
        "networks": data.sizes["network"],
        "test_accuracy": accuracy.mean(axis=-1),
        "least_test_accuracy": accuracy.min(axis=-1),
    }
    return findings


def _robust(data: xr.Dataset) -> Findings:
    noisy, magnitudes = data.noisy.values, data.magnitude.values
    last = data.test_accuracy.transpose("record", "network").values[-1]
    mean = noisy[:, magnitudes > 0].mean(axis=1)  # (layer, network)
    x = np.arange(len(mean)) - (len(mean) - 1) / 2
    same = bool(np.allclose(noisy[:, magnitudes == 0], last))
    facts = [Fact("noise of magnitude 0 changes nothing", same, f"{len(mean)} layers")]
    claims = [
        above("accuracy under noise rises with the layer (a layer)", x @ mean / (x @ x)),
        above("the last layer stands more noise than the first", mean[-1] - mean[0]),
        above(
            "the first layer stands less than the others (in their mean)",
            mean[1:].mean(axis=0) - mean[0],
        ),
    ]
    numbers = {"magnitude": magnitudes, "accuracy_by_layer": noisy.mean(axis=2)}
    return Findings([], claims, numbers, facts)


def _stages(data: xr.Dataset) -> tuple[np.ndarray, list[str]]:
    """Lengths ``(record, network, stage)``, and names of the stages."""
    axis = f"stage_{data.attrs['norm']}"
    return data.length.transpose("record", "network", axis).values, data[axis].values.tolist()


def _lengthened(data: xr.Dataset) -> Findings:
    length, names = _stages(data)
    # The bound is one of networks as their laws draw them: it ends where normalisation begins.
    begun = next((i for i, name in enumerate(names) if name.startswith("bn")), len(names))
    drawn = [i for i, name in enumerate(names[:begun]) if not name.startswith("tr")]
    first, upper = Estimate.of(length[0][:, drawn], "length"), data.upper.values[: len(drawn)]
    verdicts = [verdict(first, upper=upper, name="at first: length <= composed upper bound")]
    ratio = np.log(np.maximum(length[-1], 1e-30) / np.maximum(length[0], 1e-30))
    claims = [
        above("training lengthens the trajectory in the last stage (log)", ratio[:, -1]),
        above("and on average over the stages (log)", ratio.mean(axis=1)),
    ]
    norms = [i for i, name in enumerate(names) if name.startswith("bn")]
    if norms:
        shorter = [np.log(length[-1][:, i - 1] / length[-1][:, i]) for i in norms]
        claims.append(
            above("normalisation shortens it, at the end (log, mean over these stages)",
                  np.mean(shorter, axis=0))
        )  # fmt: skip
        early = [np.log(length[1][:, i - 1] / length[1][:, i]) for i in norms]
        claims.append(above("and already at the first record of training", np.mean(early, axis=0)))
    numbers = {"stages": names, "length": length.mean(axis=1)}
    return Findings(verdicts, claims, numbers)


def _scaled(data: xr.Dataset) -> Findings:
    variance = data.weight_scale.transpose("record", "network", "layer").values ** 2
    drawn = float(data.attrs["variance"])
    verdicts = [
        verdict(Estimate.of(variance[0], "sigma_w^2"), drawn, drawn, "at first: the law's variance")
    ]
    gain = variance[-1] - variance[0]
    claims = [
        above("the scaled variance of the weights grows, in the mean over layers", gain.mean(1)),
        above("in the layer where it grows least", gain[:, int(np.argmin(gain.mean(axis=0)))]),
    ]
    return Findings(verdicts, claims, {"variance": variance.mean(axis=1)})


def _compared(data: xr.Dataset) -> Findings:
    kinds = data.kind.values.tolist()
    accuracy = data.test_accuracy.transpose("kind", "record", "network").values
    first, end = ({kind: accuracy[i, r] for i, kind in enumerate(kinds)} for r in (0, -1))
    apart = np.abs(first["trajectory"] - first["none"]).max()
    facts = [
        Fact("before training trajectory regularisation changes nothing", bool(apart < 5e-3),
             f"test accuracies differ by {apart:.2g}")
    ]  # fmt: skip
    claims = [
        above("batch norm beats neither", end["batch"] - end["none"], "test accuracy"),
        above("trajectory regularisation beats neither", end["trajectory"] - end["none"],
              "test accuracy"),
    ]  # fmt: skip
    gap = Estimate.of(end["batch"] - end["trajectory"])
    low, high = (float(side[0]) for side in gap.interval())
    inside, outside = low > -0.05 and high < 0.05, low > 0.05 or high < -0.05
    claims.append(
        Claim("the two are comparable (within 5 % of test accuracy)",
              True if inside else False if outside else None,
              f"batch norm ahead by {gap.mean[0]:.3g}, 95 % interval {low:.3g} to {high:.3g}")
    )  # fmt: skip
    return Findings([], claims, {"kinds": kinds, "through_training": accuracy.mean(axis=2)}, facts)


def draw(data: xr.Dataset) -> Any:
    """Draw what the view is of."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8.8, 4.5))
    epochs = data.epoch.values
    view = str(data.attrs["view"])
    if view == "noise":
        for i, found in enumerate(data.noisy.values):
            made = Estimate.of(found.T)
            style: Any = {"label": f"layer {i + 1}", "color": plt.get_cmap("viridis")(i / 7)}
            numbers = (made.mean, made.sem, made.n)
            plotting.curve_with_interval(data.magnitude.values, *numbers, ax=ax, **style)
        ax.set(xlabel="magnitude of the noise", ylabel="test accuracy", ylim=(0, None))
    elif view == "length":
        length, names = _stages(data)
        chosen = np.unique(np.round(np.linspace(0, len(epochs) - 1, 6)).astype(int))
        x = np.arange(len(names) + 1)
        start = float(data.attrs["input_length"])
        for j, i in enumerate(chosen):
            # The curve itself, whose length is known, and then the stages.
            lengths = np.c_[np.full(len(length[i]), start), length[i]]
            style = {"color": plt.get_cmap("rainbow_r")(j / max(len(chosen) - 1, 1))}
            made = Estimate.of(np.log(np.maximum(lengths, 1e-30)))
            plotting.geometric_band(x, made, ax=ax, label=f"epoch {epochs[i]:.3g}", **style)
        for place, name in enumerate(names, start=1):
            if name.startswith("bn"):
                ax.axvline(place, color="grey", linestyle=":", linewidth=1)
        ax.set(yscale="log", xticks=x, ylabel="trajectory length (geometric mean)")
        ax.set_xticklabels(["in", *names])
    elif view == "scale":
        variance = data.weight_scale.transpose("layer", "record", "network").values ** 2
        for i, found in enumerate(variance):
            made = Estimate.of(found.T)
            style = {"label": f"layer {i + 1}", "color": plt.get_cmap("viridis")(i / 7)}
            numbers = (made.mean, made.sem, made.n)
            plotting.curve_with_interval(epochs, *numbers, ax=ax, **style)
        ax.set(xlabel="epoch", ylabel="fan_in * mean(W^2)")
    else:
        accuracy = data.test_accuracy.transpose("kind", "record", "network").values
        for i, kind in enumerate(data.kind.values.tolist()):
            made = Estimate.of(accuracy[i].T)
            style = {"label": _NAMES[kind], "color": plotting.COLOURS[i]}
            numbers = (made.mean, made.sem, made.n)
            plotting.curve_with_interval(epochs, *numbers, ax=ax, **style)
        ax.set(xlabel="epoch", ylabel="test accuracy")
    ax.legend(fontsize=8)
    end = data.test_accuracy.transpose("record", ..., "network").values[-1]
    figure.suptitle(
        f"{data.attrs['title']}\n{caption(data)}, 95 % intervals over them; test accuracy in the "
        f"end {100 * end.mean():.1f} % (least {100 * end.min():.1f} %)", fontsize=9,
    )  # fmt: skip
    return figure
