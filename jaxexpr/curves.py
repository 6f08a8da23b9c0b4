"""Curves in input space: points and tangents at any parameters.

A curve is a pytree whose arrays are leaves, so another curve of the same kind and size costs no
compilation. Its parameter is the natural one: ``t in [0, 1]`` on a line, the angle
``s in [0, pi/2]`` on an arc. "Uniform along the curve" always means uniform in it.

Curves that are combinations ``sum_i phi_i(t) v_i`` of few vectors say so by ``basis``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

from jaxexpr._core import checks
from jaxexpr._core.calls import absent, explained

Vector: TypeAlias = ArrayLike


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True)
class Curve:
    """A curve ``x(t)`` for t in ``domain``.

    Attributes
    ----------
    kind : its name.
    domain : first and last parameter.
    arrays : what defines it; all of one floating type inside a computation.
    point : ``point(arrays, t)``, from a scalar t to the point of shape ``shape``.
    shape : shape of a point.
    whole : whether the curve goes on to infinity at both ends (an infinite line).
    """

    kind: str
    domain: tuple[float, float]
    arrays: tuple[Any, ...]
    point: Callable[[tuple[Any, ...], jax.Array], jax.Array]
    shape: tuple[int, ...]
    whole: bool = False

    def tree_flatten_with_keys(self) -> tuple[Any, Any]:
        keys = tuple(jax.tree_util.SequenceKey(i) for i in range(len(self.arrays)))
        static = (self.kind, self.domain, self.point, self.shape, self.whole)
        return tuple(zip(keys, self.arrays, strict=True)), static

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], arrays: Iterable[Any]) -> Curve:
        kind, domain, point, shape, whole = static
        curve = object.__new__(cls)
        values = {
            "kind": kind,
            "domain": domain,
            "arrays": tuple(arrays),
            "point": point,
            "shape": shape,
            "whole": whole,
        }
        for name, value in values.items():
            object.__setattr__(curve, name, value)
        return curve

    def points(self, t: jax.Array) -> jax.Array:
        """Points at the parameters t, from shape ``(m,)`` to shape ``(m,) + shape``."""
        return jax.vmap(lambda s: self.point(self.arrays, s))(t)

    def points_and_tangents(self, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Points and derivatives dx/dt at t of shape ``(m,)``; each ``(m,) + shape``."""

        def both(s: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.jvp(lambda r: self.point(self.arrays, r), (s,), (jnp.ones_like(s),))

        return jax.vmap(both)(t)

    def length(self) -> float:
        """Length of the curve, by 4000 tangents in float64; inf of an infinite line.

        Raises
        ------
        ValueError
            for a curve that a transformation of JAX traces.

        Examples
        --------
        >>> line([0.0, 0.0], [3.0, 4.0]).length()
        5.0
        """
        if self.whole:
            return math.inf
        _, tangents = self.midpoints()
        return float(np.linalg.norm(tangents, axis=1).mean() * (self.domain[1] - self.domain[0]))

    def midpoints(self, count: int = 4000) -> tuple[np.ndarray, np.ndarray]:
        """Points and tangents in the middle of even parts of the domain, ``(count, n)``, float64.

        Raises
        ------
        ValueError
            for a curve that a transformation of JAX traces, and an infinite line.
        """
        checks.concrete("curve", self.arrays, "a curve is looked at")
        if self.whole:
            raise ValueError("curve is an infinite line: give a segment")
        low, high = self.domain
        t = low + (np.arange(count) + 0.5) * (high - low) / count
        with jax.enable_x64(True):
            both = self.astype("float64").points_and_tangents(jnp.asarray(t))
        points, tangents = (np.asarray(x).reshape(count, -1) for x in both)
        return points, tangents

    def astype(self, dtype: DTypeLike) -> Curve:
        """Return the curve with its arrays in `dtype`."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(dtype), self)


def _vector(name: str, value: Vector) -> np.ndarray | jax.Array:
    value = checks.numeric(name, value)
    if np.ndim(value) == 0 or np.size(value) == 0:
        raise ValueError(
            f"{name}={checks.shown(value)} has shape {np.shape(value)}: give a point of R^n "
            "as an array of shape (n,)"
        )
    if isinstance(value, jax.Array):
        return value
    return np.asarray(value, np.float64)


def _pair(x0: Vector, x1: Vector) -> tuple[np.ndarray | jax.Array, np.ndarray | jax.Array]:
    x0, x1 = _vector("x0", x0), _vector("x1", x1)
    if np.shape(x0) != np.shape(x1):
        raise ValueError(
            f"x1 has shape {np.shape(x1)} and x0 has shape {np.shape(x0)}: "
            "give two points of the same space"
        )
    return x0, x1


def _all_known(*arrays: Any) -> bool:
    return not any(checks.is_traced(a) for a in arrays)


def _line(arrays: tuple[Any, ...], t: jax.Array) -> jax.Array:
    return (1 - t) * arrays[0] + t * arrays[1]


@explained
def line(x0: Vector, x1: Vector, whole: bool = False) -> Curve:
    """The segment ``x0 + t (x1 - x0)``, t in [0, 1]; with ``whole=True`` the infinite line.

    Parameters
    ----------
    x0, x1 : distinct points, shape ``(n,)`` (or the shape of an image).
    whole : all t. Only exact methods can measure a whole line.

    Raises
    ------
    ValueError
        for points of unlike shapes, NaN or infinite entries, and ``x0 == x1``.

    Examples
    --------
    >>> line([0.0, 0.0], [3.0, 4.0]).points(jnp.array([0.5])).tolist()
    [[1.5, 2.0]]
    """
    x0, x1 = _pair(x0, x1)
    whole = checks.flag("whole", whole)
    if _all_known(x0, x1) and np.array_equal(np.asarray(x0), np.asarray(x1)):
        raise ValueError(
            f"x1={checks.shown(np.asarray(x1))} equals x0: give two distinct end points"
        )
    domain = (-math.inf, math.inf) if whole else (0.0, 1.0)
    return Curve("line", domain, (x0, x1), _line, np.shape(x0), whole)


def _round(arrays: tuple[Any, ...], s: jax.Array) -> jax.Array:
    value = jnp.cos(s) * arrays[0] + jnp.sin(s) * arrays[1]
    return value + arrays[2] if len(arrays) == 3 else value


def _two_directions(names: tuple[str, str], x0: Vector, x1: Vector) -> None:
    if not _all_known(x0, x1):
        return
    a, b = (np.asarray(x, np.float64).ravel() for x in (x0, x1))
    for name, x in zip(names, (a, b), strict=True):
        if not x.any():
            raise ValueError(f"{name} is the zero vector: give a direction that is not zero")
    # The largest entry first: squares of very large or small ones leave the range.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    lengths = np.linalg.norm(a), np.linalg.norm(b)
    cosine = float(a @ b / (lengths[0] * lengths[1]))
    if np.linalg.norm(a / lengths[0] - np.sign(cosine) * b / lengths[1]) < 1e-7:
        raise ValueError(
            f"{names[1]}={checks.shown(np.asarray(x1))} is parallel to {names[0]}: give two "
            "directions (or use line for a segment through the origin)"
        )


@explained
def arc(x0: Vector, x1: Vector) -> Curve:
    """The arc ``x0 cos s + x1 sin s``, s in [0, pi/2], from x0 to x1.

    Raises
    ------
    ValueError
        if the end points are zero or parallel.

    Examples
    --------
    >>> arc([1.0, 0.0], [0.0, 1.0]).domain
    (0.0, 1.5707963267948966)
    """
    x0, x1 = _pair(x0, x1)
    _two_directions(("x0", "x1"), x0, x1)
    return Curve("arc", (0.0, math.pi / 2), (x0, x1), _round, np.shape(x0))


@explained
def circle(x0: Vector, x1: Vector) -> Curve:
    """``x0 cos s + x1 sin s``, s in [0, 2 pi]; a circle if x0, x1 are orthogonal, equally long.

    Raises
    ------
    ValueError
        if x0, x1 are zero or parallel.
    """
    x0, x1 = _pair(x0, x1)
    _two_directions(("x0", "x1"), x0, x1)
    return Curve("circle", (0.0, 2 * math.pi), (x0, x1), _round, np.shape(x0))


@explained
def ellipse(axis0: Vector, axis1: Vector, centre: Vector) -> Curve:
    """``centre + axis0 cos s + axis1 sin s``, s in [0, 2 pi]; axes need not be orthogonal."""
    axis0, axis1 = _vector("axis0", axis0), _vector("axis1", axis1)
    centre = _vector("centre", centre)
    shapes = {np.shape(axis0), np.shape(axis1), np.shape(centre)}
    if len(shapes) != 1:
        raise ValueError(
            f"centre has shape {np.shape(centre)}, axis0 {np.shape(axis0)} and axis1 "
            f"{np.shape(axis1)}: give three vectors of the same space"
        )
    _two_directions(("axis0", "axis1"), axis0, axis1)
    arrays = (axis0, axis1, centre)
    return Curve("ellipse", (0.0, 2 * math.pi), arrays, _round, np.shape(axis0))


def _polyline(arrays: tuple[Any, ...], t: jax.Array) -> jax.Array:
    vertices = jnp.asarray(arrays[0])
    index = jnp.clip(jnp.floor(t).astype(jnp.int32), 0, vertices.shape[0] - 2)
    local = t - index.astype(t.dtype)
    return (1 - local) * vertices[index] + local * vertices[index + 1]


@explained
def polyline(vertices: Vector) -> Curve:
    """Straight segments through `vertices`, shape ``(p, n)``; t in [0, p - 1], whole at vertices.

    Raises
    ------
    ValueError
        for fewer than two vertices and for two equal ones in a row.
    """
    vertices = _vector("vertices", vertices)
    if np.ndim(vertices) < 2 or np.shape(vertices)[0] < 2:
        raise ValueError(
            f"vertices has shape {np.shape(vertices)}: give at least two points, shape (p, n)"
        )
    if _all_known(vertices):
        steps = np.diff(np.asarray(vertices), axis=0).reshape(np.shape(vertices)[0] - 1, -1)
        still = np.flatnonzero(~steps.any(axis=1))
        if still.size:
            raise ValueError(f"vertices {still[0]} and {still[0] + 1} are equal: drop one of them")
    domain = (0.0, float(np.shape(vertices)[0] - 1))
    return Curve("polyline", domain, (vertices,), _polyline, np.shape(vertices)[1:])


def _semicircles(arrays: tuple[Any, ...], t: jax.Array) -> jax.Array:
    start, chord, normals = (jnp.asarray(array) for array in arrays)
    count = normals.shape[0]
    index = jnp.clip(jnp.floor(t).astype(jnp.int32), 0, count - 1)
    angle = math.pi * (t - index.astype(t.dtype))
    centre = start + (index.astype(t.dtype) + 0.5) / count * chord
    radius = jnp.sqrt(jnp.sum(chord * chord)) / (2 * count)
    return centre - jnp.cos(angle) / (2 * count) * chord + radius * jnp.sin(angle) * normals[index]


@explained
def semicircles(key: jax.Array, x0: Vector, x1: Vector, planes: int = 100) -> Curve:
    """The line from x0 to x1, each of its `planes` equal parts bent into a semicircle.

    Every semicircle lies in the plane of the line and a random direction at right angles to it;
    the curve is pi/2 times as long as the line. This is how we read the curved trajectory of
    Price & Tanner 2019, appendix C.1 ("a straight line which has been modified to be a
    semi-circular arc in 100 randomly chosen hyperplanes"). t in [0, planes].

    Raises
    ------
    ValueError
        for n < 2, equal end points, ``planes < 1``, or a key that is none.
    """
    key = checks.random_key("key", key)
    x0, x1 = _pair(x0, x1)
    planes = checks.integer("planes", planes)
    shape, size = np.shape(x0), int(np.size(x0))
    if size < 2:
        raise ValueError(
            f"x0 has shape {shape}: a semicircle needs a space of 2 or more dimensions"
        )
    if _all_known(x0, x1) and np.array_equal(np.asarray(x0), np.asarray(x1)):
        raise ValueError(f"x1={checks.shown(np.asarray(x1))} equals x0: give two distinct points")
    chord = x1 - x0
    # One draw for every precision; known points are made orthogonal in NumPy's float64.
    random = jax.random.normal(key, (planes, size), jnp.float32)
    known = isinstance(chord, np.ndarray) and _all_known(random)
    linear: Any = np if known else jnp
    direction = linear.asarray(chord).ravel()
    random = linear.asarray(random).astype(direction.dtype)
    along = direction / linear.linalg.norm(direction)
    across = random - linear.outer(random @ along, along)
    across = across / linear.linalg.norm(across, axis=1, keepdims=True)
    normals = across.reshape((planes, *shape))
    return Curve("semicircles", (0.0, float(planes)), (x0, chord, normals), _semicircles, shape)


@dataclasses.dataclass(frozen=True)
class _UserPoint:
    function: Callable[[jax.Array], jax.Array]

    def __call__(self, arrays: tuple[Any, ...], t: jax.Array) -> jax.Array:
        return self.function(t)


@explained
def from_function(
    function: Callable[[jax.Array], jax.Array], domain: tuple[float, float] = (0.0, 1.0)
) -> Curve:
    """A curve from any JAX function of a scalar t to a point.

    Parameters
    ----------
    function : traceable and differentiable by JAX; returns an array of the point's shape.
    domain : first and last t.

    Examples
    --------
    >>> spiral = from_function(lambda t: jnp.stack([t * jnp.cos(9 * t), t * jnp.sin(9 * t)]))
    >>> spiral.shape
    (2,)
    """
    if not callable(function):
        raise ValueError(f"function={checks.shown(function)} is not callable: give x(t)")
    if not isinstance(domain, tuple | list) or len(domain) != 2:
        raise ValueError(f"domain={checks.shown(domain)}: give (first, last)")
    low, high = (float(checks.numeric("domain", d)) for d in domain)
    if not low < high:
        raise ValueError(
            f"domain={checks.shown(domain)} is empty: give (first, last), first < last"
        )
    try:
        point = jax.eval_shape(function, jax.ShapeDtypeStruct((), jnp.float32))
    except (TypeError, jax.errors.JAXTypeError) as error:
        traced = isinstance(error, jax.errors.JAXTypeError)
        why = "NumPy, float() or if on its argument" if traced else str(error).partition("\n")[0]
        raise ValueError(
            f"function={checks.shown(function)} cannot be traced by JAX ({why}): give a function "
            "of one t, written with jax.numpy (jnp.stack, jnp.cos, jnp.where)"
        ) from error
    if not hasattr(point, "shape"):
        kind = type(point).__name__
        raise ValueError(f"function returns a {kind}: return an array, as jnp.stack makes it")
    shape = point.shape
    if len(shape) == 0:
        raise ValueError(
            f"function={checks.shown(function)} returns a scalar: return a point of shape (n,)"
        )
    return Curve("function", (low, high), (), _UserPoint(function), shape)


def as_curve(name: str, value: object) -> Curve:
    """Return `value` if it is a curve; the message lists the curves that exist."""
    if isinstance(value, Curve):
        return value
    raise ValueError(
        f"{name}={checks.shown(value)} is not a curve: give curves.line(x0, x1), arc, circle, "
        "ellipse, polyline, semicircles or from_function"
    )


if not TYPE_CHECKING:
    _NAMES = "line arc circle ellipse polyline semicircles from_function"
    __getattr__ = absent(__name__, _NAMES.split())
