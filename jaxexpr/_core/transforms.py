"""Support for kernels inside a caller's ``shard_map`` and on meshes with explicit axes.

``lax.scan`` and ``lax.while_loop`` require the initial state to have the type of the state after an
iteration. Inside ``jax.shard_map`` this type includes the mesh axes over which a value varies. A
loop that starts with the same points on all devices, and then uses random weights that differ
between devices, therefore starts with the wrong type. On a mesh with explicit axes many operations
require the sharding of their result; kernels leave that to XLA.
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
    body: Callable[[State, Step], tuple[State, Out]], state: State, steps: Step, *captured: object
) -> tuple[State, Out]:
    """Run ``lax.scan`` inside any transformation.

    captured : values that `body` closes over.
    """

    def iteration(state: State, step: Step) -> tuple[State, Out]:
        new_state, out = body(state, step)
        return spread(new_state, state), out

    return lax.scan(iteration, spread(state, steps, captured), steps)


def spread(state: State, *others: object) -> State:
    """Return `state` with the type of values that vary over every mesh axis of any argument.

    Outside ``shard_map`` it is returned unchanged; inside, XLA removes the added operations.

    Examples
    --------
    >>> spread((jnp.zeros(2), 3), jnp.ones(4))[0].tolist()
    [0.0, 0.0]
    """
    traced = [x for x in jax.tree.leaves((state, others)) if checks.is_traced(x)]
    if not traced or not jax.sharding.get_abstract_mesh().manual_axes:
        return state
    false = jnp.zeros((), bool)
    for x in traced:
        false = false | (jnp.any(x != x) & np.False_)
    return jax.tree.map(lambda x: jnp.where(false, jnp.zeros_like(x), x), state)


def on_any_mesh(function: Callable[..., Out], *args: object) -> Out:
    """Call ``function(*args)`` with the explicit axes of a mesh made automatic inside it."""
    arrays = [x for x in jax.tree.leaves(args) if isinstance(x, jax.Array)]
    meshes = [jax.sharding.get_abstract_mesh(), *(jax.typeof(x).sharding.mesh for x in arrays)]
    mesh = next((m for m in meshes if not m.empty), meshes[0])
    if AxisType.Explicit not in mesh.axis_types:
        return function(*args)
    with jax.sharding.use_abstract_mesh(mesh):
        return auto_axes(function, out_sharding=PartitionSpec())(*args)
