"""A curve through a network, layer by layer.

Values and tangents at the nodes of one curve go through one network; ``observe`` sees one layer
at a time and only what it returns is kept. Every product is one call of ``dot`` at the highest
precision (TF32 would lengthen a polyline by its rounding errors).

Deep networks overflow any float, so points and tangents are carried as ``array * 2**exponent``.
Tangents are always rescaled, points where the activation is positively homogeneous; powers of
two make both exact.

Derivatives with respect to laws, curve or parameters: a tangent does not know where units change
their state, so the derivative of what is made of tangents would lack a term. It is NaN, but for the
scales of networks in which no scale moves a state: homogeneous ones without biases.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr import laws, prng
from jaxexpr._core.derivatives import without_derivative
from jaxexpr._core.linalg import (
    LARGEST_SHIFT,
    NO_EXPONENT,
    _exponent,
    dot,
    power_of_two,
    triangular,
)
from jaxexpr._core.shapes import Array, Float, Int, Key
from jaxexpr._core.transforms import scan
from jaxexpr.activations import Activation, linear
from jaxexpr.curves import Curve
from jaxexpr.layers import PlacedConv, PlacedDense, PlacedPool
from jaxexpr.measurement.nodes import Nodes
from jaxexpr.networks import LayerSpec, Network
from jaxexpr.params import Params
from jaxexpr.probes.base import Layer

Out = TypeVar("Out")  # what is observed of a layer
Index = Int[Array, ""] | int


class Image(NamedTuple):
    """The curve's image below a layer: ``points * 2**points_exponent`` and so on.

    ``segments`` and ``coarser`` are the lengths of its pieces, in the units of the tangents, or
    of the points where there are none.
    """

    points: Float[Array, "m k"]
    tangents: Float[Array, "m k"] | None
    segments: Float[Array, "pieces"]
    coarser: Float[Array, "fewer"]
    points_exponent: Int[Array, ""]
    tangents_exponent: Int[Array, ""]


_NODE_ARRAYS = ("z_before", "h", "z", "dz_before", "dh", "dz", "winners")


def initial_image(curve: Curve, nodes: Nodes, dtype: jnp.dtype, *, kinks: bool = False) -> Image:
    """The curve itself at its nodes; `kinks` if units above it change their state on it."""
    curve = curve.astype(dtype)
    t = jnp.asarray(nodes.parameters(curve), dtype)
    zero = jnp.zeros((), jnp.int32)
    points, tangents = (
        (curve.points(t), None) if nodes.kind == "grid" else curve.points_and_tangents(t)
    )
    points = points.reshape(nodes.count, -1)
    if tangents is not None:
        tangents = tangents.reshape(nodes.count, -1)
        tangents = without_derivative(tangents, curve) if kinks else tangents
    segments = nodes.segments(_span(curve), points, tangents)
    return Image(points, tangents, *segments, zero, zero)


def _span(curve: Curve) -> float:
    return curve.domain[1] - curve.domain[0]


class Ready(NamedTuple):
    """What a layer does with its products: ``h = products * scale * shift + biases``.

    ``scale`` is that of the weights; ``shift`` takes the points to the units ``2**exponent``.
    """

    exponent: Int[Array, ""]
    shift: Float[Array, ""]
    scale: Float[Array, ""]
    biases: Float[Array, "k"]


def prepare(
    image: Image, scale: Float[Array, ""], biases: Float[Array, "k"], activation: Activation
) -> Ready:
    """Choose the units of the next layer's points, so that neither they nor the biases overflow."""
    dtype = image.points.dtype
    if not activation.homogeneous:
        return Ready(image.points_exponent, jnp.ones((), dtype), scale, biases)
    exponent = image.points_exponent + _exponent(_size(image))
    exponent = jnp.maximum(exponent, jnp.maximum(_exponent(_largest(biases)), NO_EXPONENT))
    shift = power_of_two(image.points_exponent - exponent, dtype)
    return Ready(exponent, shift, scale, biases * power_of_two(-exponent, dtype))


def through_layer(
    image: Image,
    ready: Ready,
    product: Callable[[Array], Array],
    activation: Activation,
    nodes: Nodes,
    curve: Curve,
    index: Index,
    op: PlacedDense | PlacedConv,
    spec: LayerSpec | None = None,
    movers: object = None,
) -> tuple[Image, Layer, Layer | None]:
    """Send an image through one layer.

    Parameters
    ----------
    ready : biases, scale and units, from ``prepare``.
    product : from stacked rows ``(r, fan_in)`` to ``rows @ unit`` of shape ``(r, fan_out)``,
        where ``W = scale * unit``.
    op : the placed layer; spec : its laws, where it was drawn.
    movers : what moves the states of its units; by default all that moves its pre-activations.

    Returns
    -------
    The image above, the layer as probes see it, and the same seen at fewer nodes (``None`` if
    there are too few to thin out). The layer is in the units of the image above.
    """
    dtype, count = image.points.dtype, image.points.shape[0]
    rows = [image.points] if image.tangents is None else [image.points, image.tangents]
    products = product(jnp.concatenate(rows) if len(rows) > 1 else rows[0])
    h = products[:count] * (ready.scale * ready.shift) + ready.biases[None, :]
    z = activation(h)

    dh = dz = dz_before = None
    step, tangents_exponent = ready.shift, image.tangents_exponent
    if image.tangents is not None:
        shift = jnp.maximum(_exponent(_largest(image.tangents)), -LARGEST_SHIFT)
        step, tangents_exponent = power_of_two(-shift, dtype), tangents_exponent + shift
        dh = products[count:] * (ready.scale * step)
        slope = activation.derivative(h)
        if activation.breakpoints:
            slope = without_derivative(slope, h if movers is None else movers)
        dz = slope * dh
        dz_before = image.tangents * step

    segments = nodes.segments(_span(curve), z, dz)
    layer = Layer(
        number=index + 1,
        z_before=image.points * ready.shift,
        h=h,
        z=z,
        dz_before=dz_before,
        dh=dh,
        dz=dz,
        segments_before=image.segments * step,
        segments=segments[0],
        shares=nodes.shares(),
        points_exponent=ready.exponent,
        tangents_exponent=tangents_exponent,
        span=_span(curve),
        activation=activation,
        op=op,
        spec=spec,
    )
    coarser = _fewer(layer, nodes, image.coarser * step, segments[1])
    return Image(z, dz, *segments, ready.exponent, tangents_exponent), layer, coarser


def _fewer(
    layer: Layer, nodes: Nodes, before: Float[Array, "fewer"], above: Float[Array, "fewer"]
) -> Layer | None:
    """The layer at fewer nodes, with the lengths of the pieces between them below and above it."""
    if nodes.count < 3:
        return None
    arrays = {name: getattr(layer, name) for name in _NODE_ARRAYS}
    thinned: dict[str, Any] = {
        name: None if array is None else nodes.thin(array) for name, array in arrays.items()
    }
    shares = nodes.coarser_shares()
    return dataclasses.replace(
        layer, segments_before=before, segments=above, shares=shares, **thinned
    )


def pooled(
    image: Image,
    op: PlacedPool,
    nodes: Nodes,
    curve: Curve,
    index: int,
    *,
    scaled: bool = False,
) -> tuple[Image, Layer, Layer | None]:
    """Send an image through a pooling layer; returns as ``through_layer``.

    scaled : whether the laws' numbers do no more than scale the image.
    """
    winners = op.winners(image.points)
    z = op.pooled(image.points, winners)
    dz = None
    if image.tangents is not None:
        dz = op.pooled(image.tangents, winners)
        if winners is not None and not scaled:
            dz = without_derivative(dz, image.points)
    segments = nodes.segments(_span(curve), z, dz)
    layer = Layer(
        number=index + 1,
        z_before=image.points,
        h=z,
        z=z,
        dz_before=image.tangents,
        dh=dz,
        dz=dz,
        segments_before=image.segments,
        segments=segments[0],
        shares=nodes.shares(),
        points_exponent=image.points_exponent,
        tangents_exponent=image.tangents_exponent,
        span=_span(curve),
        activation=linear,
        op=op,
        winners=winners,
    )
    above = image._replace(points=z, tangents=dz, segments=segments[0], coarser=segments[1])
    return above, layer, _fewer(layer, nodes, image.coarser, segments[1])


def _largest(array: Float[Array, "..."]) -> Float[Array, ""]:
    return jnp.max(jnp.abs(array))


def _size(image: Image) -> Float[Array, ""]:
    """A size that no point of the image exceeds, 0 if all are 0."""
    if image.tangents is not None:
        return _largest(image.points)
    # No point is farther from the first one than the curve is long: no pass over all points.
    return _largest(image.points[0]) + jnp.sum(image.segments)


def _kinks(activation: Activation, ops: tuple[Any, ...]) -> bool:
    """Whether some units' slopes jump."""
    pools = (op for op in ops if isinstance(op, PlacedPool))
    return bool(activation.breakpoints) or any(op.kind == "max" for op in pools)


def propagate(
    net: Network,
    key: Key[Array, ""],
    curve: Curve,
    nodes: Nodes,
    observe: Callable[[Layer, Layer | None], Out],
    *,
    gram: bool = False,
) -> Out:
    """Draw one network layer by layer and send a curve through it.

    Parameters
    ----------
    net : its laws hold scalars here (``networks.over_sweep`` maps over arrays).
    key : determines the network.
    observe : from a ``Layer`` and the same at fewer nodes (or ``None``) to a pytree of arrays.
    gram : draw the pre-activations at the nodes in place of the weights (dense Gaussian).

    Returns
    -------
    What ``observe`` returned, each array stacked over the layers: ``(depth, ...)``.
    """
    dtype = jnp.dtype(net.dtype)
    image = initial_image(curve, nodes, dtype, kinks=_kinks(net.activation, net.ops))
    seed, seen = prng.seed(key), []
    scaled = net.activation.homogeneous and all(isinstance(b, laws.Zero) for b in net.biases)
    for run in net.runs():
        op = run.op
        if isinstance(op, PlacedPool):
            image, fine, coarser = pooled(image, op, nodes, curve, run.first, scaled=scaled)
            seen.append(jax.tree.map(lambda x: x[None], observe(fine, coarser)))
            continue

        def draw(
            index: Index, spec: LayerSpec, op: PlacedDense | PlacedConv = op
        ) -> tuple[Float[Array, ""], Float[Array, "k"]]:
            biases = op.spread(spec.draw_biases(seed, index, op.outputs, dtype))
            return spec.weight_scale(op.fan_in, dtype), biases

        def body(
            state: tuple[Image, Ready],
            step: tuple[Index, LayerSpec, tuple[Array, Array] | None],
            op: PlacedDense | PlacedConv = op,
        ) -> tuple[tuple[Image, Ready], Out]:
            (image, ready), (index, spec, following) = state, step
            unit: Any = ()
            product: Callable[[Array], Array]
            if gram:
                product = functools.partial(gram_product, seed, index, op.fan_in, op.outputs)
            else:
                unit = spec.draw_unit(seed, index, op.fan_in, op.outputs, dtype)
                product = op.product(unit)
            movers = unit if scaled else None
            above, fine, coarser = through_layer(
                image, ready, product, net.activation, nodes, curve, index, op, spec, movers
            )
            if following is not None:
                ready = prepare(above, following[0], following[1], net.activation)
            return (above, ready), observe(fine, coarser)

        if run.layers == 1:
            spec = net.layer(run.first)
            scale, biases = draw(run.first, spec)
            ready = prepare(image, scale, biases, net.activation)
            (image, _), out = body((image, ready), (run.first, spec, None))
            seen.append(jax.tree.map(lambda x: x[None], out))
            continue
        # Scale, units and biases of a layer are made a turn ahead. Made in the turn that needs
        # them, XLA fuses their making into the sum and repeats it for every node.
        layers = range(run.first, run.first + run.layers)
        specs = jax.tree.map(lambda *x: jnp.stack(x), *(net.layer(i) for i in layers))
        indices = jnp.asarray(layers, jnp.int32)
        scales, rows = jax.vmap(draw)(indices, specs)
        ready = prepare(image, scales[0], rows[0], net.activation)
        following = (jnp.roll(scales, -1), jnp.roll(rows, -1, axis=0))
        (image, _), out = scan(body, (image, ready), (indices, specs, following), seed)
        seen.append(out)
    return jax.tree.map(lambda *x: jnp.concatenate(x), *seen)


def propagate_params(
    params: Params,
    activation: Activation,
    curve: Curve,
    nodes: Nodes,
    observe: Callable[[Layer, Layer | None], Out],
    ops: tuple[Any, ...] | None = None,
) -> Out:
    """Send a curve through a given network; returns what ``observe`` returned, stacked.

    ops : its layers, if they are not all fully connected.
    """
    dtype = jnp.asarray(params[0][0]).dtype
    image = initial_image(curve, nodes, dtype, kinks=_kinks(activation, ops or ()))
    seen, left = [], list(params)
    for index, op in enumerate(ops or (PlacedDense(*np.shape(w)) for w, _ in params)):
        if isinstance(op, PlacedPool):
            image, fine, coarser = pooled(image, op, nodes, curve, index)
            seen.append(observe(fine, coarser))
            continue
        matrix, biases = left.pop(0)
        product = op.product(jnp.asarray(matrix).reshape(op.fan_in, op.outputs))
        offset = op.spread(jnp.asarray(biases))
        ready = prepare(image, jnp.ones((), dtype), offset, activation)
        image, fine, coarser = through_layer(
            image, ready, product, activation, nodes, curve, index, op
        )
        seen.append(observe(fine, coarser))
    return jax.tree.map(lambda *x: jnp.stack(x), *seen)


def gram_product(
    seed: prng.Seed, layer: Index, fan_in: int, fan_out: int, rows: Float[Array, "r {fan_in}"]
) -> Float[Array, "r {fan_out}"]:
    """Draw ``rows @ W`` of a layer, in law; ``(r, fan_in)`` to ``(r, fan_out)``.

    The columns of ``rows @ W``, W iid standard normal, are iid normal with covariance ``rows
    rows^T``, and so are those of ``L G`` with the triangular factor L of ``rows = L Q`` and G iid
    standard normal: ``min(r, fan_in) x fan_out`` normals in place of ``fan_in x fan_out``.
    """
    factor = triangular(rows) if rows.shape[0] < fan_in else rows
    draw = prng.words(prng.child(seed, layer, 0), (factor.shape[1], fan_out))
    return dot(factor, prng.normal(draw.second, rows.dtype))
