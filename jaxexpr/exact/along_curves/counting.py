"""Regions that curves meet in many networks: counts alone, all in one call.

As ``pieces_batch`` network by network, without the breakpoints: for ensembles, and for networks
that are looked at often while they are trained.
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
from jaxexpr._core.precision import precision
from jaxexpr._core.progress import Bar, Progress
from jaxexpr._core.shapes import Array, Float, Int
from jaxexpr._core.threads import in_spans
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves import capacity, segments, solve, traverse
from jaxexpr.exact.along_curves.capacity import Block, Capacity
from jaxexpr.exact.along_curves.supported import exact_activation, family_of
from jaxexpr.params import Params, checked_params, precision_of

MAX_NUMBERS = 2**20  # that one call returns
Counts = tuple[Int[Array, "call batch depth"], Int[Array, "call batch depth 2"]]

BLOCKS = 4  # of layers, each with a size of its own: more compile for longer than they save


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
    activation, memory : as for ``pieces``; each core takes a network at a time, and its own memory.
    progress : as for ``estimate``, past two seconds: curves that are done, in all networks.

    Returns
    -------
    ``(E, curves, depth)``, int: regions of the first d layers that the curve meets in turn, as
    ``Pieces.counts``.

    Raises
    ------
    ValueError
        for arrays without the axis of the networks, and as ``pieces_batch``.

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
    """Run until every network fits for every curve."""
    networks, each, depth = len(params[0][0]), len(arrays[0]), len(params)
    cut = capacity.blocks([tuple(np.shape(w)[-2:]) for w, _ in params], np.inf, most=BLOCKS)
    counts = np.zeros((networks, each, depth), int)
    done = 0

    def attempt(
        take: Int[np.ndarray, "taken"], sizes: Capacity
    ) -> Int[np.ndarray, "fresh curves depth 2"]:
        nonlocal done
        row = solve.row_cache(params)
        most = solve.side_by_side(row * sizes.rows * sizes.segments, memory, each)
        batch = max(n for n in range(1, most + 1) if each % n == 0)
        call = max(min(take.size * each, MAX_NUMBERS // (3 * depth)) // batch, 1)
        run = functools.partial(
            _count_compiled,
            jax.tree.map(jnp.asarray, solve.chosen(params, take)),
            curve=curve,
            arrays=arrays,
            activation=phi,
            blocks=sizes.blocks,
            splits=sizes.splits,
            batch=batch,
            call=call,
        )
        fresh = np.unique(take).size
        found = np.zeros((fresh * each, depth), int)
        required = np.zeros((fresh * each, depth, 2), int)
        spans = in_spans(
            lambda first, count: run(first=np.int32(first), count=np.int32(count)),
            fresh * each // batch,
            call,
            lambda spans: bar.update(done * each + spans * batch),
        )
        for first, count, out in spans:
            here = slice(first * batch, (first + count) * batch)
            for array, new in zip((found, required), out, strict=True):
                array[here] = np.asarray(new)[:count].reshape(-1, *array.shape[1:])
        found, required = (x.reshape(fresh, each, *x.shape[1:]) for x in (found, required))
        fits = ~sizes.overflowed(required).any(axis=1)
        counts[take[:fresh][fits]] = found[fits]
        done += int(fits.sum())
        return required

    solve.until_all_fit(
        attempt, networks, solve.capacity_of_params(params, curve, phi, cut), memory
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
    """Counts ``(call, batch, depth)`` and what they required ``(call, batch, depth, 2)``.

    A batch of curves in one network is one entry, network after network; entries ``first, ...,
    first + count - 1`` come first. The count is traced: calls of any size are one compilation.
    """
    batches, depth = len(arrays[0]) // batch, len(params)

    def network(number: Int[Array, ""], found: Counts) -> Counts:
        own = jax.tree.map(lambda x: x[number], params)
        layers = solve.layers_of(own, blocks)

        def one(
            points: list[Float[Array, "..."]],
        ) -> tuple[Int[Array, "depth"], Int[Array, "depth 2"]]:
            path = dataclasses.replace(curve, arrays=tuple(points))
            begun = segments.begin(path, splits, own[0][0].dtype)
            results = traverse.over(
                lambda s: traverse.through(s, layers, activation, blocks), begun, splits
            )
            return traverse.total(results)[0].pieces, results.required.max(axis=0)

        def some(entry: Int[Array, ""], found: Counts) -> Counts:
            begin = (entry - number * batches) * batch
            points = [lax.dynamic_slice_in_dim(a, begin, batch) for a in arrays]
            return jax.tree.map(
                lambda all, new: all.at[entry - first].set(new.astype(all.dtype)),
                found,
                jax.vmap(one)(points),
            )

        begin = jnp.maximum(first, number * batches)
        end = jnp.minimum(first + count, (number + 1) * batches)
        return lax.fori_loop(begin, end, some, found)

    empty = tuple(jnp.zeros((call, batch, depth, *rest), jnp.int32) for rest in ((), (2,)))
    last = (first + count - 1) // batches
    made: Counts = lax.fori_loop(first // batches, last + 1, network, empty)
    return made
