"""Probes: one layer of one curve in one network -> one number.

A probe is a small pure function of a ``Layer``. Write your own in a few lines:

>>> import jax, jax.numpy as jnp
>>> from jaxexpr import MLP, curves, estimate, laws, probe
>>> @probe(degree=0)
... def off(layer):
...     "Share of units that are off on the whole curve."
...     return jnp.mean(jnp.all(layer.h <= 0, axis=0).astype(layer.h.dtype))
>>> net = MLP((4, 16, 16), laws.Gaussian(1.4), laws.Zero(), "relu")
>>> line = curves.line([1.0, 0, 0, 0], [0, 1.0, 0, 0])
>>> estimate(net, line, key=jax.random.key(0), draws=50, probes=(off,))["off"].mean.shape
(2,)

``degree`` says how the number changes when the curve's image is scaled: 0 for ratios, angles and
counts, 1 for lengths and norms. Deep networks are carried with an exponent, and the runner needs
the degree to put it back.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core import checks
from jaxexpr._core.bits import distinct, pack_all
from jaxexpr._core.calls import explained
from jaxexpr._core.linalg import norms, power_of_two
from jaxexpr.activations import Activation
from jaxexpr.networks import LayerSpec
from jaxexpr.prng import threefry2x32
from jaxexpr.probes.kac_rice import crossing_rate

PATCH_ENTRIES = 2**21  # of the patches of a convolution that are held at a time
TANGENT_POINTS, FINE_TANGENT_POINTS, GRID_POINTS = 30, 300, 1001


class Number(NamedTuple):
    """``value * 2**exponent`` of one layer; NaN where this network has no such number there."""

    value: jax.Array
    exponent: jax.Array


@dataclasses.dataclass(frozen=True)
class Probe:
    """A measure of one layer.

    Attributes
    ----------
    name : key of the result.
    measure : from a ``Layer`` to a scalar. NaN says that the network has no such number at this
        layer (all its segments are dead, say): it is left out of the mean and counted.
    degree : the number scales as the ``degree``-th power of the image.
    of : ``"points"`` or ``"segments"``: whose units the number is in.
    nodes : the kinds of nodes it can be measured at, the preferred one first; ``"exact"`` needs
        none.
    points : how many nodes it takes by default, one number for each kind.
    log : the number is the logarithm of one of degree `degree`.
    gaussian : it is an expectation over dense Gaussian weights and Gaussian (or no) biases, and so
        refused of other laws and of given parameters.
    finish : from what `measure` says of all layers, stacked ``(depth, ...)``, to ``(depth,)``: for
        measures of all the layers up to this one. `measure` may then return an array; the degree is
        0.
    levels : it counts the crossings of these levels by the layer's pre-activations.
    """

    name: str
    measure: Callable[[Layer], jax.Array]
    degree: int = 0
    of: str = "points"
    nodes: tuple[str, ...] = ("tangent", "grid")
    points: tuple[int, ...] = (TANGENT_POINTS, GRID_POINTS)
    log: bool = False
    gaussian: bool = False
    finish: Callable[[jax.Array], jax.Array] | None = None
    levels: tuple[float, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it is one of this package's counts, which have no derivative."""
        return bool(self.levels) or self.measure in _COUNTED

    def __call__(self, layer: Layer) -> Number:
        value = jnp.asarray(self.measure(layer))
        if self.finish is not None:
            return Number(value, jnp.zeros((), jnp.int32))
        if value.shape != ():
            raise ValueError(
                f"probe {self.name!r} returns shape {value.shape}: return one number for a layer"
            )
        value = value.astype(layer.z.dtype)
        exponent = layer.points_exponent
        if self.of == "segments" and layer.dz is not None:
            exponent = layer.tangents_exponent
        if self.log:
            shift = (self.degree * exponent).astype(value.dtype) * np.asarray(
                np.log(2.0), value.dtype
            )
            return Number(value + shift, jnp.zeros((), jnp.int32))
        return Number(value, self.degree * exponent)


@explained
def probe(
    function: object = None,
    *,
    degree: int = 0,
    of: str = "points",
    nodes: str | Sequence[str] = ("tangent", "grid"),
    points: Sequence[int] | None = None,
    log: bool = False,
    name: str | None = None,
) -> Callable[[Callable[[Layer], jax.Array]], Probe]:
    """Make a probe of a function of a ``Layer``; see ``Probe`` for the options.

    Raises
    ------
    ValueError
        for a degree that is not an integer, for unknown nodes or units, and where it stands without
        parentheses.
    """
    if function is not None:
        raise ValueError(
            f"probe({checks.shown(function)}): decorate with @probe(degree=0), in parentheses, if "
            "scaling the image leaves the number alone (ratios, counts); degree=1 for a length"
        )
    checks.integer("degree", degree, minimum=-8)
    checks.one_of("of", of, ("points", "segments"))
    nodes = (nodes,) if isinstance(nodes, str) else tuple(nodes)
    if not nodes:
        raise ValueError("nodes=() is empty: name at least one of tangent, grid")
    for kind in nodes:
        checks.one_of("nodes", kind, ("tangent", "grid"))
    defaults = {"tangent": TANGENT_POINTS, "grid": GRID_POINTS}
    counts = tuple(defaults[kind] for kind in nodes) if points is None else tuple(points)
    if len(counts) != len(nodes):
        raise ValueError(
            f"points={checks.shown(counts)} has {len(counts)} entries for {len(nodes)} kinds of "
            f"nodes: give {len(nodes)}"
        )
    counts = tuple(checks.integer("points", count) for count in counts)

    def wrap(function: Callable[[Layer], jax.Array]) -> Probe:
        if not callable(function):
            raise ValueError(f"function={checks.shown(function)}: decorate a function of a Layer")
        title = getattr(function, "__name__", "probe") if name is None else name
        return Probe(title, function, degree, of, tuple(nodes), counts, log)

    return wrap


def _mean_where(values: jax.Array, shares: np.ndarray, keep: jax.Array) -> jax.Array:
    """Mean of `values` uniform in the curve's parameter over what is kept; NaN if nothing is."""
    weights = jnp.where(keep, np.asarray(shares, values.dtype), 0)
    total = jnp.sum(weights)
    mean = jnp.sum(jnp.where(keep, values, 0) * weights) / jnp.where(total > 0, total, 1)
    return jnp.where(total > 0, mean, jnp.nan)


def _ratios(layer: Layer) -> tuple[jax.Array, jax.Array]:
    alive = layer.segments_before > 0
    return layer.segments / jnp.where(alive, layer.segments_before, 1), alive


def _growth(layer: Layer) -> jax.Array:
    ratios, alive = _ratios(layer)
    return _mean_where(ratios, layer.shares, alive)


def _growth_squared(layer: Layer) -> jax.Array:
    ratios, alive = _ratios(layer)
    return _mean_where(ratios * ratios, layer.shares, alive)


def _log_growth(layer: Layer) -> jax.Array:
    ratios, alive = _ratios(layer)
    survives = alive & (layer.segments > 0)
    return _mean_where(jnp.log(jnp.where(survives, ratios, 1)), layer.shares, survives)


def _length(layer: Layer) -> jax.Array:
    return jnp.sum(layer.segments)


def _log_length(layer: Layer) -> jax.Array:
    length = jnp.sum(layer.segments)
    return jnp.where(length > 0, jnp.log(jnp.where(length > 0, length, 1)), jnp.nan)


def _length_ratio(layer: Layer) -> jax.Array:
    before = jnp.sum(layer.segments_before)
    return jnp.where(
        before > 0, jnp.sum(layer.segments) / jnp.where(before > 0, before, 1), jnp.nan
    )


def _norm(layer: Layer) -> jax.Array:
    return jnp.mean(norms(layer.z))


def _angle(layer: Layer) -> jax.Array:
    first, last = layer.z[0], layer.z[-1]
    lengths = norms(jnp.stack([first, last]))
    alive = jnp.all(lengths > 0)
    a = first / jnp.where(alive, lengths[0], 1)
    b = last / jnp.where(alive, lengths[1], 1)
    # Twice the half angle: accurate for near and for opposite directions alike.
    half = jnp.arctan2(*norms(jnp.stack([a - b, a + b])))
    return jnp.where(alive, 2 * half, jnp.nan)


def _beyond(layer: Layer, levels: Sequence[float]) -> list[jax.Array]:
    """Which units are beyond each level at each node, ``(m, width)`` each."""
    dtype = layer.h.dtype
    # Points are in units of a power of two, which matters to levels other than 0.
    unit = power_of_two(-layer.points_exponent, dtype)
    return [layer.h > (np.asarray(x, dtype) * unit if x else 0) for x in levels]


def _crossings(layer: Layer, levels: Sequence[float]) -> jax.Array:
    total = jnp.zeros((), layer.h.dtype)
    for beyond in _beyond(layer, levels):
        total = total + jnp.sum((beyond[1:] != beyond[:-1]).astype(layer.h.dtype))
    return total


def _transitions(layer: Layer) -> jax.Array:
    if layer.winners is not None:
        changes = layer.winners[1:] != layer.winners[:-1]
        return jnp.sum(changes.astype(layer.h.dtype))
    return _crossings(layer, layer.activation.breakpoints or ())


@dataclasses.dataclass(frozen=True)
class _Crossings:
    """Crossings of some levels; equal levels compare equal, so they compile once."""

    levels: tuple[float, ...]

    def __call__(self, layer: Layer) -> jax.Array:
        return _crossings(layer, self.levels)


@explained
def crossings(*levels: float, name: str | None = None) -> Probe:
    """A probe that counts crossings of these levels by the pre-activations of each layer.

    What ``transitions`` counts at the breakpoints of a piecewise linear activation, at levels of
    your own: thresholds of a smooth activation, or 0, where a read-out changes its sign (probe
    ``"sign_changes"``). A jump over several levels counts each of them.

    Raises
    ------
    ValueError
        for no level, one that is not finite, and a repeated one.

    Examples
    --------
    >>> crossings(-1.0, 1.0).name
    'crossings(-1, 1)'
    """
    found = checks.sequence("levels", levels)
    if not found or len(set(found)) < len(found):
        raise ValueError(f"levels={levels}: give one or more levels, each once")
    title = f"crossings({', '.join(f'{x:g}' for x in found)})" if name is None else name
    return Probe(
        title,
        _Crossings(found),
        nodes=("exact", "grid"),
        points=(0, GRID_POINTS),
        levels=found,
    )


def _codes(layer: Layer) -> jax.Array:
    """Two words for each node that tell activation patterns of this layer apart, ``(m, 2)``."""
    beyond = _beyond(layer, layer.activation.breakpoints or ())
    if layer.winners is not None:
        beyond = [(layer.winners >> bit) & 1 > 0 for bit in range(layer.op.size.bit_length() * 2)]
    words = pack_all(beyond, layer.h.shape[0])
    place = lax.broadcasted_iota(jnp.uint32, words.shape, 1)
    number = jnp.asarray(layer.index).astype(jnp.uint32)
    mixed = threefry2x32((number, np.uint32(words.shape[1])), (words, place))
    return jnp.stack([jnp.sum(x, axis=1, dtype=jnp.uint32) for x in mixed], axis=1)


def _of_each(codes: jax.Array) -> jax.Array:
    whole = jnp.ones(codes.shape[1], bool)
    return jax.vmap(lambda one: distinct(one, whole))(codes)


def _of_all_below(codes: jax.Array) -> jax.Array:
    return _of_each(jnp.cumsum(codes, axis=0, dtype=jnp.uint32))


def _expected(layer: Layer, levels: Sequence[float]) -> jax.Array:
    spec, dtype = layer.spec, layer.z.dtype
    assert layer.dz_before is not None
    if spec is None:  # a pool, of which nothing is drawn
        return jnp.full((), jnp.nan, dtype)
    # Biases and levels in the units of the points.
    unit = power_of_two(-layer.points_exponent, dtype)
    bias = jnp.asarray(spec.biases.std, dtype) * unit
    scale = spec.weight_scale(layer.op.fan_in, dtype)

    def rate_at(node: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Expected crossings by one output at all places, per unit of the parameter."""
        z, dz = (layer.op.patches(x[None])[0] for x in node)
        rates = [crossing_rate(z, dz, scale, bias, x * unit if x else 0.0) for x in levels]
        return jnp.sum(jnp.stack(rates)) if rates else jnp.zeros((), dtype)

    pairs = (layer.z_before, layer.dz_before)
    # Patches of an image are many times its size: few nodes at a time.
    entries = layer.op.units // layer.op.outputs * layer.op.fan_in
    together = int(np.clip(PATCH_ENTRIES // entries, 1, layer.z.shape[0]))
    rate = lax.map(rate_at, pairs, batch_size=together)
    units = power_of_two(layer.tangents_exponent - layer.points_exponent, dtype)
    shares = np.asarray(layer.shares * layer.span * layer.op.outputs, dtype)
    return jnp.sum(rate * shares) * units


def _expected_transitions(layer: Layer) -> jax.Array:
    return _expected(layer, layer.activation.breakpoints or ())


@dataclasses.dataclass(frozen=True)
class _ExpectedCrossings:
    levels: tuple[float, ...]

    def __call__(self, layer: Layer) -> jax.Array:
        return _expected(layer, self.levels)


@explained
def expected_crossings(*levels: float, name: str | None = None) -> Probe:
    """A probe of the expected crossings of these levels by a layer, given the layers below.

    To ``crossings`` what ``expected_transitions`` is to ``transitions``: the Kac-Rice formula under
    dense Gaussian weights and Gaussian biases, which has the same mean, a smaller variance, and no
    need of a grid as fine as the curve's image; for smooth activations too.

    Raises
    ------
    ValueError
        as ``crossings``.

    Examples
    --------
    >>> expected_crossings(0.0).name
    'expected_crossings(0)'
    """
    counted = crossings(*levels)
    return Probe(
        f"expected_{counted.name}" if name is None else name,
        _ExpectedCrossings(counted.levels),
        nodes=("tangent",),
        points=(FINE_TANGENT_POINTS,),
        gaussian=True,
    )


def _left_out(layer: Layer) -> jax.Array:
    return jnp.sum((layer.segments_before == 0).astype(layer.z.dtype))


def _seen_exactly_alone(layer: Layer) -> jax.Array:
    raise ValueError("probe 'pieces' is measured by method='exact' alone")


_COUNTED = (_transitions, _codes, _seen_exactly_alone, _left_out)
_BOTH, _ALL = ("tangent", "grid"), ("tangent", "grid", "exact")
_COARSE, _FINE = (TANGENT_POINTS, GRID_POINTS, 0), (FINE_TANGENT_POINTS, GRID_POINTS, 0)

growth = Probe("growth", _growth, 0, "segments", _ALL, _COARSE)
growth_squared = Probe("growth_squared", _growth_squared, 0, "segments", _ALL, _COARSE)
log_growth = Probe("log_growth", _log_growth, 0, "segments", _ALL, _COARSE)
length = Probe("length", _length, 1, "segments", _ALL, _COARSE)
log_length = Probe("log_length", _log_length, 1, "segments", _ALL, _FINE, log=True)
length_ratio = Probe("length_ratio", _length_ratio, 0, "segments", _ALL, _FINE)
norm = Probe("norm", _norm, 1, "points", _BOTH, _COARSE)
angle = Probe("angle", _angle, 0, "points", ("grid",), (GRID_POINTS,))
transitions = Probe("transitions", _transitions, 0, "points", ("exact", "grid"), (0, GRID_POINTS))
pieces = Probe("pieces", _seen_exactly_alone, 0, "points", ("exact",), (0,))
expected_transitions = Probe(
    "expected_transitions",
    _expected_transitions,
    nodes=("tangent",),
    points=(FINE_TANGENT_POINTS,),
    gaussian=True,
)
network_transitions = Probe(
    "network_transitions",
    _transitions,
    nodes=("exact", "grid"),
    points=(0, GRID_POINTS),
    finish=functools.partial(jnp.cumsum, axis=0),
)
patterns = Probe(
    "patterns",
    _codes,
    nodes=("exact", "grid"),
    points=(0, GRID_POINTS),
    finish=_of_all_below,
)
layer_patterns = Probe(
    "layer_patterns", _codes, nodes=("grid",), points=(GRID_POINTS,), finish=_of_each
)
sign_changes = crossings(0.0, name="sign_changes")
left_out = Probe("left_out", _left_out, 0, "segments", _BOTH, _COARSE)

NAMES = {
    p.name: p
    for p in (
        length,
        growth,
        growth_squared,
        log_growth,
        length_ratio,
        log_length,
        norm,
        angle,
        transitions,
        network_transitions,
        sign_changes,
        pieces,
        patterns,
        layer_patterns,
        expected_transitions,
    )
}


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer as a probe sees it: the curve's image below it and above it.

    Attributes
    ----------
    index : number of the layer, 0 the first.
    z_before, h, z : post-activations of the layer below (or the input), pre-activations and
        post-activations of this one; ``(m, fan_in)``, ``(m, fan_out)``, ``(m, fan_out)``.
    dz_before, dh, dz : their derivatives in the curve's parameter, or ``None`` on a grid.
    segments_before, segments : length of each piece of the curve's image below and above the
        layer: ``(m,)`` with tangents, ``(m - 1,)`` on a grid.
    shares : share of the curve's domain of each piece; the sum is 1.
    points_exponent, tangents_exponent : z and h are in units of ``2**points_exponent``, the
        derivatives of ``2**tangents_exponent``; both 0 unless the network is deep or extreme.
        Segments have the units of the derivatives, or of z where there are none.
    span : length of the curve's domain.
    activation : the network's activation.
    op : the layer itself (``layers``): its sizes and kind.
    spec : the laws that the layer was drawn from; ``None`` of given parameters.
    winners : of a max pool, which entry of its window each unit is, ``(m, fan_out)``.
    """

    index: Any
    z_before: jax.Array
    h: jax.Array
    z: jax.Array
    dz_before: jax.Array | None
    dh: jax.Array | None
    dz: jax.Array | None
    segments_before: jax.Array
    segments: jax.Array
    shares: np.ndarray
    points_exponent: jax.Array
    tangents_exponent: jax.Array
    span: float
    activation: Activation
    op: Any
    spec: LayerSpec | None = None
    winners: jax.Array | None = None
