"""Transitions and labellings: exact counts beside grids of the same error, in one run.

Hard-tanh networks of width 64, sigma_w^2 = 64 and no biases, in float64, on a quarter of a great
circle with |x|^2 = n_in. A grid is doubled from 1,025 points on until the mean count of every layer
over 32 networks is within 0.1 % of the exact one (a grid misses pairs of crossings between its
points). Times are those of one network drawn anew: of the exact count, of the last grid, and of all
the grids up to it, which is what doubling costs those who don't know the exact count.

Labellings: 15 points, sigma_w^2 = 8, width 32, the first layer's weights on a great circle, five
layers read out; exact, on a grid of 1,025 points, and on one doubled until counts are within 1 %.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import _common
import numpy as np
from _common import Job, Worker, number

NETWORKS = 32
GRID, MOST = 1025, 2**20 + 1
WITHIN, LABELS_WITHIN = 1e-3, 1e-2


def crossing(method: str, width: int, depth: int, points: int | None) -> Job:
    """Mean transitions of every layer of networks drawn anew, by the runner."""
    import jax

    from jaxexpr import MLP, curves, estimate, laws

    net = MLP((width,) * (depth + 1), laws.Gaussian(8.0), laws.Zero(), "hard_tanh", dtype="float64")
    ends = np.zeros((2, width))
    ends[0, 0] = ends[1, 1] = width**0.5
    options: dict[str, Any] = {"key": jax.random.key(0), "probes": "transitions", "progress": False}
    options |= {"method": method, "points": points}

    def run(count: int) -> dict[str, float]:
        made = estimate(net, curves.arc(*ends), draws=max(count, NETWORKS), **options)
        return {f"layer {i}": float(x) for i, x in enumerate(made["transitions"].mean)}

    return _together(run)


def labelling(method: str, width: int, depth: int, points: int | None) -> Job:
    """Mean labellings read out from every layer of networks drawn anew, by the runner."""
    import jax

    from jaxexpr import MLP, dichotomies, laws

    net = MLP((width,) * (depth + 1), laws.Gaussian(8**0.5), laws.Zero(), "hard_tanh")
    inputs = np.random.default_rng(0).normal(size=(15, width))
    options: dict[str, Any] = {"key": jax.random.key(0), "method": method, "points": points}

    def run(count: int) -> dict[str, float]:
        made = dichotomies(net, inputs, draws=max(count, NETWORKS), progress=False, **options)
        return {f"layer {i}": float(x) for i, x in enumerate(made["dichotomies"].mean)}

    return _together(run)


def _together(run: Callable[[int], dict[str, float]]) -> Job:
    """A job whose unit is `NETWORKS` networks, the same ones every time."""

    def job(count: int) -> dict[str, float]:
        return [run(NETWORKS) for _ in range(count)][-1]

    return job


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    make: Callable[..., Job]
    width: int
    depth: int
    within: float
    target: float | None


ROWS = (
    Row("transitions, depth 3", crossing, 64, 3, WITHIN, None),
    Row("transitions, depth 5", crossing, 64, 5, WITHIN, 20.0),
    Row("transitions, depth 6", crossing, 64, 6, WITHIN, None),
    Row("labellings, depth 5", labelling, 32, 5, LABELS_WITHIN, None),
)
SMOKE = (
    Row("transitions, depth 2", crossing, 8, 2, WITHIN, None),
    Row("labellings, depth 2", labelling, 8, 2, LABELS_WITHIN, None),
)


def settled(row: Row, exact: np.ndarray, most: int) -> tuple[list[int], float]:
    """Grids up to the first that is within the row's error, and the error of the last."""
    points, grids = GRID, []
    while True:
        grids.append(points)
        found = _common.apart(_once, row.make, row.width, row.depth, points)
        error = float(np.max(np.abs(found - exact) / exact))
        if error <= row.within or 2 * points - 1 > most:
            return grids, error
        points = 2 * points - 1


def _once(make: Callable[..., Job], width: int, depth: int, points: int | None) -> np.ndarray:
    found = make("exact" if points is None else "grid", width, depth, points)(1)
    return np.array([found[f"layer {i}"] for i in range(len(found))])


def main() -> None:
    options = _common.parser(__doc__).parse_args()
    seconds = 0.0 if options.smoke else 20.0 if options.quick else 90.0
    seconds = seconds if options.seconds is None else options.seconds
    facts = _common.machine(False)
    print(_common.describe(facts))
    found = []
    for row in SMOKE if options.smoke else ROWS:
        exact = _common.apart(_once, row.make, row.width, row.depth, None)
        grids, error = settled(row, exact, GRID if options.smoke else MOST)
        print(f"{row.name}: grids {grids}, the last off by {100 * error:.3f} %", flush=True)
        workers = [Worker(row.make, "exact", row.width, row.depth, None)]
        workers += [Worker(row.make, "grid", row.width, row.depth, points) for points in grids]
        found.append((row, exact, grids, error, workers))
    every = [worker for *_, workers in found for worker in workers]
    rounds = _common.take_turns(every, seconds, 0.01 if options.smoke else 0.5)

    lines, judged, cells = [], [], []
    for row, exact, grids, error, (first, *others) in found:
        each = [worker.best.each / NETWORKS for worker in (first, *others)]
        times = {
            "exact_seconds": each[0],
            "last_grid_seconds": each[-1],
            "all_grids_seconds": sum(each[1:]),
        }
        ratio = times["all_grids_seconds"] / each[0]
        last = times["last_grid_seconds"] / each[0]
        lines.append(
            {
                "name": row.name,
                "counts": exact.tolist(),
                "grid": grids[-1],
                "error": error,
                "within": row.within,
                **times,
                "times_faster": ratio,
                "times_faster_than_last": last,
                "labellings_a_second": float(exact.sum() / each[0]),
            }
        )
        if row.target is not None:
            name = f"{row.name}: exact {row.target:g} times faster than doubled grids"
            judged.append({"name": name, "holds": ratio >= row.target, "value": ratio})
        shown = [each[0], each[-1], times["all_grids_seconds"], last, ratio]
        cells.append([row.name, f"{exact[-1]:.0f}", str(grids[-1]), *map(number, shown)])
    print(f"{rounds} rounds; {_common.disturbed(every)}\n")
    header = ["what", "count", "grid", "exact s", "last grid s", "all grids s", "ratio", "to all"]
    print(_common.table(header, cells))
    for one in judged:
        print(f"[{'yes' if one['holds'] else 'NO'}] {one['name']}: {one['value']:.3g}")
    _common.write(
        options.json, {"machine": facts, "rounds": rounds, "rows": lines, "checks": judged}
    )


if __name__ == "__main__":
    main()
