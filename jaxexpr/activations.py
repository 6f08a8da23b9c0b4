"""Activation functions, with what the measures need to know of each.

One convention for ties, everywhere: a unit is active, or beyond a breakpoint, where its
pre-activation is *greater than* the breakpoint (``h > 0`` for ReLU).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxexpr import checks


@dataclasses.dataclass(frozen=True)
class Activation:
    """An activation function applied to each entry.

    Attributes
    ----------
    name : the field's name for it.
    function, derivative : from an array to an array of the same shape and dtype.
    breakpoints : where the slope changes, increasing; ``None`` if not piecewise linear.
    slopes : the slope left of the first breakpoint, between them, and right of the last;
        ``None`` if not piecewise linear.
    lipschitz : the least Lipschitz constant.
    homogeneous : whether ``f(c h) = c f(h)`` for every c > 0, which lets the propagation rescale
        a deep network's values instead of overflowing.
    """

    name: str
    function: Callable[[jax.Array], jax.Array]
    derivative: Callable[[jax.Array], jax.Array]
    breakpoints: tuple[float, ...] | None
    slopes: tuple[float, ...] | None
    lipschitz: float
    homogeneous: bool = False

    def __call__(self, h: jax.Array) -> jax.Array:
        return self.function(h)

    @property
    def piecewise_linear(self) -> bool:
        return self.breakpoints is not None


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


def leaky_relu(slope: float = 0.01) -> Activation:
    """``h`` for h > 0 and ``slope * h`` otherwise.

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

    >>> piecewise_linear([-1, 1], [0, 1, 0])(jnp.array([-3.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    at = checks.sequence("breakpoints", breakpoints)
    slope = checks.sequence("slopes", slopes)
    if any(b >= c for b, c in zip(at, at[1:], strict=False)):
        raise ValueError(
            f"breakpoints={checks.shown(at)} do not increase: give them in order, each once"
        )
    if len(slope) != len(at) + 1:
        raise ValueError(
            f"slopes={checks.shown(slope)} has {len(slope)} entries for {len(at)} breakpoints: "
            f"give {len(at) + 1}"
        )
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


def get(activation: Any) -> Activation:
    """Return the activation of this name, or `activation` itself if it is one.

    Raises ValueError for an unknown name, with the names that exist.
    """
    if isinstance(activation, Activation):
        return activation
    return NAMES[checks.one_of("activation", activation, NAMES)]
