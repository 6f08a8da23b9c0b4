"""ReLU networks constructed to have many regions, with their known counts.

Every construction is a stack of ReLU layers, each followed by a linear map to n_in coordinates that
is multiplied into the next layer. A layer *folds*: it maps several sets of its input space onto the
same set, so that the layers above are repeated on each of them. The last layer is an arrangement in
general position, repeated on every such set.

======================  =====================================  ==================================
function                from                                   activation regions
======================  =====================================  ==================================
pascanu2013             Pascanu et al. 2013, Theorem 1         ``prod floor(n_l/n_0) sum C(n_L,i)``
pascanu2013_folding     the same, Section 5                    ``2^((L-1) n_0) sum C(2 n_0, i)``
montufar2014            Montufar et al. 2014, Theorem 4        ``prod floor(n_l/n_0)^n_0 sum ...``
sawtooth                Telgarsky 2015                         ``2^L``
folding                 the folding layers alone               ``2^(L n_0)``
======================  =====================================  ==================================

Linear regions are those of the last hidden layer's output (or of a generic linear map of it):
maximal connected sets, within the domain of the count, on which its Jacobian is constant.
The arrangements are those of ``arrangements``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr.exact.arrangements import (
    Array,
    Layer,
    absorbed,
    arrangement_regions,
    general_position,
    grouped,
    wide_sizes,
)

MOST_BOXES = 2**20
FINEST = 1e-9


@dataclasses.dataclass(frozen=True, eq=False)
class Construction:
    """A network with the domain and the numbers of its regions.

    Attributes
    ----------
    params : ``(W, b)`` of each hidden layer, NumPy float64, ``h = z @ W + b``.
    boxes : ``(boxes, 2, n_in)``, lower and upper corners: the domain of the counts is the union of
        these disjoint boxes.
    activation_regions : number of regions of constant pattern that meet the interior of the domain.
    linear_regions : number of maximal connected sets in the domain on which the Jacobian of the
        last hidden layer is constant.
    everywhere : whether both counts also hold in all of R^n_in.
    readout : ``(U, c)``: the folded coordinates are ``z @ U + c`` of the last layer z;
        ``None`` where the last layer is an arrangement.
    """

    params: tuple[Layer, ...]
    boxes: Array
    activation_regions: int
    linear_regions: int
    everywhere: bool = False
    readout: Layer | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        """``(n_in, n_1, ..., n_L)``."""
        return (len(self.params[0][0]), *(len(b) for _, b in self.params))

    @property
    def box(self) -> tuple[Array, Array]:
        """``(low, high)`` of a domain that is one box; raises ValueError for several boxes."""
        if len(self.boxes) != 1:
            raise ValueError(f"the domain is {len(self.boxes)} boxes: use boxes")
        return self.boxes[0, 0], self.boxes[0, 1]


@explained
def folding(n_in: int, depth: int) -> Construction:
    """Fold every coordinate in every layer: ``y -> 2 |y| - 1``, by two ReLU units each.

    `depth` layers of ``2 n_in`` units, ``relu(y_j)`` and ``relu(-y_j)``: ``2^(depth n_in)`` regions
    of both kinds, both in [-1, 1]^n_in and in the whole space. The two units of a pair share their
    boundary: a degenerate case to test exact counts.

    Raises
    ------
    ValueError
        if a size is no integer >= 1.

    Examples
    --------
    >>> net = folding(2, 3)
    >>> net.widths, net.activation_regions, net.linear_regions
    ((2, 4, 4, 4), 64, 64)
    """
    n_in, depth = checks.integer("n_in", n_in), checks.integer("depth", depth)
    layers, readouts = _folds(n_in, depth)
    count = 2 ** (depth * n_in)
    params, domain = absorbed(layers, readouts[:-1]), _cube(-1.0, n_in)
    return Construction(params, domain, count, count, everywhere=True, readout=readouts[-1])


@explained
def pascanu2013_folding(n_in: int, depth: int) -> Construction:
    """Folding layers below an arrangement: Pascanu et al. 2013, Section 5.

    `depth` layers of ``2 n_in`` units: the last is ``general_position``, the others fold. It has
    ``2^((depth - 1) n_in) sum_{i <= n_in} C(2 n_in, i)`` regions of both kinds in [-1, 1]^n_in, and
    no more in the whole space: every folded set covers the whole arrangement.

    Raises
    ------
    ValueError
        if a size is no integer >= 1.

    Examples
    --------
    >>> [pascanu2013_folding(2, depth).activation_regions for depth in (1, 2, 3, 4)]
    [11, 44, 176, 704]
    """
    n_in, depth = checks.integer("n_in", n_in), checks.integer("depth", depth)
    layers, readouts = _folds(n_in, depth - 1)
    params = absorbed([*layers, general_position(2 * n_in, n_in)], readouts)
    count = 2 ** ((depth - 1) * n_in) * arrangement_regions(2 * n_in, n_in)
    return Construction(params, _cube(-1.0, n_in), count, count, everywhere=True)


@explained
def montufar2014(n_in: int, widths: Iterable[int]) -> Construction:
    """Zigzags below an arrangement: Montufar et al. 2014, Theorem 4.

    Layer l < L folds each coordinate of [0, 1]^n_in into ``p_l = floor(n_l / n_in)`` segments, by
    ``relu(p y) - 2 relu(p y - 1) + 2 relu(p y - 2) - ...``; units beyond ``p_l n_in`` are never
    active. In [0, 1]^n_in there are ``prod_{l < L} p_l^n_in sum_{i <= n_in} C(n_L, i)`` activation
    regions, and as many linear ones if ``n_L > n_in``. With ``n_L = n_in`` the last layer is
    ``y_j > 1/2`` and each coordinate is folded separately, into ``N = prod p_l`` segments; segments
    join where its unit is inactive: ``(2 N - floor((N - 1) / 2))^n_in`` linear regions.

    Parameters
    ----------
    n_in, widths : every width at least `n_in`.

    Raises
    ------
    ValueError
        if a size is no integer >= 1, there is no layer, or a width is below `n_in`.

    Examples
    --------
    >>> net = montufar2014(1, (3, 2, 2))
    >>> net.activation_regions, net.linear_regions
    (18, 18)
    """
    n_in, widths = wide_sizes(n_in, widths)
    layers, readouts, segments = [], [], 1
    for width in widths[:-1]:
        p = width // n_in
        active = p * n_in
        steps = np.arange(p, dtype=np.float64)
        V, d = np.zeros((n_in, width)), np.full(width, -1.0)
        V[:, :active], d[:active] = (
            np.kron(np.eye(n_in), np.full((1, p), float(p))),
            -np.tile(steps, n_in),
        )
        U = np.zeros((width, n_in))
        U[:active] = np.kron(np.eye(n_in), np.where(steps == 0, 1.0, 2 * (-1) ** steps)[:, None])
        layers.append((V, d))
        readouts.append((U, np.zeros(n_in)))
        segments *= p
    V, d = general_position(widths[-1], n_in)
    layers.append((2 * V, d - V.sum(axis=0)))  # from [0, 1] to [-1, 1]
    count = linear = segments**n_in * arrangement_regions(widths[-1], n_in)
    if widths[-1] == n_in:
        linear = (2 * segments - (segments - 1) // 2) ** n_in
    return Construction(absorbed(layers, readouts), _cube(0.0, n_in), count, linear)


@explained
def sawtooth(depth: int) -> Construction:
    """Build the sawtooth of Telgarsky 2015: 2 units a layer, ``2^depth`` pieces on [0, 1].

    Each layer is the tent ``y -> relu(2 y) - relu(4 y - 2)``; the readout ``(1, -1)`` of the last
    one gives a sawtooth of ``2^(depth - 1)`` teeth. There are ``2^depth`` regions of both kinds in
    [0, 1]. Where a tooth ends at 0, the first unit of the next layer touches its boundary without
    crossing it.
    ``noisy`` adds noise to its weights, which destroys most pieces (Hanin & Rolnick 2019, Fig. 3).

    Raises
    ------
    ValueError
        if `depth` is no integer >= 1.

    Examples
    --------
    >>> net = sawtooth(5)
    >>> net.widths, net.linear_regions
    ((1, 2, 2, 2, 2, 2), 32)
    """
    depth = checks.integer("depth", depth)
    layer = np.array([[2.0, 4.0]]), np.array([0.0, -2.0])
    readout = np.array([[1.0], [-1.0]]), np.zeros(1)
    params, domain = absorbed([layer] * depth, [readout] * (depth - 1)), _cube(0.0, 1)
    return Construction(params, domain, 2**depth, 2**depth, readout=readout)


@explained
def noisy(
    params: Construction | Sequence[Layer], scale: float, key: jax.Array | np.random.Generator
) -> tuple[Layer, ...]:
    """Add independent normal noise of standard deviation `scale` to every weight and bias.

    Parameters
    ----------
    params : a ``Construction``, or ``(W, b)`` of each layer.
    scale : one number >= 0, in the units of the weights.
    key : a JAX random key or a ``numpy.random.Generator``.

    Returns
    -------
    ``(W, b)`` of each layer, NumPy float64. The counts of the construction do not apply to them.

    Raises
    ------
    ValueError
        if `scale` is negative or not one number, or `key` is neither.

    Examples
    --------
    >>> [W.shape for W, b in noisy(sawtooth(2), 0.1, np.random.default_rng(0))]
    [(1, 2), (2, 2)]
    """
    layers = params.params if isinstance(params, Construction) else params
    if np.ndim(checks.non_negative("scale", scale)) != 0:
        raise ValueError(f"scale={checks.shown(scale)}: give one number")
    arrays = [np.asarray(array, np.float64) for layer in layers for array in layer]
    if isinstance(key, np.random.Generator):
        draws = [key.standard_normal(array.shape) for array in arrays]
    else:
        keys = jax.random.split(checks.random_key("key", key), len(arrays))
        with jax.enable_x64(True):
            draws = [
                np.asarray(jax.random.normal(k, array.shape, jnp.float64))
                for k, array in zip(keys, arrays, strict=True)
            ]
    noisy_arrays = [array + float(scale) * draw for array, draw in zip(arrays, draws, strict=True)]
    return tuple(zip(noisy_arrays[::2], noisy_arrays[1::2], strict=True))


@explained
def pascanu2013(n_in: int, widths: Iterable[int]) -> Construction:
    """Copy an arrangement to many cells of the layers below: Pascanu et al. 2013, Theorem 1.

    Layer l < L is ``consecutive``, tilted to have full rank. In ``p_l = floor(n_l / n_in)`` of its
    cells exactly one group of n_in units is active; the groups are disjoint, so the next layer can
    map a box in each of these cells onto the same cube by a separate affine map. On the
    ``prod_{l < L} p_l`` boxes mapped to this cube, the arrangement of the last layer is repeated:
    ``prod_{l < L} p_l sum_{i <= n_in} C(n_L, i)`` regions of both kinds in these boxes. There
    are more outside of them.

    A parabola replaces the paper's circles, and boxes its balls, for moderate numbers; the boxes
    still shrink exponentially with the depth.

    Parameters
    ----------
    n_in, widths : n_in at least 2, as the paper's Proposition 4 needs, every width at least n_in.

    Raises
    ------
    ValueError
        if a size is no integer >= 1, there is no layer, a width is below `n_in`, `n_in` is 1, or
        float64 cannot resolve the boxes.

    Examples
    --------
    >>> net = pascanu2013(2, (5, 4, 4))
    >>> net.activation_regions, net.boxes.shape
    (44, (4, 2, 2))
    """
    n_in, widths = wide_sizes(n_in, widths)
    if n_in == 1 and len(widths) > 1:
        raise ValueError(
            "n_in=1: the construction needs 2 inputs or more; use montufar2014, which reaches the "
            "same number"
        )
    groups = [grouped(n_in, width) for width in widths[:-1]]
    boxes = math.prod(width // n_in for width in widths[:-1])
    if boxes > MOST_BOXES:
        raise ValueError(f"widths={checks.shown(widths)} make {boxes} boxes: give fewer layers")
    centre, half = np.zeros((1, n_in)), np.ones((1, n_in))
    for group in reversed(groups):
        centre = (group.centre[:, None] + centre * group.stretch[:, None]).reshape(-1, n_in)
        half = (half * np.abs(group.stretch)[:, None]).reshape(-1, n_in)
    if half.min() < FINEST:
        raise ValueError(
            f"widths={checks.shown(widths)}: the boxes shrink to {half.min():.1e}, too small for "
            "float64; give fewer layers or units"
        )
    layers = [group.layer for group in groups] + [general_position(widths[-1], n_in)]
    params = absorbed(layers, [group.readout for group in groups])
    domain = np.stack([centre - half, centre + half], axis=1)
    count = boxes * arrangement_regions(widths[-1], n_in)
    return Construction(params, domain, count, count)


def _folds(n: int, depth: int) -> tuple[list[Layer], list[Layer]]:
    """Layers ``relu(y), relu(-y)`` and their readouts ``2 |y| - 1``."""
    eye = np.eye(n)
    layer = np.concatenate([eye, -eye], axis=1), np.zeros(2 * n)
    readout = np.concatenate([2 * eye, 2 * eye]), np.full(n, -1.0)
    return [layer] * depth, [readout] * depth


def _cube(low: float, n: int) -> Array:
    return np.stack([np.full(n, low), np.ones(n)])[None]
