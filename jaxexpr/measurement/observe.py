"""Passes over one drawn network -> the numbers of its probes."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity
from jaxexpr.measurement.exact_pass import measured
from jaxexpr.measurement.plan import Pass
from jaxexpr.measurement.propagation import propagate
from jaxexpr.networks import Network
from jaxexpr.probes.base import Layer, Number, Probe, left_out

ROOM = "room that was needed"


def probe_names(passes: tuple[Pass, ...]) -> list[str]:
    """Names of all probes, pass by pass."""
    return [probe.name for item in passes for probe in item.probes]


def seen_of_layer(
    item: Pass, layer: Layer, fewer: Layer | None, *, coarser: bool
) -> dict[str, Any]:
    """All that one pass keeps of a layer.

    ``{probe: (number, coarser - fine, dead segments, whether the image is finite)}``.
    """
    dead = left_out(layer).value
    sound = jnp.isfinite(jnp.sum(layer.segments))
    if layer.dz is not None:
        sound = sound & jnp.isfinite(jnp.max(jnp.abs(layer.z)))
    seen: dict[str, Any] = {}
    # Counts and means of an image that holds NaN would look like numbers.
    lost = jnp.isnan(jnp.sum(layer.segments))
    for probe in item.probes:
        number = probe(layer)
        if probe.finish is None:
            number = number._replace(value=jnp.where(lost, jnp.nan, number.value))
        if probe.finish is not None:
            rough = probe(fewer).value if coarser and fewer is not None else None
            seen[probe.name] = (number.value, rough, dead, sound)
            continue
        if not coarser:
            seen[probe.name] = (number,)
            continue
        rough = jnp.full_like(number.value, jnp.nan) if fewer is None else probe(fewer).value
        seen[probe.name] = (number, rough - number.value, dead, sound)
    return seen


def finished(item: Pass, seen: dict[str, Any], *, coarser: bool) -> dict[str, Any]:
    """What ``seen_of_layer`` said of all layers, stacked, after the probes' last steps.

    Numbers that span layers come from it in the precision of the others.
    """
    for probe in item.probes:
        if probe.finish is None:
            continue
        raw, rough, dead, sound = seen[probe.name]
        value = probe.finish(raw).astype(dead.dtype)
        number = Number(value, jnp.zeros(dead.shape, jnp.int32))
        moved = jnp.full_like(dead, jnp.nan)
        if rough is not None:
            moved = probe.finish(rough).astype(dead.dtype) - value
        seen[probe.name] = (number, moved, dead, sound) if coarser else (number,)
    return seen


def observe(
    net: Network, key: jax.Array, curve: Curve, passes: tuple[Pass, ...], *, coarser: bool
) -> dict[str, Any]:
    """Send the curve through one network, pass by pass, and gather what the probes say.

    Returns ``{probe: (number, ...)}``; with `coarser` also how much the number changes at fewer
    nodes, the count of segments without a length below the layer, and whether the image is
    finite. Arrays ``(depth,)``.
    """
    seen: dict[str, Any] = {}
    for item in passes:
        if item.method == "exact":
            seen |= _seen_exactly(net, key, curve, item, coarser=coarser)
            continue
        look = functools.partial(seen_of_layer, item, coarser=coarser)
        said = propagate(net, key, curve, item.nodes, look, gram=item.gram)
        seen |= finished(item, said, coarser=coarser)
    return seen


def _seen_exactly(
    net: Network, key: jax.Array, curve: Curve, item: Pass, *, coarser: bool
) -> dict[str, Any]:
    """As ``observe``, of an exact pass; and under ``ROOM`` the room that it needed."""
    numbers, still, needed = measured(net, key, curve, item.room, item.levels)
    planned = sum(block.layers for block in item.room.plan)
    enough = jnp.logical_not(jnp.any(capacity.short(item.room.plan, needed[:planned])))
    sound = jnp.isfinite(numbers["length"][0])
    seen: dict[str, Any] = {ROOM: needed} if coarser else {}
    for probe in item.probes:
        value, exponent = exact_number(probe, numbers)
        if not coarser:
            # Nobody can give more room inside the caller's own function.
            seen[probe.name] = (Number(jnp.where(enough, value, jnp.nan), exponent),)
            continue
        dead = still.astype(value.dtype)
        seen[probe.name] = (Number(value, exponent), jnp.zeros_like(value), dead, sound)
    return seen


def exact_number(probe: Probe, numbers: dict[Any, Any]) -> Number:
    """The number of a probe, out of what ``exact_pass.numbers`` returns."""
    if not probe.levels:
        return Number(*numbers[probe.name])
    total = sum(numbers[level][0] for level in probe.levels)
    return Number(total, numbers[probe.levels[0]][1])
