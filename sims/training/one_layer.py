"""Training exactly one layer of a network, the rest as it was drawn.

Raghu et al. 2017, figures 7 and 17: hard-tanh networks of which only one hidden layer is trained,
from the second on (so that the number of trained parameters is the same). The paper finds that
training a lower layer gives a better training accuracy: it has more remaining depth. Its theory is
about fitting, not about generalisation. One call trains all layers' networks at once: the layer is
an axis of the ensemble.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxexpr import MLP, Estimate, datasets, laws, plotting, training
from sims.config import Training
from sims.findings import Claim, Fact, Findings, claim_positive
from sims.running import Run


@dataclasses.dataclass(frozen=True)
class Config(Training):
    """Training exactly one layer, hard-tanh."""

    examples: int = 10_000
    """Training examples; 0 is all."""
    width: int = 100
    """Units in each layer."""
    depth: int = 9
    """Layers; the second to the last are trained, one at a time."""
    scale: float = 1.0
    """sigma_w^2."""


def simulate(config: Config, run: Run) -> xr.Dataset:
    """Return accuracies through training, by the layer that is trained."""
    examples = datasets.load(config.data, "train")
    if config.examples:
        few = config.examples
        examples = datasets.Dataset(examples.images[:few], examples.labels[:few])
    widths = (examples.flat.shape[1], *(config.width,) * config.depth)
    net = MLP(widths, laws.Gaussian(config.scale**0.5), laws.Zero(), "hard_tanh")
    layers = np.arange(2, config.depth + 1)
    fit = run.train(
        "networks",
        net,
        examples,
        config,
        intervention=training.Intervention(train_layer=layers),
    )
    data = fit.dataset(["layer"], {"layer": layers})
    data["moved"] = (("layer", "of"), _moved(fit, config))
    return data


def _moved(fit: training.Fit, config: Config) -> np.ndarray:
    """How far the weights of each layer moved at most, by the layer that was trained."""
    numbers = np.arange(config.draws, dtype=np.uint32)
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(config.seed), i))(numbers)
    drawn = [np.asarray(w) for w, _ in jax.vmap(fit.net.init)(keys)]
    trained = [np.asarray(w).reshape(*fit.shape, *w.shape[1:]) for w, _ in fit.last.params]
    pairs = zip(trained, drawn, strict=True)
    return np.stack([np.abs(w - start).max(axis=(1, 2, 3)) for w, start in pairs], axis=1)


def check(data: xr.Dataset, config: Config) -> Findings:
    """See that nothing else moved; look for lower layers that train better."""
    moved, layers = data.moved.values, data.layer.values
    trained = np.arange(len(layers)), layers - 1
    rest = moved.copy()
    rest[trained] = 0
    facts = [
        Fact(
            "only the layer that is trained moves",
            bool(rest.max() < 1e-5 and moved[trained].min() > 1e-3),
            f"it by {moved[trained].min():.2g} at least, the rest by {rest.max():.2g} (rounding)",
        )
    ]
    train, test = (
        data[f"{name}_accuracy"].transpose("record", "layer", "network").values[-1]
        for name in ("train", "test")
    )
    # Of each network: the slope of its accuracy in the number of the layer.
    x = layers - layers.mean()
    slopes = {name: x @ share / (x @ x) for name, share in (("train", train), ("test", test))}
    claims = [
        claim_positive(f"training accuracy falls with the layer that is trained, {what}", fall)
        for what, fall in (
            ("a layer", -slopes["train"]),
            ("from the first of them to the last", train[0] - train[-1]),
        )
    ]
    falls = np.diff(train.mean(axis=1)) < 0
    claims.append(
        Claim(
            "it falls with each layer (in the mean)",
            bool(falls.all()),
            f"in {falls.sum()} of {falls.size} steps",
        )
    )
    claims.append(claim_positive("test accuracy falls as well, a layer", -slopes["test"]))
    numbers = {
        "layer": layers,
        "train_accuracy": train.mean(axis=1),
        "train_error": train.std(axis=1, ddof=1) / train.shape[1] ** 0.5,
        "test_accuracy": test.mean(axis=1),
        "test_error": test.std(axis=1, ddof=1) / test.shape[1] ** 0.5,
        "slope_a_layer": slopes["train"].mean(),
    }
    return Findings([], claims, numbers, facts)


def draw(data: xr.Dataset, config: Config) -> tuple[Figure, str]:
    """Draw training and test accuracy against the epoch, a line a layer."""
    figure, panes = plt.subplots(1, 2, figsize=(9.6, 4.2), sharey=True)
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, data.sizes["layer"]))
    for pane, name in zip(panes, ("train", "test"), strict=True):
        accuracy = data[f"{name}_accuracy"].transpose("layer", "record", "network").values
        for i, layer in enumerate(data.layer.values):
            style: Any = {"label": f"layer {layer}", "color": colours[i]}
            mean = Estimate.of(accuracy[i].T)
            plotting.curve_with_interval(data.epoch.values, mean, ax=pane, **style)
        pane.set(xlabel="epoch", ylabel=f"{name} accuracy")
    panes[0].legend(ncols=2, fontsize=7.5)
    return figure, "95 % intervals over them"
