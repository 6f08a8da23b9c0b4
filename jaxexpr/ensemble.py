"""Curves in many random networks: means with errors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import jax

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.progress import Progress
from jaxexpr.curves import Curve
from jaxexpr.jobs import Along
from jaxexpr.kernels import checked
from jaxexpr.moments import Estimate
from jaxexpr.networks import Network
from jaxexpr.runner import gather


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
        ``"auto"`` (see ``plans.plan``).
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
