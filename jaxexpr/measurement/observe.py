"""Passes over one drawn network -> what is observed of its probes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxexpr._core.shapes import Array, Bool, Float, Int, Key
from jaxexpr.curves import Curve
from jaxexpr.measurement.exact_pass import measured
from jaxexpr.measurement.plan import Pass
from jaxexpr.measurement.propagation import propagate
from jaxexpr.networks import Network
from jaxexpr.probes.base import Layer, Number, Probe
from jaxexpr.probes.lengths import left_out


class Observation(NamedTuple):
    """One quantity in one network; all arrays have the shape of the quantity, often ``(depth,)``.

    Attributes
    ----------
    number : its value, in units of a power of two.
    coarser : how far the value moves at fewer nodes (coarser less fine, same units); NaN where
        that is not known, 0 where there is no discretisation.
    left_out : segments without a length below the layer.
    finite : whether the image of the curve is finite there. NaN where it is finite means that the
        network has no such number; elsewhere that it overflowed.
    """

    number: Number
    coarser: Any
    left_out: Float[Array, "*shape"]
    finite: Bool[Array, "*shape"]

    @staticmethod
    def of(value: ArrayLike, coarser: float = jnp.nan) -> Observation:
        """An array of which nothing but its values is known."""
        value = jnp.asarray(value)
        if not jnp.issubdtype(value.dtype, jnp.floating):
            value = value.astype(jnp.result_type(float))
        number = Number(value, jnp.zeros(value.shape, jnp.int32))
        known = jnp.ones(value.shape, bool)
        return Observation(number, jnp.full_like(value, coarser), jnp.zeros_like(value), known)


class Observed(NamedTuple):
    """All that is observed in one network.

    Attributes
    ----------
    numbers : ``{name: Observation}``.
    required : how large the arrays should have been; whatever the task that planned them compares
        it with.
    """

    numbers: dict[str, Observation]
    required: Any = ()


def probe_names(passes: tuple[Pass, ...]) -> list[str]:
    """Names of all probes, pass by pass."""
    return [probe.name for item in passes for probe in item.probes]


def observe_layer(item: Pass, layer: Layer, fewer: Layer | None) -> dict[str, Observation]:
    """All that one pass keeps of a layer; of probes with a last step what that step takes."""
    nothing_left = left_out(layer).value
    finite = jnp.isfinite(jnp.sum(layer.segments))
    if layer.dz is not None:
        finite = finite & jnp.isfinite(jnp.max(jnp.abs(layer.z)))
    # Counts and means of an image that holds NaN would look like numbers.
    lost = jnp.isnan(jnp.sum(layer.segments))
    observed = {}
    for probe in item.probes:
        number = probe(layer)
        coarser: Any = None
        if probe.finish is None:
            number = number._replace(value=jnp.where(lost, jnp.nan, number.value))
            rough = jnp.full_like(number.value, jnp.nan) if fewer is None else probe(fewer).value
            coarser = rough - number.value
        elif fewer is not None:
            coarser = probe(fewer).value
        observed[probe.name] = Observation(number, coarser, nothing_left, finite)
    return observed


def finished(item: Pass, observed: dict[str, Observation]) -> dict[str, Observation]:
    """What ``observe_layer`` found in all layers, stacked, after the probes' last steps.

    Numbers that span layers come from it in the precision of the others, and NaN from the first
    layer on whose image is not finite.
    """
    for probe in item.probes:
        if probe.finish is None:
            continue
        raw, rough, nothing_left, finite = observed[probe.name]
        finite = jnp.cumsum(~finite) == 0

        dtype = nothing_left.dtype
        value = jnp.where(finite, probe.finish(raw.value).astype(dtype), jnp.nan)
        coarser = jnp.full_like(value, jnp.nan)
        if rough is not None:
            coarser = probe.finish(rough).astype(dtype) - value
        number = Number(value, jnp.zeros(value.shape, jnp.int32))
        observed[probe.name] = Observation(number, coarser, nothing_left, finite)
    return observed


def observe(net: Network, key: Key[Array, ""], curve: Curve, passes: tuple[Pass, ...]) -> Observed:
    """Send the curve through one network, pass by pass, and gather what the probes find.

    Arrays are ``(depth,)``; ``required`` is ``(depth, 2)`` of an exact pass, as ``exact_pass.
    measured`` returns it, and nothing where there is none.
    """
    numbers: dict[str, Observation] = {}
    required: Any = ()
    for item in passes:
        if item.method == "exact":
            found, required = _observe_exactly(net, key, curve, item)
            numbers |= found
            continue
        look = functools.partial(observe_layer, item)
        numbers |= finished(item, propagate(net, key, curve, item.nodes, look, gram=item.gram))
    return Observed(numbers, required)


def _observe_exactly(
    net: Network, key: Key[Array, ""], curve: Curve, item: Pass
) -> tuple[dict[str, Observation], Int[Array, "depth 2"]]:
    """The observations of an exact pass, and the capacity that it required."""
    assert item.capacity is not None
    numbers, still, required = measured(net, key, curve, item.capacity, item.levels)
    finite = jnp.isfinite(numbers["length"][0])
    observed = {}
    for probe in item.probes:
        number = exact_number(probe, numbers)
        nothing_left = still.astype(number.value.dtype)
        observed[probe.name] = Observation(
            number, jnp.zeros_like(number.value), nothing_left, finite
        )
    return observed, required


def where_it_fits(observed: Observed, passes: tuple[Pass, ...]) -> dict[str, Number]:
    """The numbers of one network, NaN of an exact pass whose arrays were too small.

    For a caller's own function, in which nobody can give more.
    """
    numbers = {name: one.number for name, one in observed.numbers.items()}
    for item in passes:
        if item.capacity is not None:
            overflowed = item.capacity.overflowed(observed.required)
            for probe in item.probes:
                value, exponent = numbers[probe.name]
                numbers[probe.name] = Number(jnp.where(overflowed, jnp.nan, value), exponent)
    return numbers


def exact_number(probe: Probe, numbers: Mapping[Any, Any]) -> Number:
    """The number of a probe, out of what ``exact_pass.numbers`` returns."""
    if not probe.levels:
        return Number(*numbers[probe.name])
    total = sum(numbers[level][0] for level in probe.levels)
    return Number(total, numbers[probe.levels[0]][1])
