"""A piecewise linear network in NumPy float64, with the errors that its values carry.

**Errors.** A pre-activation ``h_j = sum_i w_ij z_i + b_j`` is computed with an error that is taken
as ``32 eps`` times ``sqrt(sum_i (w_ij max|z_i|)^2 + b_j^2 + level^2)``, 32 times what independent
roundings of its terms add up to. The errors that the z_i bring along from the layers below are
added in quadrature, each as far as it comes through the activation (its mean squared slope over
the points). So the error grows from layer to layer as that of a typical network does, not as the
product of norms, the worst case, which would soon drown every decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxexpr.exact.piecewise_linear import PiecewiseLinear
from jaxexpr.params import Params

Array = np.ndarray
EPS = 32 * float(np.finfo(np.float64).eps)
WIDE = 256  # powers of two that the values of a homogeneous network may be away from 1
HIGHEST = 900


class ForwardLayer(NamedTuple):
    """A layer as it was computed: in the units of the values, which may be scaled by 2^k.

    Attributes
    ----------
    weights, biases : ``(fan_in, fan_out)`` and ``(fan_out,)``.
    """

    weights: Array
    biases: Array


class ForwardPass:
    """Values of a network at points, taken through it layer by layer.

    Attributes
    ----------
    z : values, ``(points, k)``, in units of ``2**exponent``.
    error : of each column.
    layers : as they were computed.
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
            # What biases are still to come must fit as well.
            tallest = max((np.abs(b).max() for _, b in self.params[index:]), default=0.0)
            if tallest:
                shift = max(shift, int(np.frexp(tallest)[1]) - HIGHEST - self.exponent)
            weights, biases, h, slack = (np.ldexp(x, -shift) for x in (weights, biases, h, slack))
            self.exponent += shift
        self.layers.append(ForwardLayer(weights, biases))
        self._slack = slack
        return h, slack

    def activate(self, h: Array) -> None:
        """Go on with pre-activations at (possibly more) points."""
        self.error = self._slack * np.sqrt(self.piecewise.mean_squared_slope(h))
        self.z = self.piecewise.image(h)


def _root(size: Array, weights: Array) -> Array:
    """``sqrt(sum_i (size_i w_ij)^2)``, without overflow."""
    a, b = size.max(initial=0.0), np.abs(weights).max()
    if not (a and b):
        return np.zeros(weights.shape[1])
    return a * (b * np.sqrt((size / a) ** 2 @ (weights / b) ** 2))


def params_in_float64(params: Params) -> tuple[tuple[Array, Array], ...]:
    """Parameters as NumPy float64."""
    return tuple((np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in params)
