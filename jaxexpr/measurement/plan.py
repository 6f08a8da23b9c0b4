"""Plans: which probes are measured by which method, in which passes through a network.

``plan`` turns probes, a method and a number of points into passes. A pass sends the curve through
the network once, at one kind of nodes, and measures some of the probes.
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
    """One pass of the curve through the network: its nodes and its probes.

    Attributes
    ----------
    nodes : where the curve is evaluated.
    gram : whether pre-activations are drawn instead of weights (``method="gram"``).
    probes : the probes that this pass measures.
    capacity : sizes of the arrays of an exact pass; ``None`` for other passes.
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
        """Whether all probes only count crossings."""
        return all(probe.name in COUNTS or probe.levels for probe in self.probes)

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels besides the activation's breakpoints whose crossings are counted."""
        return tuple(sorted({level for probe in self.probes for level in probe.levels}))

    def finer(self) -> Pass:
        """Return the same pass with nodes twice as dense."""
        end_point = 1 if self.nodes.kind == "grid" else 0
        count = 2 * (self.nodes.count - end_point) + end_point
        return dataclasses.replace(self, nodes=Nodes(self.nodes.kind, count))


def as_probes(value: object) -> tuple[Probe, ...]:
    """Return the probes with these names; items that are probes already stay as they are.

    Raises
    ------
    ValueError
        for an unknown name, a repeated one, or none at all.
    """
    items = (value,) if isinstance(value, str | Probe) else value
    listed = items if isinstance(items, tuple | list) else [items]
    functions = [x for x in listed if callable(x) and not isinstance(x, Probe)]
    if functions:
        raise ValueError(
            f"probes={checks.shown(functions[0])} is a plain function: decorate it with "
            "@probe(degree=0) if scaling the image leaves its number alone, degree=1 for a length"
        )
    if not isinstance(items, tuple | list):
        raise ValueError(
            f"probes={checks.shown(value)}: name one of {', '.join(NAMES)}, or several"
        )
    probes = tuple(
        item if isinstance(item, Probe) else NAMES[checks.one_of("probes", item, NAMES)]
        for item in items
    )
    names = [item.name for item in probes]
    if not probes:
        raise ValueError(f"probes={value!r} is empty: name at least one of {', '.join(NAMES)}")
    if len(set(names)) < len(names):
        raise ValueError(f"probes={checks.shown(names)} names one twice: give each once")
    return probes


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

    ``"auto"`` uses the first kind of nodes that each probe lists: tangents for growth and norms (30
    midpoints), exact pieces for transitions and pieces (a grid of 1001 points for the transitions
    of a curve without exact pieces), a grid for angles. Lengths, their ratios and their logarithms
    are measured on exact pieces too if the network and the curve have them and `exact_lengths` is
    True, else at tangents (30; 300 for ratios and logarithms). Probes at the same kind of nodes
    share a pass, with the largest number of points that one of them needs.

    Parameters
    ----------
    exact_lengths : whether ``"auto"`` may measure lengths on exact pieces.
    connected : whether all layers are fully connected; only such networks have exact passes.
    drawn : the random network; ``None`` for given parameters.
    traced : whether the parameters are traced, which exact passes do not support.

    Raises
    ------
    ValueError
        for an unknown method or probe, a probe or a curve that the method cannot measure, too few
        points, and transitions of a smooth activation.
    """
    requested = as_probes(probes)
    checks.one_of("method", method, METHODS)
    if method == "exact" and points is not None:
        raise ValueError(f"points={checks.shown(points)} with method='exact': leave points out")
    if points is not None:
        points = checks.integer("points", points, minimum=2 if method == "grid" else 1)
    has_exact = connected and activation.piecewise_linear and has_pieces(curve)
    groups: dict[str, list[Case]] = {}
    for probe in requested:
        allow_exact = has_exact and (method, points) == ("auto", None)
        kind = _kind_of_nodes(
            probe, method, curve, allow_exact=allow_exact, exact_lengths=exact_lengths
        )
        count = 0
        if kind != "exact" and kind in probe.nodes:
            count = probe.points[probe.nodes.index(kind)] if points is None else points
        case = Case(probe, method, kind, count, points, activation, curve, connected, drawn, traced)
        message = refusal(case)
        if message is not None:
            raise ValueError(message)
        groups.setdefault(kind, []).append(case)
    return tuple(
        Pass(
            Nodes(kind, max(case.count for case in cases)),
            method == "gram",
            tuple(case.probe for case in cases),
        )
        for kind, cases in groups.items()
    )


def _kind_of_nodes(
    probe: Probe, method: str, curve: Curve, *, allow_exact: bool, exact_lengths: bool
) -> str:
    """Return the kind of nodes at which a probe is measured, or ``"exact"``.

    allow_exact : whether an exact pass may be chosen by default.
    exact_lengths : whether that includes lengths.
    """
    if method in ("exact", "tangent", "grid"):
        return method
    if (
        allow_exact
        and probe.nodes[0] == "exact"
        and (probe.name != "patterns" or curve.kind == "line")
    ):
        return "exact"
    if allow_exact and exact_lengths and probe.name in LENGTHS and not curve.whole:
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
    """Check given parameters and a curve as ``params.validate`` does; against `net` if given.

    networks : whether the arrays may have a leading axis, with one entry for each network.

    Returns
    -------
    the parameters, the curve, the activation and the name of the precision.

    Raises
    ------
    ValueError
        as ``params.validate``; if `net` is not a network or has other shapes, and for an
        `activation` beside `net`.
    """
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
    """Check the arguments of a measurement and plan its passes.

    grows : whether the caller enlarges the capacity for networks that overflow it.

    Raises
    ------
    ValueError
        for a `net` that is not a random network, a curve of another space or one that the precision
        of `net` cannot represent, and as ``plan``.
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
    _check_precision(net.dtype, curve)
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


def _check_precision(dtype: str, curve: Curve) -> None:
    """Refuse a curve that overflows in `dtype`, or a line whose end points are equal in it."""
    for array in curve.arrays:
        checks.held("curve", array, dtype)
    if curve.kind == "line" and not any(checks.is_traced(a) for a in curve.arrays):
        ends = [np.asarray(array, dtype) for array in curve.arrays]
        if np.array_equal(ends[0], ends[1]):
            raise ValueError(
                f"curve has equal end points in {dtype}: give points farther apart, or a network "
                "with dtype='float64'"
            )
