"""One network, one curve: pure kernels.

``kernel`` draws the network from its key, ``measure`` takes its parameters. Neither batches: the
runner (``ensemble.runner``) and the caller's own ``vmap`` do that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.derivatives import without_derivative
from jaxexpr._core.linalg import power_of_two
from jaxexpr._core.precision import double_enabled, precision
from jaxexpr._core.shapes import Array, Float, Int, Key
from jaxexpr._core.sweeps import over_sweep
from jaxexpr._core.transforms import on_any_mesh
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves.solve import totals
from jaxexpr.exact.along_curves.traverse import Totals
from jaxexpr.measurement import exact_pass
from jaxexpr.measurement.observe import (
    Observation,
    exact_number,
    finished,
    observe,
    observe_layer,
    probe_names,
    where_it_fits,
)
from jaxexpr.measurement.plan import Pass, Probes, checked, plan, validate_network
from jaxexpr.measurement.propagation import propagate_params
from jaxexpr.networks import MLP, Network
from jaxexpr.params import Params
from jaxexpr.probes.base import Number


@explained
def kernel(
    net: Network,
    curve: Curve,
    *,
    probes: Probes = ("length", "growth"),
    method: str = "auto",
    points: int | None = None,
) -> Callable[[Array], dict[str, Array]]:
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

    def drawn(
        key: Key[Array, ""], net: Network, curve: Curve
    ) -> dict[str, Float[Array, "*sweep depth"]]:
        def measured(net: Network) -> dict[str, Number]:
            numbers = where_it_fits(observe(net, key, curve, passes), passes)
            return _differentiable(numbers, passes, net, curve)

        return {name: _plain_number(number) for name, number in over_sweep(measured)(net).items()}

    def one(key: Key[Array, ""]) -> dict[str, Float[Array, "*sweep depth"]]:
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
    probes: Probes = ("length", "growth"),
    method: str = "auto",
    points: int | None = None,
) -> dict[str, Any]:
    """Measure one curve in one given network, or in each of many.

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer, W ``(fan_in, fan_out)``, b ``(fan_out,)``. NumPy
        float64 is computed in float64 whatever JAX's global flag says, JAX arrays in their own
        precision. A sequence of such pairs, as from ``MLP.init``. Or many networks, with a leading
        axis in every array, as from ``vmap`` of it and from ``training.Fit``.
    activation : a name or an ``Activation``; ReLU by default.
    net : in place of `activation`, a network whose layers the parameters are of: a ``ConvNet``, or
        any other whose activation they have. No more of it is used.
    curve, probes, method, points : as for ``estimate``; ``method="gram"`` draws networks and is
        refused.

    Returns
    -------
    ``{probe: (depth,)}``, of many networks ``(E, depth)``; NumPy float64 (JAX arrays if `params` is
    traced). NaN where a network has no such number (growth above a layer that is dead on the whole
    curve). Derivatives with respect to parameters and points of the curve are those of
    ``method="grid"``; by tangents they are NaN unless the activation is smooth, and those of counts
    always are.

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
    params, curve, phi, dtype = validate_network(params, curve, activation, net, networks=True)
    many = np.ndim(params[0][1]) == 2
    leaves = jax.tree.leaves(params)
    traced = any(checks.is_traced(x) for x in (*leaves, *curve.arrays))
    ops = None if net is None or isinstance(net, MLP) else net.ops
    passes = plan(
        probes,
        method,
        points,
        phi,
        curve,
        exact_lengths=not traced,
        connected=ops is None,
        traced=traced,
    )
    exact = [item for item in passes if item.method == "exact"]
    if traced:

        def seen(params: Params, curve: Curve) -> dict[str, Float[Array, "*networks depth"]]:
            numbers = (_measured_each if many else _measured)(params, curve, phi, passes, ops)
            numbers = _differentiable(numbers, passes, params, curve)
            return {name: _plain_number(number) for name, number in numbers.items()}

        return on_any_mesh(seen, params, curve)
    with precision(dtype):
        params = jax.tree.map(lambda x: jnp.asarray(x).astype(dtype), params)
        others = tuple(item for item in passes if item.method != "exact")
        numbers: dict[str, Number] = {}
        if others:
            compiled = _measured_each_jit if many else _measured_jit
            numbers |= compiled(params, curve.astype(dtype), phi, others, ops)
        if exact:
            found = jax.tree.map(jnp.asarray, totals(params, curve, phi, dtype, exact[0].levels))
            read = functools.partial(_exact_numbers, item=exact[0])
            numbers |= (jax.vmap(read) if many else read)(*found)
    numbers = {name: numbers[name] for name in probe_names(passes)}
    return {
        name: np.ldexp(np.asarray(n.value, np.float64), np.asarray(n.exponent))
        for name, n in numbers.items()
    }


def _measured(
    params: Params,
    curve: Curve,
    phi: activations.Activation,
    passes: tuple[Pass, ...],
    ops: tuple[Any, ...] | None = None,
) -> dict[str, Number]:
    observed: dict[str, Observation] = {}
    for item in passes:
        look = functools.partial(observe_layer, item)
        layers = propagate_params(params, phi, curve, item.nodes, look, ops)
        observed |= finished(item, layers)
    return {name: one.number for name, one in observed.items()}


def _measured_each(
    params: Params,
    curve: Curve,
    phi: activations.Activation,
    passes: tuple[Pass, ...],
    ops: tuple[Any, ...] | None = None,
) -> dict[str, Number]:
    """As ``_measured``, in one network after the other; leading axis of `params`."""
    found: dict[str, Number] = lax.map(lambda own: _measured(own, curve, phi, passes, ops), params)
    return found


_measured_jit = jax.jit(_measured, static_argnums=(2, 3, 4))
_measured_each_jit = jax.jit(_measured_each, static_argnums=(2, 3, 4))


def _exact_numbers(
    told: Totals,
    start: Float[Array, ""],
    counts: Int[Array, "depth m"] | tuple[()],
    item: Pass,
) -> dict[str, Number]:
    """The numbers of an exact pass from what ``totals`` returned of one network."""
    found = exact_pass.numbers(told, start, counts, item.levels)
    return {probe.name: exact_number(probe, found) for probe in item.probes}


def _differentiable(
    numbers: dict[str, Number], passes: tuple[Pass, ...], *causes: object
) -> dict[str, Number]:
    """The same numbers; counts among them have no derivative with respect to `causes`."""
    counts = {probe.name for item in passes for probe in item.probes if probe.counts}
    return {
        name: Number(without_derivative(number.value, causes), number.exponent)
        if name in counts
        else number
        for name, number in numbers.items()
    }


def _plain_number(number: Number) -> Float[Array, "..."]:
    """The number itself, in its own precision; in two halves, since 2**exponent may not fit."""
    dtype = number.value.dtype
    limit = int(np.finfo(dtype).maxexp) - 2
    half = jnp.clip(number.exponent // 2, -limit, limit)
    rest = jnp.clip(number.exponent - half, -limit, limit)
    return number.value * power_of_two(half, dtype) * power_of_two(rest, dtype)
