"""Measurements along a curve in many random networks: means with errors."""

from __future__ import annotations

import dataclasses
from typing import Any, Unpack

import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.shapes import Array, Key
from jaxexpr.curves import Curve
from jaxexpr.ensemble.options import RunOptions
from jaxexpr.ensemble.runner import run_task
from jaxexpr.ensemble.statistics import Estimate
from jaxexpr.ensemble.tasks import Task
from jaxexpr.measurement.capacity_guess import enlarged, in_memory
from jaxexpr.measurement.observe import Observed, observe, probe_names
from jaxexpr.measurement.plan import Pass, Probes, checked
from jaxexpr.networks import Network


@explained
def estimate(
    net: Network,
    curve: Curve,
    *,
    key: Key[Array, ""],
    draws: int,
    probes: Probes = ("length", "growth"),
    method: str = "auto",
    points: int | None = None,
    **options: Unpack[RunOptions],
) -> dict[str, Estimate]:
    """Measure a curve in many random networks.

    Parameters
    ----------
    net : an ``MLP`` or a ``ConvNet``. Arrays in its laws are a sweep; all cells see the same draws,
        so differences between cells have smaller errors than the cells (and cells are not
        independent).
    curve : in the input space: points ``(net.widths[0],)``, or ``net.input_shape`` of images.
    key : typed key; the key and the number of a network determine the network.
    draws : number of networks; with `target`, the largest number of networks.
    probes : any of length, growth, growth_squared, log_growth, length_ratio, log_length,
        norm, angle, transitions, network_transitions, sign_changes, pieces, patterns,
        layer_patterns, expected_transitions, or probes of your own (``jaxexpr.probe``,
        ``crossings``, ``expected_crossings``).
    method : ``"exact"`` (piecewise linear networks on lines, polylines, arcs, circles, ellipses
        and semicircles: every breakpoint, no discretisation error), ``"tangent"`` (derivatives at
        midpoints; no cancellation), ``"grid"`` (a polyline), ``"gram"`` (dense Gaussian laws:
        pre-activations are drawn instead of weights; same law, far cheaper in wide networks),
        ``"auto"`` (see ``measurement.plan``).
    points : number of tangents or of grid points; the default is 30, 300 or 1001, depending on the
        probes.
    options : see ``RunOptions``: target, refine, max_points, extend, checkpoint, chunk, batch,
        memory, progress, title.

    Returns
    -------
    ``{probe: Estimate}``; each ``mean`` and ``sem`` has shape ``net.sweep_shape + (depth,)``.

    Raises
    ------
    ValueError
        if an argument is invalid or arguments do not fit together; the message names the argument.
    Interrupted
        on Ctrl-C, with the estimates so far.

    Examples
    --------
    >>> import jax
    >>> from jaxexpr import MLP, curves, laws
    >>> net = MLP((2, 64, 64), laws.Gaussian(2.0), laws.Zero())
    >>> line = curves.line([1.0, 0.0], [0.0, 1.0])
    >>> growth = estimate(net, line, key=jax.random.key(0), draws=500)["growth"]
    >>> abs(growth.mean[1] - 2.0 * 0.70035) < 4 * growth.sem[1]  # the exact law, width 64
    np.True_
    """
    checks.on_host("estimate", "jaxexpr.kernel", net, curve, key)
    curve, passes = checked(net, curve, probes, method, points, grows=True)
    return run_task(Along(passes), net, curve, key=key, draws=draws, **options)


@dataclasses.dataclass(frozen=True)
class Along(Task):
    """The task of ``estimate``: probes along a curve."""

    passes: tuple[Pass, ...]

    def observe(self, net: Network, key: Key[Array, ""], data: Curve) -> Observed:
        return observe(net, key, data, self.passes)

    def shapes(self, net: Network, data: Curve) -> dict[str, tuple[int, ...]]:
        return {name: (net.depth,) for name in probe_names(self.passes)}

    def method_of(self, name: str) -> tuple[str, int]:
        item = next(p for p in self.passes if name in probe_names((p,)))
        parts = ""
        if item.capacity is not None and item.capacity.in_parts:
            parts = f" in parts of up to {item.capacity.rows} pieces"
        return item.method + parts, item.nodes.count

    def bytes(self, net: Network, data: Curve) -> float:
        size = np.dtype(net.dtype).itemsize
        rows = max(p.nodes.count * (1 if p.nodes.kind == "grid" else 2) for p in self.passes)
        without_pieces = size * (2 * net.widest + 5 * rows * max(net.widths))
        return without_pieces + sum(p.capacity.bytes for p in self.passes if p.capacity is not None)

    @property
    def fingerprint_parts(self) -> object:
        return [(item.nodes, item.gram, item.probes) for item in self.passes]

    @property
    def exact(self) -> bool:
        return any(item.method == "exact" for item in self.passes)

    def refined(self) -> Along | None:
        if all(item.method == "exact" for item in self.passes):
            return None
        return Along(tuple(item.finer() for item in self.passes))

    def fit_memory(self, net: Network, budget: float) -> Along:
        return Along(
            tuple(
                item
                if item.capacity is None
                else dataclasses.replace(item, capacity=in_memory(item.capacity, net, budget))
                for item in self.passes
            )
        )

    def with_more_capacity(self, required: Any, net: Network, budget: float) -> Along | None:
        if not self.exact:
            return None
        exact = next(item for item in self.passes if item.capacity is not None)
        assert exact.capacity is not None
        larger = enlarged(exact.capacity, required, net, budget)
        if larger is None:
            return None
        more = dataclasses.replace(exact, capacity=larger)
        return Along(tuple(more if item is exact else item for item in self.passes))
