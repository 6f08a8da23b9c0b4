"""What to record while networks are trained: trackers, made for ``train(trackers=[...])``.

A tracker is a function of a ``Snapshot`` that returns names and arrays whose first axis is the
networks. These here count and measure as the rest of the package does; exact ones in float64.
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


def _with_fingerprint(look: Tracker, *what: Any) -> Tracker:
    """Say what a tracker looks at, so that a checkpoint is not continued with another one."""
    vars(look)["identity"] = fingerprint(look.__qualname__, what)
    return look


def weight_scale() -> Tracker:
    """Record sigma_w of each layer with weights, ``weight_scale`` of shape ``(E, layers)``.

    That is ``sqrt(fan_in * mean(W^2))``: of a layer as it was drawn, about the standard deviation
    that its law was given.
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

    By tangents at `points` midpoints. Stages are the layers of the network and the normalisations
    between them, in inference (``Classifier.names``).

    Parameters
    ----------
    curve : in input space; not an infinite line.
    name : of the record.
    """
    curve = as_curve("curve", curve)
    if curve.whole:
        raise ValueError("curve is an infinite line, whose image has no length: give a segment")
    nodes = Nodes("tangent", checks.integer("points", points))
    low, high = curve.domain

    def look(now: Snapshot) -> dict[str, Any]:
        kind = jnp.dtype(now.net.dtype)
        t = jnp.asarray(nodes.parameters(curve), kind)
        speeds = _speeds(now.graph, now.values, curve.astype(kind), t)
        return {name: np.asarray(speeds, np.float64) * (high - low)}

    return _with_fingerprint(look, curve, points, name)


@functools.partial(jax.jit, static_argnums=0)
def _speeds(
    graph: nnx.GraphDef, values: tuple[nnx.State, nnx.State], curve: Curve, t: jax.Array
) -> jax.Array:
    """Mean speed of the curve's image in each stage, of each network: ``(E, stages)``."""
    x, tangents = curve.points_and_tangents(t)

    def one(own: tuple[nnx.State, nnx.State]) -> jax.Array:
        def images(x: jax.Array) -> list[jax.Array]:
            model = nnx.merge(graph, *own, copy=True)
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
    """
    curve, chosen = as_curve("curve", curve), as_probes(probes)
    options: dict[str, Any] = {"method": checks.one_of("method", method, METHODS)}
    if points is not None:
        options["points"] = checks.integer("points", points)

    def look(now: Snapshot) -> dict[str, Any]:
        _alone(now, "measures")
        net: dict[str, Any] = {"activation": now.net.activation}
        if not isinstance(now.net, MLP):
            net = {"net": now.net}
        each = _each(now, lambda own: measure(own, curve, probes=chosen, **net, **options))
        return {name: np.stack([found[name] for found in each]) for name in each[0]}

    return _with_fingerprint(look, curve, probes, sorted(options.items()))


@explained
def regions(lines: Sequence[Curve], *, name: str = "regions") -> Tracker:
    """Record the activation regions that lines meet, ``(E, lines)``: exact counts.

    Parameters
    ----------
    lines : curves of one kind, such as ``curves.line(origin, x, whole=True)``.
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
    x : ``(points, n_in)``.
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
    """Record the activation regions that a square meets, after each layer, ``(E, depth)``: exact.

    About 4 microseconds a region of each network and look: a square with thousands of regions can
    take longer than small networks take to learn.

    Parameters
    ----------
    origin, u, v, half_width : as for ``jaxexpr.exact.plane``.
    networks : how many are looked at, the first ones; the others are NaN. By default all.
    """
    where = (origin, u, v, half_width)
    if networks is not None:
        networks = checks.integer("networks", networks)

    def look(now: Snapshot) -> dict[str, Any]:
        _refuse_other_layers(now, "plane")
        activation = now.net.activation

        def counts(own: Params) -> np.ndarray:
            return exact.plane(own, *where, activation=activation, progress=False).counts

        each = _each(now, counts, networks)
        found = np.full((now.count, len(each[0])), np.nan)
        found[: len(each)] = each
        return {name: found}

    return _with_fingerprint(look, where, networks, name)


def _each(now: Snapshot, find: Callable[[Params], Any], most: int | None = None) -> list[Any]:
    """Call `find` for each network, in a thread for each core; first for one, which compiles.

    most : of the networks, the first ones.
    """
    count = now.count if most is None else min(most, now.count)
    with ThreadPoolExecutor(cores()) as pool:
        return [
            find(now.network(0)),
            *pool.map(lambda i: find(now.network(i)), range(1, count)),
        ]


def _refuse_other_layers(now: Snapshot, what: str) -> None:
    if not isinstance(now.net, MLP):
        raise ValueError(
            f"track.{what} counts in fully connected layers, and this network has other ones: use "
            "jaxexpr.exact.pieces_of with snapshot.model(i) in a tracker of your own"
        )
    _alone(now, what)


def _alone(now: Snapshot, what: str) -> None:
    """Refuse networks that are more than their layers."""
    if jax.tree.leaves(now.values[1]):
        raise ValueError(
            f"track.{what} measures layers with weights, and this network has a normalisation "
            "between them: use track.lengths, or jaxexpr.exact.pieces_of with snapshot.model(i) in "
            "a tracker of your own"
        )


if not TYPE_CHECKING:
    _NAMES = "weight_scale density lengths measures regions distances plane"
    __getattr__ = absent(__name__, _NAMES.split())
