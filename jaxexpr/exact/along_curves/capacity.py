"""Sizes of the arrays of an exact pass: guessed, then grown.

Compiled code has arrays of fixed sizes. The layers of a block share one compilation and one size. A
segment of a curve that requires larger arrays reports the sizes it requires, and is run again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxexpr._core.shapes import Array, Int

# NumPy on the host, JAX in compiled code.
Required = Int[np.ndarray, "*networks depth 2"] | Int[Array, "*networks depth 2"]

MAX_BLOCKS = 6
FORESIGHT = 4  # number of layers over which growth is extrapolated
MARGIN = 1.1  # capacity relative to the largest required one
COARSE = 256  # number of rows below which capacity grows in powers of 2
SMALL = 2e8  # operations below which further compilations cost more than they save
MIN_ROWS = 64  # segments with at most so many rows are not split further


class Block(NamedTuple):
    """Consecutive layers of one shape, computed in one loop.

    Attributes
    ----------
    first, layers : index of the first layer, from 0, and number of layers.
    new, size : for one segment, the largest number of new breakpoints of one layer, and the largest
        number of rows above it.
    """

    first: int
    layers: int
    new: int
    size: int


class Capacity(NamedTuple):
    """Sizes of arrays along a curve.

    Attributes
    ----------
    blocks : of all layers; or of all but the last, if only its crossings are counted.
    row_bytes : memory of one row of one segment.
    segments : number of segments of the curve, which are computed at once unless they are split.
    splits : number of parts into which each segment is split; parts are computed in sequence.
    in_parts : whether the curve is instead traversed in parts, each as long as the arrays allow.
    held_bytes : memory of weights that are drawn once for all parts; 0 if each part draws them.
    halved_for : when segments were last halved, the index of the lowest layer that overflowed, and
        the new rows that it required.
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
        """Rows above the last block, the largest number of all blocks."""
        return self.blocks[-1].size

    @property
    def bytes(self) -> float:
        """Memory of one network."""
        at_once = 1 if self.in_parts or self.splits > 1 else self.segments
        return self.row_bytes * self.rows * at_once + self.held_bytes

    def overflowed(self, required: Required) -> Any:
        """Whether a layer required more than its size: ``(..., depth, 2)`` to ``(...)``.

        NumPy or JAX. A last layer without a block, of which only crossings are counted, is ignored.
        """
        planned = sum(block.layers for block in self.blocks)
        return overflows(self.blocks, required[..., :planned, :]).any(axis=(-1, -2))

    def fitted(self, budget: float) -> Capacity:
        """The capacity with segments split until they fit into `budget` bytes."""
        fitting = self
        while fitting.bytes > budget and fitting.rows > MIN_ROWS:
            fitting = fitting._replace(splits=2 * fitting.splits, blocks=halved(fitting.blocks))
        return fitting

    def grown(self, required: Int[np.ndarray, "depth 2"], budget: float) -> Capacity:
        """Larger where required; segments are split further if memory does not allow it.

        If halving the segments hardly lowered what a layer requires, its crossings lie at one
        point, and the layer gets the required size.

        Parameters
        ----------
        required : largest numbers of new rows and of rows of each layer, ``(depth, 2)``.
        budget : bytes for the rows of one network.
        """
        layer = int(np.argmax(overflows(self.blocks, required).any(axis=-1)))
        overflow = layer, int(required[layer, 0])
        last_overflow = self.halved_for
        if (
            last_overflow is not None
            and last_overflow[0] == layer
            and overflow[1] > 0.75 * last_overflow[1]
        ):
            return self._replace(blocks=raised(self.blocks, required), halved_for=overflow)
        larger = self._replace(blocks=grown(self.blocks, required))
        one_segment = larger._replace(segments=1).fitted(budget)
        split = one_segment.splits > self.splits
        larger = one_segment._replace(
            segments=self.segments, halved_for=overflow if split else self.halved_for
        )
        return larger if split else larger.fitted(budget)


def blocks(kinds: Sequence[object], work: float, most: int = MAX_BLOCKS) -> list[tuple[int, int]]:
    """Cut layers into runs ``(first, layers)`` of one kind.

    The layers of a run share one compilation, and all have the capacity of the last one. With much
    `work` (approximate number of operations) runs are short, about `most` in all.
    """
    longest = len(kinds) if work < SMALL else -(-len(kinds) // most)
    runs: list[tuple[int, int]] = []
    for i, kind in enumerate(kinds):
        if runs and kinds[i - 1] == kind and runs[-1][1] < longest:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((i, 1))
    return runs


def guess(
    cut: Sequence[tuple[int, int]],
    widths: Sequence[int],
    levels: int,
    segments: int,
    shares: Sequence[float] | None = None,
) -> tuple[Block, ...]:
    """Initial blocks.

    Parameters
    ----------
    cut : the runs of layers from ``blocks``.
    widths : of each layer.
    levels : number of breakpoints of the activation.
    segments : number of segments of the curve.
    shares : mean number of crossings of one unit of each layer on one segment; by default 1/2 per
        breakpoint, less if there are more than four segments.
    """
    if shares is None:
        shares = [levels * (0.5 if segments <= 4 else 2.0 / segments)] * len(widths)
    initial, total = [], 0.0
    for first, layers in cut:
        means = [shares[i] * widths[i] for i in range(first, first + layers)]
        mean = max(means)
        new = mean + 4 * math.sqrt(mean) + 4
        total += sum(means)
        size = total + 4 * math.sqrt(total) + 6
        initial.append(Block(first, layers, _fine(new), _fine(size)))
    return tuple(initial)


def bucket(number: float | np.integer) -> int:
    """The smallest of 8, 10, 12, 14, 16, 20, 24, ... that is at least `number`.

    Few different sizes mean few compilations.
    """
    power = 2 ** max(math.floor(math.log2(max(number, 8) / 4)), 1)
    return power * max(math.ceil(number / power), 4)


def _fine(number: float | np.integer) -> int:
    """As ``bucket``, in steps of 32 if arrays are large, where unused rows are costly."""
    return bucket(number) if number < COARSE else 32 * math.ceil(number / 32)


def _coarse(number: float | np.integer) -> int:
    """As ``bucket``, in powers of 2 while arrays are small.

    Curves require many different sizes, and compilations cost more than small arrays.
    """
    return bucket(number) if number > COARSE else 2 ** math.ceil(math.log2(max(number, 8)))


def grown(blocks: tuple[Block, ...], required: Int[np.ndarray, "depth 2"]) -> tuple[Block, ...]:
    """Larger blocks where required.

    required : largest numbers of new rows and of rows of each layer, ``(depth, 2)``. Layers above
        the first one that overflowed received too few rows: their numbers are extrapolated over a
        few layers, with the growth rate at that layer.
    """
    new, size = (np.array(column, float) for column in required.T)
    first = int(np.argmax(overflows(blocks, required).any(axis=-1)))
    # Crossings at the same point share a row: new rows per processed crossing.
    processed = min(new[first], caps(blocks)[first, 0])
    share = min((size[first] - (size[first - 1] if first else 1)) / max(processed, 1), 1.0)
    size[first] += share * (new[first] - processed)
    rate = max(new[first] / max(new[first - 1], 1), 1.0) if first else 1.0
    rate = 1 + share * (min(rate, 8.0) - 1)
    for layer in range(first + 1, len(new)):
        factor = rate if layer <= first + FORESIGHT else 1.0
        new[layer] = max(new[layer - 1] * factor, new[layer])
        size[layer] = max(size[layer - 1] + share * new[layer], size[layer])
    larger = []
    for block in blocks:
        layers = slice(block.first, block.first + block.layers)
        required_size = _coarse(MARGIN * new[layers].max()), _coarse(MARGIN * size[layers].max())
        larger.append(
            block._replace(
                new=max(required_size[0], block.new), size=max(required_size[1], block.size)
            )
        )
    return tuple(larger)


def raised(blocks: tuple[Block, ...], required: Int[np.ndarray, "depth 2"]) -> tuple[Block, ...]:
    """As ``grown``, but larger only in the lowest block that overflowed."""
    overflowed = [
        bool(overflows((block,), required[block.first : block.first + block.layers]).any())
        for block in blocks
    ]
    first = overflowed.index(True)
    block = blocks[first]
    new, size = required[block.first : block.first + block.layers].max(axis=0)
    larger = block._replace(new=max(_fine(new), block.new), size=max(_fine(size), block.size))
    # The blocks above receive all rows of this one.
    blocks_above = [b._replace(size=max(b.size, larger.size)) for b in blocks[first + 1 :]]
    return (*blocks[:first], larger, *blocks_above)


def halved(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Capacity for segments half as long."""
    return tuple(b._replace(new=bucket(b.new / 2), size=bucket(b.size / 2)) for b in blocks)


def shortened(blocks: tuple[Block, ...], rows: int) -> tuple[Block, ...]:
    """Blocks for parts of a curve with about `rows` rows.

    The last block, which has most rows, is split into one block per layer: many parts use each
    compilation.
    """
    last, rows_below = blocks[-1], blocks[-2].size if len(blocks) > 1 else 2
    rate = max(last.size / rows_below, 1.0) ** (1 / last.layers)
    single_layers = []
    for i in range(last.layers):
        factor = rate ** (i + 1 - last.layers)
        new, size = math.ceil(last.new * factor), math.ceil(last.size * factor)
        single_layers.append(Block(last.first + i, 1, new, size))

    def scaled(number: int) -> int:
        mean = number * rows / last.size
        return min(_fine(mean + 4 * math.sqrt(mean) + 4), number)

    shorter = [*blocks[:-1], *single_layers]
    shorter = [b._replace(new=scaled(b.new), size=scaled(b.size)) for b in shorter]
    return (*shorter[:-1], shorter[-1]._replace(size=min(rows, last.size)))


def overflows(blocks: tuple[Block, ...], required: Required) -> Any:
    """Where a layer required more than its capacity; shapes ``(..., depth, 2)``."""
    return required > caps(blocks)


def caps(blocks: tuple[Block, ...]) -> Int[np.ndarray, "depth 2"]:
    """Largest numbers of new rows and of rows of each layer, ``(depth, 2)``, int32."""
    sizes = np.concatenate([np.tile([[b.new, b.size]], (b.layers, 1)) for b in blocks])
    return sizes.astype(np.int32)
