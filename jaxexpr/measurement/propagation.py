"""A curve through a network, layer by layer.

Points and tangents at the nodes of one curve are propagated through one network. ``observe`` is
called for each layer, and only its results are stored. Every product is one call of ``dot`` at the
highest precision (rounding errors of TF32 would lengthen a polyline).

Deep networks overflow any float, so points and tangents are carried as ``array * 2**exponent``.
Tangents are always rescaled, points only where the activation is positively homogeneous. Both are
exact, because the factors are powers of two.

Derivatives with respect to laws, curve or parameters: tangents hold no information on where units
change their state, so derivatives of quantities computed from them would lack a term. These
derivatives are NaN. The exception are derivatives with respect to the scales of a homogeneous
network without biases, where no scale changes a state.
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

Out = TypeVar("Out")  # what ``observe`` returns for a layer
Index = Int[Array, ""] | int


class Image(NamedTuple):
    """The curve's image below a layer: ``points * 2**points_exponent``, and tangents alike.

    ``segments`` and ``coarser`` are the lengths of its segments between the nodes and between fewer
    nodes. They have the exponent of the tangents, or that of the points if there are no tangents.
    """

    points: Float[Array, "m k"]
    tangents: Float[Array, "m k"] | None
    segments: Float[Array, "segments"]
    coarser: Float[Array, "thinned"]
    points_exponent: Int[Array, ""]
    tangents_exponent: Int[Array, ""]


_NODE_ARRAYS = ("z_before", "h", "z", "dz_before", "dh", "dz", "winners")


def initial_image(curve: Curve, nodes: Nodes, dtype: jnp.dtype, *, kinks: bool = False) -> Image:
    """Return the curve itself at its nodes.

    kinks : whether the slope of some unit above jumps; then the derivatives of tangents are NaN.
    """
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


class Scaling(NamedTuple):
    """Scale and shift of a layer's products: ``h = products * scale * shift + biases``.

    ``scale`` is the scale of the weights. ``shift`` rescales the points to multiples of
    ``2**exponent``; ``biases`` are multiples of it already.
    """

    exponent: Int[Array, ""]
    shift: Float[Array, ""]
    scale: Float[Array, ""]
    biases: Float[Array, "k"]


def choose_scaling(
    image: Image, scale: Float[Array, ""], biases: Float[Array, "k"], activation: Activation
) -> Scaling:
    """Choose the exponent of a layer's points so that neither they nor the biases overflow."""
    dtype = image.points.dtype
    if not activation.homogeneous:
        return Scaling(image.points_exponent, jnp.ones((), dtype), scale, biases)
    exponent = image.points_exponent + _exponent(_size_bound(image))
    exponent = jnp.maximum(exponent, jnp.maximum(_exponent(_largest(biases)), NO_EXPONENT))
    shift = power_of_two(image.points_exponent - exponent, dtype)
    return Scaling(exponent, shift, scale, biases * power_of_two(-exponent, dtype))


def through_layer(
    image: Image,
    scaling: Scaling,
    product: Callable[[Array], Array],
    activation: Activation,
    nodes: Nodes,
    curve: Curve,
    index: Index,
    op: PlacedDense | PlacedConv,
    spec: LayerSpec | None = None,
    causes: object = None,
) -> tuple[Image, Layer, Layer | None]:
    """Send an image through one layer.

    Parameters
    ----------
    scaling : scale, exponent and biases, from ``choose_scaling``.
    product : from stacked rows ``(r, fan_in)`` to ``rows @ unit`` of shape ``(r, fan_out)``,
        where ``W = scale * unit``.
    index : index of the layer, from 0.
    op : the placed layer.
    spec : its laws, if it was drawn.
    causes : arrays on which the states of its units depend, by default all on which its
        pre-activations depend: derivatives of tangents with respect to them are NaN.

    Returns
    -------
    The image above, the layer as it is given to probes, and the same at fewer nodes (``None`` if
    there are too few to thin out). The layer has the exponents of the image above.
    """
    dtype, count = image.points.dtype, image.points.shape[0]
    rows = [image.points] if image.tangents is None else [image.points, image.tangents]
    products = product(jnp.concatenate(rows) if len(rows) > 1 else rows[0])
    h = products[:count] * (scaling.scale * scaling.shift) + scaling.biases[None, :]
    z = activation(h)

    dh = dz = dz_before = None
    step, tangents_exponent = scaling.shift, image.tangents_exponent
    if image.tangents is not None:
        shift = jnp.maximum(_exponent(_largest(image.tangents)), -LARGEST_SHIFT)
        step, tangents_exponent = power_of_two(-shift, dtype), tangents_exponent + shift
        dh = products[count:] * (scaling.scale * step)
        slope = activation.derivative(h)
        if activation.breakpoints:
            slope = without_derivative(slope, h if causes is None else causes)
        dz = slope * dh
        dz_before = image.tangents * step

    segments = nodes.segments(_span(curve), z, dz)
    layer = Layer(
        number=index + 1,
        z_before=image.points * scaling.shift,
        h=h,
        z=z,
        dz_before=dz_before,
        dh=dh,
        dz=dz,
        segments_before=image.segments * step,
        segments=segments[0],
        shares=nodes.shares(),
        points_exponent=scaling.exponent,
        tangents_exponent=tangents_exponent,
        span=_span(curve),
        activation=activation,
        op=op,
        spec=spec,
    )
    coarser = _at_fewer_nodes(layer, nodes, image.coarser * step, segments[1])
    return Image(z, dz, *segments, scaling.exponent, tangents_exponent), layer, coarser


def _at_fewer_nodes(
    layer: Layer, nodes: Nodes, before: Float[Array, "thinned"], above: Float[Array, "thinned"]
) -> Layer | None:
    """Return the layer at fewer nodes; ``None`` if there are too few to thin out.

    before, above : lengths of the segments between these nodes, below and above the layer.
    """
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


def through_pool(
    image: Image,
    op: PlacedPool,
    nodes: Nodes,
    curve: Curve,
    index: int,
    *,
    only_scaled: bool = False,
) -> tuple[Image, Layer, Layer | None]:
    """Send an image through a pooling layer; the result is that of ``through_layer``.

    only_scaled : whether the parameters of the laws only scale the image, and so change no state.
    """
    winners = op.winners(image.points)
    z = op.pooled(image.points, winners)
    dz = None
    if image.tangents is not None:
        dz = op.pooled(image.tangents, winners)
        if winners is not None and not only_scaled:
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
    return above, layer, _at_fewer_nodes(layer, nodes, image.coarser, segments[1])


def _largest(array: Float[Array, "..."]) -> Float[Array, ""]:
    return jnp.max(jnp.abs(array))


def _size_bound(image: Image) -> Float[Array, ""]:
    """Return an upper bound on the entries of all points, 0 if all are 0."""
    if image.tangents is not None:
        return _largest(image.points)
    # No point is farther from the first one than the length of the curve: cheaper than all points.
    return _largest(image.points[0]) + jnp.sum(image.segments)


def _has_kinks(activation: Activation, ops: tuple[Any, ...]) -> bool:
    """Whether the slope of some unit jumps, at a breakpoint or in a max pool."""
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
    net : laws with scalar parameters (``over_sweep`` maps over those with arrays).
    key : determines the network.
    observe : function of a ``Layer`` and of the same at fewer nodes (or ``None``) that returns a
        pytree of arrays.
    gram : draw the pre-activations at the nodes instead of the weights (dense Gaussian laws only).

    Returns
    -------
    The results of ``observe``, each array stacked over the layers: ``(depth, ...)``.
    """
    dtype = jnp.dtype(net.dtype)
    image = initial_image(curve, nodes, dtype, kinks=_has_kinks(net.activation, net.ops))
    seed, outputs = prng.seed(key), []
    only_scaled = net.activation.homogeneous and all(isinstance(b, laws.Zero) for b in net.biases)
    for run in net.runs():
        op = run.op
        if isinstance(op, PlacedPool):
            image, fine, coarser = through_pool(
                image, op, nodes, curve, run.first, only_scaled=only_scaled
            )
            outputs.append(jax.tree.map(lambda x: x[None], observe(fine, coarser)))
            continue

        def draw(
            index: Index, spec: LayerSpec, op: PlacedDense | PlacedConv = op
        ) -> tuple[Float[Array, ""], Float[Array, "k"]]:
            biases = op.spread(spec.draw_biases(seed, index, op.outputs, dtype))
            return spec.weight_scale(op.fan_in, dtype), biases

        def body(
            state: tuple[Image, Scaling],
            step: tuple[Index, LayerSpec, tuple[Array, Array] | None],
            op: PlacedDense | PlacedConv = op,
        ) -> tuple[tuple[Image, Scaling], Out]:
            (image, scaling), (index, spec, next_layer) = state, step
            unit: Any = ()
            product: Callable[[Array], Array]
            if gram:
                product = functools.partial(gram_product, seed, index, op.fan_in, op.outputs)
            else:
                unit = spec.draw_unit(seed, index, op.fan_in, op.outputs, dtype)
                product = op.product(unit)
            causes = unit if only_scaled else None
            above, fine, coarser = through_layer(
                image, scaling, product, net.activation, nodes, curve, index, op, spec, causes
            )
            if next_layer is not None:
                scaling = choose_scaling(above, next_layer[0], next_layer[1], net.activation)
            return (above, scaling), observe(fine, coarser)

        if run.layers == 1:
            spec = net.layer(run.first)
            scale, biases = draw(run.first, spec)
            scaling = choose_scaling(image, scale, biases, net.activation)
            (image, _), out = body((image, scaling), (run.first, spec, None))
            outputs.append(jax.tree.map(lambda x: x[None], out))
            continue
        # Scale, exponent and biases of a layer are computed one iteration ahead. If they were
        # computed where they are used, XLA would fuse that into the sum and repeat it at each node.
        layers = range(run.first, run.first + run.layers)
        specs = jax.tree.map(lambda *x: jnp.stack(x), *(net.layer(i) for i in layers))
        indices = jnp.asarray(layers, jnp.int32)
        scales, all_biases = jax.vmap(draw)(indices, specs)
        scaling = choose_scaling(image, scales[0], all_biases[0], net.activation)
        next_layers = (jnp.roll(scales, -1), jnp.roll(all_biases, -1, axis=0))
        (image, _), out = scan(body, (image, scaling), (indices, specs, next_layers), seed)
        outputs.append(out)
    return jax.tree.map(lambda *x: jnp.concatenate(x), *outputs)


def propagate_params(
    params: Params,
    activation: Activation,
    curve: Curve,
    nodes: Nodes,
    observe: Callable[[Layer, Layer | None], Out],
    ops: tuple[Any, ...] | None = None,
) -> Out:
    """Send a curve through a given network; return the results of ``observe``, stacked.

    ops : the layers of the network; by default all are fully connected.
    """
    dtype = jnp.asarray(params[0][0]).dtype
    image = initial_image(curve, nodes, dtype, kinks=_has_kinks(activation, ops or ()))
    outputs, remaining = [], list(params)
    for index, op in enumerate(ops or (PlacedDense(*np.shape(w)) for w, _ in params)):
        if isinstance(op, PlacedPool):
            image, fine, coarser = through_pool(image, op, nodes, curve, index)
            outputs.append(observe(fine, coarser))
            continue
        matrix, biases = remaining.pop(0)
        product = op.product(jnp.asarray(matrix).reshape(op.fan_in, op.outputs))
        offset = op.spread(jnp.asarray(biases))
        scaling = choose_scaling(image, jnp.ones((), dtype), offset, activation)
        image, fine, coarser = through_layer(
            image, scaling, product, activation, nodes, curve, index, op
        )
        outputs.append(observe(fine, coarser))
    return jax.tree.map(lambda *x: jnp.stack(x), *outputs)


def gram_product(
    seed: prng.Seed, layer: Index, fan_in: int, fan_out: int, rows: Float[Array, "r {fan_in}"]
) -> Float[Array, "r {fan_out}"]:
    """Draw an array with the law of ``rows @ W``; ``(r, fan_in)`` to ``(r, fan_out)``.

    layer : index of the layer, from 0.

    The columns of ``rows @ W``, W iid standard normal, are iid normal with covariance ``rows
    rows^T``, and so are those of ``L G`` with the triangular factor L of ``rows = L Q`` and G iid
    standard normal: ``min(r, fan_in) x fan_out`` normals instead of ``fan_in x fan_out``.
    """
    factor = triangular(rows) if rows.shape[0] < fan_in else rows
    draw = prng.words(prng.child(seed, layer, 0), (factor.shape[1], fan_out))
    return dot(factor, prng.normal(draw.second, rows.dtype))
