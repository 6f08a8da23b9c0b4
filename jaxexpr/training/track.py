"""Quantities to record during training: trackers, for ``train(trackers=[...])``.

A tracker is a function of a ``Snapshot`` that returns names and arrays whose first axis is the
networks. Those of this module use the counts and probes of the package; exact ones in float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from numpy.typing import ArrayLike

from jaxexpr import exact
from jaxexpr._core import checks
from jaxexpr._core.calls import absent, explained
from jaxexpr._core.fingerprint import fingerprint
from jaxexpr._core.threads import cores
from jaxexpr.curves import Curve, as_curve
from jaxexpr.measurement.nodes import Nodes
from jaxexpr.measurement.plan import METHODS, as_probes
from jaxexpr.measurement.single import measure
from jaxexpr.networks import MLP
from jaxexpr.params import Params
from jaxexpr.probes.base import Probe
from jaxexpr.training.interventions import fan_in
from jaxexpr.training.snapshots import Snapshot

Tracker = Callable[[Snapshot], Mapping[str, Any]]


def _with_fingerprint(tracker: Tracker, *arguments: Any) -> Tracker:
    """Set the identity of a tracker, so that a checkpoint is not continued with another one.

    The name of the inner function is a part of it: renaming it makes older checkpoints unusable.
    """
    vars(tracker)["identity"] = fingerprint(tracker.__qualname__, arguments)
    return tracker


def weight_scale() -> Tracker:
    """Record sigma_w of each layer with weights, ``weight_scale`` of shape ``(E, layers)``.

    That is ``sqrt(fan_in * mean(W^2))``: before training about the standard deviation of the
    layer's law.
    """

    def look(now: Snapshot) -> dict[str, Any]:
        scales = [
            np.sqrt(fan_in(w[0]) * np.mean(np.square(w, dtype=np.float64), axis=_all_but_first(w)))
            for w in (np.asarray(w) for w, _ in now.params)
        ]
        return {"weight_scale": np.stack(scales, axis=-1)}

    return _with_fingerprint(look)


def density() -> Tracker:
    """Record the share of weights that are not 0, ``density`` of shape ``(E, layers)``."""

    def look(now: Snapshot) -> dict[str, Any]:
        shares = [
            np.mean(w != 0, axis=_all_but_first(w)) for w in (np.asarray(w) for w, _ in now.params)
        ]
        return {"density": np.stack(shares, axis=-1)}

    return _with_fingerprint(look)


def _all_but_first(array: np.ndarray) -> tuple[int, ...]:
    return tuple(range(1, np.ndim(array)))


@explained
def lengths(curve: Curve, *, points: int = 100, name: str = "length") -> Tracker:
    """Record the length of a curve's image in each stage of the model, ``(E, stages)``.

    It is computed from tangents at `points` midpoints. Stages are the layers of the network and the
    normalisations between them, in inference (``Classifier.names``).

    Parameters
    ----------
    curve : a curve in input space; not an infinite line.
    name : name of the entry in the history.

    Raises
    ------
    ValueError
        if `curve` is no curve or an infinite line, or `points` is no integer >= 1.
    """
    curve = as_curve("curve", curve)
    if curve.whole:
        raise ValueError("curve is an infinite line, whose image has no length: give a segment")
    nodes = Nodes("tangent", checks.integer("points", points))
    low, high = curve.domain

    def look(now: Snapshot) -> dict[str, Any]:
        dtype = jnp.dtype(now.net.dtype)
        t = jnp.asarray(nodes.parameters(curve), dtype)
        speeds = _speeds(now.graph, now.values, curve.astype(dtype), t)
        return {name: np.asarray(speeds, np.float64) * (high - low)}

    return _with_fingerprint(look, curve, points, name)


@functools.partial(jax.jit, static_argnums=0)
def _speeds(
    graph: nnx.GraphDef, values: tuple[nnx.State, nnx.State], curve: Curve, t: jax.Array
) -> jax.Array:
    """Mean speed of the curve's image in each stage, of each network: ``(E, stages)``."""
    x, tangents = curve.points_and_tangents(t)

    def one(state: tuple[nnx.State, nnx.State]) -> jax.Array:
        def images(x: jax.Array) -> list[jax.Array]:
            model = nnx.merge(graph, *state, copy=True)
            model.eval()
            return model.images(x)

        _, moved = jax.jvp(images, (x,), (tangents,))
        return jnp.stack([jnp.mean(jnp.linalg.norm(v, axis=1)) for v in moved])

    return lax.map(one, values)


@explained
def measures(
    curve: Curve,
    *,
    probes: str | Probe | Sequence[str | Probe] = ("length", "growth"),
    method: str = "auto",
    points: int | None = None,
) -> Tracker:
    """Record ``jaxexpr.measure`` of the hidden layers: each probe, of shape ``(E, depth)``.

    Parameters
    ----------
    curve, probes, method, points : as for ``measure``.

    Raises
    ------
    ValueError
        if an argument is invalid; in training, if the network has normalisation between its layers.
    """
    curve, chosen = as_curve("curve", curve), as_probes(probes)
    options: dict[str, Any] = {"method": checks.one_of("method", method, METHODS)}
    if points is not None:
        options["points"] = checks.integer("points", points)

    def look(now: Snapshot) -> dict[str, Any]:
        _refuse_normalisation(now, "measures")
        net: dict[str, Any] = {"activation": now.net.activation}
        if not isinstance(now.net, MLP):
            net = {"net": now.net}
        per_network = _each(
            now, lambda params: measure(params, curve, probes=chosen, **net, **options)
        )
        return {name: np.stack([values[name] for values in per_network]) for name in per_network[0]}

    return _with_fingerprint(look, curve, probes, sorted(options.items()))


@explained
def regions(lines: Sequence[Curve], *, name: str = "regions") -> Tracker:
    """Record the number of activation regions along lines, ``(E, lines)``: exact counts.

    Parameters
    ----------
    lines : curves of one kind, such as ``curves.line(origin, x, whole=True)``.
    name : name of the entry in the history.

    Raises
    ------
    ValueError
        if `lines` is no sequence of curves; in training, if the network is no MLP or has
        normalisation between its layers.
    """
    if not isinstance(lines, Sequence):
        raise ValueError(f"lines={checks.shown(lines)}: give a list of curves, [line] for one")
    family = [as_curve(f"lines[{i}]", line) for i, line in enumerate(lines)]

    def look(now: Snapshot) -> dict[str, Any]:
        _refuse_other_layers(now, "regions")
        counts = exact.region_counts(now.networks, family, now.net.activation, progress=False)
        return {name: counts[:, :, -1].astype(np.float64)}

    return _with_fingerprint(look, family, name)


@explained
def distances(x: ArrayLike, *, name: str = "distance") -> Tracker:
    """Record the distance of points to the nearest activation boundary, ``(E, points)``: exact.

    Parameters
    ----------
    x : points, ``(points, n_in)``.
    name : name of the entry in the history.

    Raises
    ------
    ValueError
        if `x` has another shape; in training, if the network is no MLP or has normalisation between
        its layers.
    """
    x = np.asarray(checks.numeric("x", x), np.float64)
    if x.ndim != 2:
        raise ValueError(f"x has shape {x.shape}: give points (points, n_in), [x] for one")

    def look(now: Snapshot) -> dict[str, Any]:
        _refuse_other_layers(now, "distances")
        return {name: exact.distance_to_boundary(now.networks, x, now.net.activation)}

    return _with_fingerprint(look, x, name)


@explained
def plane(
    origin: ArrayLike,
    u: ArrayLike,
    v: ArrayLike,
    half_width: float = 1.0,
    *,
    networks: int | None = None,
    name: str = "plane",
) -> Tracker:
    """Record the number of activation regions in a square, by depth, ``(E, depth)``: exact.

    A record takes about 4 microseconds for each region of each network: squares with thousands of
    regions can take longer than the training of small networks.

    Parameters
    ----------
    origin, u, v, half_width : as for ``jaxexpr.exact.plane``.
    networks : number of networks that are counted, the first ones; others are NaN. Default all.
    name : name of the entry in the history.

    Raises
    ------
    ValueError
        if `networks` is no integer >= 1; in training, if the square is invalid, or the network is
        no MLP or has normalisation between its layers.
    """
    square = (origin, u, v, half_width)
    if networks is not None:
        networks = checks.integer("networks", networks)

    def look(now: Snapshot) -> dict[str, Any]:
        _refuse_other_layers(now, "plane")
        activation = now.net.activation

        def counts(params: Params) -> np.ndarray:
            return exact.plane(params, *square, activation=activation, progress=False).counts

        per_network = _each(now, counts, networks)
        counts_by_depth = np.full((now.count, len(per_network[0])), np.nan)
        counts_by_depth[: len(per_network)] = per_network
        return {name: counts_by_depth}

    return _with_fingerprint(look, square, networks, name)


def _each(now: Snapshot, find: Callable[[Params], Any], most: int | None = None) -> list[Any]:
    """Call `find` for each network, in a thread for each core; first for one, which compiles.

    most : number of networks, the first ones; None is all.
    """
    count = now.count if most is None else min(most, now.count)
    with ThreadPoolExecutor(cores()) as pool:
        return [
            find(now.network(0)),
            *pool.map(lambda i: find(now.network(i)), range(1, count)),
        ]


def _refuse_other_layers(now: Snapshot, name: str) -> None:
    if not isinstance(now.net, MLP):
        raise ValueError(
            f"track.{name} counts in fully connected layers, and this network has other ones: use "
            "jaxexpr.exact.pieces_of with snapshot.model(i) in a tracker of your own"
        )
    _refuse_normalisation(now, name)


def _refuse_normalisation(now: Snapshot, name: str) -> None:
    """Raise ValueError for networks with normalisation between their layers."""
    if jax.tree.leaves(now.values[1]):
        raise ValueError(
            f"track.{name} measures layers with weights, and this network has a normalisation "
            "between them: use track.lengths, or jaxexpr.exact.pieces_of with snapshot.model(i) in "
            "a tracker of your own"
        )


if not TYPE_CHECKING:
    _NAMES = "weight_scale density lengths measures regions distances plane"
    __getattr__ = absent(__name__, _NAMES.split())
