"""The networks of a run before its first step, drawn from their laws."""

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
    """A run before its first step; arrays of `held` and `state` lead with the networks."""

    plan: StepSpec
    held: PerNetwork
    state: State


@dataclasses.dataclass(frozen=True)
class TrainingSpec:
    """What networks are to be drawn, and how they are to be trained; checked.

    Attributes
    ----------
    net, networks : of each cell of the sweep, so many.
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
        """Broadcast shape of all that is swept."""
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
        """Draw all of them; network i of each cell from ``fold_in(key, i)``."""
        leaves, tree = jax.tree.flatten((self.net, self.readout))
        cells = int(np.prod(self.sweep))
        places = [i for i, op in enumerate(self.net.ops) if hasattr(op, "fan_in")]
        sparse = tuple(isinstance(self.net.layer(i).weights, laws.Sparse) for i in places)

        def flat(value: ArrayLike, kind: DTypeLike) -> jax.Array:
            return jnp.asarray(np.broadcast_to(value, self.sweep).reshape(cells), kind)

        net, readout = jax.tree.unflatten(tree, [np.reshape(leaf, -1)[0] for leaf in leaves])
        sample = self.model(net, readout, key)
        steps_with(self.optimiser, sample)
        prune = self.intervention.prune
        plan = StepSpec(
            nnx.graphdef(sample),
            self.optimiser,
            self.batch,
            self.classes,
            freezes=self.intervention.train_layer is not None,
            noisy=self.intervention.label_noise is not None,
            prune=None if prune is None else dataclasses.replace(prune, density=1.0),
        )

        def one(cell: list[jax.Array], own: jax.Array) -> State:
            net, readout = jax.tree.unflatten(tree, cell)
            return begin_training(plan, self.model(net, readout, own), sparse=sparse)

        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(self.networks, dtype="u4"))
        together = jax.vmap(jax.vmap(one, (None, 0)), (0, None), axis_size=cells)
        state = jax.jit(together)([flat(leaf, self.net.dtype) for leaf in leaves], keys)
        state = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), state)

        def each(name: str, kind: DTypeLike) -> jax.Array:
            return jnp.repeat(flat(self._swept[name], kind), self.networks)

        # Another key than that of the weights, which is used up.
        own = jax.vmap(lambda k: jax.random.fold_in(k, np.uint32(0)))(keys)
        held = PerNetwork(
            jnp.tile(own, cells),
            each("train_layer", jnp.int32),
            each("label_noise", jnp.float32),
            each("prune.density", jnp.float32),
        )
        return Initialised(plan, held, state)
