"""How large the arrays are in which a curve is sent through a network: guessed, and grown.

Compiled code has arrays of fixed sizes. A block of layers has one compilation and one size; a
segment of a curve that requires more says how much, and is done again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxexpr._core.shapes import Array, Int

# On the host and inside compiled code.
Required = Int[np.ndarray, "*networks depth 2"] | Int[Array, "*networks depth 2"]

MAX_BLOCKS = 6
FORESIGHT = 4  # layers over which growth is extrapolated
MARGIN = 1.1  # of capacity above what the curves at hand required
COARSE = 256  # rows below which capacity grows in powers of 2
SMALL = 2e8  # operations below which a compilation costs more than it saves
MIN_ROWS = 64  # of a segment that is not split any further


class Block(NamedTuple):
    """Consecutive layers of one shape, in one loop.

    Attributes
    ----------
    first, layers : which of them.
    new, size : of one segment, how many new breakpoints each of them may make, and how many rows
        there may be above it.
    """

    first: int
    layers: int
    new: int
    size: int


class Capacity(NamedTuple):
    """Sizes of arrays along a curve.

    Attributes
    ----------
    blocks : of all layers; or of all but the last, whose crossings alone are then counted.
    row_bytes : memory of one row of one segment.
    segments : of the curve, which are side by side unless they are split.
    splits : into how many parts each segment is split; the parts are done one after another.
    in_parts : whether the curve is gone through in parts instead, each as long as the arrays allow.
    held_bytes : memory of weights that are drawn once for all parts; 0 if they are drawn anew.
    halved_for : the lowest layer that overflowed when segments were last halved, and the new rows
        that it required.
    """

    blocks: tuple[Block, ...]
    row_bytes: float = 0.0
    segments: int = 1
    splits: int = 1
    in_parts: bool = False
    held_bytes: float = 0.0
    halved_for: tuple[int, int] | None = None

    @property
    def rows(self) -> int:
        """Rows above the last block: more than above any other."""
        return self.blocks[-1].size

    @property
    def bytes(self) -> float:
        """Memory of one network."""
        beside = 1 if self.in_parts or self.splits > 1 else self.segments
        return self.row_bytes * self.rows * beside + self.held_bytes

    def overflowed(self, required: Required) -> Any:
        """Whether some layer required more, ``(..., depth, 2)`` to ``(...)``, NumPy or JAX.

        What was required of a last layer without a block, whose crossings are counted, is left out.
        """
        planned = sum(block.layers for block in self.blocks)
        return overflows(self.blocks, required[..., :planned, :]).any(axis=(-1, -2))

    def fitted(self, budget: float) -> Capacity:
        """Split as often as the memory asks for."""
        fitting = self
        while fitting.bytes > budget and fitting.rows > MIN_ROWS:
            fitting = fitting._replace(splits=2 * fitting.splits, blocks=halved(fitting.blocks))
        return fitting

    def grown(self, required: Int[np.ndarray, "depth 2"], budget: float) -> Capacity:
        """With more where it was missing; split further where the memory does not hold that.

        What half a segment requires no less of lies at one point, and is given as it is.

        Parameters
        ----------
        required : the largest number of new rows, and of rows, of each layer, ``(depth, 2)``.
        budget : bytes for the rows of one network.
        """
        layer = int(np.argmax(overflows(self.blocks, required).any(axis=-1)))
        now = layer, int(required[layer, 0])
        before = self.halved_for
        if before is not None and before[0] == layer and now[1] > 0.75 * before[1]:
            return self._replace(blocks=raised(self.blocks, required), halved_for=now)
        more = self._replace(blocks=grown(self.blocks, required))
        alone = more._replace(segments=1).fitted(budget)
        split = alone.splits > self.splits
        more = alone._replace(segments=self.segments, halved_for=now if split else self.halved_for)
        return more if split else more.fitted(budget)


def blocks(kinds: Sequence[object], work: float, most: int = MAX_BLOCKS) -> list[tuple[int, int]]:
    """Cut layers into runs ``(first, layers)`` of one kind.

    Layers of one run have one compilation, and all of them the capacity of the last. Where there is
    much `work` (operations, roughly) runs are short: about `most` in all.
    """
    longest = len(kinds) if work < SMALL else -(-len(kinds) // most)
    found: list[tuple[int, int]] = []
    for i, kind in enumerate(kinds):
        if found and kinds[i - 1] == kind and found[-1][1] < longest:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((i, 1))
    return found


def guess(
    cut: Sequence[tuple[int, int]],
    widths: Sequence[int],
    levels: int,
    segments: int,
    shares: Sequence[float] | None = None,
) -> tuple[Block, ...]:
    """Blocks to begin with.

    widths : of each layer. levels : breakpoints of the activation. shares : how often a unit of
        each layer crosses its breakpoints on one segment; by default half of the units cross a
        straight one.
    """
    if shares is None:
        shares = [levels * (0.5 if segments <= 4 else 2.0 / segments)] * len(widths)
    found, total = [], 0.0
    for first, layers in cut:
        means = [shares[i] * widths[i] for i in range(first, first + layers)]
        mean = max(means)
        new = mean + 4 * math.sqrt(mean) + 4
        total += sum(means)
        size = total + 4 * math.sqrt(total) + 6
        found.append(Block(first, layers, _fine(new), _fine(size)))
    return tuple(found)


def bucket(number: float | np.integer) -> int:
    """The least of 8, 10, 12, 14, 16, 20, 24, ... that is at least `number`.

    Few different sizes, so few compilations.
    """
    power = 2 ** max(math.floor(math.log2(max(number, 8) / 4)), 1)
    return power * max(math.ceil(number / power), 4)


def _fine(number: float | np.integer) -> int:
    """As ``bucket``, in steps of 32 where arrays are large: rows without use cost products."""
    return bucket(number) if number < COARSE else 32 * math.ceil(number / 32)


def _coarse(number: float | np.integer) -> int:
    """As ``bucket``, in powers of 2 while arrays are small.

    What curves require are odd sizes, each a compilation, which costs more than small arrays.
    """
    return bucket(number) if number > COARSE else 2 ** math.ceil(math.log2(max(number, 8)))


def grown(blocks: tuple[Block, ...], required: Int[np.ndarray, "depth 2"]) -> tuple[Block, ...]:
    """More capacity where it was missing.

    required : the largest number of new rows, and of rows, of each layer ``(depth, 2)``. Layers
        above the first that overflowed saw too few rows; the next few are taken to go on growing
        as the last ones below did.
    """
    new, size = (np.array(column, float) for column in required.T)
    first = int(np.argmax(overflows(blocks, required).any(axis=-1)))
    # Of crossings that lie at one point one makes a row: how many do, of those that had a place.
    seen = min(new[first], caps(blocks)[first, 0])
    share = min((size[first] - (size[first - 1] if first else 1)) / max(seen, 1), 1.0)
    size[first] += share * (new[first] - seen)
    rate = max(new[first] / max(new[first - 1], 1), 1.0) if first else 1.0
    rate = 1 + share * (min(rate, 8.0) - 1)
    for layer in range(first + 1, len(new)):
        factor = rate if layer <= first + FORESIGHT else 1.0
        new[layer] = max(new[layer - 1] * factor, new[layer])
        size[layer] = max(size[layer - 1] + share * new[layer], size[layer])
    found = []
    for block in blocks:
        here = slice(block.first, block.first + block.layers)
        more = _coarse(MARGIN * new[here].max()), _coarse(MARGIN * size[here].max())
        found.append(block._replace(new=max(more[0], block.new), size=max(more[1], block.size)))
    return tuple(found)


def raised(blocks: tuple[Block, ...], required: Int[np.ndarray, "depth 2"]) -> tuple[Block, ...]:
    """More capacity in the lowest block that overflowed, and nowhere else; as ``grown``."""
    full = [
        bool(overflows((block,), required[block.first : block.first + block.layers]).any())
        for block in blocks
    ]
    first = full.index(True)
    block = blocks[first]
    new, size = required[block.first : block.first + block.layers].max(axis=0)
    more = block._replace(new=max(_fine(new), block.new), size=max(_fine(size), block.size))
    # Rows go on into the blocks above, whose arrays must take them.
    above = [b._replace(size=max(b.size, more.size)) for b in blocks[first + 1 :]]
    return (*blocks[:first], more, *above)


def halved(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Capacity for segments half as long."""
    return tuple(b._replace(new=bucket(b.new / 2), size=bucket(b.size / 2)) for b in blocks)


def shortened(blocks: tuple[Block, ...], rows: int) -> tuple[Block, ...]:
    """Capacity for parts of about so many rows.

    The layers of the last block, where most rows are, get a block of their own each: there many
    parts share a compilation.
    """
    last, below = blocks[-1], blocks[-2].size if len(blocks) > 1 else 2
    rate = max(last.size / below, 1.0) ** (1 / last.layers)
    single = []
    for i in range(last.layers):
        less = rate ** (i + 1 - last.layers)
        new, size = math.ceil(last.new * less), math.ceil(last.size * less)
        single.append(Block(last.first + i, 1, new, size))

    def scaled(number: int) -> int:
        mean = number * rows / last.size
        return min(_fine(mean + 4 * math.sqrt(mean) + 4), number)

    found = [*blocks[:-1], *single]
    found = [b._replace(new=scaled(b.new), size=scaled(b.size)) for b in found]
    return (*found[:-1], found[-1]._replace(size=min(rows, last.size)))


def overflows(blocks: tuple[Block, ...], required: Required) -> Any:
    """Where a layer required more than there was; required ``(..., depth, 2)``."""
    return required > caps(blocks)


def caps(blocks: tuple[Block, ...]) -> Int[np.ndarray, "depth 2"]:
    """New rows and rows that each layer may have, ``(depth, 2)``, int32."""
    sizes = np.concatenate([np.tile([[b.new, b.size]], (b.layers, 1)) for b in blocks])
    return sizes.astype(np.int32)
