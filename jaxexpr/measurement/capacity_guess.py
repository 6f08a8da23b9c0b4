"""How many pieces to expect: sizes of arrays, of which no number depends.

The one file of the estimators that asks ``theory``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr._core import checks
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity as rooms
from jaxexpr.exact.along_curves import segments
from jaxexpr.networks import Network
from jaxexpr.theory.mean_field import length_map, mean_field_growth

POINTS = 16  # of a stretch at which crossings are guessed
SPREAD = 0.08  # margin of the guess, for each layer below
ROW_ARRAYS = 8  # arrays of the size of a stretch's image that are alive at a time
MARGIN = 1.3  # of the room guessed for the mean of many arcs, the fullest of which must fit
LEAST_ROWS = 64  # of a part of a curve


class Room(NamedTuple):
    """Room for what is found along a curve, or along a part of it.

    Attributes
    ----------
    plan : of all layers; or of all but the last, whose crossings alone are then counted.
    stretches : of the curve, which are side by side unless it is cut.
    numbers : that a row holds for each unit: 1 on straight stretches, 3 on arcs.
    cut : whether the curve is gone through in parts, each as long as the room allows.
    held : whether weights are drawn once for all parts.
    """

    plan: tuple[rooms.Block, ...]
    stretches: int = 1
    numbers: int = 1
    cut: bool = False
    held: bool = False

    def row_bytes(self, net: Network) -> float:
        """Memory for one row of one network, in each of the stretches that are side by side."""
        beside = 1 if self.cut else self.stretches
        numbers = ROW_ARRAYS * self.numbers * beside * max(net.widths)
        return float(np.dtype(net.dtype).itemsize * numbers)

    def bytes(self, net: Network) -> float:
        """Memory for one network."""
        held = weight_bytes(net) if self.held else 0.0
        return self.row_bytes(net) * self.plan[-1].size + held


def weight_bytes(net: Network) -> float:
    """Memory for the weights of all layers."""
    weights = sum(a * b for a, b in zip(net.widths, net.widths[1:], strict=False))
    return float(np.dtype(net.dtype).itemsize * weights)


def first_room(net: Network, curve: Curve, *, counted: bool = False) -> Room:
    """Room to begin with; `counted` if nothing but crossings is asked for."""
    cut = []
    depth = net.depth - (counted and net.depth > 1)
    for run in net.runs():
        # Every block is a compilation; a long run in one block has the room of its last layer.
        most = max(-(-net.depth // rooms.MOST_BLOCKS), 1 if counted else 2)
        end = min(run.first + run.layers, depth)
        cut += [(low, min(most, end - low)) for low in range(run.first, end, most)]
    levels = len(net.activation.breakpoints or ())
    own = segments.count(curve)
    with jax.ensure_compile_time_eval():  # numbers that are known, though the caller traces
        shares = _shares(net, curve, own)
    plan = rooms.guess(cut, net.widths[1:], levels, own, shares)
    return Room(plan, own, 1 if curve.kind in segments.STRAIGHT else 3)


def _shares(net: Network, curve: Curve, stretches: int) -> list[float] | None:
    """How often a unit of each layer crosses its breakpoints on one stretch, about.

    As if weights and biases were Gaussian, and from layer to layer as distances grow in wide
    layers, but for homogeneous activations, which scale breakpoints too. ``None`` where that is not
    known: infinite lines, sweeps, and arrays that a caller's transformation traces.
    """
    spec = net.layer(0)
    leaves = (*jax.tree.leaves(net), *curve.arrays)
    if curve.whole or net.sweep_shape or any(checks.is_traced(x) for x in leaves):
        return None
    low, high = curve.domain
    t = jnp.asarray(np.linspace(low, high, POINTS * stretches + 1))
    points = np.asarray(curve.astype(t.dtype).points(t), np.float64)
    w, b = (float(np.asarray(law.std)) for law in (spec.weights, spec.biases))
    u = np.concatenate([points * w / math.sqrt(net.widths[0]), np.full((len(t), 1), b)], axis=1)
    size = np.linalg.norm(u, axis=1)
    if not (size > 0).all():
        return None
    u = u / size[:, None]
    angle = 2 * np.arcsin(np.minimum(np.linalg.norm(np.diff(u, axis=0), axis=1) / 2, 1))
    total = np.zeros_like(angle)
    for level in net.activation.breakpoints or ():
        # Turning on the sphere, and moving away from it.
        tail = np.array([math.erf(abs(level) / (math.sqrt(2) * s)) for s in size])
        middle = (size[1:] + size[:-1]) / 2
        total += angle / math.pi * np.exp(-((level / middle) ** 2) / 2) + np.abs(np.diff(tail)) / 2
    share = float(total.reshape(stretches, POINTS).sum(axis=1).max())
    # Networks differ the more the deeper they are, and the fullest must fit.
    spread = spreading(net, float(np.mean(points**2)))
    return [share * more * (1 + SPREAD * i) for i, more in enumerate(spread)]


def spreading(net: Network, moment: float, first: int = 0) -> list[float]:
    """How much more often the units of each layer cross a level than those of layer `first`, about.

    moment : ``|x|^2 / n_in`` of the input.
    """
    if net.activation.homogeneous:
        return [1.0] * (net.depth - first)
    growth = mean_field_growth(net, moment)
    growth = growth * np.sqrt(np.divide(net.widths[:-1], net.widths[1:]))
    return [1.0, *np.cumprod(np.maximum(growth[first:-1], 1.0))]


def shares_moving(net: Network, layer: int, moment: float) -> list[float]:
    """How often a unit crosses its breakpoints on a quarter turn of the weights of `layer`, about.

    Of that layer and of each above it.
    """
    here = moment
    for below in range(layer + 1):
        w, b = (float(np.asarray(law.std)) for law in net.layer(below))
        moving = w**2 * here
        q = moving + b**2
        here = float(length_map(q, 1.0, 0.0, net.activation))
    size = max(q, 1e-30)
    rate = sum(math.exp(-(c**2) / (2 * size)) for c in net.activation.breakpoints or ())
    share = MARGIN * rate * math.sqrt(moving / size) / 2
    return [share * more for more in spreading(net, moment, layer)]


def more_room(room: Room, needed: np.ndarray, net: Network, budget: float) -> Room | None:
    """Room for what was ``needed``, ``(..., depth, 2)``; ``None`` if there was enough."""
    needed = needed[..., : sum(block.layers for block in room.plan), :]
    if not rooms.lacks(room.plan, needed).any():
        return None
    worst = needed.reshape(-1, *needed.shape[-2:]).max(axis=0)
    if room.cut:  # it lacked room at one point, however short the part
        return room._replace(plan=rooms.raised(room.plan, worst))
    return within(room._replace(plan=rooms.grown(room.plan, worst)), net, budget)


def within(room: Room, net: Network, budget: float) -> Room:
    """The room; or that for parts of the curve, where the memory holds no more."""
    if room.cut or room.bytes(net) <= budget:
        return room
    held = weight_bytes(net)
    cut = room._replace(cut=True, held=2 * held <= budget)
    left = budget - held if cut.held else budget
    rows = max(int(left / cut.row_bytes(net)), LEAST_ROWS)
    return cut._replace(plan=rooms.shortened(room.plan, rows))
