"""Exact regions: jaxexpr beside a plain NumPy version of the interval algorithm, in one run.

Networks: ``r = default_rng(seed)``; for consecutive sizes (i, o) ``W = r.normal(0, sqrt(2 / i),
(o, i))``, then ``b = r.normal(0, 0.3, o)``; the last size, an output, does not count. Line s goes
from one standard normal point to another, both of ``default_rng(10000 + s)``; squares are
[-1, 1]^2. All in float64. The NumPy side holds breakpoints and values in arrays, has one product a
layer, finds the sign changes, interpolates and sorts: one network and one line at a time, as well
as it can be done so. Counts are held against what they must be; times are those of warm calls.

The last line sets the exact length of a line in networks 784-784x12, drawn anew, against that of a
grid of 10,000 points. The line joins two points with entries uniform in [0, 1], grey images 41
degrees apart, and has some 2,050 pieces; their number is proportional to the angle, and so is the
time of the exact side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import _common
import numpy as np
from _common import Job, Worker, number

Params = tuple[tuple[np.ndarray, np.ndarray], ...]


def network(sizes: tuple[int, ...], seed: int) -> Params:
    """Weights and biases of the hidden layers."""
    r = np.random.default_rng(seed)
    params = []
    for i, o in zip(sizes, sizes[1:], strict=False):
        weights = r.normal(0, np.sqrt(2 / i), (o, i))
        params.append((np.ascontiguousarray(weights.T), r.normal(0, 0.3, o)))
    return tuple(params[:-1])


def ends(number_: int, dim: int) -> np.ndarray:
    """End points of a line."""
    r = np.random.default_rng(10_000 + number_)
    return np.stack([r.normal(size=dim), r.normal(size=dim)])


def intervals(params: Params, z: np.ndarray) -> int:
    """Pieces of a ReLU network on the segment between the rows of z."""
    t = np.array([0.0, 1.0])
    for weights, biases in params:
        h = z @ weights + biases
        above = h > 0
        piece, unit = np.nonzero(above[1:] != above[:-1])
        left, right = h[piece, unit], h[piece + 1, unit]
        part = left / (left - right)
        new = h[piece] + part[:, None] * (h[piece + 1] - h[piece])
        new[np.arange(len(unit)), unit] = 0.0
        t = np.concatenate([t, t[piece] + part * (t[piece + 1] - t[piece])])
        order = np.argsort(t, kind="stable")
        t, z = t[order], np.maximum(np.concatenate([h, new])[order], 0)
    return len(t) - 1


# ---- jobs -------------------------------------------------------------------------------------


def job(once: Callable[[], float]) -> Job:
    """A job that repeats one measurement and returns its last count."""

    def run(count: int) -> dict[str, float]:
        return {"count": [once() for _ in range(count)][-1]}

    return run


def plain_lines(sizes: tuple[int, ...], nets: range, lines: range) -> Job:
    """NumPy: one network for all lines, or one for each."""
    params = [network(sizes, seed) for seed in nets]
    rows = [ends(s, sizes[0]) for s in lines]
    each = params * len(rows) if len(params) == 1 else params
    return job(lambda: float(sum(map(intervals, each, rows))))


def our_lines(sizes: tuple[int, ...], nets: range, lines: range) -> Job:
    """The same by ``exact.pieces_batch``."""
    import jax

    from jaxexpr import curves, exact

    several = [network(sizes, seed) for seed in nets]
    params = several[0]
    if len(several) > 1:
        params = jax.tree.map(lambda *x: np.stack(x), *several)
    rows = [curves.line(*ends(s, sizes[0])) for s in lines]
    return job(lambda: float(sum(one.count for one in exact.pieces_batch(params, rows))))


def our_squares(sizes: tuple[int, ...], nets: range) -> Job:
    """Activation regions of squares by ``exact.plane``."""
    from jaxexpr import exact

    several = [network(sizes, seed) for seed in nets]
    axes = np.zeros(2), np.eye(2)[0], np.eye(2)[1]
    return job(lambda: float(sum(exact.plane(p, *axes).counts[-1] for p in several)))


def our_box(sizes: tuple[int, ...], whole: bool) -> Job:
    """Activation regions of [-1, 1]^n, or of all of R^n, by ``exact.cells``."""
    from jaxexpr import exact

    params, n = network(sizes, 0), sizes[0]
    box = {} if whole else {"low": -np.ones(n), "high": np.ones(n)}
    return job(lambda: float(exact.cells(params, **box).count))


def length_of_a_line(method: str, width: int, depth: int, points: int | None) -> Job:
    """Mean length in the last layer of networks drawn anew, by the runner."""
    import jax

    from jaxexpr import MLP, curves, estimate, laws

    net = MLP((width,) * (depth + 1), laws.Gaussian(2.0), laws.Gaussian(0.01))
    line = curves.line(*np.random.default_rng(2019).uniform(size=(2, width)))
    options: dict[str, Any] = {"key": jax.random.key(0), "probes": "length", "method": method}
    options |= {"points": points, "progress": False}

    def run(count: int) -> dict[str, float]:
        return {"count": float(estimate(net, line, draws=count, **options)["length"].mean[-1])}

    return run


# ---- the run ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Workload:
    """One line of the table: who does it, what must come out, in how many seconds."""

    name: str
    expected: float
    target: float
    ours: tuple[Any, ...]
    plain: tuple[Any, ...] | None = None


def workloads(smoke: bool) -> list[Workload]:
    """All workloads; the smoke run has those that compile and count in no time."""
    one, many = range(1), range(200)

    def lines(name: str, expected: float, target: float, *arguments: Any) -> Workload:
        return Workload(name, expected, target, (our_lines, *arguments), (plain_lines, *arguments))

    def square(name: str, expected: float, target: float, *arguments: Any) -> Workload:
        return Workload(name, expected, target, (our_squares, *arguments))

    deep, wide = (64, 64, 64, 64, 64, 1), (784, 1024, 1024, 1024, 1024, 1)
    quick = [square("2-16-16-1, square", 333, 0.01, (2, 16, 16, 1), one)]
    if smoke:
        return quick
    return [
        lines("64-64x4-1, lines 0..199", 21_126, 0.05, deep, one, many),
        lines("64-64x4-1, nets and lines 0..199", 24_069, 0.08, deep, many, many),
        lines("784-1024x4-1, line 0", 1_946, 0.3, wide, one, one),
        *quick,
        square("2-32-32-1, square", 1_382, 0.02, (2, 32, 32, 1), one),
        square("2-64-64-1, square", 5_356, 0.06, (2, 64, 64, 1), one),
        square("2-128-128-128-1, square", 43_791, 0.8, (2, 128, 128, 128, 1), one),
        square("2-32-32-1, nets 0..99, square", 143_212, 1.5, (2, 32, 32, 1), range(100)),
        Workload("2-10-5-1, all of R^2", 119, 0.43, (our_box, (2, 10, 5, 1), True)),
        Workload("3-16-16-1, [-1, 1]^3", 2_200, 2.0, (our_box, (3, 16, 16, 1), False)),
    ]


def main() -> None:
    options = _common.parser(__doc__).parse_args()
    seconds = 0.0 if options.smoke else 20.0 if options.quick else 90.0
    seconds = seconds if options.seconds is None else options.seconds
    facts = _common.machine(False)
    print(_common.describe(facts))
    rows = [
        (w, Worker(*w.ours), Worker(*w.plain) if w.plain else None)
        for w in workloads(options.smoke)
    ]
    size = (16, 2, 101) if options.smoke else (784, 12, 10_000)
    exact = Worker(length_of_a_line, "exact", *size[:2], None)
    grid = Worker(length_of_a_line, "grid", *size)
    workers = [w for _, *pair in rows for w in pair if w is not None] + [exact, grid]
    rounds = _common.take_turns(workers, seconds, 0.01 if options.smoke else 0.5)

    lines, judged = [], []
    for workload, ours, plain in rows:
        count = ours.mean("count")
        ratio = plain.best.each / ours.best.each if plain else None
        if plain is not None and plain.mean("count") != count:
            judged.append({"name": f"{workload.name}: NumPy counts the same", "holds": False})
        lines.append(
            {
                "workload": workload.name,
                "count": count,
                "expected": workload.expected,
                "seconds": ours.best.each,
                "median": ours.median,
                "numpy_seconds": plain.best.each if plain else None,
                "times_faster": ratio,
                "target_seconds": workload.target,
            }
        )
        judged.append({"name": f"{workload.name}: count", "holds": count == workload.expected})
        fast = ours.best.each <= workload.target
        judged.append({"name": f"{workload.name}: seconds", "holds": fast})
    factor = grid.best.each / exact.best.each
    judged.append({"name": "exact length 4 times faster than its grid", "holds": factor >= 4})

    print(f"{rounds} rounds; {_common.disturbed(workers)}\n")
    header = ["workload", "regions", "must be", "seconds", "target", "NumPy", "ratio"]
    cells = [
        [
            line["workload"],
            f"{line['count']:.0f}",
            f"{line['expected']:.0f}",
            number(line["seconds"]),
            number(line["target_seconds"]),
            number(line["numpy_seconds"]),
            number(line["times_faster"]),
        ]
        for line in lines
    ]
    print(_common.table(header, cells))
    print(
        f"\nlength of a line, {size[0]}-{size[0]}x{size[1]}: exact {number(exact.best.each)} s a "
        f"network, grid of {size[2]} points {number(grid.best.each)} s: {number(factor)} times"
    )
    for one in judged:
        print(f"[{'yes' if one['holds'] else 'NO'}] {one['name']}")
    length = {"exact": exact.best.each, "grid": grid.best.each, "ratio": factor, "size": size}
    report = {"machine": facts, "rounds": rounds, "rows": lines, "length": length, "checks": judged}
    _common.write(options.json, report)


if __name__ == "__main__":
    main()
