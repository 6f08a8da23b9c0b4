"""Probes that count: crossings of levels, transitions, pieces and activation patterns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.packed_bits import distinct, pack_all
from jaxexpr.prng import threefry2x32
from jaxexpr.probes.base import GRID_POINTS, Layer, Probe


def _beyond(layer: Layer, levels: Sequence[float]) -> list[jax.Array]:
    """Which units are beyond each level at each node, ``(m, width)`` each."""
    dtype = layer.h.dtype
    # Points are in units of a power of two, which matters to levels other than 0.
    unit = power_of_two(-layer.points_exponent, dtype)
    return [layer.h > (np.asarray(x, dtype) * unit if x else 0) for x in levels]


def _crossings(layer: Layer, levels: Sequence[float]) -> jax.Array:
    total = jnp.zeros((), layer.h.dtype)
    for beyond in _beyond(layer, levels):
        total = total + jnp.sum((beyond[1:] != beyond[:-1]).astype(layer.h.dtype))
    return total


def _transitions(layer: Layer) -> jax.Array:
    if layer.winners is not None:
        changes = layer.winners[1:] != layer.winners[:-1]
        return jnp.sum(changes.astype(layer.h.dtype))
    return _crossings(layer, layer.activation.breakpoints or ())


@dataclasses.dataclass(frozen=True)
class _Crossings:
    """Crossings of some levels; equal levels compare equal, so they compile once."""

    levels: tuple[float, ...]

    def __call__(self, layer: Layer) -> jax.Array:
        return _crossings(layer, self.levels)


@explained
def crossings(*levels: float, name: str | None = None) -> Probe:
    """A probe that counts crossings of these levels by the pre-activations of each layer.

    ``transitions`` counts crossings of the breakpoints of a piecewise linear activation; this probe
    those of any levels: thresholds of a smooth activation, or 0, where a readout changes its sign
    (probe ``"sign_changes"``). A jump over several levels counts each of them.

    Raises
    ------
    ValueError
        for no level, one that is not finite, and a repeated one.

    Examples
    --------
    >>> crossings(-1.0, 1.0).name
    'crossings(-1, 1)'
    """
    checked_levels = checks.sequence("levels", levels)
    if not checked_levels or len(set(checked_levels)) < len(checked_levels):
        raise ValueError(f"levels={levels}: give one or more levels, each once")
    title = f"crossings({', '.join(f'{x:g}' for x in checked_levels)})" if name is None else name
    return Probe(
        title,
        _Crossings(checked_levels),
        nodes=("exact", "grid"),
        points=(0, GRID_POINTS),
        levels=checked_levels,
        counts=True,
    )


def _codes(layer: Layer) -> jax.Array:
    """Two words for each node that tell activation patterns of this layer apart, ``(m, 2)``."""
    beyond = _beyond(layer, layer.activation.breakpoints or ())
    if layer.winners is not None:
        beyond = [(layer.winners >> bit) & 1 > 0 for bit in range(layer.op.size.bit_length() * 2)]
    words = pack_all(beyond, layer.h.shape[0])
    place = lax.broadcasted_iota(jnp.uint32, words.shape, 1)
    number = jnp.asarray(layer.number).astype(jnp.uint32) - 1
    mixed = threefry2x32((number, np.uint32(words.shape[1])), (words, place))
    return jnp.stack([jnp.sum(x, axis=1, dtype=jnp.uint32) for x in mixed], axis=1)


def _of_each(codes: jax.Array) -> jax.Array:
    whole = jnp.ones(codes.shape[1], bool)
    return jax.vmap(lambda one: distinct(one, whole))(codes)


def _of_all_below(codes: jax.Array) -> jax.Array:
    return _of_each(jnp.cumsum(codes, axis=0, dtype=jnp.uint32))


def _seen_exactly_alone(layer: Layer) -> jax.Array:
    raise ValueError("probe 'pieces' is measured by method='exact' alone")


transitions = Probe(
    "transitions", _transitions, nodes=("exact", "grid"), points=(0, GRID_POINTS), counts=True
)
network_transitions = dataclasses.replace(
    transitions, name="network_transitions", finish=functools.partial(jnp.cumsum, axis=0)
)
sign_changes = crossings(0.0, name="sign_changes")
pieces = Probe("pieces", _seen_exactly_alone, nodes=("exact",), points=(0,), counts=True)
patterns = dataclasses.replace(transitions, name="patterns", measure=_codes, finish=_of_all_below)
layer_patterns = Probe(
    "layer_patterns", _codes, nodes=("grid",), points=(GRID_POINTS,), finish=_of_each, counts=True
)
