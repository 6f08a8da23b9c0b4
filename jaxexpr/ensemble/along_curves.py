"""Curves in many random networks: means with errors."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.progress import Progress
from jaxexpr.curves import Curve
from jaxexpr.ensemble.runner import gather
from jaxexpr.ensemble.statistics import Estimate
from jaxexpr.measurement.capacity_guess import more_room, within
from jaxexpr.measurement.observe import observe, probe_names
from jaxexpr.measurement.plan import Pass, checked
from jaxexpr.networks import Network


@explained
def estimate(
    net: Network,
    curve: Curve,
    *,
    key: jax.Array,
    draws: int,
    probes: Any = ("length", "growth"),
    method: str = "auto",
    points: int | None = None,
    target: float | None = None,
    refine: float | None = None,
    most_points: int | None = None,
    extend: Mapping[str, Estimate] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
    batch: int | None = None,
    memory: float | None = None,
    progress: Progress = None,
    title: str = "networks",
) -> dict[str, Estimate]:
    """Measure a curve in many random networks.

    Parameters
    ----------
    net : an ``MLP`` or a ``ConvNet``. Arrays in its laws are a sweep; all cells see the same draws,
        so differences between cells have smaller errors than the cells (and cells are not
        independent).
    curve : in the input space: points ``(net.widths[0],)``, or ``net.input_shape`` of images.
    key : typed key; with the number of a network it determines that network, nothing else does.
    draws : how many networks to draw (the most, if `target` is given).
    probes : names out of length, growth, growth_squared, log_growth, length_ratio, log_length,
        norm, angle, transitions, network_transitions, sign_changes, pieces, patterns,
        layer_patterns, expected_transitions, or your own (``jaxexpr.probe``, ``crossings``,
        ``expected_crossings``).
    method : ``"exact"`` (piecewise linear networks on lines, polylines, arcs, circles, ellipses
        and semicircles: every breakpoint, no discretisation), ``"tangent"`` (derivatives at
        midpoints; no cancellation), ``"grid"`` (a polyline), ``"gram"`` (dense Gaussian laws:
        pre-activations are drawn in place of weights; same law, far cheaper in wide networks),
        ``"auto"`` (see ``measurement.plan``).
    points : tangents, or points of the grid; by default 30, 300 or 1001 by probe.
    target : stop as soon as every relative standard error is at most this. Looked at after 64
        networks and after every quarter more (or after every `chunk`), so that the number drawn
        does not depend on the machine.
    refine : double the points, from `points` or the default on, until no layer's mean moves by more
        than this share of itself at fewer of them (``discretisation``); looked at in the first 16
        networks. Where that takes more than `most_points` the estimates say so, layer by layer
        (``converged``).
    most_points : the most points that `refine` may take; 2**17 by default.
    extend : estimates of the same net, curve, key, probes and points; `draws` further networks
        are added to theirs.
    checkpoint : a file that is kept up to date, and continued from if it exists already; then
        `draws` is the total. Not together with `extend`.
    chunk : most networks between two updates of the progress bar; changes no number.
    batch : networks computed side by side; default 1 on CPU unless they are small, and what
        `memory` allows elsewhere. Changes no number beyond rounding.
    memory : bytes for what is in flight: networks side by side are as many as fit, and a curve is
        cut where its exact pieces do not; points of a grid, and tangents, of one network are never
        cut. Default 1 GiB on CPU, half the device's memory
        elsewhere.
    progress : None shows a bar where the error stream is a terminal, and in a notebook; True
        writes lines to it where it is neither, one every ten seconds and one at the end; False
        shows nothing. A function is called with (networks done, in all, seconds since the call
        began), at most ten times a second and at the end. A run that will take more than an hour
        says so, unless with False.

    Returns
    -------
    ``{probe: Estimate}``; each ``mean`` and ``sem`` has shape ``net.sweep_shape + (depth,)``.

    Raises
    ------
    ValueError
        naming the argument, for anything that does not fit together (see the parameters).
    Interrupted
        on Ctrl-C, with the estimates so far.

    Examples
    --------
    >>> from jaxexpr import MLP, curves, laws
    >>> net = MLP((2, 64, 64), laws.Gaussian(2.0), laws.Zero())
    >>> line = curves.line([1.0, 0.0], [0.0, 1.0])
    >>> growth = estimate(net, line, key=jax.random.key(0), draws=500)["growth"]
    >>> abs(growth.mean[1] - 2.0 * 0.70035) < 4 * growth.sem[1]  # the exact law, width 64
    np.True_
    """
    checks.on_host("estimate", "jaxexpr.kernel", net, curve, key)
    curve, passes = checked(net, curve, probes, method, points, grows=True)
    return gather(
        Along(passes),
        net,
        curve,
        key=key,
        draws=draws,
        target=target,
        refine=refine,
        most_points=most_points,
        extend=extend,
        checkpoint=checkpoint,
        chunk=chunk,
        batch=batch,
        memory=memory,
        progress=progress,
        title=title,
    )


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
