"""One network, one curve: pure kernels.

``kernel`` draws the network from its key, ``measure`` takes its parameters. Neither batches: the
runner (``runner``, ``batches``) and the caller's own ``vmap`` do that.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr import activations, exactly, laws
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.derivatives import without_derivative
from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.precision import double_enabled, precision
from jaxexpr._core.sweeps import over_sweep
from jaxexpr._core.transforms import on_any_mesh
from jaxexpr.curves import Curve, as_curve
from jaxexpr.exact.along_curves.solve import totals
from jaxexpr.exactly import first_room
from jaxexpr.jobs import exact_number, finished, observe, probe_names, seen_of_layer
from jaxexpr.layers import PlacedDense, PlacedPool
from jaxexpr.networks import MLP, Network, given_for
from jaxexpr.params import Params, fitting, given
from jaxexpr.plans import Pass, plan
from jaxexpr.probes import Number
from jaxexpr.propagation import Nodes, propagate_params


@explained
def kernel(
    net: Network,
    curve: Curve,
    *,
    probes: Any = ("length", "growth"),
    method: str = "auto",
    points: int | None = None,
) -> Callable[[jax.Array], dict[str, jax.Array]]:
    """Return ``f(key)``: draw one network, measure one curve in it.

    ``f`` is pure and not jitted: use it inside your own jit, vmap, scan, remat and shard_map, and
    under grad: with respect to the scales in the laws, and the points of the curve. Derivatives
    that do not exist are NaN: of counts; with respect to a density or the limit of
    ``DiscreteUniform``; and, of a piecewise linear activation by tangents, with respect to all that
    moves the states of units (biases, points of the curve, and scales unless the activation is
    homogeneous and the biases are ``Zero()``): there use ``method="grid"`` or ``"exact"``.

    Returns
    -------
    f : from a key to ``{probe: sweep + (depth,)}`` in the precision of the network. NaN marks a
        layer where this network has no such number (growth above a layer that is dead on the
        whole curve). A length beyond the range of the precision is ``inf`` or 0: ask for
        ``log_length`` in deep networks, or use ``estimate``, which keeps the exponent.

    Raises
    ------
    ValueError
        as ``estimate``; and when called, for float64 where ``jax_enable_x64`` is off.

    Examples
    --------
    >>> from jaxexpr import curves, laws
    >>> net = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Zero())
    >>> f = kernel(net, curves.line([1.0, 0.0], [0.0, 1.0]))
    >>> jax.vmap(f)(jax.random.split(jax.random.key(0), 5))["growth"].shape
    (5, 2)
    """
    curve, passes = checked(net, curve, probes, method, points)

    def drawn(key: jax.Array, net: Network, curve: Curve) -> dict[str, jax.Array]:
        def observed(net: Any) -> dict[str, Number]:
            seen = observe(net, key, curve, passes, coarser=False)
            return _differentiable({n: seen[n][0] for n in probe_names(passes)}, passes, net, curve)

        return {name: _plain(number) for name, number in over_sweep(observed)(net).items()}

    def one(key: jax.Array) -> dict[str, jax.Array]:
        checks.random_key("key", key)
        if net.dtype == "float64" and not double_enabled():
            raise ValueError(
                "net has dtype='float64' but jax_enable_x64 is off here: switch it on, or use "
                "estimate or measure, which do so themselves"
            )
        return on_any_mesh(drawn, key, net, curve)

    return one


@explained
def measure(
    params: Params,
    curve: Curve,
    *,
    activation: str | activations.Activation | None = None,
    net: Network | None = None,
    probes: Any = ("length", "growth"),
    method: str = "auto",
    points: int | None = None,
) -> dict[str, Any]:
    """Measure one curve in one given network.

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer, W ``(fan_in, fan_out)``, b ``(fan_out,)``. NumPy
        float64 is computed in float64 whatever JAX's global flag says, JAX arrays in their own
        precision. A sequence of such pairs, as from ``MLP.init``.
    activation : a name or an ``Activation``; ReLU by default.
    net : in place of `activation`, a network whose layers the parameters are of: a ``ConvNet``, or
        any other whose activation they have. No more of it is used.
    curve, probes, method, points : as for ``estimate``; ``method="gram"`` draws networks and is
        refused.

    Returns
    -------
    ``{probe: (depth,)}``, NumPy float64 (JAX arrays if `params` is traced); NaN where the network
    has no such number (growth above a layer that is dead on the whole curve). Derivatives with
    respect to parameters and points of the curve are those of ``method="grid"``; by tangents they
    are NaN unless the activation is smooth, and those of counts always are.

    Raises
    ------
    ValueError
        naming the layer, for shapes that do not chain, NaN or infinite entries, a curve of
        another space; for an activation beside a network; and as ``estimate``.

    Examples
    --------
    >>> from jaxexpr import curves
    >>> W, b = np.array([[3.0, 0.0], [4.0, -1.0]]), np.zeros(2)
    >>> measure(((W, b),), curves.line([0, 0], [1, 0]))["length"].round(12).tolist()
    [3.0]
    """
    params, curve, phi, dtype = _given(params, curve, activation, net)
    if method == "gram":
        raise ValueError(
            "method='gram' draws networks and params are given: use 'tangent' or 'grid'"
        )
    leaves = jax.tree.leaves(params)
    traced = any(checks.is_traced(x) for x in (*leaves, *curve.arrays))
    ops = None if net is None or isinstance(net, MLP) else net.ops
    passes = plan(
        probes, method, points, phi, curve, exact_lengths=not traced, connected=ops is None
    )
    expected = [p.name for item in passes for p in item.probes if p.gaussian]
    if expected:
        raise ValueError(
            f"probes names {expected[0]!r}, a mean over random layers, and params are given: use "
            "'transitions', or estimate with a network of random weights"
        )
    exact = [item for item in passes if item.method == "exact"]
    if traced:
        if exact:
            raise ValueError(
                f"probes names {exact[0].probes[0].name!r}, measured exactly, and params are "
                "traced: call measure outside jit and vmap, or use method='tangent' or 'grid'"
            )

        def seen(params: Params, curve: Curve) -> dict[str, jax.Array]:
            numbers = _measured(params, curve, phi, passes, ops)
            numbers = _differentiable(numbers, passes, params, curve)
            return {name: _plain(number) for name, number in numbers.items()}

        return on_any_mesh(seen, params, curve)
    with precision(dtype):
        params = jax.tree.map(lambda x: jnp.asarray(x).astype(dtype), params)
        others = tuple(item for item in passes if item.method != "exact")
        numbers = _measured_jit(params, curve.astype(dtype), phi, others, ops) if others else {}
        if exact:
            beside = exact[0].levels
            told, start, counts = jax.tree.map(
                jnp.asarray, totals(params, curve, phi, dtype, beside)
            )
            found = exactly.numbers(told, start, counts, beside)
            numbers |= {p.name: exact_number(p, found) for p in exact[0].probes}
    numbers = {name: numbers[name] for name in probe_names(passes)}
    return {
        name: np.ldexp(np.asarray(n.value, np.float64), np.asarray(n.exponent))
        for name, n in numbers.items()
    }


@explained
def trajectory(
    params: Params,
    curve: Curve,
    *,
    activation: str | activations.Activation | None = None,
    net: Network | None = None,
    points: int = 1001,
) -> list[np.ndarray]:
    """Return the curve's image in every layer of one network, for pictures.

    Parameters
    ----------
    params, curve, activation, net : as for ``measure``.
    points : equally spaced in the curve's parameter, both ends among them.

    Returns
    -------
    The curve itself, ``(points,)`` and the shape of an input, then the pre-activations of each
    layer, ``(points, width)``; of a convolution ``(points, height, width, channels)``, and of a
    pool its values. NumPy arrays in the precision of `params`.

    Raises
    ------
    ValueError
        as ``measure``, and for an infinite line and fewer than two points.

    Examples
    --------
    >>> from jaxexpr import curves, laws
    >>> params = MLP((2, 8, 4), laws.Gaussian(1.5), laws.Zero()).init(jax.random.key(0))
    >>> [h.shape for h in trajectory(params, curves.circle([1.0, 0], [0, 1.0]), points=5)]
    [(5, 2), (5, 8), (5, 4)]
    """
    params, curve, phi, dtype = _given(params, curve, activation, net)
    nodes = Nodes("grid", checks.integer("points", points, minimum=2))
    if curve.whole:
        raise ValueError("curve is an infinite line, which has no last point: give a segment")
    ops = [PlacedDense(*np.shape(w)) for w, _ in params] if net is None else net.ops
    left = list(params)
    with precision(dtype):
        curve = curve.astype(dtype)
        z = curve.points(jnp.asarray(nodes.parameters(curve), dtype))
        images = [np.asarray(z)]
        z = z.reshape(nodes.count, -1)
        for op in ops:
            if isinstance(op, PlacedPool):
                h = z = op.pooled(z, op.winners(z))
            else:
                weights, biases = (jnp.asarray(x).astype(dtype) for x in left.pop(0))
                h = op.product(weights.reshape(op.fan_in, op.outputs))(z) + op.spread(biases)[None]
                z = phi(h)
            images.append(np.asarray(h).reshape(nodes.count, *op.shape))
    return images


def _given(
    params: Params,
    curve: Curve,
    activation: str | activations.Activation | None,
    net: Network | None,
) -> tuple[Params, Curve, activations.Activation, str]:
    """Check a network that is given, and a curve through it; returns as ``given``."""
    if net is None:
        return given(params, curve, "relu" if activation is None else activation)
    if not isinstance(net, Network):
        raise ValueError(
            f"net={checks.shown(net)} is not a network: give the ConvNet or MLP whose parameters "
            "these are"
        )
    if activation is not None:
        raise ValueError(
            f"activation={checks.shown(activation)} beside net, which has an activation, "
            f"{net.activation.name!r}: leave one of them out"
        )
    return given_for(net, params, curve)


def checked(
    net: Any, curve: Any, probes: Any, method: str, points: int | None, *, grows: bool = False
) -> tuple[Curve, tuple[Pass, ...]]:
    """Check what a measurement is made of, and plan its passes.

    grows : whether somebody gives more room to a network that has more pieces than were expected.
    """
    if not isinstance(net, Network):
        raise ValueError(
            f"net={checks.shown(net)} is not a random network: give jaxexpr.MLP(...); a trained "
            "network goes to measure or exact.pieces_of"
        )
    connected = isinstance(net, MLP)
    if connected:
        curve = fitting("net.widths[0]", net.widths[0], as_curve("curve", curve))
    else:
        curve = fitting("net.input_shape", net.input_shape, as_curve("curve", curve))
    _distinct_in(net.dtype, curve)
    lengths = grows and not net.sweep_shape
    options = {"exact_lengths": lengths, "connected": connected}
    passes = plan(probes, method, points, net.activation, curve, **options)
    passes = tuple(
        dataclasses.replace(item, room=first_room(net, curve, counted=item.counted))
        if item.method == "exact"
        else item
        for item in passes
    )
    if method == "gram" and not connected:
        raise ValueError(
            "method='gram' draws independent units, which the places of a convolution are not: use "
            "method='tangent' or 'grid'"
        )
    if method == "gram":
        _all_gaussian("method='gram'", "weights", net, "use method='tangent' or 'grid'")
    for probe in (p for item in passes for p in item.probes if p.gaussian):
        _all_gaussian(f"probe {probe.name!r}", "weights", net, "ask for 'transitions'")
        _all_gaussian(f"probe {probe.name!r}", "biases", net, "ask for 'transitions'")
    return curve, passes


def _all_gaussian(what: str, side: str, net: Network, mend: str) -> None:
    """Refuse laws that are not dense Gaussian; biases may be zero."""
    kinds = (laws.Gaussian,) if side == "weights" else (laws.Gaussian, laws.Zero)
    for index, law in enumerate(getattr(net, side)):
        if not isinstance(law, kinds):
            raise ValueError(
                f"{what} needs dense Gaussian {side} and {side}[{index}] is "
                f"{checks.shown(law)}: {mend}"
            )


def _distinct_in(dtype: str, curve: Curve) -> None:
    """Refuse a curve that the precision cannot hold, or whose ends it cannot tell apart."""
    for array in curve.arrays:
        checks.held("curve", array, dtype)
    if curve.kind == "line" and not any(checks.is_traced(a) for a in curve.arrays):
        ends = [np.asarray(array, dtype) for array in curve.arrays]
        if np.array_equal(ends[0], ends[1]):
            raise ValueError(
                f"curve has equal end points in {dtype}: give points farther apart, or a network "
                "with dtype='float64'"
            )


def _measured(
    params: Params,
    curve: Curve,
    phi: activations.Activation,
    passes: tuple[Pass, ...],
    ops: tuple[Any, ...] | None = None,
) -> dict[str, Number]:
    seen: dict[str, Any] = {}
    for item in passes:
        look = functools.partial(seen_of_layer, item, coarser=False)
        said = propagate_params(params, phi, curve, item.nodes, look, ops)
        seen |= finished(item, said, coarser=False)
    return {name: seen[name][0] for name in probe_names(passes)}


_measured_jit = jax.jit(_measured, static_argnums=(2, 3, 4))


def _differentiable(
    numbers: dict[str, Number], passes: tuple[Pass, ...], *causes: Any
) -> dict[str, Number]:
    """The same numbers; counts among them have no derivative with respect to `causes`."""
    counts = {probe.name for item in passes for probe in item.probes if probe.counts}
    return {
        name: Number(without_derivative(number.value, causes), number.exponent)
        if name in counts
        else number
        for name, number in numbers.items()
    }


def _plain(number: Number) -> jax.Array:
    """The number itself, in its own precision; in two halves, since 2**exponent may not fit."""
    dtype = number.value.dtype
    limit = int(np.finfo(dtype).maxexp) - 2
    half = jnp.clip(number.exponent // 2, -limit, limit)
    rest = jnp.clip(number.exponent - half, -limit, limit)
    return number.value * power_of_two(half, dtype) * power_of_two(rest, dtype)
