"""Activation functions, with what the measures need to know of each.

One convention for ties, everywhere: a unit is active, or beyond a breakpoint, where its
pre-activation is *greater than* the breakpoint (``h > 0`` for ReLU).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr._core import checks
from jaxexpr._core.calls import absent, explained
from jaxexpr._core.spellings import SMOOTH

_ASKED: Any = None  # a default that __post_init__ replaces


@explained
@dataclasses.dataclass(frozen=True)
class Activation:
    """An activation function applied to each entry.

    Parameters
    ----------
    name : the field's name for it.
    function : from an array to an array of the same shape and dtype, in JAX.
    derivative : as `function`; that of ``jax.jvp`` unless said.
    breakpoints : where the slope changes, increasing; ``None`` if not piecewise linear.
    slopes : the slope left of the first breakpoint, between them, and right of the last;
        ``None`` if not piecewise linear.
    lipschitz : the least Lipschitz constant; of a piecewise linear function it is known.
    homogeneous : whether ``f(c h) = c f(h)`` for every c > 0, which lets the propagation rescale
        a deep network's values instead of overflowing.

    Raises
    ------
    ValueError
        for a smooth function without a Lipschitz constant, breakpoints that do not increase, or
        slopes that do not fit them. Where the activation is first used: for a derivative, slopes,
        a Lipschitz constant or homogeneity that the function's values on [-8, 8] contradict.

    Examples
    --------
    >>> gelu = Activation("gelu", jax.nn.gelu, lipschitz=1.13)
    >>> round(float(gelu.derivative(jnp.array(0.0))), 6)
    0.5
    """

    name: str
    function: Callable[[jax.Array], jax.Array]
    derivative: Callable[[jax.Array], jax.Array] = _ASKED
    breakpoints: tuple[float, ...] | None = None
    slopes: tuple[float, ...] | None = None
    lipschitz: float = _ASKED
    homogeneous: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"name={checks.shown(self.name)}: give a text, such as 'gelu'")
        if not callable(self.function):
            raise ValueError(f"function={checks.shown(self.function)}: give a JAX function of h")
        derivative = _Slope(self.function) if self.derivative is None else self.derivative
        if not callable(derivative):
            raise ValueError(
                f"derivative={checks.shown(derivative)}: give a JAX function of h, or leave it out"
            )
        object.__setattr__(self, "derivative", derivative)
        if (self.breakpoints is None) != (self.slopes is None):
            raise ValueError(
                f"breakpoints={checks.shown(self.breakpoints)} with slopes="
                f"{checks.shown(self.slopes)}: give both of a piecewise linear function, neither "
                "of a smooth one"
            )
        steepest = None
        if self.breakpoints is not None:
            at, slopes = _checked_pieces(self.breakpoints, self.slopes)
            object.__setattr__(self, "breakpoints", at)
            object.__setattr__(self, "slopes", slopes)
            steepest = max(abs(slope) for slope in slopes)
        if self.lipschitz is None and steepest is None:
            raise ValueError(
                f"lipschitz=None of {self.name!r}: give its steepest slope, 1 for tanh or 1.13 for "
                "gelu, or breakpoints and slopes if it is piecewise linear"
            )
        lipschitz = steepest if self.lipschitz is None else self.lipschitz
        known = isinstance(lipschitz, int | float | np.number)  # infinite of a cube, say
        if not known or not lipschitz >= 0:
            raise ValueError(f"lipschitz={checks.shown(lipschitz)}: give one number >= 0")
        object.__setattr__(self, "lipschitz", float(lipschitz))

    def __call__(self, h: jax.Array) -> jax.Array:
        return self.function(h)

    @property
    def piecewise_linear(self) -> bool:
        return self.breakpoints is not None


@dataclasses.dataclass(frozen=True)
class _Slope:
    """The derivative of a function, entry by entry."""

    function: Callable[[jax.Array], jax.Array]

    def __call__(self, h: jax.Array) -> jax.Array:
        return jax.jvp(self.function, (h,), (jnp.ones_like(h),))[1]


def _checked_pieces(
    breakpoints: Sequence[float], slopes: Sequence[float] | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Check that breakpoints increase and that there is a slope between each two of them."""
    at, slope = checks.sequence("breakpoints", breakpoints), checks.sequence("slopes", slopes)
    if any(b >= c for b, c in zip(at, at[1:], strict=False)):
        raise ValueError(
            f"breakpoints={checks.shown(at)} do not increase: give them in order, each once"
        )
    if len(slope) != len(at) + 1:
        raise ValueError(
            f"slopes={checks.shown(slope)} has {len(slope)} entries for {len(at)} breakpoints: "
            f"give {len(at) + 1}"
        )
    return at, slope


def _step(h: jax.Array) -> jax.Array:
    return (h > 0).astype(h.dtype)


def _sign(h: jax.Array) -> jax.Array:
    return jnp.where(h > 0, jnp.ones_like(h), -jnp.ones_like(h))


relu = Activation("relu", lambda h: jnp.maximum(h, 0), _step, (0.0,), (0.0, 1.0), 1.0, True)
linear = Activation("linear", lambda h: h, jnp.ones_like, (), (1.0,), 1.0, True)
absolute = Activation("abs", jnp.abs, _sign, (0.0,), (-1.0, 1.0), 1.0, True)
hard_tanh = Activation(
    "hard_tanh",
    lambda h: jnp.clip(h, -1, 1),
    lambda h: ((h > -1) & (h <= 1)).astype(h.dtype),
    (-1.0, 1.0),
    (0.0, 1.0, 0.0),
    1.0,
)
tanh = Activation("tanh", jnp.tanh, lambda h: 1 - jnp.tanh(h) ** 2, None, None, 1.0)
erf = Activation(
    "erf",
    lax.erf,
    lambda h: (2 / math.sqrt(math.pi)) * jnp.exp(-h * h),
    None,
    None,
    2 / math.sqrt(math.pi),
)


@explained
def leaky_relu(slope: float = 0.01) -> Activation:
    """``h`` for h > 0 and ``slope * h`` otherwise.

    Examples
    --------
    >>> leaky_relu(0.2).slopes
    (0.2, 1.0)
    """
    if np.ndim(checks.numeric("slope", slope)) != 0:
        raise ValueError(f"slope={checks.shown(slope)}: give one number")
    slope = float(slope)
    return Activation(
        f"leaky_relu({slope:g})",
        _Leaky(slope, derivative=False),
        _Leaky(slope, derivative=True),
        (0.0,),
        (slope, 1.0),
        max(1.0, abs(slope)),
        True,
    )


@dataclasses.dataclass(frozen=True)
class _Leaky:
    """The function or its derivative; equal slopes compare equal, so they compile once."""

    slope: float
    derivative: bool

    def __call__(self, h: jax.Array) -> jax.Array:
        if self.derivative:
            return jnp.where(h > 0, jnp.ones_like(h), jnp.full_like(h, self.slope))
        return jnp.where(h > 0, h, self.slope * h)


@explained
def piecewise_linear(
    breakpoints: Sequence[float], slopes: Sequence[float], name: str = "piecewise_linear"
) -> Activation:
    """The continuous piecewise linear function with these breakpoints and slopes and f(0) = 0.

    Parameters
    ----------
    breakpoints : strictly increasing, of length T.
    slopes : of length T + 1, from left to right.

    Raises
    ------
    ValueError
        if the lengths do not fit or the breakpoints do not increase.

    Examples
    --------
    >>> piecewise_linear([-1, 1], [0, 1, 0])(jnp.array([-3.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    at, slope = _checked_pieces(breakpoints, slopes)
    return Activation(
        name,
        _Pieces(at, slope, derivative=False),
        _Pieces(at, slope, derivative=True),
        at,
        slope,
        max(abs(s) for s in slope),
        homogeneous=at in ((), (0.0,)),
    )


@dataclasses.dataclass(frozen=True)
class _Pieces:
    breakpoints: tuple[float, ...]
    slopes: tuple[float, ...]
    derivative: bool

    def __call__(self, h: jax.Array) -> jax.Array:
        if self.derivative:
            value = jnp.full_like(h, self.slopes[0])
            for at, slope in zip(self.breakpoints, self.slopes[1:], strict=True):
                value = jnp.where(h > at, jnp.full_like(h, slope), value)
            return value
        # A sum of ramps, shifted so that f(0) = 0.
        value, at_zero = self.slopes[0] * h, 0.0
        changes = zip(self.breakpoints, self.slopes, self.slopes[1:], strict=False)
        for at, left, right in changes:
            value = value + (right - left) * jnp.maximum(h - at, 0)
            at_zero += (right - left) * max(-at, 0.0)
        return value - at_zero


NAMES = {a.name: a for a in (relu, hard_tanh, tanh, erf, absolute, linear)} | {
    "leaky_relu": leaky_relu()
}


def get(activation: str | Activation) -> Activation:
    """Return the activation of this name, or `activation` itself if it is one.

    Raises
    ------
    ValueError
        for an unknown name, with the names that exist, and for an ``Activation`` that is at odds
        with its own function.
    """
    if isinstance(activation, Activation):
        ours = NAMES.get(activation.name) is activation
        if not ours and not isinstance(activation.function, _Leaky | _Pieces):
            _consistent(activation)
        return activation
    name = getattr(activation, "__name__", activation)
    name = name.lower() if isinstance(name, str) else ""
    if name in SMOOTH:
        raise ValueError(
            f"activation={checks.shown(activation)} is not among the built-in ones: give "
            f"jaxexpr.{SMOOTH[name]}"
        )
    if name == "relu6":
        raise ValueError(
            f"activation={checks.shown(activation)} is not among the built-in ones: give "
            "jaxexpr.activations.piecewise_linear([0, 6], [0, 1, 0])"
        )
    if callable(activation):
        near = f"{name!r}, or " if name in NAMES else f"the name of one of {', '.join(NAMES)}, or "
        raise ValueError(
            f"activation={checks.shown(activation)} is a function: give {near}"
            "jaxexpr.Activation(name, function, lipschitz=...)"
        )
    return NAMES[checks.one_of("activation", activation, NAMES)]


@functools.lru_cache(maxsize=64)
def _consistent(phi: Activation) -> None:
    """Refuse an activation that its function's values at many points contradict."""
    at = phi.breakpoints or ()
    low, high = min([-8.0, *(b - 1 for b in at)]), max([8.0, *(b + 1 for b in at)])
    # At no round number, where a breakpoint might be; between any two breakpoints.
    middles = [(b + c) / 2 for b, c in zip(at, at[1:], strict=False)]
    h = np.sort(np.concatenate([np.linspace(low + 1 / 997, high - 1 / 991, 1201), middles]))
    h = h.astype(np.float32)

    def look(h: jax.Array) -> tuple[jax.Array, ...]:
        values, slopes = jax.jvp(phi.function, (h,), (jnp.ones_like(h),))
        return values, phi.function(2 * h), slopes, phi.derivative(h)

    what = f"activation {phi.name!r}"
    try:
        with jax.ensure_compile_time_eval():
            found = jax.jit(look)(h)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{what} cannot be evaluated ({_first_line(error)}): give a JAX function of an array, "
            "with jax.numpy in place of numpy"
        ) from error
    if any(checks.is_traced(x) for x in found):  # it closes over numbers that are not known yet
        return
    for part, x in zip(("function", "function", "slope", "derivative"), found, strict=True):
        if x.shape != h.shape or x.dtype != h.dtype:
            raise ValueError(
                f"{what}: its {part} returns {x.dtype}{list(x.shape)} for float32{list(h.shape)}: "
                "give a function of each entry, of the same shape and dtype"
            )
    values, doubled, slopes, told = (np.asarray(x, np.float64) for x in found)
    _at_all(what, h, np.isfinite(values), values, "give one that is finite everywhere")
    fits = np.abs(told - slopes) <= 1e-3 * np.maximum(1, np.abs(slopes))
    _at_all(
        f"{what}: its derivative", h, fits, told,
        "give the derivative of its function, or leave it out", slopes,
    )  # fmt: skip
    if phi.slopes is not None:
        claimed = np.asarray(phi.slopes)[np.searchsorted(at, h)]
        fits = np.abs(claimed - slopes) <= 1e-3 * np.maximum(1, np.abs(slopes))
        _at_all(
            f"{what}: its slope", h, fits, claimed,
            "give slopes and breakpoints of the function", slopes,
        )  # fmt: skip
    steps = np.diff(h.astype(np.float64))
    chords = np.abs(np.diff(values)) / steps
    slack = 1e-3 * phi.lipschitz + 1e-6 * np.abs(values[1:]) / steps
    steep = np.maximum(chords - slack, np.abs(slopes[1:]) - 1e-3 * phi.lipschitz)
    worst = int(np.argmax(steep))
    if steep[worst] > phi.lipschitz:
        raise ValueError(
            f"{what}: lipschitz={phi.lipschitz:g} and the function's slope is "
            f"{max(chords[worst], abs(slopes[1:][worst])):.4g} at h={h[1:][worst]:.4g}: give its "
            "steepest slope"
        )
    if phi.homogeneous:
        fits = np.abs(doubled - 2 * values) <= 1e-3 * np.abs(values)
        _at_all(
            f"{what} with homogeneous=True: f(2h)", h, fits, doubled,
            "say homogeneous=False", 2 * values,
        )  # fmt: skip


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:80]


def _at_all(
    what: str,
    h: np.ndarray,
    fits: np.ndarray,
    found: np.ndarray,
    fix: str,
    due: np.ndarray | None = None,
) -> None:
    """Refuse what does not fit at some h, naming the first."""
    if not fits.all():
        i = int(np.argmin(fits))
        against = "" if due is None else f" and not {due[i]:.4g}"
        raise ValueError(f"{what} is {found[i]:.4g}{against} at h={h[i]:.4g}: {fix}")


if not TYPE_CHECKING:
    __getattr__ = absent(__name__, [*NAMES, "absolute", "piecewise_linear", "Activation"])
