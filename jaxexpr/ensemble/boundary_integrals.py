"""Volume of the boundaries between regions, from the density of the biases.

Hanin & Rolnick 2019, Theorems 3 and 6: the mean volume of the boundaries inside a set K is an
integral over K of gradients times bias densities,

    E vol(B in K) = int_K sum_j sum_c E[ |grad z_j(x)| rho_j(c - z_j(x)) ] dx,

where z_j is the pre-activation of unit j without its bias, rho_j the density of its bias, and the
c are the breakpoints. The integral needs values and gradients at random points, but no geometry. In
codimension 2 (vertices in a plane) the norm is replaced by the area that two gradients span, and
the layers above the first unit are evaluated with its bias shifted so that x lies on its boundary.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxexpr import prng
from jaxexpr._core import checks
from jaxexpr._core.calls import explained
from jaxexpr._core.linalg import dot
from jaxexpr._core.shapes import Array, Bool, Float, Key
from jaxexpr.activations import Activation
from jaxexpr.ensemble.options import RunOptions
from jaxexpr.ensemble.runner import run_task
from jaxexpr.ensemble.statistics import Estimate
from jaxexpr.ensemble.tasks import Task
from jaxexpr.laws import Law
from jaxexpr.measurement.capacity_guess import weight_bytes
from jaxexpr.measurement.exact_pass import drawing
from jaxexpr.measurement.observe import Observation, Observed
from jaxexpr.networks import MLP, Network


@explained
def boundary_volume(
    net: MLP,
    origin: ArrayLike,
    directions: ArrayLike,
    half_width: float = 1.0,
    *,
    key: Key[Array, ""],
    draws: int,
    codimension: int = 1,
    function_only: bool = False,
    points: int = 16,
    **options: Unpack[RunOptions],
) -> Estimate:
    """Estimate the mean volume of the boundaries in ``origin + sum a_i u_i``, |a_i| <= half_width.

    With one direction it is a number of breakpoints, with two a length, with three an area;
    ``codimension=2`` counts the points where two boundaries intersect in a plane, and measures the
    length of their intersections in space. Volumes are measured in input space.

    Parameters
    ----------
    net : a piecewise linear network; every bias law has a density (Gaussian or Uniform). Arrays in
        its laws are a sweep.
    origin, directions : a point ``(n_in,)`` and m independent directions ``(m, n_in)``.
    half_width : half-width of the set in each coordinate a_i.
    key, draws : as for ``estimate``. Network i of the same key is the same network.
    codimension : 1 or 2.
    function_only : measure only where the gradient of the *function* jumps: boundaries of units
        from which a path of active units leads to the output (to a dense output layer above the
        last hidden layer). Only with codimension 1.
    points : number of points of the set at which each network is evaluated: evenly spread, with a
        random shift, so that the estimator is unbiased for any number of points.
    options : see ``RunOptions``; `refine` does not apply, and `extend` is an ``Estimate`` that this
        function returned.

    Returns
    -------
    Estimate : ``sweep + (depth,)``, the volume that each layer adds (an intersection of two
        boundaries counts for the layer of the upper one).

    Raises
    ------
    ValueError
        if the activation is smooth, a bias law has no density, the directions are dependent
        or fewer than the codimension, ``function_only`` is given with codimension 2, or `refine` is
        given.

    Notes
    -----
    ``exact.pieces`` and ``exact.plane`` measure the same volumes in one network. This estimator
    needs ``points`` products per layer (with ``function_only`` or codimension 2, ``points`` for
    each unit below), whatever the number of regions, and works in any dimension.

    Examples
    --------
    >>> from jaxexpr import laws
    >>> net = MLP((1, 8, 8), laws.Gaussian(1.5), laws.Gaussian(0.5))
    >>> volume = boundary_volume(net, [0.0], [[1.0]], key=jax.random.key(0), draws=2000)
    >>> volume.mean.round(2).tolist()  # breakpoints on [-1, 1]
    [6.39, 5.45]
    """
    checks.on_host("boundary_volume", "jaxexpr.kernel", net, key)
    box = _checked(net, origin, directions, half_width)
    points = checks.integer("points", points)
    if codimension not in (1, 2) or codimension > len(box.frame):
        raise ValueError(
            f"codimension={checks.shown(codimension)} with {len(box.frame)} directions: give 1, "
            "or 2 with at least two directions"
        )
    if function_only and codimension == 2:
        raise ValueError(
            "function_only=True with codimension=2: the boundary of the function is measured with "
            "codimension=1"
        )
    if options.get("refine") is not None:
        raise ValueError(
            f"refine={options['refine']}: the mean is exact for any number of points; leave it out"
        )
    task = Boundaries(codimension, bool(function_only), points)
    previous = options.get("extend")
    if isinstance(previous, Estimate):
        options["extend"] = {task.name: previous}
    return run_task(task, net, box, key=key, draws=draws, **options)[task.name]


class Box(NamedTuple):
    """A parallelepiped: its centre, its half edges, an orthonormal basis of its span, its volume.

    ``(n,)``, ``(m, n)``, ``(m, n)`` and ``()``: NumPy on the host, JAX in compiled code.
    """

    origin: Any
    edges: Any
    frame: Any
    volume: Any


@dataclasses.dataclass(frozen=True)
class Boundaries(Task):
    """The task of ``boundary_volume``: gradients times densities at random points of a box."""

    codimension: int
    function_only: bool
    points: int

    @property
    def name(self) -> str:
        return "boundary_volume" if self.codimension == 1 else "crossings"

    def shapes(self, net: Network, data: Box) -> dict[str, tuple[int, ...]]:
        return {self.name: (net.depth,)}

    def method_of(self, name: str) -> tuple[str, int]:
        return "integral", self.points

    def bytes(self, net: Network, data: Box) -> float:
        unit_by_unit = self.codimension == 2 or self.function_only
        numbers = self.points * max(net.widths) * (max(net.widths) if unit_by_unit else 1) * 8
        return weight_bytes(net) + float(np.dtype(net.dtype).itemsize * numbers)

    @property
    def fingerprint_parts(self) -> object:
        return self

    def observe(self, net: Network, key: Key[Array, ""], data: Box) -> Observed:
        dtype = jnp.dtype(net.dtype)
        seed = prng.seed(key)
        coordinates = _spread(jax.random.fold_in(key, 2**31), self.points, len(data.edges), dtype)
        z = data.origin[None] + dot(coordinates, data.edges)
        dz = jnp.broadcast_to(data.frame[:, None], (len(data.frame), *z.shape))
        layers: list[_LayerValues] = []
        phi = net.activation
        for index, (fan_in, fan_out) in enumerate(itertools.pairwise(net.widths)):
            spec = net.layer(index)
            weights, biases = drawing(seed, fan_in, fan_out, dtype)((index, spec))
            layer = _LayerValues(
                _times(z, weights), _times(dz, weights), weights, biases, spec.biases
            )
            layers.append(layer)
            h = layer.values + biases[None]
            z, dz = phi(h), phi.derivative(h)[None] * layer.gradients
        terms = (
            _pairs_of_boundaries(layers, phi)
            if self.codimension == 2
            else _boundaries(layers, phi, self.function_only)
        )
        volumes = terms * (data.volume / np.asarray(self.points, dtype))
        return Observed({self.name: Observation.of(volumes, coarser=0.0)})


def _checked(net: object, origin: object, directions: object, half_width: object) -> Box:
    if not isinstance(net, MLP):
        raise ValueError(f"net={checks.shown(net)} is not a random network: give jaxexpr.MLP(...)")
    if net.activation.breakpoints is None:
        raise ValueError(
            f"net has activation={net.activation.name!r}, which is smooth and has no boundaries: "
            "use relu, leaky_relu, abs or hard_tanh"
        )
    for index, law in enumerate(net.biases):
        if not law.has_pdf:
            raise ValueError(
                f"net has biases[{index}]={checks.shown(law)}, which have no density: use "
                "Gaussian or Uniform"
            )
        if not checks.is_traced(law.std) and np.any(np.asarray(law.std) == 0):
            raise ValueError(
                f"net has biases[{index}]={checks.shown(law)}, always 0 somewhere: give them a "
                "scale above 0"
            )
    n = net.widths[0]
    origin = np.asarray(checks.numeric("origin", origin), np.float64)
    directions = np.asarray(checks.numeric("directions", directions), np.float64)
    if origin.shape != (n,):
        raise ValueError(
            f"origin has shape {origin.shape} and net.widths[0]={n}: give a point of shape ({n},)"
        )
    if directions.ndim != 2 or directions.shape[1] != n:
        raise ValueError(
            f"directions has shape {directions.shape}: give one direction a row, (m, {n})"
        )
    if not 1 <= len(directions) <= n or np.linalg.matrix_rank(directions) < len(directions):
        raise ValueError(
            f"directions={checks.shown(directions)} are not independent: give 1 to {n} directions "
            "that are"
        )
    half_width = checks.positive("half_width", half_width)
    q, r = np.linalg.qr(directions.T)
    volume = abs(float(np.prod(np.diag(r)))) * (2 * half_width) ** len(directions)
    return Box(origin, half_width * directions, q.T, np.asarray(volume))


def _spread(
    key: Key[Array, ""], points: int, dim: int, dtype: jnp.dtype
) -> Float[Array, "{points} {dim}"]:
    """Return points of [-1, 1]^dim: a fixed, evenly spread sequence with a random shift.

    Each point by itself is uniformly distributed. The sequence is additive; its steps are inverse
    powers of the root of ``x^(dim + 1) = x + 1`` (in one dimension the golden ratio).
    """
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dim + 1))
    steps = (0.5 + np.arange(points)[:, None] * root ** -np.arange(1.0, dim + 1)) % 1
    shift = jax.random.uniform(key, (1, dim), dtype)
    return 2 * ((jnp.asarray(steps, dtype) + shift) % 1) - 1


class _LayerValues:
    """Pre-activations without biases ``(..., p, n)``, their gradients, weights and biases.

    Of one layer; gradients have shape ``(m, ..., p, n)``.
    """

    def __init__(
        self,
        values: Float[Array, "*points n"],
        gradients: Float[Array, "m *points n"],
        weights: Float[Array, "fan_in n"],
        biases: Float[Array, "n"],
        law: Law,
    ) -> None:
        self.values, self.gradients = values, gradients
        self.weights, self.biases, self.law = weights, biases, law

    def density(self, level: float) -> Float[Array, "*points n"]:
        """Density of the bias at the value that puts the pre-activation at `level`."""
        return self.law.pdf(np.asarray(level, self.values.dtype) - self.values)


def _times(
    rows: Float[Array, "*points n"], weights: Float[Array, "n k"]
) -> Float[Array, "*points k"]:
    flat = dot(rows.reshape(-1, rows.shape[-1]), weights)
    return flat.reshape(*rows.shape[:-1], weights.shape[1])


def _boundaries(
    layers: list[_LayerValues], phi: Activation, function_only: bool
) -> Float[Array, "depth"]:
    """Sum over points, units and breakpoints of gradients times densities, layer by layer."""
    sums = []
    for index, layer in enumerate(layers):
        norms = jnp.sqrt(jnp.sum(layer.gradients**2, axis=0))
        total = jnp.zeros((), norms.dtype)
        for level in phi.breakpoints or ():
            integrand = norms * layer.density(level)
            if function_only:
                above = _with_unit_on_breakpoint(layers, phi, index, level)
                if above:
                    _, reached = above[-1]
                    integrand = jnp.where(jnp.any(reached, axis=-1), integrand, 0)
            total = total + jnp.sum(integrand)
        sums.append(total)
    return jnp.stack(sums)


def _pairs_of_boundaries(layers: list[_LayerValues], phi: Activation) -> Float[Array, "depth"]:
    """Sum over points and pairs of units of spanned areas times densities, by the upper layer."""
    levels = phi.breakpoints or ()
    sums = [jnp.zeros((), layers[0].values.dtype) for _ in layers]
    for index, layer in enumerate(layers):
        n = layer.values.shape[-1]
        each_pair_once = jnp.asarray(np.triu(np.ones((n, n)), 1), layer.values.dtype)
        for level in levels:
            density = layer.density(level)
            # Two units of the same layer.
            spanned = _area(layer.gradients[..., :, None], layer.gradients[..., None, :])
            for other in levels:
                pairs = density[..., :, None] * layer.density(other)[..., None, :]
                sums[index] += jnp.sum(spanned * pairs * each_pair_once[None])
            # A unit above, given that this one is at its breakpoint.
            conditioned_layers = _with_unit_on_breakpoint(layers, phi, index, level)
            for above, (conditioned, _) in enumerate(conditioned_layers, index + 1):
                spanned = _area(layer.gradients[..., :, None], conditioned.gradients)
                for other in levels:
                    sums[above] += jnp.sum(
                        spanned * density[..., None] * conditioned.density(other)
                    )
    return jnp.stack(sums)


def _area(a: Float[Array, "m ..."], b: Float[Array, "m ..."]) -> Float[Array, "..."]:
    """Area spanned by two vectors along the first axis, from all 2 x 2 minors: no cancellation."""
    square: Any = 0.0
    for i, j in itertools.combinations(range(len(a)), 2):
        square = square + (a[i] * b[j] - a[j] * b[i]) ** 2
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)


def _with_unit_on_breakpoint(
    layers: list[_LayerValues], phi: Activation, index: int, level: float
) -> list[tuple[_LayerValues, Bool[Array, "p n width"]]]:
    """The layers above `index`, with each unit of that layer in turn shifted onto its breakpoint.

    For each layer above, returns its values ``(p, n, width)`` and gradients ``(m, p, n, width)``,
    where n counts the shifted units; and which of its units are active and connected to the shifted
    unit by active units, ``(p, n, width)``. Above, the gradient of the shifted unit is taken as 0:
    another slope adds a multiple of it, which changes no area spanned with it.
    """
    layer, results = layers[index], []
    h = layer.values + layer.biases[None]
    z, dz = phi(h), phi.derivative(h)[None] * layer.gradients
    level_image = phi(jnp.asarray(level, h.dtype))
    for above in layers[index + 1 :]:
        weights = above.weights
        if above is layers[index + 1]:
            values = above.values[:, None] + (level_image - z)[..., None] * weights[None]
            gradients = above.gradients[..., None, :] - dz[..., None] * weights[None, None]
            reached = jnp.broadcast_to((weights != 0)[None], values.shape)
        else:
            values, gradients = _times(z, weights), _times(dz, weights)
            reached = _times(reached.astype(z.dtype), (weights != 0).astype(z.dtype)) > 0
        h = values + above.biases[None, None]
        slope = phi.derivative(h)
        reached = reached & (slope != 0)
        z, dz = phi(h), slope[None] * gradients
        conditioned = _LayerValues(values, gradients, weights, above.biases, above.law)
        results.append((conditioned, reached))
    return results
