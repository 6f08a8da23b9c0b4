"""The weights of one layer on a great circle: one network, one moving layer at a time.

The task behind ``dichotomies``. At a fixed point the pre-activations of the moving layer are
``a cos t + b sin t + c``; above it the network is sent along these arcs exactly, or on a grid.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr import laws, prng
from jaxexpr._core import bits
from jaxexpr._core.linalg import dot
from jaxexpr.ensemble.tasks import Task
from jaxexpr.exact.along_curves import capacity as rooms
from jaxexpr.exact.along_curves import label_changes, traverse
from jaxexpr.measurement.capacity_guess import ROW_ARRAYS, shares_moving, weight_bytes
from jaxexpr.measurement.exact_pass import drawing
from jaxexpr.measurement.observe import Observation, Observed
from jaxexpr.networks import MLP, Network

NAMES = ("dichotomies", "flips")
MOVING = 2  # kind of the draw that the moving weights turn to
QUARTER = math.pi / 2
_ROWS_CPU, _ROWS = 2**12, 2**17  # of a product on a grid: what caches, or an accelerator, like


class Room(NamedTuple):
    """Room of the exact sweep of one layer.

    Attributes
    ----------
    parts : into how many each quarter turn is cut.
    plan : blocks of the layers from the moving one on, which comes first, as if its weights were
        the identity above the arcs that its pre-activations are; without the last layer, of which
        nothing but the read-outs is needed.
    flips : most flips of one label on such a part, block by block; then of the last layer.
    asked : what was lacking when parts were last halved.
    """

    parts: int
    plan: tuple[rooms.Block, ...]
    flips: tuple[int, ...]
    asked: rooms.Asked | None = None

    def bytes(self, net: Any, quarters: int) -> float:
        """Memory for one point; all quarters are side by side unless they are cut."""
        return _bytes(self.plan, net) * (quarters if self.parts == 1 else 1)

    def within(self, net: Any, quarters: int, budget: float) -> Room:
        """The room cut into as many parts as the memory asks for."""
        room = self
        while room.bytes(net, quarters) > budget and room.plan[-1].size > 64:
            room = room._replace(parts=2 * room.parts, plan=rooms.halved(room.plan))
            room = room._replace(flips=_fewer(room.flips))
        return room


def _bytes(plan: tuple[rooms.Block, ...], net: Any) -> float:
    """Memory for one quarter turn, or a part of it."""
    return float(ROW_ARRAYS * np.dtype(net.dtype).itemsize * 3 * plan[-1].size * max(net.widths))


def _fewer(flips: tuple[int, ...]) -> tuple[int, ...]:
    """Room for flips on half a part."""
    return tuple(rooms.bucket(0.6 * f) for f in flips)


def first_room(net: MLP, layer: int, moment: float | None) -> Room:
    """Room to begin with, for the layer that moves and all above it.

    moment : mean square of the inputs' entries; ``None`` if it is not known, or the laws are not.
    """
    widths = (net.widths[layer + 1], *net.widths[layer + 1 :])
    kinds: list[Any] = ["identity"]
    for above in range(layer + 1, net.depth - 1):
        sizes = net.widths[above], net.widths[above + 1]
        kinds.append((sizes, jax.tree.structure(net.layer(above))))
    cut = rooms.blocks(kinds, math.inf)
    shares = None if moment is None or net.sweep_shape else shares_moving(net, layer, moment)
    plan = rooms.guess(cut, widths[1:], len(net.activation.breakpoints or ()), 4, shares)
    return Room(1, plan, _flips_room(plan, widths))


def _flips_room(plan: tuple[rooms.Block, ...], widths: Sequence[int]) -> tuple[int, ...]:
    """Room for the flips of one unit where all units of a layer make `new` new rows."""
    found = []
    for block in plan:
        mean = block.new / min(widths[block.first + 1 : block.first + 1 + block.layers])
        found.append(rooms.bucket(2 * mean + 4 * math.sqrt(mean) + 6))
    last = plan[-1].first + plan[-1].layers
    return (*found, 2 * found[-1]) if last < len(widths) - 1 else tuple(found)


def _grown(room: Room, needed: np.ndarray, net: Any, layer: int, budget: float) -> Room:
    """Room for what was needed, ``(..., layers, 3)``: new rows, rows, flips."""
    widths = (net.widths[layer + 1], *net.widths[layer + 1 :])
    worst = needed.reshape(-1, *needed.shape[-2:]).max(axis=0)
    spans = [slice(block.first, block.first + block.layers) for block in room.plan]
    inside, plan, flips = worst[: spans[-1].stop, :2], room.plan, room.flips
    times, asked = 0, room.asked
    if rooms.lacks(plan, inside):
        plan, times, asked = rooms.widened(
            plan, inside, asked, lambda plan: _bytes(plan, net) > budget
        )
        for _ in range(times):
            flips = _fewer(flips)
        flips = tuple(map(max, flips, _flips_room(plan, widths)))
    if len(flips) > len(spans):
        spans.append(slice(spans[-1].stop, None))
    needs = [worst[span, 2].max() for span in spans]
    before = room.flips  # a stretch that lacked room for rows has seen too few flips
    more = [
        rooms.bucket(1.25 * 0.6**times * a) if a > f else 0
        for a, f in zip(needs, before, strict=True)
    ]
    return Room(room.parts * 2**times, plan, tuple(map(max, flips, more)), asked)


@dataclasses.dataclass(frozen=True)
class Sweep(Task):
    """The weights of one layer move, at fixed inputs.

    Attributes
    ----------
    layers : which of them, one at a time; several : whether they have an axis in the result.
    readouts : units of each layer that are read out.
    quarters : quarter turns of the path.
    points : of the grid; 0 : exact, with `rooms`, one for each layer.
    """

    layers: tuple[int, ...]
    several: bool
    readouts: int
    quarters: int
    inputs: int
    points: int
    rooms: tuple[Room, ...]

    def shapes(self, net: Network, data: jax.Array) -> dict[str, tuple[int, ...]]:
        shape = (len(self.layers), net.depth) if self.several else (net.depth,)
        return dict.fromkeys(NAMES, shape)

    def method_of(self, name: str) -> tuple[str, int]:
        if self.points:
            return "grid", self.points
        parts = max(room.parts for room in self.rooms)
        return "exact" + (f" in {parts} parts" if parts > 1 else ""), 0

    @property
    def identity(self) -> Any:
        return dataclasses.replace(self, rooms=())

    @property
    def exact(self) -> bool:
        return not self.points

    def bytes(self, net: Network, data: jax.Array) -> float:
        size, widest = np.dtype(net.dtype).itemsize, max(net.widths)
        held = weight_bytes(net)
        if self.points:
            codes = 12 * self.points * self.readouts * net.depth  # two words, and half of them
            rows = 4 * size * self.inputs * self._together() * widest
            return held + rows + codes + 48 * self.points
        return held + max(room.bytes(net, self.quarters) for room in self.rooms)

    def refined(self) -> Sweep | None:
        return dataclasses.replace(self, points=2 * self.points - 1) if self.points else None

    def with_more_capacity(self, required: Any, net: Network, budget: float) -> Sweep | None:
        grown = []
        for room, need, layer in zip(self.rooms, required, self.layers, strict=bool(self.rooms)):
            more = _grown(room, np.asarray(need), net, layer, budget)
            grown.append(more.within(net, self.quarters, budget) if more.parts == 1 else more)
        if tuple(grown) == self.rooms:
            return None
        return dataclasses.replace(self, rooms=tuple(grown))

    def fit_memory(self, net: Network, budget: float) -> Sweep:
        fitting = tuple(room.within(net, self.quarters, budget) for room in self.rooms)
        return dataclasses.replace(self, rooms=fitting)

    def _together(self) -> int:
        """Points of the grid that are side by side."""
        most = _ROWS_CPU if jax.default_backend() == "cpu" else _ROWS
        return int(np.clip(most // self.inputs, 1, self.points))

    def observe(self, net: Network, key: jax.Array, data: jax.Array) -> Observed:
        dtype = jnp.dtype(net.dtype)
        seed = prng.seed(key)
        params, below = [], [data]
        for i, (fan_in, width) in enumerate(zip(net.widths, net.widths[1:], strict=False)):
            params.append(drawing(seed, fan_in, width, dtype)((i, net.layer(i))))
            if i < max(self.layers):
                below.append(net.activation(dot(below[i], params[i][0]) + params[i][1][None]))
        seen, needed = [], []
        for place, layer in enumerate(self.layers):
            weights, biases = params[layer]
            spec = net.layer(layer)
            turned = prng.words(prng.child(seed, layer, MOVING), weights.shape)
            other = spec.weight_scale(weights.shape[0], dtype) * laws.unit_of(
                spec.weights, turned, dtype
            )
            ends = dot(below[layer], weights), dot(below[layer], other)
            if self.points:
                told = self._on_grid(net, ends, biases, params[layer + 1 :])
            else:
                told, need = self._exactly(net, seed, ends, biases, layer, self.rooms[place])
                needed.append(need)
            seen.append([jnp.pad(x, (layer, 0), constant_values=jnp.nan) for x in told])
        stacked = [jnp.stack(x) if self.several else x[0] for x in zip(*seen, strict=True)]
        pairs = zip(NAMES, stacked[::2], stacked[1::2], strict=True)
        numbers = {
            name: Observation.of(value)._replace(coarser=coarser - value)
            for name, value, coarser in pairs
        }
        return Observed(numbers, tuple(needed))

    def _on_grid(
        self, net: Any, ends: tuple[jax.Array, jax.Array], biases: jax.Array, above: list[Any]
    ) -> list[jax.Array]:
        """Dichotomies, the same on half the grid, flips, the same; each ``(layers,)``."""
        dtype, together = biases.dtype, self._together()
        bits = jnp.asarray(label_changes.point_bits(self.inputs))
        t = jnp.asarray(np.linspace(0, self.quarters * QUARTER, self.points), dtype)
        t = jnp.pad(t, (0, -self.points % together), mode="edge").reshape(-1, together)

        def some(t: jax.Array) -> jax.Array:
            cos, sin = jnp.cos(t)[:, None, None], jnp.sin(t)[:, None, None]
            h = cos * ends[0][None] + sin * ends[1][None] + biases[None, None]
            codes = [self._codes(h, bits)]
            for weights, offset in above:
                z = net.activation(h).reshape(-1, h.shape[-1])
                h = (dot(z, weights) + offset[None]).reshape(together, self.inputs, -1)
                codes.append(self._codes(h, bits))
            return jnp.stack(codes)  # (layers, together, readouts, 2)

        codes = jnp.moveaxis(lax.map(some, t), 0, 1)
        codes = codes.reshape(codes.shape[0], -1, *codes.shape[3:])[:, : self.points]
        codes = jnp.swapaxes(codes, 1, 2)  # (layers, readouts, points, 2)
        half = codes[:, :, ::2]
        if self.points % 2 == 0:
            half = jnp.concatenate([half, codes[:, :, -1:]], axis=2)
        found = []
        for count in (_different, _changes):
            for rows in (codes, half):
                each = lax.map(count, rows.reshape(-1, *rows.shape[2:])).reshape(rows.shape[:2])
                number = jnp.mean(each.astype(dtype), axis=1)
                known = rows is codes or self.points >= 3
                found.append(number if known else jnp.full_like(number, jnp.nan))
        return found

    def _codes(self, h: jax.Array, bits: jax.Array) -> jax.Array:
        """Labels of all inputs in two words, ``(together, readouts, 2)``."""
        positive = h[:, :, : self.readouts, None] > 0
        return jnp.sum(jnp.where(positive, bits[None, :, None], 0), axis=1, dtype=jnp.uint32)

    def _exactly(
        self,
        net: Any,
        seed: prng.Seed,
        ends: tuple[jax.Array, jax.Array],
        biases: jax.Array,
        layer: int,
        room: Room,
    ) -> tuple[list[jax.Array], jax.Array]:
        """As ``_on_grid``, without error; and the room that was needed, ``(layers, 3)``."""
        dtype, width = biases.dtype, biases.shape[0]
        one = jnp.eye(width, dtype=dtype), jnp.zeros(width, dtype)
        layers: list[Any] = [(jnp.zeros((1,), dtype), lambda _: one)]
        spans = [range(block.first, block.first + block.layers) for block in room.plan]
        if len(room.flips) > len(spans):
            spans.append(range(spans[-1].stop, spans[-1].stop + 1))
        for span in spans[1:]:
            indices = [layer + i for i in span]
            specs = jax.tree.map(lambda *x: jnp.stack(x), *(net.layer(i) for i in indices))
            sizes = net.widths[indices[0]], net.widths[indices[0] + 1]
            draw = drawing(seed, *sizes, dtype)
            layers.append(((jnp.asarray(indices, jnp.int32), specs), draw))
        most: dict[Any, int] = dict(zip((*room.plan, None), room.flips, strict=False))

        def look(image: Any, weights: jax.Array, offset: jax.Array, block: Any) -> Any:
            some = slice(self.readouts)
            return label_changes.sign_changes(image, weights[:, some], offset[some], most[block])

        pieces = self.quarters * room.parts
        edges = jnp.asarray(np.arange(pieces + 1) * QUARTER / room.parts, dtype)
        t = jnp.stack([edges[:-1], edges[1:]], axis=1)

        def one_input(pair: tuple[jax.Array, jax.Array]) -> Any:
            arc = jnp.stack([*pair, biases])
            begun = t, jnp.broadcast_to(arc[None], (pieces, *arc.shape))

            def through(stretch: Any) -> traverse.Said:
                return traverse.through(stretch, layers, net.activation, room.plan, look)

            said = traverse.over(through, begun, room.parts)
            return said.extra, said.needed, said.totals.length

        seen, needed, lengths = lax.map(one_input, ends)
        sound = jnp.all(jnp.isfinite(lengths), axis=(0, 1))
        counts = [_labellings(one, edges[1:-1]) for one in seen]
        different, changes = (jnp.concatenate(x) for x in zip(*counts, strict=True))
        told = [jnp.where(sound, x.astype(dtype), jnp.inf) for x in (different, changes)]
        asked = jnp.concatenate([jnp.max(one.total, axis=(0, 1, 3)) for one in seen])
        needs = jnp.concatenate([needed.max(axis=(0, 1)), asked[:, None]], axis=1)
        return [told[0], told[0], told[1], told[1]], needs


def _different(codes: jax.Array) -> jax.Array:
    return bits.distinct(codes, jnp.ones(codes.shape[0], bool))


def _changes(codes: jax.Array) -> jax.Array:
    return jnp.sum(lax.population_count(codes[1:] ^ codes[:-1]).astype(jnp.int32))


def _labellings(seen: label_changes.Flips, joints: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Labellings and flips, each ``(layers,)``, of a block's ``(inputs, stretches, layers, r)``."""
    meets = seen.last[:, :-1] != seen.first[:, 1:]
    between = jnp.where(meets, joints[None, :, None, None], jnp.inf)
    inputs, pieces, layers, readouts, room = seen.times.shape
    times = jnp.moveaxis(seen.times, 1, 3).reshape(inputs, layers, readouts, pieces * room)
    times = jnp.concatenate([times, jnp.moveaxis(between, 1, 3)], axis=3)
    by_layer = jax.vmap(jax.vmap(label_changes.labellings, (1, 1)), (1, 1))
    different = by_layer(times, seen.first[:, 0])
    changes = jnp.sum(jnp.isfinite(times), axis=(0, 3), dtype=jnp.int32)
    return tuple(jnp.mean(x.astype(times.dtype), axis=1) for x in (different, changes))  # type: ignore[return-value]
