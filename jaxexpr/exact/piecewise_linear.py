"""A piecewise linear activation on the host, in NumPy float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxexpr.activations import Activation

Array = np.ndarray


class PiecewiseLinear:
    """A piecewise linear activation by its breakpoints.

    Attributes
    ----------
    levels, slopes : breakpoints ``(T,)`` and slopes ``(T + 1,)``.
    offsets : on linear piece i the activation is ``slopes[i] h + offsets[i]``.
    homogeneous : whether it commutes with multiplication by positive numbers.

    Parameters
    ----------
    broken : add a breakpoint at 0, with the same slope on both sides, to an activation without any.
    """

    def __init__(self, phi: Activation, *, broken: bool = False) -> None:
        levels, slopes = phi.breakpoints or (), phi.slopes or ()
        if broken and not levels:
            levels, slopes = (0.0,), 2 * slopes
        self.levels, self.slopes = np.array(levels, np.float64), np.array(slopes, np.float64)
        self.homogeneous = phi.homogeneous
        at = self.levels if self.levels.size else np.zeros(1)
        with jax.enable_x64(True):
            self._heights = np.asarray(phi.function(jnp.asarray(at, jnp.float64)))
        # Piece i ends at breakpoint i, the last one begins at the last breakpoint.
        ends = np.minimum(np.arange(self.slopes.size), at.size - 1)
        self.offsets = self._heights[ends] - self.slopes * at[ends]

    def image(self, h: Array) -> Array:
        """The activation of `h`, of any shape."""
        if self.levels.size == 1 and not self.slopes[0] and not self.offsets.any():
            return self.slopes[1] * np.maximum(h, self.levels[0])  # ReLU, in fewer passes
        piece = self.piece(h)
        return self.slopes[piece] * h + self.offsets[piece]

    def piece(self, h: Array) -> Array:
        """Number of breakpoints below `h`, int8."""
        beyond = np.zeros(h.shape, np.int8)
        for level in self.levels:
            beyond += h > level
        return beyond

    def mean_squared_slope(self, h: Array) -> Array:
        """Mean squared slope of each column."""
        mean = np.full(h.shape[1], self.slopes[0] ** 2)
        for i, level in enumerate(self.levels):
            share = np.count_nonzero(h > level, axis=0) / len(h)
            mean += (self.slopes[i + 1] ** 2 - self.slopes[i] ** 2) * share
        return mean

    def value(self, beyond: Array, unit: Array) -> tuple[Array, Array]:
        """Values, and the indices of their linear pieces, from differences to the breakpoints.

        Parameters
        ----------
        beyond : scaled pre-activation minus each scaled breakpoint, ``(r, k, T)``.
        unit : scale of each row, ``(r, 1)``.

        Returns
        -------
        Two arrays ``(r, k)``.
        """
        piece = np.sum(beyond > 0, axis=2)
        start = np.maximum(piece - 1, 0)
        past = np.take_along_axis(beyond, start[:, :, None], axis=2)[:, :, 0]
        return self._heights[start] * unit + self.slopes[piece] * past, piece
