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

``degree`` is the power with which the number scales with the curve's image: 0 for ratios, angles
and counts, 1 for lengths and norms. Values of deep networks are scaled by a power of two, and the
runner needs the degree to undo the scaling.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import elsewhere, explained
from jaxexpr._core.spellings import ATTRIBUTES
from jaxexpr.activations import Activation
from jaxexpr.networks import LayerSpec

TANGENT_POINTS, FINE_TANGENT_POINTS, GRID_POINTS = 30, 300, 1001


class Number(NamedTuple):
    """``value * 2**exponent`` of one layer; NaN if this network has no such number."""

    value: jax.Array
    exponent: jax.Array


@dataclasses.dataclass(frozen=True)
class Layer:
    """The argument of a probe: the image of the curve below and above one layer.

    Attributes
    ----------
    number : number of the layer, counted from 1.
    z_before, h, z : post-activations of the layer below (or the input), pre-activations and
        post-activations of this one; ``(m, fan_in)``, ``(m, fan_out)``, ``(m, fan_out)``.
    dz_before, dh, dz : their derivatives in the curve's parameter, or ``None`` on a grid.
    segments_before, segments : length of each segment between nodes of the curve's image below and
        above the layer: ``(m,)`` with tangents, ``(m - 1,)`` on a grid.
    shares : share of the curve's domain of each segment; the sum is 1.
    points_exponent, tangents_exponent : z and h are in units of ``2**points_exponent``, the
        derivatives of ``2**tangents_exponent``; both 0 unless the network is deep or extreme.
        Segments have the units of the derivatives, or of z where there are none.
    span : length of the curve's domain.
    activation : the network's activation.
    op : the layer itself (``layers``): its sizes and kind.
    spec : the laws that the layer was drawn from; ``None`` for given parameters.
    winners : for a max pool, the index in its window of each unit's maximum, ``(m, fan_out)``.
    """

    number: Any
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

    if not TYPE_CHECKING:
        __getattr__ = elsewhere("Layer", ATTRIBUTES["Layer"])


@dataclasses.dataclass(frozen=True)
class Probe:
    """A measure of one layer.

    Attributes
    ----------
    name : key of the result.
    measure : function of a ``Layer`` that returns a scalar. NaN means that the network has no such
        number at this layer (for example if all segments have length 0): it is omitted from the
        mean and counted.
    degree : the number scales as the ``degree``-th power of the image.
    of : ``"points"`` or ``"segments"``: the units of the number.
    nodes : kinds of nodes at which it can be measured, the preferred one first; ``"exact"`` uses
        none.
    points : default number of nodes of each kind.
    log : whether the number is the logarithm of one of degree `degree`.
    gaussian : it is an expectation over dense Gaussian weights and Gaussian (or no) biases, so
        other laws and given parameters raise ValueError.
    finish : function of the values of `measure` in all layers, stacked ``(depth, ...)``, that
        returns ``(depth,)``: for measures of all layers up to each one. `measure` may then return
        an array; the degree is 0.
    levels : it counts the crossings of these levels by the layer's pre-activations.
    counts : whether it is a count, which has no derivative.
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
    counts: bool = False

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
    """Make a probe from a function of a ``Layer``; see ``Probe`` for the options.

    Raises
    ------
    ValueError
        if `degree` is no integer, nodes or units are unknown, or ``@probe`` is used without
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
