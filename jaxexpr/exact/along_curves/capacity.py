"""Room for what is found on a stretch of a curve: sizes of arrays, guessed and grown.

Compiled code has arrays of fixed sizes. A block of layers has one compilation and one size; a
stretch that needs more says how much, and is done again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

MOST_BLOCKS = 6
FORESIGHT = 4  # layers over which growth is extrapolated
MARGIN = 1.1  # of room above what the curves at hand asked for
COARSE = 256  # rows below which room grows in powers of 2
SMALL = 2e8  # operations below which a compilation costs more than it saves


class Block(NamedTuple):
    """Consecutive layers of one shape, in one loop.

    Attributes
    ----------
    first, layers : which of them.
    new, size : room for new breakpoints in each of them, and for rows above it; of a stretch.
    """

    first: int
    layers: int
    new: int
    size: int


def blocks(kinds: Sequence[Any], work: float, most: int = MOST_BLOCKS) -> list[tuple[int, int]]:
    """Cut layers into runs ``(first, layers)`` of one kind.

    Layers of one run have one compilation, and all of them the room of the last. Where there is
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
    stretches: int,
    shares: Sequence[float] | None = None,
) -> tuple[Block, ...]:
    """Room to begin with.

    widths : of each layer. levels : breakpoints of the activation. shares : how often a unit of
        each layer crosses its breakpoints on one stretch; by default half of the units cross a
        whole segment.
    """
    if shares is None:
        shares = [levels * (0.5 if stretches <= 4 else 2.0 / stretches)] * len(widths)
    room, total = [], 0.0
    for first, layers in cut:
        means = [shares[i] * widths[i] for i in range(first, first + layers)]
        mean = max(means)
        new = mean + 4 * math.sqrt(mean) + 4
        total += sum(means)
        size = total + 4 * math.sqrt(total) + 6
        room.append(Block(first, layers, _fine(new), _fine(size)))
    return tuple(room)


def bucket(number: float) -> int:
    """The least of 8, 10, 12, 14, 16, 20, 24, ... that is at least `number`.

    Few different sizes, so few compilations.
    """
    power = 2 ** max(math.floor(math.log2(max(number, 8) / 4)), 1)
    return power * max(math.ceil(number / power), 4)


def _fine(number: float) -> int:
    """As ``bucket``, in steps of 32 where arrays are large: rows without use cost products."""
    return bucket(number) if number < COARSE else 32 * math.ceil(number / 32)


def _coarse(number: float) -> int:
    """As ``bucket``, in powers of 2 while arrays are small.

    Curves that lack room ask for odd sizes, each a compilation, which costs more than small arrays.
    """
    return bucket(number) if number > COARSE else 2 ** math.ceil(math.log2(max(number, 8)))


def grown(plan: tuple[Block, ...], needed: np.ndarray) -> tuple[Block, ...]:
    """More room where it was missing.

    needed : the largest number of new rows, and of rows, of each layer ``(depth, 2)``. Layers above
        the first that lacked room saw too few rows; the next few are taken to go on growing as the
        last ones below did.
    """
    new, size = (np.array(column, float) for column in needed.T)
    first = int(np.argmax(short(plan, needed).any(axis=-1)))
    # Of crossings that lie at one point one makes a row: how many do, of those that had room.
    seen = min(new[first], caps(plan)[first, 0])
    share = min((size[first] - (size[first - 1] if first else 1)) / max(seen, 1), 1.0)
    size[first] += share * (new[first] - seen)
    rate = max(new[first] / max(new[first - 1], 1), 1.0) if first else 1.0
    rate = 1 + share * (min(rate, 8.0) - 1)
    for layer in range(first + 1, len(new)):
        factor = rate if layer <= first + FORESIGHT else 1.0
        new[layer] = max(new[layer - 1] * factor, new[layer])
        size[layer] = max(size[layer - 1] + share * new[layer], size[layer])
    found = []
    for block in plan:
        here = slice(block.first, block.first + block.layers)
        room = _coarse(MARGIN * new[here].max()), _coarse(MARGIN * size[here].max())
        found.append(block._replace(new=max(room[0], block.new), size=max(room[1], block.size)))
    return tuple(found)


def raised(plan: tuple[Block, ...], needed: np.ndarray) -> tuple[Block, ...]:
    """More room in the lowest block that lacked it, and nowhere else; as ``grown``."""
    lacking = [
        bool(short((block,), needed[block.first : block.first + block.layers]).any())
        for block in plan
    ]
    first = lacking.index(True)
    block = plan[first]
    new, size = needed[block.first : block.first + block.layers].max(axis=0)
    more = block._replace(new=max(_fine(new), block.new), size=max(_fine(size), block.size))
    # Rows go on into the blocks above, whose arrays must take them.
    above = [b._replace(size=max(b.size, more.size)) for b in plan[first + 1 :]]
    return (*plan[:first], more, *above)


Asked = tuple[int, int]
"""The lowest layer that lacked room when stretches were last halved, and the new rows it needed."""


def widened(
    plan: tuple[Block, ...],
    needed: np.ndarray,
    asked: Asked | None,
    too_large: Callable[[tuple[Block, ...]], bool],
) -> tuple[tuple[Block, ...], int, Asked | None]:
    """More room where it was missing, in stretches halved as often as the memory asks for.

    What half the stretch needs no less of lies at one point, and is given room as it is.

    Returns
    -------
    The plan, how often stretches are to be halved, and what to pass on to the next call.
    """
    layer = int(np.argmax(short(plan, needed).any(axis=-1)))
    now = layer, int(needed[layer, 0])
    if asked is not None and asked[0] == layer and now[1] > 0.75 * asked[1]:
        return raised(plan, needed), 0, now
    plan, times = grown(plan, needed), 0
    while too_large(plan) and plan[-1].size > 64:
        plan, times = halved(plan), times + 1
    return plan, times, now if times else asked


def halved(plan: tuple[Block, ...]) -> tuple[Block, ...]:
    """Room for stretches half as long."""
    return tuple(b._replace(new=bucket(b.new / 2), size=bucket(b.size / 2)) for b in plan)


def shortened(plan: tuple[Block, ...], rows: int) -> tuple[Block, ...]:
    """Room for stretches of about so many rows.

    The layers of the last block, where most rows are, get room of their own each: there many
    stretches share a compilation.
    """
    last, below = plan[-1], plan[-2].size if len(plan) > 1 else 2
    rate = max(last.size / below, 1.0) ** (1 / last.layers)
    single = []
    for i in range(last.layers):
        less = rate ** (i + 1 - last.layers)
        new, size = math.ceil(last.new * less), math.ceil(last.size * less)
        single.append(Block(last.first + i, 1, new, size))

    def scaled(number: int) -> int:
        mean = number * rows / last.size
        return min(_fine(mean + 4 * math.sqrt(mean) + 4), number)

    found = [*plan[:-1], *single]
    found = [b._replace(new=scaled(b.new), size=scaled(b.size)) for b in found]
    return (*found[:-1], found[-1]._replace(size=min(rows, last.size)))


def short(plan: tuple[Block, ...], needed: Any) -> Any:
    """Where a layer asked for more room than there was; needed ``(..., depth, 2)``."""
    return needed > caps(plan)


def caps(plan: tuple[Block, ...]) -> np.ndarray:
    """Room of each layer, ``(depth, 2)``, int32."""
    room = np.concatenate([np.tile([[b.new, b.size]], (b.layers, 1)) for b in plan])
    return room.astype(np.int32)


def lacks(plan: tuple[Block, ...], needed: Any) -> Any:
    """Whether some layer lacked room: ``(..., depth, 2)`` to ``(...)``."""
    return np.asarray(short(plan, needed)).any(axis=(-1, -2))
