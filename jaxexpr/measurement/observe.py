"""Run the passes of one drawn network and collect the values of the probes."""

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
    number : its value, as a multiple of a power of two.
    coarser : value at fewer nodes minus value at all nodes, with the same exponent; NaN where it is
        unknown, 0 where there is no discretisation.
    left_out : number of segments whose image below the layer has length 0.
    finite : whether the image of the curve is finite. Where it is, a NaN means that the quantity
        does not exist in this network; elsewhere, that a value overflowed.
    """

    number: Number
    coarser: Any
    left_out: Float[Array, "*shape"]
    finite: Bool[Array, "*shape"]

    @staticmethod
    def of(value: ArrayLike, coarser: float = jnp.nan) -> Observation:
        """Wrap an array of finite values for which no segment was left out."""
        value = jnp.asarray(value)
        if not jnp.issubdtype(value.dtype, jnp.floating):
            value = value.astype(jnp.result_type(float))
        number = Number(value, jnp.zeros(value.shape, jnp.int32))
        finite = jnp.ones(value.shape, bool)
        return Observation(number, jnp.full_like(value, coarser), jnp.zeros_like(value), finite)


class Observed(NamedTuple):
    """All observations of one network.

    Attributes
    ----------
    numbers : ``{name: Observation}``.
    required : the array sizes that the network required, in the form in which its task compares
        them with the planned ones.
    """

    numbers: dict[str, Observation]
    required: Any = ()


def probe_names(passes: tuple[Pass, ...]) -> list[str]:
    """Names of all probes, pass by pass."""
    return [probe.name for item in passes for probe in item.probes]


def observe_layer(item: Pass, layer: Layer, coarse_layer: Layer | None) -> dict[str, Observation]:
    """Evaluate the probes of a pass in one layer.

    For a probe with a ``finish`` step the observation holds the input of that step.

    coarse_layer : the layer at fewer nodes, if there are enough to thin out.
    """
    left_out_count = left_out(layer).value
    finite = jnp.isfinite(jnp.sum(layer.segments))
    if layer.dz is not None:
        finite = finite & jnp.isfinite(jnp.max(jnp.abs(layer.z)))
    # Counts and means of an image that contains NaN would otherwise look valid.
    has_nan = jnp.isnan(jnp.sum(layer.segments))
    observed = {}
    for probe in item.probes:
        number = probe(layer)
        coarser: Any = None
        if probe.finish is None:
            number = number._replace(value=jnp.where(has_nan, jnp.nan, number.value))
            coarse_value = (
                jnp.full_like(number.value, jnp.nan)
                if coarse_layer is None
                else probe(coarse_layer).value
            )
            coarser = coarse_value - number.value
        elif coarse_layer is not None:
            coarser = probe(coarse_layer).value
        observed[probe.name] = Observation(number, coarser, left_out_count, finite)
    return observed


def apply_finish(item: Pass, observed: dict[str, Observation]) -> dict[str, Observation]:
    """Apply the ``finish`` steps of probes to the stacked results of ``observe_layer``.

    Such a step may combine layers. Its results are cast to the precision of the other numbers, and
    are NaN from the first layer on whose image is not finite.
    """
    for probe in item.probes:
        if probe.finish is None:
            continue
        unfinished, coarse, left_out_count, finite = observed[probe.name]
        finite = jnp.cumsum(~finite) == 0

        dtype = left_out_count.dtype
        value = jnp.where(finite, probe.finish(unfinished.value).astype(dtype), jnp.nan)
        coarser = jnp.full_like(value, jnp.nan)
        if coarse is not None:
            coarser = probe.finish(coarse).astype(dtype) - value
        number = Number(value, jnp.zeros(value.shape, jnp.int32))
        observed[probe.name] = Observation(number, coarser, left_out_count, finite)
    return observed


def observe(net: Network, key: Key[Array, ""], curve: Curve, passes: tuple[Pass, ...]) -> Observed:
    """Run all passes of the curve through one network and collect the observations.

    Arrays are ``(depth,)``. ``required`` is ``(depth, 2)``, as ``exact_pass.measured`` returns it,
    or empty if no pass is exact.
    """
    numbers: dict[str, Observation] = {}
    required: Any = ()
    for item in passes:
        if item.method == "exact":
            observations, required = _observe_exactly(net, key, curve, item)
            numbers |= observations
            continue
        observer = functools.partial(observe_layer, item)
        layers = propagate(net, key, curve, item.nodes, observer, gram=item.gram)
        numbers |= apply_finish(item, layers)
    return Observed(numbers, required)


def _observe_exactly(
    net: Network, key: Key[Array, ""], curve: Curve, item: Pass
) -> tuple[dict[str, Observation], Int[Array, "depth 2"]]:
    """Return the observations of an exact pass and the capacity that it required."""
    assert item.capacity is not None
    numbers, still, required = measured(net, key, curve, item.capacity, item.levels)
    finite = jnp.isfinite(numbers["length"][0])
    observed = {}
    for probe in item.probes:
        number = exact_number(probe, numbers)
        left_out_count = still.astype(number.value.dtype)
        observed[probe.name] = Observation(
            number, jnp.zeros_like(number.value), left_out_count, finite
        )
    return observed, required


def nan_where_overflowed(observed: Observed, passes: tuple[Pass, ...]) -> dict[str, Number]:
    """Return the numbers of one network; NaN for an exact pass whose arrays were too small.

    Used inside compiled functions of the caller, where the capacity cannot be enlarged.
    """
    numbers = {name: observation.number for name, observation in observed.numbers.items()}
    for item in passes:
        if item.capacity is not None:
            overflowed = item.capacity.overflowed(observed.required)
            for probe in item.probes:
                value, exponent = numbers[probe.name]
                numbers[probe.name] = Number(jnp.where(overflowed, jnp.nan, value), exponent)
    return numbers


def exact_number(probe: Probe, numbers: Mapping[Any, Any]) -> Number:
    """Return the number of a probe from the result of ``exact_pass.numbers``."""
    if not probe.levels:
        return Number(*numbers[probe.name])
    total = sum(numbers[level][0] for level in probe.levels)
    return Number(total, numbers[probe.levels[0]][1])
