"""A piecewise linear network in NumPy float64, with estimates of rounding errors.

**Errors.** The error of a pre-activation ``h_j = sum_i w_ij z_i + b_j`` is estimated as
``32 eps`` times ``sqrt(sum_i (w_ij max|z_i|)^2 + b_j^2 + level^2)``, 32 times the sum of
independent rounding errors of its terms. The errors of the z_i from the layers below are added in
quadrature, each times the mean squared slope of the activation over the points. So the estimate
grows from layer to layer as in a typical network, not as the product of norms: that worst case
would soon make every decision uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxexpr.exact.piecewise_linear import PiecewiseLinear
from jaxexpr.params import Params

Array = np.ndarray
EPS = 32 * float(np.finfo(np.float64).eps)
WIDE = 256  # values of a homogeneous network are rescaled beyond 2**WIDE and 2**-WIDE
HIGHEST = 900  # largest exponent of a rescaled bias


class ForwardLayer(NamedTuple):
    """Weights and biases used in the computation, which may be scaled by a power of two.

    Attributes
    ----------
    weights, biases : ``(fan_in, fan_out)`` and ``(fan_out,)``.
    """

    weights: Array
    biases: Array


class ForwardPass:
    """Values of a network at points, computed layer by layer.

    Attributes
    ----------
    z : values, ``(points, k)``, in units of ``2**exponent``.
    error : estimated error of each column.
    layers : the layers computed so far.
    """

    def __init__(
        self, z: Array, params: Sequence[tuple[Array, Array]], piecewise: PiecewiseLinear
    ) -> None:
        self.z, self.error, self.piecewise, self.params = z, np.zeros(z.shape[1]), piecewise, params
        self.exponent, self.layers = 0, list[ForwardLayer]()

    def pre_activations(self) -> tuple[Array, Array]:
        """The next layer's pre-activations ``(points, width)`` and their errors ``(width,)``.

        Raises
        ------
        ValueError
            if they leave the range of float64.
        """
        index = len(self.layers)
        weights, biases = self.params[index]
        biases = np.ldexp(biases, -self.exponent)
        size = np.maximum(self.z.max(axis=0), -self.z.min(axis=0))
        level = np.abs(self.piecewise.levels).max(initial=0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            h = self.z @ weights + biases
            slack = np.hypot(_root(size, weights), np.hypot(biases, level))
            slack = np.hypot(EPS * slack, _root(self.error, weights))
        largest = slack.max() / EPS
        if not np.isfinite(largest):
            raise ValueError(
                f"params[{index}][0] makes values that float64 cannot hold: rescale the weights, "
                "or the plane"
            )
        shift = int(np.frexp(largest)[1]) if largest else 0
        if self.piecewise.homogeneous and abs(shift) > WIDE:
            # The biases of this and later layers must fit as well.
            tallest = max((np.abs(b).max() for _, b in self.params[index:]), default=0.0)
            if tallest:
                shift = max(shift, int(np.frexp(tallest)[1]) - HIGHEST - self.exponent)
            weights, biases, h, slack = (np.ldexp(x, -shift) for x in (weights, biases, h, slack))
            self.exponent += shift
        self.layers.append(ForwardLayer(weights, biases))
        self._slack = slack
        return h, slack

    def activate(self, h: Array) -> None:
        """Apply the activation to pre-activations at these and possibly more points."""
        self.error = self._slack * np.sqrt(self.piecewise.mean_squared_slope(h))
        self.z = self.piecewise.image(h)


def _root(size: Array, weights: Array) -> Array:
    """``sqrt(sum_i (size_i w_ij)^2)``, without overflow."""
    a, b = size.max(initial=0.0), np.abs(weights).max()
    if not (a and b):
        return np.zeros(weights.shape[1])
    return a * (b * np.sqrt((size / a) ** 2 @ (weights / b) ** 2))


def params_in_float64(params: Params) -> tuple[tuple[Array, Array], ...]:
    """Convert parameters to NumPy float64."""
    return tuple((np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in params)
