"""What is measured in each of many networks: the jobs that the runner runs.

A job is static and hashable: all that is traced, the network's numbers and what it is measured
along, comes to it as an argument.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity
from jaxexpr.exactly import measured, more_room, within
from jaxexpr.networks import Network
from jaxexpr.plans import Pass
from jaxexpr.probes import Number, Probe, left_out
from jaxexpr.propagation import Layer, propagate

ROOM = "room that was needed"


class Job(Hashable, Protocol):
    """What the runner asks of a job."""

    @property
    def names(self) -> list[str]:
        """Names of the numbers, in order."""

    def how(self, name: str) -> tuple[str, int]:
        """Method and points of a number."""

    @property
    def identity(self) -> Any:
        """All that tells this job's numbers from those of another."""

    @property
    def exact(self) -> bool:
        """Whether some numbers come from exact pieces."""

    def bytes(self, net: Any) -> float:
        """Memory of one network, one cell of a sweep."""

    def kept(self, net: Any) -> int:
        """Numbers that one network, one cell of a sweep, leaves."""

    def look(self, net: Any, key: jax.Array, data: Any) -> dict[str, Any]:
        """Draw one network and measure it.

        Returns ``{name: (number, coarser - fine, dead segments, whether it is finite)}``; and under
        ``ROOM``, of a job whose arrays may be too small, what was needed.
        """

    def wider(self, needed: np.ndarray, net: Any, budget: float) -> Job | None:
        """The job with room for what was needed; ``None`` if there was enough."""

    def within(self, net: Any, budget: float) -> Job:
        """The job cut into parts where its arrays would not fit the budget."""

    def finer(self) -> Job | None:
        """The job at twice the points; ``None`` if it has no discretisation error."""


@dataclasses.dataclass(frozen=True)
class Along:
    """Probes along a curve."""

    passes: tuple[Pass, ...]

    @property
    def names(self) -> list[str]:
        return probe_names(self.passes)

    def how(self, name: str) -> tuple[str, int]:
        item = next(p for p in self.passes if name in probe_names((p,)))
        cut = item.room is not None and item.room.cut
        parts = f" in parts of up to {item.room.plan[-1].size} pieces" if cut else ""
        return item.method + parts, item.nodes.count

    @property
    def identity(self) -> Any:
        return [(item.nodes, item.gram, item.probes) for item in self.passes]

    @property
    def exact(self) -> bool:
        return any(item.method == "exact" for item in self.passes)

    def bytes(self, net: Any) -> float:
        size = np.dtype(net.dtype).itemsize
        rows = max(p.nodes.count * (1 if p.nodes.kind == "grid" else 2) for p in self.passes)
        plain = size * (2 * net.widest + 5 * rows * max(net.widths))
        return plain + sum(p.room.bytes(net) for p in self.passes if p.room is not None)

    def kept(self, net: Any) -> int:
        return net.depth * len(self.names)

    def look(self, net: Any, key: jax.Array, data: Any) -> dict[str, Any]:
        return observe(net, key, data, self.passes, coarser=True)

    def wider(self, needed: np.ndarray, net: Any, budget: float) -> Along | None:
        exact = next(item for item in self.passes if item.method == "exact")
        grown = more_room(exact.room, needed, net, budget)
        if grown is None:
            return None
        more = dataclasses.replace(exact, room=grown)
        return Along(tuple(more if item is exact else item for item in self.passes))

    def within(self, net: Any, budget: float) -> Along:
        return Along(
            tuple(
                item
                if item.room is None
                else dataclasses.replace(item, room=within(item.room, net, budget))
                for item in self.passes
            )
        )

    def finer(self) -> Along | None:
        if all(item.method == "exact" for item in self.passes):
            return None
        return Along(tuple(item.finer() for item in self.passes))


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
    """The number of a probe, out of what ``exactly.numbers`` returns."""
    if not probe.levels:
        return Number(*numbers[probe.name])
    total = sum(numbers[level][0] for level in probe.levels)
    return Number(total, numbers[probe.levels[0]][1])
