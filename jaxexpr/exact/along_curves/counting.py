"""Numbers of regions along curves in many networks, in one call.

As ``pieces_batch`` for each network, but without the breakpoints: for ensembles, and for networks
that are measured often during training.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.progress import Bar, Progress
from jaxexpr._core.shapes import Array, Float, Int
from jaxexpr._core.threads import in_spans
from jaxexpr._core.x64 import precision
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity, segments, solve, traverse
from jaxexpr.exact.along_curves.capacity import Block, Capacity
from jaxexpr.exact.along_curves.supported import exact_activation, family_of
from jaxexpr.params import Params, checked_params, precision_of

MAX_NUMBERS = 2**20  # largest number of entries that one call returns
Counts = tuple[Int[Array, "call batch depth"], Int[Array, "call batch depth 2"]]

BLOCKS = 4  # blocks of layers; more cost more compilation time than they save


@explained
def region_counts(
    params: Params,
    curves: Sequence[Curve],
    activation: str | activations.Activation = "relu",
    *,
    memory: float = solve.MEMORY,
    progress: Progress = None,
) -> Int[np.ndarray, "networks curves depth"]:
    """Count the activation regions that each curve meets in each of many networks, exactly.

    Parameters
    ----------
    params : ``(W, b)`` of each hidden layer of E networks, W ``(E, fan_in, fan_out)``, b
        ``(E, fan_out)``. NumPy float64 is computed in float64 whatever JAX's global flag says.
    curves : of one kind and size, as for ``pieces_batch``: every curve in every network.
    activation, memory : as for ``pieces``; each core computes one network at a time and uses
        `memory` of its own.
    progress : as for ``estimate``, after two seconds; counts curves over all networks.

    Returns
    -------
    ``(E, curves, depth)``, int: number of regions of the first d layers that the curve passes
    through, as ``Pieces.counts``.

    Raises
    ------
    ValueError
        if the arrays have no axis of networks, and as ``pieces_batch``.

    Examples
    --------
    >>> from jaxexpr import MLP, curves, laws
    >>> net = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Gaussian(0.1))
    >>> params = jax.vmap(net.init)(jax.random.split(jax.random.key(0), 3))
    >>> rays = [curves.line([0.0, 0.0], [np.cos(a), np.sin(a)]) for a in (0.0, 0.3)]
    >>> region_counts(params, rays).shape
    (3, 2, 2)
    """
    bar = Bar(0, "region_counts", progress, delay=2.0, unit="curves")
    params = checked_params(params, networks=True)
    shape = np.shape(params[0][0])
    if len(shape) != 3:
        raise ValueError(
            f"params[0][0] has shape {shape}: give networks, with their number as the first axis "
            "of every array; pieces_batch takes one network"
        )
    family, phi = family_of(params, curves), exact_activation(activation)
    checks.concrete("params, curves", (params, family), "regions are counted")
    memory, dtype = checks.positive("memory", memory), precision_of(params)
    with precision(dtype):
        params = jax.tree.map(lambda x: np.asarray(x, dtype), params)
        stacked = zip(*(c.arrays for c in family), strict=True)
        arrays = [jnp.asarray(np.stack(each), dtype) for each in stacked]
        bar.resumed(0, shape[0] * len(family))
        with bar:
            return _count_all(params, family[0], arrays, phi, memory, bar)


def _count_all(
    params: Params,
    curve: Curve,
    arrays: list[Float[Array, "curves ..."]],
    phi: activations.Activation,
    memory: float,
    bar: Bar,
) -> Int[np.ndarray, "networks curves depth"]:
    """Count all regions, with larger arrays until every network fits on every curve."""
    networks, curve_count, depth = len(params[0][0]), len(arrays[0]), len(params)
    runs = capacity.blocks([tuple(np.shape(w)[-2:]) for w, _ in params], np.inf, most=BLOCKS)
    counts = np.zeros((networks, curve_count, depth), int)
    done = 0

    def attempt(
        indices: Int[np.ndarray, "taken"], sizes: Capacity
    ) -> Int[np.ndarray, "distinct curves depth 2"]:
        nonlocal done
        row_bytes = solve.row_cache(params)
        largest_batch = solve.side_by_side(
            row_bytes * sizes.rows * sizes.segments, memory, curve_count
        )
        batch = max(n for n in range(1, largest_batch + 1) if curve_count % n == 0)
        call = max(min(indices.size * curve_count, MAX_NUMBERS // (3 * depth)) // batch, 1)
        run = functools.partial(
            _count_compiled,
            jax.tree.map(jnp.asarray, solve.chosen(params, indices)),
            curve=curve,
            arrays=arrays,
            activation=phi,
            blocks=sizes.blocks,
            splits=sizes.splits,
            batch=batch,
            call=call,
        )
        distinct = np.unique(indices).size
        new_counts = np.zeros((distinct * curve_count, depth), int)
        required = np.zeros((distinct * curve_count, depth, 2), int)
        spans = in_spans(
            lambda first, count: run(first=np.int32(first), count=np.int32(count)),
            distinct * curve_count // batch,
            call,
            lambda spans: bar.update(done * curve_count + spans * batch),
        )
        for first, count, out in spans:
            entries = slice(first * batch, (first + count) * batch)
            for array, new in zip((new_counts, required), out, strict=True):
                array[entries] = np.asarray(new)[:count].reshape(-1, *array.shape[1:])
        new_counts, required = (
            x.reshape(distinct, curve_count, *x.shape[1:]) for x in (new_counts, required)
        )
        fits = ~sizes.overflowed(required).any(axis=1)
        counts[indices[:distinct][fits]] = new_counts[fits]
        done += int(fits.sum())
        return required

    solve.until_all_fit(
        attempt, networks, solve.capacity_of_params(params, curve, phi, runs), memory
    )
    return counts


@functools.partial(jax.jit, static_argnames=("activation", "blocks", "splits", "batch", "call"))
def _count_compiled(
    params: Params,
    curve: Curve,
    arrays: list[Float[Array, "curves ..."]],
    *,
    activation: activations.Activation,
    blocks: tuple[Block, ...],
    splits: int,
    batch: int,
    call: int,
    first: Int[Array, ""],
    count: Int[Array, ""],
) -> tuple[Int[Array, "{call} {batch} depth"], Int[Array, "{call} {batch} depth 2"]]:
    """Counts ``(call, batch, depth)`` and the required sizes ``(call, batch, depth, 2)``.

    An entry is a batch of curves in one network; entries are ordered by network. Entries ``first,
    ..., first + count - 1`` are computed and stored at the beginning of the result. The count is
    traced, so that all counts share one compilation.
    """
    batches, depth = len(arrays[0]) // batch, len(params)

    def network(number: Int[Array, ""], counts: Counts) -> Counts:
        network_params = jax.tree.map(lambda x: x[number], params)
        layers = solve.layers_of(network_params, blocks)

        def one(
            points: list[Float[Array, "..."]],
        ) -> tuple[Int[Array, "depth"], Int[Array, "depth 2"]]:
            path = dataclasses.replace(curve, arrays=tuple(points))
            curve_segments = segments.begin(path, splits, network_params[0][0].dtype)
            results = traverse.over(
                lambda s: traverse.through(s, layers, activation, blocks), curve_segments, splits
            )
            return traverse.total(results)[0].pieces, results.required.max(axis=0)

        def one_batch(entry: Int[Array, ""], counts: Counts) -> Counts:
            begin = (entry - number * batches) * batch
            points = [lax.dynamic_slice_in_dim(a, begin, batch) for a in arrays]
            return jax.tree.map(
                lambda all, new: all.at[entry - first].set(new.astype(all.dtype)),
                counts,
                jax.vmap(one)(points),
            )

        begin = jnp.maximum(first, number * batches)
        end = jnp.minimum(first + count, (number + 1) * batches)
        return lax.fori_loop(begin, end, one_batch, counts)

    empty = tuple(jnp.zeros((call, batch, depth, *rest), jnp.int32) for rest in ((), (2,)))
    last = (first + count - 1) // batches
    result: Counts = lax.fori_loop(first // batches, last + 1, network, empty)
    return result
