"""Trajectory regularisation: a layer that penalises the length of the minibatch's trajectory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike


class Penalty(nnx.Variable):
    """A term of the loss that a layer computes; ``train`` adds up all that a model holds."""


def polyline_length(rows: jax.Array) -> jax.Array:
    """Length of the polyline through rows ``(batch, units)``, in their order.

    Its gradient is 0 where neighbours coincide.
    """
    squares = jnp.sum(jnp.diff(rows, axis=0) ** 2, axis=1)
    apart = squares > 0
    return jnp.sum(jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1)), 0))


class TrajectoryRegularisation(nnx.Module):
    """The trajectory regularisation layer of Raghu et al. 2017, section 3.3.

    With a learnt scalar lambda it adds ``weight * lambda * length / original length`` to the loss
    and multiplies its activations by lambda. The length is that of the polyline through the
    minibatch's examples, in their order in the minibatch; the original length is that of the same
    minibatch's polyline in input space. Activations are scaled in training and in inference alike.

    The paper defines neither the original length nor the initial value of lambda, which is 1 here.

    Parameters
    ----------
    weight : the constant in front of the loss; 0.01 in the paper.
    dtype : precision of lambda.

    Attributes
    ----------
    scale : lambda, a parameter, ``()``.
    penalty : the term of the loss at the last call, a ``Penalty``, ``()``; not updated while
        ``deterministic`` is on (``model.eval()``), and 0 where all inputs are equal.

    Examples
    --------
    >>> layer = TrajectoryRegularisation()
    >>> x = jnp.array([[0.0, 0.0], [3.0, 4.0]])
    >>> layer(2 * x, x).tolist(), float(layer.penalty[...]).__round__(6)
    ([[0.0, 0.0], [6.0, 8.0]], 0.02)
    """

    def __init__(self, *, weight: float = 0.01, dtype: DTypeLike = jnp.float32) -> None:
        self.weight = weight
        self.scale = nnx.Param(jnp.ones((), dtype))
        self.penalty = Penalty(jnp.zeros((), dtype))
        self.deterministic = False

    def __call__(self, z: jax.Array, x: jax.Array) -> jax.Array:
        """Scale the activations `z` ``(batch, ...)`` of the inputs `x` ``(batch, ...)``."""
        scale = self.scale[...]
        if not self.deterministic:
            length = polyline_length(z.reshape(z.shape[0], -1))
            original = jax.lax.stop_gradient(polyline_length(x.reshape(x.shape[0], -1)))
            ratio = length / jnp.where(original > 0, original, 1)
            self.penalty[...] = self.weight * scale * jnp.where(original > 0, ratio, 0)
        return scale * z
