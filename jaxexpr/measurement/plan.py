"""Which probes are measured how: passes of a curve through a network.

``plan`` turns probes, a method and a number of points into passes: trips of the curve through the
network, each of one kind, that measure the probes between them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxexpr import activations, laws
from jaxexpr._core import checks
from jaxexpr.curves import Curve, as_curve
from jaxexpr.exact.along_curves.solve import exact_curve, has_pieces
from jaxexpr.measurement.capacity_guess import first_room
from jaxexpr.measurement.nodes import Nodes
from jaxexpr.networks import MLP, Network, given_for
from jaxexpr.params import Params, fitting, given
from jaxexpr.probes.base import NAMES, Probe

METHODS = ("auto", "exact", "tangent", "grid", "gram")
LENGTHS = ("length", "length_ratio", "log_length")  # of the whole curve
BREAKS = (  # of piecewise linear networks alone
    "transitions", "network_transitions", "pieces", "patterns", "layer_patterns",
    "expected_transitions",
)  # fmt: skip
# For these an exact pass need not know the last layer's image.
COUNTS = ("transitions", "network_transitions")


@dataclasses.dataclass(frozen=True)
class Pass:
    """One trip of the curve through the network: nodes, how products are had, what is measured.

    room : of an exact pass, the sizes of its arrays (``capacity_guess.Room``).
    """

    nodes: Nodes
    gram: bool
    probes: tuple[Probe, ...]
    room: Any = None

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


def as_probes(value: Any) -> tuple[Probe, ...]:
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
    probes: Any,
    method: str,
    points: int | None,
    activation: Any,
    curve: Any,
    *,
    exact_lengths: bool = False,
    connected: bool = True,
) -> tuple[Pass, ...]:
    """Choose the passes that measure `probes`.

    ``"auto"`` takes for each probe the first kind of nodes of its own list: tangents for growth and
    norms (30 midpoints), exact pieces for transitions and pieces (a grid of 1001 points for the
    transitions of a curve that has no exact pieces), a grid for angles. Lengths, their ratios and
    their logarithms are taken from exact pieces too where the network and the curve have them and
    `exact_lengths` allows it, else from tangents (30; 300 for ratios and logarithms). Probes of one
    kind share a pass, at the largest number of points that one of them takes. Only fully
    `connected` networks have exact passes.

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
    groups: dict[str, list[tuple[Probe, int]]] = {}
    for item in chosen:
        if item.name in BREAKS and activation.breakpoints is None:
            raise ValueError(
                f"probes names {item.name!r}, which activation={activation.name!r} does not have "
                "(it is smooth): give thresholds, probes=jaxexpr.crossings(-1, 1) for instance, or "
                "use relu, leaky_relu, abs or hard_tanh"
            )
        exact = connected and activation.piecewise_linear
        kind = _kind_of(item, method, points, curve, exact=exact)
        whole = exact_lengths and item.name in LENGTHS and not curve.whole
        if whole and (method, points) == ("auto", None) and exact:
            kind = "exact" if has_pieces(curve) else kind
        counted = item.nodes == ("exact",) or (curve.whole and _counts(item))
        if counted and method == "auto" and points is not None:
            where = " on an infinite line" if curve.whole else ""
            raise ValueError(
                f"points={points} and probe {item.name!r}, which is counted exactly{where}: "
                "leave points out"
            )
        kind = "exact" if item.nodes == ("exact",) and kind == "auto" else kind
        if kind not in item.nodes:
            raise ValueError(
                f"method={method!r} cannot measure probe {item.name!r}: use method="
                f"{' or '.join(map(repr, item.nodes))}, or 'auto'"
            )
        if kind == "exact":
            if activation.breakpoints is None:
                others = " or ".join(f"method={kind!r}" for kind in item.nodes if kind != "exact")
                raise ValueError(
                    f"method='exact' needs pieces, and a network with activation="
                    f"{activation.name!r}, which is smooth, has none: use {others} for probe "
                    f"{item.name!r}"
                )
            if not connected:
                raise ValueError(
                    "method='exact' measures fully connected networks: of a ConvNet take "
                    "exact.pieces_of(lambda x: net.apply(params, x), x0, x1), or another method"
                )
            exact_curve("curve", curve)
            if item.name == "patterns" and curve.kind != "line":
                raise ValueError(
                    f"curve is a {curve.kind}, which may meet a region twice, and method='exact' "
                    "counts 'patterns' on straight lines: ask for 'pieces', or use method='grid'"
                )
            if curve.whole and not _counts(item):
                raise ValueError(
                    f"curve is an infinite line, which has no {item.name!r}: ask for transitions "
                    "or pieces, or give a segment"
                )
        elif curve.whole:
            raise ValueError(
                f"curve is an infinite line, which method={method!r} cannot measure for probe "
                f"{item.name!r}: give a segment, line(x0, x1) without whole=True"
            )
        count = item.points[item.nodes.index(kind)] if points is None else points
        count = 0 if kind == "exact" else count
        if kind == "grid" and count < 2:
            raise ValueError(
                f"points={count} is too few for probe {item.name!r} on a grid: give at least 2"
            )
        groups.setdefault(kind, []).append((item, count))
    return tuple(
        Pass(Nodes(kind, max(c for _, c in items)), method == "gram", tuple(p for p, _ in items))
        for kind, items in groups.items()
    )


def _counts(item: Probe) -> bool:
    """Whether the probe counts what an infinite line has too."""
    return item.name in (*COUNTS, "pieces", "patterns") or bool(item.levels)


def _kind_of(item: Probe, method: str, points: int | None, curve: Any, *, exact: bool) -> str:
    """The kind of nodes, or ``"exact"``, at which a probe is measured."""
    if method in ("exact", "tangent", "grid"):
        return method
    if item.nodes[0] != "exact":
        return item.nodes[0]
    exact = exact and has_pieces(curve)
    exact = exact and (item.name != "patterns" or curve.kind == "line")
    if method == "auto" and points is None and exact:
        return "exact"
    return item.nodes[1] if len(item.nodes) > 1 else method


def checked_given(
    params: Params,
    curve: Curve,
    activation: str | activations.Activation | None,
    net: Network | None,
) -> tuple[Params, Curve, activations.Activation, str]:
    """Check a network that is given, and a curve through it; returns as ``given``."""
    if net is None:
        return given(params, curve, "relu" if activation is None else activation)
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
    return given_for(net, params, curve)


def checked(
    net: Any, curve: Any, probes: Any, method: str, points: int | None, *, grows: bool = False
) -> tuple[Curve, tuple[Pass, ...]]:
    """Check what a measurement is made of, and plan its passes.

    grows : whether somebody gives more room to a network that has more pieces than were expected.
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
    lengths = grows and not net.sweep_shape
    options = {"exact_lengths": lengths, "connected": connected}
    passes = plan(probes, method, points, net.activation, curve, **options)
    passes = tuple(
        dataclasses.replace(item, room=first_room(net, curve, counted=item.counted))
        if item.method == "exact"
        else item
        for item in passes
    )
    if method == "gram" and not connected:
        raise ValueError(
            "method='gram' draws independent units, which the places of a convolution are not: use "
            "method='tangent' or 'grid'"
        )
    if method == "gram":
        _all_gaussian("method='gram'", "weights", net, "use method='tangent' or 'grid'")
    for probe in (p for item in passes for p in item.probes if p.gaussian):
        _all_gaussian(f"probe {probe.name!r}", "weights", net, "ask for 'transitions'")
        _all_gaussian(f"probe {probe.name!r}", "biases", net, "ask for 'transitions'")
    return curve, passes


def _all_gaussian(what: str, side: str, net: Network, mend: str) -> None:
    """Refuse laws that are not dense Gaussian; biases may be zero."""
    kinds = (laws.Gaussian,) if side == "weights" else (laws.Gaussian, laws.Zero)
    for index, law in enumerate(getattr(net, side)):
        if not isinstance(law, kinds):
            raise ValueError(
                f"{what} needs dense Gaussian {side} and {side}[{index}] is "
                f"{checks.shown(law)}: {mend}"
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
