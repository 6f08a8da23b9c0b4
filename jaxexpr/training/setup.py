"""Initial networks of a training run, drawn from their laws."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.typing import ArrayLike, DTypeLike

from jaxexpr import laws
from jaxexpr.networks import Network
from jaxexpr.training.interventions import Intervention
from jaxexpr.training.models import Classifier, Normalisation
from jaxexpr.training.steps import PerNetwork, State, StepSpec, begin_training, steps_with


class Initialised(NamedTuple):
    """A run before its first step; arrays in `per_network` and `state` have a leading axis E."""

    spec: StepSpec
    per_network: PerNetwork
    state: State


@dataclasses.dataclass(frozen=True)
class TrainingSpec:
    """Checked arguments of ``train``: which networks are drawn, and how they are trained.

    Attributes
    ----------
    net : hidden layers.
    networks : number of networks in each cell of the sweep.
    classes, batch, optimiser : as for ``StepSpec``.
    normalisation, readout : as for ``Classifier``.
    intervention : as for ``train``.
    """

    net: Network
    networks: int
    classes: int
    batch: int
    optimiser: optax.GradientTransformation
    normalisation: Normalisation | None = None
    readout: laws.Law | None = None
    intervention: Intervention = Intervention()

    @property
    def _swept(self) -> dict[str, Any]:
        layer, noise = self.intervention.train_layer, self.intervention.label_noise
        prune = self.intervention.prune
        return {
            "train_layer": 0 if layer is None else layer,
            "label_noise": 0.0 if noise is None else noise,
            "prune.density": 1.0 if prune is None else prune.density,
        }

    @property
    def sweep(self) -> tuple[int, ...]:
        """Broadcast shape of all swept arguments."""
        shapes = {name: np.shape(value) for name, value in self._swept.items()}
        for leaf in jax.tree.leaves(self.readout):
            shapes["readout"] = np.broadcast_shapes(shapes.get("readout", ()), np.shape(leaf))
        try:
            return np.broadcast_shapes(self.net.sweep_shape, *shapes.values())
        except ValueError:
            raise ValueError(
                f"net sweeps {self.net.sweep_shape} and the rest {shapes}, which do not broadcast: "
                "give each sweep an axis of its own"
            ) from None

    def model(self, net: Network, readout: laws.Law | None, key: jax.Array) -> Classifier:
        """Draw one network."""
        return Classifier(
            net,
            self.classes,
            key=key,
            normalisation=self.normalisation,
            readout=readout,
        )

    def draw(self, key: jax.Array) -> Initialised:
        """Draw all networks; network i of each sweep cell from ``fold_in(key, i)``."""
        leaves, tree = jax.tree.flatten((self.net, self.readout))
        cells = int(np.prod(self.sweep))
        weight_layers = [i for i, op in enumerate(self.net.ops) if hasattr(op, "fan_in")]
        sparse = tuple(isinstance(self.net.layer(i).weights, laws.Sparse) for i in weight_layers)

        def flat(value: ArrayLike, dtype: DTypeLike) -> jax.Array:
            return jnp.asarray(np.broadcast_to(value, self.sweep).reshape(cells), dtype)

        net, readout = jax.tree.unflatten(tree, [np.reshape(leaf, -1)[0] for leaf in leaves])
        sample = self.model(net, readout, key)
        steps_with(self.optimiser, sample)
        prune = self.intervention.prune
        spec = StepSpec(
            nnx.graphdef(sample),
            self.optimiser,
            self.batch,
            self.classes,
            freezes=self.intervention.train_layer is not None,
            noisy=self.intervention.label_noise is not None,
            prune=None if prune is None else dataclasses.replace(prune, density=1.0),
        )

        def one(cell: list[jax.Array], key: jax.Array) -> State:
            net, readout = jax.tree.unflatten(tree, cell)
            return begin_training(spec, self.model(net, readout, key), sparse=sparse)

        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(self.networks, dtype="u4"))
        draw_all = jax.vmap(jax.vmap(one, (None, 0)), (0, None), axis_size=cells)
        state = jax.jit(draw_all)([flat(leaf, self.net.dtype) for leaf in leaves], keys)
        state = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), state)

        def swept(name: str, dtype: DTypeLike) -> jax.Array:
            return jnp.repeat(flat(self._swept[name], dtype), self.networks)

        # The keys of the weights must not be used again.
        training_keys = jax.vmap(lambda k: jax.random.fold_in(k, np.uint32(0)))(keys)
        per_network = PerNetwork(
            jnp.tile(training_keys, cells),
            swept("train_layer", jnp.int32),
            swept("label_noise", jnp.float32),
            swept("prune.density", jnp.float32),
        )
        return Initialised(spec, per_network, state)
