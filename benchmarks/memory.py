"""Memory of an exact count of millions of transitions: figure 2 of Raghu et al., largest network.

One hard-tanh network of width 1,000, sigma_w^2 = 16 and no biases, in float64, on a quarter of a
great circle with |x|^2 = n_in. Its transitions grow with every layer, nearly twofold; the curve is
gone through in parts, as long as the memory allows, so the peak stays where it is at any depth.
Depths 6 and 8 take minutes, depth 14 (``--depth 14``) about half an hour of one core.

Counts stand beside Kac-Rice in wide layers: ``2 k e^(-1/2q) / pi`` for each unit of angle that the
normalised pre-activations turn by, with q and the angle from mean field.
"""

from __future__ import annotations

import math
import time
from typing import Any

import _common
import numpy as np
from _common import number

WIDTH, SIGMA = 1000, 4.0
MOST_BYTES = 4 * 2.0**30


def counted(width: int, depth: int, memory: float | None) -> dict[str, Any]:
    """Transitions of every layer of one network, the seconds, the peak memory, how it was done."""
    import jax

    from jaxexpr import MLP, curves, estimate, laws, theory

    net = MLP(
        (width,) * (depth + 1), laws.Gaussian(SIGMA), laws.Zero(), "hard_tanh", dtype="float64"
    )
    ends = math.sqrt(width) * np.eye(2, width)
    began = time.perf_counter()
    options: dict[str, Any] = {"key": jax.random.key(0), "draws": 1, "memory": memory}
    options["probes"] = ("transitions", "network_transitions")
    found = estimate(net, curves.arc(*ends), **options)
    return {
        "depth": depth,
        "counts": found["transitions"].mean.tolist(),
        "all": float(found["network_transitions"].mean[-1]),
        "method": found["transitions"].method,
        "seconds": time.perf_counter() - began,
        "peak_bytes": _common.peak_memory(),
        "expected": expected(width, theory.mean_field_growth(net, 1.0)).tolist(),
    }


def expected(width: int, growth: np.ndarray) -> np.ndarray:
    """Transitions of every layer, if all of them were wide; from the growth of each."""
    from jaxexpr import theory

    q, speed = SIGMA**2, SIGMA * math.pi / 2  # pre-activations of one unit, in the mean square
    counts = []
    for factor in growth:
        counts.append(2 * width * speed / (math.pi * math.sqrt(q)) * math.exp(-1 / (2 * q)))
        q, speed = float(theory.length_map(q, SIGMA, 0.0, "hard_tanh")), speed * float(factor)
    return np.array(counts)


def main() -> None:
    parser = _common.parser(__doc__)
    parser.add_argument("--depth", type=int, nargs="+", default=[6, 8], help="default 6 8")
    options = parser.parse_args()
    width, memory = (32, 1e5) if options.smoke else (WIDTH, None)
    depths = [2] if options.smoke else [6] if options.quick else options.depth
    facts = _common.machine(False)
    print(_common.describe(facts))
    rows = [_common.apart(counted, width, depth, memory) for depth in depths]
    cells, judged = [], []
    for row in rows:
        off = float(np.max(np.abs(np.array(row["counts"]) / np.array(row["expected"]) - 1)))
        peak = row["peak_bytes"] / 2**30
        small = {"name": "less than 4 GiB", "holds": row["peak_bytes"] < MOST_BYTES, "value": peak}
        near = {"name": "within 10 % of Kac-Rice", "holds": off < 0.1, "value": 100 * off}
        for one in (small, near):
            judged.append(one | {"name": f"depth {row['depth']}: {one['name']}"})
        seconds = number(row.pop("seconds"))  # a note: this is about memory
        shown = [f"{row['all']:.0f}", seconds, number(peak), f"{100 * off:.1f} %"]
        cells.append([f"depth {row['depth']}", *shown, row["method"]])
    print()
    header = ["network", "transitions", "s", "peak GiB", "off Kac-Rice", "how"]
    print(_common.table(header, cells))
    for one in judged:
        print(f"[{'yes' if one['holds'] else 'NO'}] {one['name']}: {one['value']:.3g}")
    _common.write(options.json, {"machine": facts, "rows": rows, "checks": judged})


if __name__ == "__main__":
    main()
