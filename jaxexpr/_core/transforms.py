"""What the kernels need to work inside other people's ``shard_map`` and on their meshes.

``lax.scan`` and ``lax.while_loop`` ask that the state they begin with has the type of the state
that a turn makes of it. Inside ``jax.shard_map`` that type says over which devices a value varies:
a loop that begins with the same points on all devices and goes on with random weights of their own
does not begin with the right type. On a mesh with explicit axes many operations ask how their
result is sharded; kernels leave that to XLA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec, auto_axes

from jaxexpr._core import checks

State = TypeVar("State")
Step = TypeVar("Step")
Out = TypeVar("Out")


def scan(
    body: Callable[[State, Step], tuple[State, Out]], state: State, steps: Step, *given: object
) -> tuple[State, Out]:
    """``lax.scan`` of a `body` that reads `given`, inside any transformation."""

    def turn(state: State, step: Step) -> tuple[State, Out]:
        above, out = body(state, step)
        return spread(above, state), out

    return lax.scan(turn, spread(state, steps, given), steps)


def spread(state: State, *given: object) -> State:
    """Return the same values, each varying over the devices over which any of these does.

    Outside of ``shard_map`` they are returned as they are; in there XLA removes all that this adds.

    Examples
    --------
    >>> spread((jnp.zeros(2), 3), jnp.ones(4))[0].tolist()
    [0.0, 0.0]
    """
    traced = [x for x in jax.tree.leaves((state, given)) if checks.is_traced(x)]
    if not traced or not jax.sharding.get_abstract_mesh().manual_axes:
        return state
    never = jnp.zeros((), bool)
    for x in traced:
        never = never | (jnp.any(x != x) & np.False_)
    return jax.tree.map(lambda x: jnp.where(never, jnp.zeros_like(x), x), state)


def on_any_mesh(function: Callable[..., Out], *given: object) -> Out:
    """``function(*given)``, its inside without explicit axes; results as `given` are sharded."""
    arrays = [x for x in jax.tree.leaves(given) if isinstance(x, jax.Array)]
    meshes = [jax.sharding.get_abstract_mesh(), *(jax.typeof(x).sharding.mesh for x in arrays)]
    mesh = next((m for m in meshes if not m.empty), meshes[0])
    if AxisType.Explicit not in mesh.axis_types:
        return function(*given)
    with jax.sharding.use_abstract_mesh(mesh):
        return auto_axes(function, out_sharding=PartitionSpec())(*given)
