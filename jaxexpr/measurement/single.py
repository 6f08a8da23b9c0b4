"""One network, one curve: pure kernels.

``kernel`` draws the network from a key, ``measure`` takes parameters. Batches are the business of
the runner (``ensemble.runner``) and of the caller's ``vmap``.
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
from jaxexpr._core.shapes import Array, Float, Int, Key
from jaxexpr._core.sweeps import over_sweep
from jaxexpr._core.transforms import on_any_mesh
from jaxexpr._core.x64 import double_enabled, precision
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves.solve import totals
from jaxexpr.exact.along_curves.traverse import Totals
from jaxexpr.measurement import exact_pass
from jaxexpr.measurement.observe import (
    Observation,
    apply_finish,
    exact_number,
    nan_where_overflowed,
    observe,
    observe_layer,
    probe_names,
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

    ``f`` is pure and not jitted. Use it inside your own jit, vmap, scan, remat and shard_map, and
    under grad with respect to the scales in the laws and the points of the curve. Derivatives that
    do not exist are NaN:

    - of counts;
    - with respect to a density or the limit of ``DiscreteUniform``;
    - at tangents, for a piecewise linear activation, with respect to all that changes the states of
      units: biases, points of the curve, and scales unless the activation is homogeneous and the
      biases are ``Zero()``. Use ``method="grid"`` or ``"exact"`` for these.

    Returns
    -------
    f : function of a key that returns ``{probe: sweep + (depth,)}`` in the precision of the
        network. NaN marks a layer where the number does not exist in this network (growth above a
        layer that is dead on the whole curve). A length outside the range of the precision is
        ``inf`` or 0: use ``log_length`` in deep networks, or ``estimate``, which stores exponents.

    Raises
    ------
    ValueError
        as ``estimate``; and when ``f`` is called, for float64 if ``jax_enable_x64`` is off.

    Examples
    --------
    >>> from jaxexpr import curves, laws
    >>> net = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Zero())
    >>> f = kernel(net, curves.line([1.0, 0.0], [0.0, 1.0]))
    >>> jax.vmap(f)(jax.random.split(jax.random.key(0), 5))["growth"].shape
    (5, 2)
    """
    curve, passes = checked(net, curve, probes, method, points)

    def draw_and_measure(
        key: Key[Array, ""], net: Network, curve: Curve
    ) -> dict[str, Float[Array, "*sweep depth"]]:
        def measure_cell(net: Network) -> dict[str, Number]:
            numbers = nan_where_overflowed(observe(net, key, curve, passes), passes)
            return _differentiable(numbers, passes, net, curve)

        numbers = over_sweep(measure_cell)(net)
        return {name: _plain_number(number) for name, number in numbers.items()}

    def f(key: Key[Array, ""]) -> dict[str, Float[Array, "*sweep depth"]]:
        checks.random_key("key", key)
        if net.dtype == "float64" and not double_enabled():
            raise ValueError(
                "net has dtype='float64' but jax_enable_x64 is off here: switch it on, or use "
                "estimate or measure, which do so themselves"
            )
        return on_any_mesh(draw_and_measure, key, net, curve)

    return f


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
    params : sequence of pairs ``(W, b)``, one for each hidden layer, with W ``(fan_in, fan_out)``
        and b ``(fan_out,)``, as ``MLP.init`` returns it. For many networks every array has a
        leading axis, as from ``vmap`` of ``init`` or in ``training.Fit``. NumPy float64 arrays are
        computed in float64 whatever JAX's global flag says, JAX arrays in their own precision.
    activation : a name or an ``Activation``; ReLU by default.
    net : instead of `activation`, the network that the parameters belong to. It is required for a
        ``ConvNet``. Only its shapes, layers and activation are used, not its laws.
    curve, probes, method, points : as for ``estimate``, except ``method="gram"``, which draws
        networks.

    Returns
    -------
    ``{probe: (depth,)}``, for many networks ``(E, depth)``; NumPy float64, or JAX arrays if
    `params` is traced. NaN where the number does not exist in a network (growth above a layer that
    is dead on the whole curve). Derivatives with respect to parameters and points of the curve
    exist for ``method="grid"``. At tangents they are NaN unless the activation is smooth; those of
    counts are always NaN.

    Raises
    ------
    ValueError
        naming the layer, for shapes that do not chain, for NaN or infinite entries, and for a curve
        of another space; for both an activation and a network; and as ``estimate``.

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

        def measure_traced(
            params: Params, curve: Curve
        ) -> dict[str, Float[Array, "*networks depth"]]:
            numbers = _measure_params(params, curve, phi, passes, ops, many)
            numbers = _differentiable(numbers, passes, params, curve)
            return {name: _plain_number(number) for name, number in numbers.items()}

        return on_any_mesh(measure_traced, params, curve)
    with precision(dtype):
        params = jax.tree.map(lambda x: jnp.asarray(x).astype(dtype), params)
        at_nodes = tuple(item for item in passes if item.method != "exact")
        numbers: dict[str, Number] = {}
        if at_nodes:
            numbers |= _measure_params_jit(params, curve.astype(dtype), phi, at_nodes, ops, many)
        if exact:
            results = jax.tree.map(jnp.asarray, totals(params, curve, phi, dtype, exact[0].levels))
            to_numbers = functools.partial(_exact_numbers, item=exact[0])
            numbers |= (jax.vmap(to_numbers) if many else to_numbers)(*results)
    numbers = {name: numbers[name] for name in probe_names(passes)}
    return {
        name: np.ldexp(np.asarray(n.value, np.float64), np.asarray(n.exponent))
        for name, n in numbers.items()
    }


def _measure_params(
    params: Params,
    curve: Curve,
    phi: activations.Activation,
    passes: tuple[Pass, ...],
    ops: tuple[Any, ...] | None,
    many: bool,
) -> dict[str, Number]:
    """Run the passes in one given network, or in one after another along a leading axis.

    many : whether the arrays in `params` have a leading axis, with one entry for each network.
    """

    def measure_one(params: Params) -> dict[str, Number]:
        observed: dict[str, Observation] = {}
        for item in passes:
            observer = functools.partial(observe_layer, item)
            layers = propagate_params(params, phi, curve, item.nodes, observer, ops)
            observed |= apply_finish(item, layers)
        return {name: observation.number for name, observation in observed.items()}

    numbers: dict[str, Number] = lax.map(measure_one, params) if many else measure_one(params)
    return numbers


_measure_params_jit = jax.jit(_measure_params, static_argnums=(2, 3, 4, 5))


def _exact_numbers(
    curve_totals: Totals,
    start: Float[Array, ""],
    counts: Int[Array, "depth m"] | tuple[()],
    item: Pass,
) -> dict[str, Number]:
    """Return the numbers of an exact pass, from the results of ``totals`` for one network."""
    values = exact_pass.numbers(curve_totals, start, counts, item.levels)
    return {probe.name: exact_number(probe, values) for probe in item.probes}


def _differentiable(
    numbers: dict[str, Number], passes: tuple[Pass, ...], *causes: object
) -> dict[str, Number]:
    """Return the same numbers, with NaN derivatives of counts with respect to `causes`."""
    counts = {probe.name for item in passes for probe in item.probes if probe.counts}
    return {
        name: Number(without_derivative(number.value, causes), number.exponent)
        if name in counts
        else number
        for name, number in numbers.items()
    }


def _plain_number(number: Number) -> Float[Array, "..."]:
    """Return ``value * 2**exponent`` in the precision of the value.

    It is multiplied in two steps, because ``2**exponent`` itself may overflow.
    """
    dtype = number.value.dtype
    limit = int(np.finfo(dtype).maxexp) - 2
    half = jnp.clip(number.exponent // 2, -limit, limit)
    rest = jnp.clip(number.exponent - half, -limit, limit)
    return number.value * power_of_two(half, dtype) * power_of_two(rest, dtype)
