"""Laws of weights and biases.

A law is a pytree: its numbers are leaves, so a sweep over them is one compilation. Every law
here is even. Used for *weights* a draw is divided by ``sqrt(fan_in)``; used for *biases* it is
taken as it is. Numbers may be arrays: they broadcast and lead every result.

A law draws in two steps. ``unit`` turns random words into a draw without its scale, and
``scale`` is what multiplies it. Cells of a sweep share the words (common random numbers), and
cells that differ in scale alone share the unit matrix as well.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jaxexpr import prng
from jaxexpr._core import checks
from jaxexpr._core.calls import absent, explained
from jaxexpr._core.derivatives import without_derivative


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    if not dataclasses.is_dataclass(cls):
        raise ValueError(
            f"{cls.__name__} is a law and not a dataclass, so its numbers are not known: decorate "
            "the class with @dataclasses.dataclass(frozen=True)"
        )
    return dataclasses.fields(cls)


Number: TypeAlias = float | np.ndarray | jax.Array  # a tracer is a jax.Array


class Law:
    """Base of all laws. A subclass is a frozen dataclass and gives the methods below.

    ``unit(words, dtype)`` draws the law divided by its scale, ``scale`` is that factor (so that
    a draw is ``scale * unit``), ``std`` and ``mean_abs`` are exact, and ``linear_constant`` is
    the largest known M with ``E|u.w| >= M |u|`` for every fixed vector u and iid entries w
    (Price & Tanner 2019, Theorem 2).
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

        def flatten(law: Law) -> tuple[tuple[Any, ...], None]:
            return tuple(getattr(law, f.name) for f in _fields(cls)), None

        def unflatten(_: None, leaves: Iterable[Any]) -> Law:
            # JAX rebuilds laws from tracers and placeholders, so the checks must not run here.
            law = object.__new__(cls)
            for field, leaf in zip(_fields(cls), leaves, strict=True):
                object.__setattr__(law, field.name, leaf)
            return law

        jax.tree_util.register_pytree_node(cls, flatten, unflatten)

    @property
    def scale(self) -> Number:
        raise TypeError(f"{type(self).__name__} gives no scale: define the property `scale`")

    @property
    def std(self) -> Number:
        """Standard deviation."""
        raise TypeError(f"{type(self).__name__} gives no std: define the property `std`")

    @property
    def mean_abs(self) -> Number:
        """Mean absolute value."""
        raise TypeError(f"{type(self).__name__} gives no mean_abs: define that property")

    @property
    def linear_constant(self) -> Number:
        """M of Price & Tanner's Theorem 2; here the constant that holds for every even law.

        ``mean_abs / sqrt 2``, from the Marcinkiewicz-Zygmund inequality with its optimal
        constant and Jensen's inequality (Price & Tanner 2019, Lemmas 9 to 11).
        """
        return self.mean_abs / math.sqrt(2.0)

    def unit(self, words: prng.Words, dtype: jnp.dtype) -> jax.Array:
        """Turn random words into draws of the law divided by its scale, one for each entry.

        Parameters
        ----------
        words : two independent uniform 32-bit words for each entry, ``words.first`` and
            ``words.second``, uint32 arrays of shape ``(n,)`` or ``(rows, columns)``. A law may use
            one or both: ``Sparse`` takes for its mask one that the law leaves, or draws another.
            ``prng.normal``, ``prng.symmetric`` and ``prng.unit_interval`` map words to numbers,
            ``prng.further(words)`` makes two more.
        dtype : of the result.

        Returns
        -------
        An array of the words' shape, and of type `dtype`; the law's numbers may lead it.
        """
        raise TypeError(f"{type(self).__name__} gives no draw: define the method `unit`")

    @property
    def has_pdf(self) -> bool:
        """Whether the law has a density with respect to length: `pdf` and `peak` exist."""
        return type(self).pdf is not Law.pdf

    def pdf(self, x: ArrayLike) -> jax.Array:
        """Density at `x`, an array of any shape; the law's numbers must be scalars."""
        raise TypeError(f"{type(self).__name__} has no density: use Gaussian or Uniform")

    @property
    def peak(self) -> Number:
        """The largest value of `pdf`."""
        raise TypeError(f"{type(self).__name__} has no density: use Gaussian or Uniform")

    @explained
    def sample(
        self, key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike = jnp.float32
    ) -> jax.Array:
        """Draw an array.

        Parameters
        ----------
        key : typed JAX key.
        shape : ``(n,)`` or ``(rows, columns)``.
        dtype : float32 or float64; both see the same draw, to rounding.

        Returns
        -------
        Array of shape ``sweep + shape``, where ``sweep`` is the broadcast shape of the law's
        numbers (``()`` for plain numbers).

        Examples
        --------
        >>> import jax
        >>> Gaussian(2.0).sample(jax.random.key(0), (3, 4)).shape
        (3, 4)
        """
        checks.random_key("key", key)
        sizes = tuple(shape) if isinstance(shape, tuple | list) else ()
        if len(sizes) not in (1, 2) or not all(
            isinstance(n, int | np.integer) and n >= 0 for n in sizes
        ):
            raise ValueError(f"shape={checks.shown(shape)}: give (n,) or (rows, columns)")
        name = checks.floating("dtype", dtype)
        if name == "float64" and not jax.config.read("jax_enable_x64"):
            raise ValueError(
                "dtype='float64' but jax_enable_x64 is off here: switch it on, or draw float32"
            )
        return self.draw(prng.seed(key), sizes, name)

    def draw(self, start: prng.Seed, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
        """Draw as ``sample`` does, from a seed in place of a key."""
        dtype = jnp.dtype(dtype)
        words = prng.words(start, shape)
        spread = tuple(range(-len(shape), 0))
        law = jax.tree.map(
            lambda leaf: jnp.expand_dims(jnp.asarray(leaf).astype(dtype), spread), self
        )
        scale, unit = _aligned(jnp.asarray(law.scale, dtype), unit_of(law, words, dtype))
        return scale * unit

    def sweep_shape(self) -> tuple[int, ...]:
        """Broadcast shape of the law's numbers."""
        return np.broadcast_shapes(*(np.shape(leaf) for leaf in jax.tree.leaves(self)), ())


def unit_of(law: Law, words: prng.Words, dtype: jnp.dtype) -> jax.Array:
    """Return ``law.unit(words, dtype)``, checked: the unit of a user's law may be anything."""
    unit = law.unit(words, dtype)
    shape, kind = words.second.shape, jnp.dtype(dtype)
    name = f"{type(law).__name__}.unit"
    if not isinstance(unit, jax.Array | np.ndarray):
        raise ValueError(
            f"{name} returns a {type(unit).__name__}: return an array, one number for each entry "
            "of words.second"
        )
    if unit.ndim < len(shape) or unit.shape[unit.ndim - len(shape) :] != shape:
        raise ValueError(
            f"{name} returns shape {unit.shape} for words of shape {shape}: return one number for "
            "each entry of words.second"
        )
    if unit.dtype != kind:
        raise ValueError(
            f"{name} returns {unit.dtype} where {kind} is asked for: return it with .astype(dtype)"
        )
    return jnp.asarray(unit)


def _used(law: Law, words: prng.Words, dtype: jnp.dtype) -> tuple[bool, bool]:
    """Which of the two words the law's draw reads."""
    like = (jax.ShapeDtypeStruct(word.shape, jnp.uint32) for word in words)
    read = jax.make_jaxpr(lambda *two: law.unit(prng.Words(*two), dtype))(*like).jaxpr
    variables = {id(v) for equation in read.eqns for v in equation.invars}
    variables |= {id(v) for v in read.outvars}
    first, second = (id(v) in variables for v in read.invars)
    return first, second


def _aligned(*numbers: Number) -> tuple[jax.Array, ...]:
    """Give all arrays as many dimensions as the largest has, as strict rank promotion asks."""
    arrays = [jnp.asarray(number) for number in numbers]
    ndim = max(array.ndim for array in arrays)
    return tuple(array.reshape((1,) * (ndim - array.ndim) + array.shape) for array in arrays)


@explained
@dataclasses.dataclass(frozen=True)
class Gaussian(Law):
    """N(0, sigma^2).

    Examples
    --------
    >>> float(Gaussian(2.0).std)
    2.0
    """

    sigma: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", checks.non_negative("sigma", self.sigma))

    @property
    def scale(self) -> Number:
        return self.sigma

    @property
    def std(self) -> Number:
        return self.sigma

    @property
    def mean_abs(self) -> Number:
        return self.sigma * math.sqrt(2.0 / math.pi)

    @property
    def linear_constant(self) -> Number:
        """``sigma sqrt(2/pi)``, with equality for every u (Corollary 1)."""
        return self.mean_abs

    def unit(self, words: prng.Words, dtype: jnp.dtype) -> jax.Array:
        return prng.normal(words.second, dtype)

    def pdf(self, x: ArrayLike) -> jax.Array:
        return jnp.exp(-((x / self.sigma) ** 2) / 2) * self.peak

    @property
    def peak(self) -> Number:
        return 1 / (self.sigma * math.sqrt(2 * math.pi))


@explained
@dataclasses.dataclass(frozen=True)
class Uniform(Law):
    """Uniform on ``(-limit, limit)``; M is ``limit / (2 sqrt 2)`` (Corollary 2)."""

    limit: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", checks.non_negative("limit", self.limit))

    @property
    def scale(self) -> Number:
        return self.limit

    @property
    def std(self) -> Number:
        return self.limit / math.sqrt(3.0)

    @property
    def mean_abs(self) -> Number:
        return self.limit / 2.0

    def unit(self, words: prng.Words, dtype: jnp.dtype) -> jax.Array:
        return prng.symmetric(words.second, dtype)

    def pdf(self, x: ArrayLike) -> jax.Array:
        return jnp.where(jnp.abs(x) < self.limit, self.peak, 0.0 * x)

    @property
    def peak(self) -> Number:
        return 1 / (2 * self.limit)


@explained
@dataclasses.dataclass(frozen=True)
class DiscreteUniform(Law):
    """Uniform on the integers ``-limit, ..., limit``; M is ``mean_abs / sqrt 2`` (Corollary 3)."""

    limit: Number

    def __post_init__(self) -> None:
        limit = checks.non_negative("limit", self.limit)
        if not checks.is_traced(limit):
            values = np.asarray(limit)
            if np.any(values != np.round(values)):
                raise ValueError(
                    f"limit={checks.shown(limit)} is not whole: the law lives on the integers "
                    "-limit..limit (Uniform takes any limit)"
                )
            if np.any(values > 2**16):
                raise ValueError(
                    f"limit={checks.shown(limit)} is above 65536, where the draw would show "
                    "its 24-bit grid: use Uniform"
                )
        object.__setattr__(self, "limit", limit)

    @property
    def scale(self) -> Number:
        return 1.0

    @property
    def std(self) -> Number:
        return (self.limit * (self.limit + 1.0) / 3.0) ** 0.5

    @property
    def mean_abs(self) -> Number:
        return self.limit * (self.limit + 1.0) / (2.0 * self.limit + 1.0)

    def unit(self, words: prng.Words, dtype: jnp.dtype) -> jax.Array:
        # By the inverse distribution function, folded at 0 so that the draw is exactly even.
        value, limit = _aligned(prng.symmetric(words.second, dtype), self.limit)
        limit = limit.astype(dtype)
        size = jnp.floor((jnp.abs(value) * (2 * limit + 1) + 1) / 2)
        # Rounding may carry the largest word beyond the last integer.
        return without_derivative(jnp.sign(value) * jnp.minimum(size, limit), limit)


@explained
@dataclasses.dataclass(frozen=True)
class TwoPoint(Law):
    """``-c`` or ``c`` with probability 1/2 each; M is ``c / sqrt 2`` (Khintchine)."""

    c: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", checks.non_negative("c", self.c))

    @property
    def scale(self) -> Number:
        return self.c

    @property
    def std(self) -> Number:
        return self.c

    @property
    def mean_abs(self) -> Number:
        return self.c

    def unit(self, words: prng.Words, dtype: jnp.dtype) -> jax.Array:
        return jnp.sign(prng.symmetric(words.second, dtype))


@dataclasses.dataclass(frozen=True)
class Zero(Law):
    """Always 0: a network without biases."""

    @property
    def scale(self) -> Number:
        return 1.0

    @property
    def std(self) -> Number:
        return 0.0

    @property
    def mean_abs(self) -> Number:
        return 0.0

    def unit(self, words: prng.Words, dtype: jnp.dtype) -> jax.Array:
        return jnp.zeros(words.second.shape, dtype)


@explained
@dataclasses.dataclass(frozen=True)
class Sparse(Law):
    """``law`` with probability `density`, else 0 (Price & Tanner 2019, Definition 1).

    An entry survives where its uniform number lies below the density, so the entries kept at a
    low density are among those kept at a higher one. ``Sparse(law, 1.0)`` draws what ``law``
    draws. Its M is ``density`` times that of `law` (their Lemma 7).

    The derivative of a draw with respect to the density is NaN: the mask jumps.

    Examples
    --------
    >>> Sparse(Gaussian(2.0), 0.25).std
    1.0
    """

    law: Law
    density: Number

    def __post_init__(self) -> None:
        if not isinstance(self.law, Law) or isinstance(self.law, Sparse):
            raise ValueError(
                f"law={checks.shown(self.law)}: Sparse takes a dense law such as Gaussian(1.0); "
                "of two densities give the product"
            )
        object.__setattr__(self, "density", checks.fraction("density", self.density))
        shapes = [np.shape(leaf) for leaf in (*jax.tree.leaves(self.law), self.density)]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            raise ValueError(
                f"density has shape {shapes[-1]} and the law's numbers {shapes[:-1]}: give each "
                "sweep an axis of its own, such as sigma[:, None] and density[None, :]"
            ) from None

    @property
    def scale(self) -> Number:
        return self.law.scale

    @property
    def std(self) -> Number:
        return self.law.std * self.density**0.5

    @property
    def mean_abs(self) -> Number:
        return self.law.mean_abs * self.density

    @property
    def linear_constant(self) -> Number:
        return self.law.linear_constant * self.density

    def unit(self, words: prng.Words, dtype: jnp.dtype) -> jax.Array:
        # Mask and value are independent: the mask has a word that the value is not made of.
        first, second = _used(self.law, words, dtype)
        word = words.first if not first else words.second if not second else None
        number = prng.unit_interval(prng.further(words).first if word is None else word, dtype)
        value = unit_of(self.law, words, dtype)
        number, density, value = _aligned(number, self.density, value)
        kept = jnp.where(number < density.astype(dtype), value, jnp.zeros((), dtype))
        return without_derivative(kept, density)


def as_law(name: str, value: object) -> Law:
    """Return `value` if it is a law; the message lists the laws that exist."""
    if isinstance(value, Law):
        _fields(type(value))
        return value
    raise ValueError(
        f"{name}={checks.shown(value)} is not a law: give one of Gaussian(sigma), Uniform(limit), "
        "DiscreteUniform(limit), TwoPoint(c), Zero(), Sparse(law, density)"
    )


def as_float64(law: Law) -> Law:
    """Return `law` with its numbers as NumPy float64, for closed forms on the host."""
    copy: Law = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), law)
    return copy


if not TYPE_CHECKING:
    _NAMES = "Gaussian Uniform DiscreteUniform TwoPoint Zero Sparse"
    __getattr__ = absent(__name__, _NAMES.split())
