"""What the closed forms ask of a network: sizes, an activation, and the laws of each layer."""

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
    """A random network as theory sees it; ``MLP`` and ``ConvNet`` are such.

    Theory imports neither of them: anything with these attributes will do.

    Attributes
    ----------
    widths : ``(n_in, k_1, ..., k_d)``, numbers in the input and in the output of each layer.
    depth : number of layers d.
    activation : the one of all layers.
    sweep_shape : broadcast shape of the numbers in the laws, ``()`` without a sweep.
    ops : the layers, from the input on. One with weights has a ``fan_in``, ``outputs`` (columns of
        its W) and a ``coverage`` (in how many sums an entry below it takes part at most, for each
        output); one without has the Lipschitz constant ``lipschitz``.
    layer : ``layer(i)`` is the laws of layer i, 0 the first; it is one with weights.
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
        """Laws of layer `index`, 0 the first."""


def refuse_others(net: object) -> None:
    """Refuse what is no random network."""
    if not (hasattr(net, "widths") and hasattr(net, "layer")):
        raise ValueError(f"net={checks.shown(net)} is not a random network: give jaxexpr.MLP(...)")
