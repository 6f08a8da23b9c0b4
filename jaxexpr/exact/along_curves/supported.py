"""Activations and curves that have exact pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr.curves import Curve, as_curve
from jaxexpr.exact.along_curves import segments
from jaxexpr.params import Params, fitting


def family_of(params: Params, curves: object) -> list[Curve]:
    """Check and return curves of one kind and size, in the input space of the networks.

    Raises
    ------
    ValueError
        if they are not a list of such curves.
    """
    if not isinstance(curves, Sequence) or not curves:
        raise ValueError(f"curves={checks.shown(curves)}: give a list of one or more curves")
    width = int(np.shape(params[0][0])[-2])
    family = [
        fitting("params[0][0]", width, as_curve(f"curves[{i}]", c)) for i, c in enumerate(curves)
    ]
    for i, curve in enumerate(family):
        exact_curve(f"curves[{i}]", curve)
        if _kind(curve) != _kind(family[0]):
            raise ValueError(
                f"curves[{i}] is a {curve.kind} of other sizes or another kind than curves[0], a "
                f"{family[0].kind}: give curves of one kind, or several calls"
            )
    return family


def exact_activation(activation: str | activations.Activation) -> activations.Activation:
    """Return the activation.

    Raises
    ------
    ValueError
        if it is smooth.
    """
    phi = activations.get(activation)
    if phi.breakpoints is None:
        raise ValueError(
            f"activation={phi.name!r} is smooth: a network with it has no pieces; use relu, "
            "leaky_relu, abs, hard_tanh or piecewise_linear, or method='tangent' for lengths"
        )
    return phi


def has_pieces(curve: Curve) -> bool:
    """Whether crossings along the curve are known in closed form."""
    return curve.kind in segments.STRAIGHT + segments.ROUND


def exact_curve(name: str, curve: Curve) -> None:
    """Check that a curve has exact pieces.

    Raises
    ------
    ValueError
        if crossings along it have no closed form.
    """
    if not has_pieces(curve):
        raise ValueError(
            f"{name} is a {curve.kind}, which has no exact pieces: use line, polyline, arc, "
            "circle, ellipse or semicircles, or another method"
        )


def _kind(curve: Curve) -> tuple[object, ...]:
    return curve.kind, curve.domain, curve.whole, [np.shape(a) for a in curve.arrays]
