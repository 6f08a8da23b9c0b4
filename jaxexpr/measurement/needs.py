"""Requirements of probes and methods on network and curve, and the messages where they fail.

A requirement ("need") is a function of a ``Case``. It returns ``None`` if the case can be measured,
else a message: why not, and what to do instead. The tables at the end list the requirements of each
probe and of each method.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jaxexpr import laws
from jaxexpr._core import checks
from jaxexpr.activations import Activation
from jaxexpr.curves import Curve
from jaxexpr.exact.along_curves.supported import exact_curve
from jaxexpr.networks import Network
from jaxexpr.probes.base import Probe

# An exact pass with these probes alone does not compute the image in the last layer.
COUNTS = ("transitions", "network_transitions")


@dataclasses.dataclass(frozen=True)
class Case:
    """One probe measured by one method.

    Attributes
    ----------
    probe, method : as requested by the user.
    kind : kind of nodes (``"tangent"`` or ``"grid"``), or ``"exact"``.
    count : number of nodes.
    points : number of points requested by the user, or ``None``.
    activation, curve : activation of the network, and the curve through it.
    connected : whether all layers are fully connected.
    drawn : the random network; ``None`` for given parameters.
    traced : whether the parameters are traced by a transformation of JAX.
    """

    probe: Probe
    method: str
    kind: str
    count: int
    points: int | None
    activation: Activation
    curve: Curve
    connected: bool
    drawn: Network | None
    traced: bool


Need = Callable[[Case], str | None]


def counts(probe: Probe) -> bool:
    """Whether the probe is a count, which is finite on an infinite line too."""
    return probe.name in (*COUNTS, "pieces", "patterns") or bool(probe.levels)


def _has_breakpoints(case: Case) -> str | None:
    if case.activation.breakpoints is not None:
        return None
    return (
        f"probes names {case.probe.name!r}, which activation={case.activation.name!r} does not "
        "have (it is smooth): give thresholds, probes=jaxexpr.crossings(-1, 1) for instance, or "
        "use relu, leaky_relu, abs or hard_tanh"
    )


def _no_points_if_exact(case: Case) -> str | None:
    """Refuse a number of points for a probe that is counted exactly."""
    counted = case.probe.nodes == ("exact",) or (case.curve.whole and counts(case.probe))
    if not counted or case.method != "auto" or case.points is None:
        return None
    where = " on an infinite line" if case.curve.whole else ""
    return (
        f"points={case.points} and probe {case.probe.name!r}, which is counted exactly{where}: "
        "leave points out"
    )


def _method_measures_probe(case: Case) -> str | None:
    if case.kind in case.probe.nodes:
        return None
    return (
        f"method={case.method!r} cannot measure probe {case.probe.name!r}: use method="
        f"{' or '.join(map(repr, case.probe.nodes))}, or 'auto'"
    )


def _has_pieces(case: Case) -> str | None:
    if case.activation.breakpoints is not None:
        return None
    others = " or ".join(f"method={kind!r}" for kind in case.probe.nodes if kind != "exact")
    return (
        f"method='exact' needs pieces, and a network with activation={case.activation.name!r}, "
        f"which is smooth, has none: use {others} for probe {case.probe.name!r}"
    )


def _fully_connected(case: Case) -> str | None:
    if case.connected:
        return None
    return (
        "method='exact' measures fully connected networks: of a ConvNet take exact.pieces_of("
        "lambda x: net.apply(params, x), x0, x1), or another method"
    )


def _curve_has_pieces(case: Case) -> str | None:
    exact_curve("curve", case.curve)  # raises
    return None


def _straight_for_patterns(case: Case) -> str | None:
    if case.probe.name != "patterns" or case.curve.kind == "line":
        return None
    return (
        f"curve is a {case.curve.kind}, which may meet a region twice, and method='exact' counts "
        "'patterns' on straight lines: ask for 'pieces', or use method='grid'"
    )


def _finite_unless_counted(case: Case) -> str | None:
    if not case.curve.whole or counts(case.probe):
        return None
    return (
        f"curve is an infinite line, which has no {case.probe.name!r}: ask for transitions or "
        "pieces, or give a segment"
    )


def _not_traced(case: Case) -> str | None:
    if not case.traced:
        return None
    return (
        f"probes names {case.probe.name!r}, measured exactly, and params are traced: call measure "
        "outside jit and vmap, or use method='tangent' or 'grid'"
    )


def _finite_curve(case: Case) -> str | None:
    if not case.curve.whole:
        return None
    return (
        f"curve is an infinite line, which method={case.method!r} cannot measure for probe "
        f"{case.probe.name!r}: give a segment, line(x0, x1) without whole=True"
    )


def _two_points(case: Case) -> str | None:
    if case.count >= 2:
        return None
    return (
        f"points={case.count} is too few for probe {case.probe.name!r} on a grid: give at least 2"
    )


def _independent_units(case: Case) -> str | None:
    if case.connected:
        return None
    return (
        "method='gram' draws independent units, but the units of a convolution share weights: use "
        "method='tangent' or 'grid'"
    )


def _drawn(case: Case) -> str | None:
    if case.drawn is not None:
        return None
    return "method='gram' draws networks and params are given: use 'tangent' or 'grid'"


def _gaussian_weights(case: Case) -> str | None:
    return _not_gaussian(case, "method='gram'", "weights", "use method='tangent' or 'grid'")


def _gaussian_layers(case: Case) -> str | None:
    if case.drawn is None:
        return (
            f"probes names {case.probe.name!r}, a mean over random layers, and params are given: "
            "use 'transitions', or estimate with a network of random weights"
        )
    subject, instead = f"probe {case.probe.name!r}", "ask for 'transitions'"
    return _not_gaussian(case, subject, "weights", instead) or _not_gaussian(
        case, subject, "biases", instead
    )


def _not_gaussian(case: Case, subject: str, side: str, instead: str) -> str | None:
    """Return a message if a law is not dense Gaussian; biases may also be zero.

    subject : the method or probe that needs Gaussian laws.
    side : ``"weights"`` or ``"biases"``.
    instead : what to use instead.
    """
    kinds = (laws.Gaussian,) if side == "weights" else (laws.Gaussian, laws.Zero)
    for index, law in enumerate(getattr(case.drawn, side, ())):
        if not isinstance(law, kinds):
            return (
                f"{subject} needs dense Gaussian {side} and {side}[{index}] is "
                f"{checks.shown(law)}: {instead}"
            )
    return None


NEEDS_OF_ALL: tuple[Need, ...] = (_no_points_if_exact, _method_measures_probe)
NEEDS_OF_PROBES: dict[str, tuple[Need, ...]] = {
    "transitions": (_has_breakpoints,),
    "network_transitions": (_has_breakpoints,),
    "pieces": (_has_breakpoints,),
    "patterns": (_has_breakpoints,),
    "layer_patterns": (_has_breakpoints,),
    "expected_transitions": (_has_breakpoints,),
}
NEEDS_OF_EXPECTATIONS: tuple[Need, ...] = (_gaussian_layers,)
NEEDS_OF_KINDS: dict[str, tuple[Need, ...]] = {
    "exact": (
        _has_pieces,
        _fully_connected,
        _curve_has_pieces,
        _straight_for_patterns,
        _finite_unless_counted,
        _not_traced,
    ),
    "tangent": (_finite_curve,),
    "grid": (_finite_curve, _two_points),
}
NEEDS_OF_GRAM: tuple[Need, ...] = (_drawn, _independent_units, _gaussian_weights)


def refusal(case: Case) -> str | None:
    """Return why a case cannot be measured and what to do instead; ``None`` if it can be."""
    needs = [
        *NEEDS_OF_PROBES.get(case.probe.name, ()),
        *NEEDS_OF_ALL,
        *NEEDS_OF_KINDS.get(case.kind, ()),
    ]
    if case.probe.gaussian:
        needs += NEEDS_OF_EXPECTATIONS
    if case.method == "gram":
        needs += NEEDS_OF_GRAM
    messages = (need(case) for need in needs)
    return next((message for message in messages if message is not None), None)
