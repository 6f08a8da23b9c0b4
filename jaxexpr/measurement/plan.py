"""Which probes are measured how: passes of a curve through a network.

``plan`` turns probes, a method and a number of points into passes: trips of the curve through the
network, each of one kind, that measure the probes between them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxexpr import activations
from jaxexpr._core import checks
from jaxexpr.curves import Curve, as_curve
from jaxexpr.exact.along_curves.capacity import Capacity
from jaxexpr.exact.along_curves.supported import has_pieces
from jaxexpr.measurement.capacity_guess import initial_capacity
from jaxexpr.measurement.needs import COUNTS, Case, refusal
from jaxexpr.measurement.nodes import Nodes
from jaxexpr.networks import MLP, Network, validate_for
from jaxexpr.params import Params, fitting, validate
from jaxexpr.probes.base import Probe
from jaxexpr.probes.named import NAMES

Probes = str | Probe | Sequence[str | Probe]

METHODS = ("auto", "exact", "tangent", "grid", "gram")
LENGTHS = ("length", "length_ratio", "log_length")  # of the whole curve


@dataclasses.dataclass(frozen=True)
class Pass:
    """One trip of the curve through the network: its nodes, and what is measured.

    capacity : of an exact pass, the sizes of its arrays.
    """

    nodes: Nodes
    gram: bool
    probes: tuple[Probe, ...]
    capacity: Capacity | None = None

    @property
    def method(self) -> str:
        """Name of the method."""
        return "gram" if self.gram else self.nodes.kind

    @property
    def counted(self) -> bool:
        """Whether nothing but crossings is asked for."""
        return all(probe.name in COUNTS or probe.levels for probe in self.probes)

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels, other than the activation's breakpoints, whose crossings are counted."""
        return tuple(sorted({level for probe in self.probes for level in probe.levels}))

    def finer(self) -> Pass:
        """The pass at nodes twice as close."""
        grid = 1 if self.nodes.kind == "grid" else 0
        count = 2 * (self.nodes.count - grid) + grid
        return dataclasses.replace(self, nodes=Nodes(self.nodes.kind, count))


def as_probes(value: object) -> tuple[Probe, ...]:
    """Return the probes of these names (or probes themselves).

    Raises
    ------
    ValueError
        for an unknown name, a repeated one, or none at all.
    """
    items = (value,) if isinstance(value, str | Probe) else value
    unnamed = [x for x in (items if isinstance(items, tuple | list) else [items]) if callable(x)]
    plain = [x for x in unnamed if not isinstance(x, Probe)]
    if plain:
        raise ValueError(
            f"probes={checks.shown(plain[0])} is a plain function: decorate it with "
            "@probe(degree=0) if scaling the image leaves its number alone, degree=1 for a length"
        )
    if not isinstance(items, tuple | list):
        raise ValueError(
            f"probes={checks.shown(value)}: name one of {', '.join(NAMES)}, or several"
        )
    found = tuple(
        item if isinstance(item, Probe) else NAMES[checks.one_of("probes", item, NAMES)]
        for item in items
    )
    names = [item.name for item in found]
    if not found:
        raise ValueError(f"probes={value!r} is empty: name at least one of {', '.join(NAMES)}")
    if len(set(names)) < len(names):
        raise ValueError(f"probes={checks.shown(names)} names one twice: give each once")
    return found


def plan(
    probes: object,
    method: str,
    points: int | None,
    activation: activations.Activation,
    curve: Curve,
    *,
    exact_lengths: bool = False,
    connected: bool = True,
    drawn: Network | None = None,
    traced: bool = False,
) -> tuple[Pass, ...]:
    """Choose the passes that measure `probes`.

    ``"auto"`` takes for each probe the first kind of nodes of its own list: tangents for growth and
    norms (30 midpoints), exact pieces for transitions and pieces (a grid of 1001 points for the
    transitions of a curve that has no exact pieces), a grid for angles. Lengths, their ratios and
    their logarithms are taken from exact pieces too where the network and the curve have them and
    `exact_lengths` allows it, else from tangents (30; 300 for ratios and logarithms). Probes of one
    kind share a pass, at the largest number of points that one of them takes.

    Parameters
    ----------
    connected : whether all layers are fully connected: only such networks have exact passes.
    drawn : the random network; ``None`` of parameters that are given.
    traced : whether parameters are traced, which exact passes cannot take.

    Raises
    ------
    ValueError
        for an unknown method or probe, a probe that the method cannot measure, too few points,
        transitions of a smooth activation, and a curve that the method cannot measure.
    """
    chosen = as_probes(probes)
    checks.one_of("method", method, METHODS)
    if method == "exact" and points is not None:
        raise ValueError(f"points={checks.shown(points)} with method='exact': leave points out")
    if points is not None:
        checks.integer("points", points, minimum=2 if method == "grid" else 1)
    has_exact = connected and activation.piecewise_linear and has_pieces(curve)
    groups: dict[str, list[Case]] = {}
    for probe in chosen:
        free = has_exact and (method, points) == ("auto", None)
        kind = _kind_of(probe, method, curve, exact=free, lengths=exact_lengths)
        count = 0
        if kind != "exact" and kind in probe.nodes:
            count = probe.points[probe.nodes.index(kind)] if points is None else points
        case = Case(probe, method, kind, count, points, activation, curve, connected, drawn, traced)
        why = refusal(case)
        if why is not None:
            raise ValueError(why)
        groups.setdefault(kind, []).append(case)
    return tuple(
        Pass(
            Nodes(kind, max(case.count for case in cases)),
            method == "gram",
            tuple(case.probe for case in cases),
        )
        for kind, cases in groups.items()
    )


def _kind_of(probe: Probe, method: str, curve: Curve, *, exact: bool, lengths: bool) -> str:
    """The kind of nodes, or ``"exact"``, at which a probe is measured.

    exact : whether exact pieces may be taken unasked; lengths : those of lengths too.
    """
    if method in ("exact", "tangent", "grid"):
        return method
    if exact and probe.nodes[0] == "exact" and (probe.name != "patterns" or curve.kind == "line"):
        return "exact"
    if exact and lengths and probe.name in LENGTHS and not curve.whole:
        return "exact"
    if probe.nodes == ("exact",):
        return "exact" if method == "auto" else method
    return next(kind for kind in probe.nodes if kind != "exact")


def validate_network(
    params: Params,
    curve: Curve,
    activation: str | activations.Activation | None,
    net: Network | None,
    *,
    networks: bool = False,
) -> tuple[Params, Curve, activations.Activation, str]:
    """Check networks that are given, and a curve through them, as ``params.validate`` does."""
    if net is None:
        phi = "relu" if activation is None else activation
        return validate(params, curve, phi, networks=networks)
    if not isinstance(net, Network):
        raise ValueError(
            f"net={checks.shown(net)} is not a network: give the ConvNet or MLP whose parameters "
            "these are"
        )
    if activation is not None:
        raise ValueError(
            f"activation={checks.shown(activation)} beside net, which has an activation, "
            f"{net.activation.name!r}: leave one of them out"
        )
    return validate_for(net, params, curve, networks=networks)


def checked(
    net: object,
    curve: object,
    probes: object,
    method: str,
    points: int | None,
    *,
    grows: bool = False,
) -> tuple[Curve, tuple[Pass, ...]]:
    """Check what a measurement is made of, and plan its passes.

    grows : whether somebody enlarges the capacity for a network of more pieces than were expected.
    """
    if not isinstance(net, Network):
        raise ValueError(
            f"net={checks.shown(net)} is not a random network: give jaxexpr.MLP(...); a trained "
            "network goes to measure or exact.pieces_of"
        )
    connected = isinstance(net, MLP)
    if connected:
        curve = fitting("net.widths[0]", net.widths[0], as_curve("curve", curve))
    else:
        curve = fitting("net.input_shape", net.input_shape, as_curve("curve", curve))
    _distinct_in(net.dtype, curve)
    passes = plan(
        probes,
        method,
        points,
        net.activation,
        curve,
        exact_lengths=grows and not net.sweep_shape,
        connected=connected,
        drawn=net,
    )
    return curve, tuple(
        dataclasses.replace(item, capacity=initial_capacity(net, curve, counted=item.counted))
        if item.method == "exact"
        else item
        for item in passes
    )


def _distinct_in(dtype: str, curve: Curve) -> None:
    """Refuse a curve that the precision cannot hold, or whose ends it cannot tell apart."""
    for array in curve.arrays:
        checks.held("curve", array, dtype)
    if curve.kind == "line" and not any(checks.is_traced(a) for a in curve.arrays):
        ends = [np.asarray(array, dtype) for array in curve.arrays]
        if np.array_equal(ends[0], ends[1]):
            raise ValueError(
                f"curve has equal end points in {dtype}: give points farther apart, or a network "
                "with dtype='float64'"
            )
