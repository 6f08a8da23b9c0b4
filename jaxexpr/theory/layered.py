"""Protocol of networks in closed forms: sizes, an activation, and the laws of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jaxexpr import laws
from jaxexpr._core import checks
from jaxexpr.activations import Activation


class LayerLaws(Protocol):
    """The laws of one layer; weights before the division by ``sqrt(fan_in)``."""

    @property
    def weights(self) -> laws.Law: ...

    @property
    def biases(self) -> laws.Law: ...


class LayeredNetwork(Protocol):
    """A random network, such as an ``MLP`` or a ``ConvNet``.

    Theory imports neither of them; any object with these attributes is accepted.

    Attributes
    ----------
    widths : ``(n_in, k_1, ..., k_d)``, numbers in the input and in the output of each layer.
    depth : number of layers d.
    activation : activation of all layers.
    sweep_shape : broadcast shape of the numbers in the laws, ``()`` without a sweep.
    ops : the layers, from the input on. One with weights has a ``fan_in``, ``outputs`` (columns of
        its W) and a ``coverage`` (largest number of sums that contain an input entry, for each
        output); one without has a Lipschitz constant ``lipschitz``.
    layer : ``layer(i)`` are the laws of the layer with index i, from 0; it must have weights.
    """

    @property
    def widths(self) -> tuple[int, ...]: ...

    @property
    def depth(self) -> int: ...

    @property
    def activation(self) -> Activation: ...

    @property
    def sweep_shape(self) -> tuple[int, ...]: ...

    @property
    def ops(self) -> Sequence[Any]: ...

    def layer(self, index: int) -> LayerLaws:
        """Laws of the layer with this index, from 0."""


def refuse_others(net: object) -> None:
    """Raise ValueError if `net` is not a random network."""
    if not (hasattr(net, "widths") and hasattr(net, "layer")):
        raise ValueError(f"net={checks.shown(net)} is not a random network: give jaxexpr.MLP(...)")
