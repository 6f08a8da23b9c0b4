"""Growth of length in random networks: the published protocol against jaxexpr, in one run.

The protocol is that of Price & Tanner (2019): ReLU networks of width 784 and depth 12 whose
weights are drawn anew for each network, a straight line cut into 10,000 points, the length of
every segment at every layer; growth is the mean over segments of the ratio of successive
lengths. It is written here in plain NumPy and in plain PyTorch, as fast as these allow (buffers
reused, all threads, one pass in cache after a product), and must reach 70 % of its library's own
matmul peak in its products, or its ratios are void.

jaxexpr does the same on the same grid, then asks for the same number in its own ways: tangents at
a few points, pre-activations drawn in place of dense Gaussian weights, a sweep in one call.
What counts is the time to a 0.1 % standard error of growth averaged over the layers,

    seconds = N * seconds a network,    N = (std(g) / (0.001 mean(g)))^2,

where g is a network's mean growth over its layers. Every row has a process of its own, and the
rows take turns; a row's time is that of its fastest turn, the matmul peak the fastest product
of NumPy, PyTorch and JAX (float32, points x width times width x width).
"""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import _common
import numpy as np
from _common import Job, Worker, number

PRECISION, SIGMA, DENSITY, SIGMA_B = 1e-3, 2.0, 0.5, 0.01
PRODUCTS = 0.7  # share of its library's peak that a baseline must reach in its products
TANGENTS = 30  # as many as jaxexpr takes for growth by default
ROWS_IN_CACHE = 500  # points whose image stays in a core's cache between passes
HALF = {"sparse": DENSITY, "dense": 1.0}


@dataclasses.dataclass(frozen=True)
class Size:
    """Sizes of one run; the smaller runs change repetitions alone, not what is measured."""

    width: int = 784
    depth: int = 12
    points: int = 10_000
    cells: int = 10  # of each axis of the sweep
    seconds: float = 150.0  # of taking turns
    turn: float = 1.0  # of one turn
    spread: float = 15.0  # seconds spent on each std(g)
    paired: int = 8  # networks on which tangents are held against the grid
    gram: tuple[int, ...] = (3, 6, 9, 15, 30)  # numbers of points to choose from
    networks: tuple[int, int] = (100, 10_000)  # between which memory must be flat

    def flops(self, rows: int, inner: int | None = None) -> float:
        """Of the products of one network, `rows` rows in each of its layers."""
        return 2.0 * self.depth * rows * (inner or self.width) * self.width

    def line(self) -> np.ndarray:
        """End points of the line."""
        return np.random.default_rng(2019).standard_normal((2, self.width))

    def grid(self) -> np.ndarray:
        """Points of the line, float32."""
        t = np.linspace(0.0, 1.0, self.points)[:, None]
        low, high = self.line()
        return ((1 - t) * low + t * high).astype(np.float32)


QUICK = Size(seconds=20.0, turn=0.5, spread=1.5, paired=2, gram=(3, 9, 30))
SMOKE = Size(16, 3, 101, 2, 0.0, 0.01, 0.1, 2, (3, 9), (100, 1000))


# ---- the protocol -----------------------------------------------------------------------------


def numpy_protocol(size: Size, density: float) -> Job:
    """The protocol in NumPy; after a product, threads share the passes over chunks of points."""
    rng = np.random.Generator(np.random.SFC64(0))
    points, width = size.points, size.width
    start = size.grid()
    z, h = np.empty_like(start), np.empty_like(start)
    steps = np.empty((points - 1, width), np.float32)
    weights, uniform = np.empty((2, width, width), np.float32)
    mask = np.empty((width, width), bool)
    first = np.linalg.norm(np.diff(start, axis=0), axis=1)
    before, after, ratio = first.copy(), np.empty_like(first), np.empty_like(first)
    scale = np.float32(SIGMA / np.sqrt(width))
    threads = ThreadPoolExecutor()
    cuts = range(0, points, ROWS_IN_CACHE)

    def lengths(image: np.ndarray, low: int, high: int) -> None:
        d = np.subtract(image[low + 1 : high], image[low : high - 1], out=steps[low : high - 1])
        np.vecdot(d, d, out=after[low : high - 1])

    def chunk(image: np.ndarray, biases: np.ndarray, low: int) -> None:
        rows = image[low : low + ROWS_IN_CACHE]
        np.maximum(np.add(rows, biases, out=rows), 0, out=rows)
        lengths(image, low, low + len(rows))

    def network() -> tuple[float, float]:
        inside, growth = 0.0, 0.0
        source, target = start, z
        before[:] = first
        for _ in range(size.depth):
            rng.standard_normal(out=weights, dtype=np.float32)
            np.multiply(weights, scale, out=weights)
            if density < 1:
                rng.random(out=uniform, dtype=np.float32)
                np.multiply(weights, np.less(uniform, density, out=mask), out=weights)
            biases = SIGMA_B * rng.standard_normal(width, dtype=np.float32)
            began = time.perf_counter()
            np.matmul(source, weights, out=target)
            inside += time.perf_counter() - began
            list(threads.map(lambda low: chunk(target, biases, low), cuts))  # noqa: B023
            for low in cuts[1:]:
                lengths(target, low - 1, low + 1)
            np.sqrt(after, out=after)
            alive = before > 0
            np.divide(after, before, out=ratio, where=alive)
            growth += float(ratio.mean(where=alive)) / size.depth
            before[:] = after
            source, target = target, h if target is z else z
        return inside, growth

    return lambda count: _averaged(network() for _ in range(count))


def torch_protocol(size: Size, density: float) -> Job:
    """The protocol in PyTorch, on the kind of device that JAX computes on."""
    import torch

    device = _common.torch_device()
    gpu = device == "cuda"
    wait = torch.cuda.synchronize if gpu else lambda: None
    points, width = size.points, size.width
    start = torch.from_numpy(size.grid()).to(device)
    z, h = torch.empty_like(start), torch.empty_like(start)
    rows = points if gpu else ROWS_IN_CACHE
    steps = torch.empty((rows, width), device=device)
    weights, uniform = torch.empty((2, width, width), device=device)
    mask = torch.empty((width, width), dtype=torch.bool, device=device)
    biases = torch.empty(width, device=device)
    first = torch.linalg.vector_norm(start[1:] - start[:-1], dim=1)
    before, after = first.clone(), torch.empty_like(first)
    total = torch.empty(size.depth, device=device)

    def network() -> tuple[float, float]:
        inside = 0.0
        source, target = start, z
        before.copy_(first)
        for layer in range(size.depth):
            weights.normal_(0.0, SIGMA / width**0.5)
            if density < 1:  # on CPU bernoulli_ takes three times as long
                weights.mul_(torch.lt(uniform.uniform_(), density, out=mask))
            biases.normal_(0.0, SIGMA_B)
            wait()
            began = time.perf_counter()
            torch.mm(source, weights, out=target)
            wait()
            inside += time.perf_counter() - began
            for low in range(0, points, rows):
                target[low : low + rows].add_(biases).relu_()
                low, high = max(low - 1, 0), min(low + rows, points)
                if high - low > 1:
                    d = steps[: high - low - 1]
                    torch.sub(target[low + 1 : high], target[low : high - 1], out=d)
                    torch.linalg.vector_norm(d, dim=1, out=after[low : high - 1])
            total[layer] = (after / before)[before > 0].mean()
            before.copy_(after)
            source, target = target, h if target is z else z
        return inside, float(total.mean())

    @torch.inference_mode()
    def run(count: int) -> dict[str, float]:
        return _averaged(network() for _ in range(count))

    return run


def _averaged(numbers: Any) -> dict[str, float]:
    inside, growth = zip(*numbers, strict=True)
    return {"products": float(np.mean(inside)), "growth": float(np.mean(growth))}


# ---- jaxexpr ----------------------------------------------------------------------------------


def problem(size: Size, kind: str) -> tuple[Any, Any]:
    """Return net and line of a kind of network: sparse, dense or sweep."""
    from jaxexpr import MLP, curves, laws

    sigma: Any = SIGMA
    density: Any = HALF.get(kind, 1.0)
    if kind == "sweep":
        sigma = np.linspace(1.0, 10.0, size.cells)[:, None]
        density = np.linspace(1.0 / size.cells, 1.0, size.cells)[None, :]
    weights: laws.Law = laws.Gaussian(sigma)
    if kind != "dense":
        weights = laws.Sparse(weights, density)
    widths = (size.width,) * (size.depth + 1)
    return MLP(widths, weights, laws.Gaussian(SIGMA_B), "relu"), curves.line(*size.line())


def ours(size: Size, kind: str, method: str, points: int) -> Job:
    """``jaxexpr.estimate``; all cells of a sweep count as one network."""
    import jax

    from jaxexpr import estimate

    net, line = problem(size, kind)
    options: dict[str, Any] = {"method": method, "points": points, "progress": False}
    options["key"] = jax.random.key(0)

    def run(count: int) -> dict[str, float]:
        return {"growth": float(estimate(net, line, draws=count, **options)["growth"].mean.mean())}

    return run


def growths(
    size: Size, kind: str, method: str, points: int, seconds: float, most: int = 10**9
) -> tuple[np.ndarray, float]:
    """Mean growth over the layers of many networks: ``(networks,) + sweep``; seconds for each."""
    import jax

    from jaxexpr import kernel

    net, line = problem(size, kind)
    one = kernel(net, line, probes=("growth",), method=method, points=points)
    block = 4 if kind == "sweep" else 16
    block = min(block, most)

    @jax.jit
    def many(key: Any, first: Any) -> Any:
        return jax.lax.map(
            lambda i: one(jax.random.fold_in(key, first + i))["growth"].mean(-1),
            np.arange(block, dtype=np.uint32),
        )

    compiled = many.lower(jax.random.key(1), np.uint32(0)).compile()
    found: list[np.ndarray] = []
    began = time.perf_counter()
    while not found or (time.perf_counter() - began < seconds and len(found) * block < most):
        block_of = compiled(jax.random.key(1), np.uint32(len(found) * block))
        found.append(np.asarray(block_of, np.float64))
    return np.concatenate(found), (time.perf_counter() - began) / (len(found) * block)


def needed(g: np.ndarray) -> tuple[np.ndarray, float]:
    """Networks to the precision, of each cell, and the relative error of that number."""
    return (g.std(axis=0, ddof=1) / (PRECISION * g.mean(axis=0))) ** 2, (2 / (len(g) - 1)) ** 0.5


def statistics_of(size: Size) -> dict[str, Any]:
    """N of every law and method, and the checks that few tangents see what the grid sees."""
    found: dict[str, Any] = {}
    for kind, method in (("sparse", "tangent"), ("dense", "gram")):
        grid, _ = growths(size, kind, "grid", size.points, np.inf, size.paired)
        few, _ = growths(size, kind, "tangent", TANGENTS, np.inf, size.paired)
        g, _ = growths(size, kind, method, TANGENTS, size.spread)
        n, error = needed(g)
        apart = float(np.sqrt(np.mean((grid - few) ** 2)) / g.std(ddof=1))
        found[kind] = _spread(g, n, error) | {"grid_apart": apart, "paired": len(grid)}
    found["gram"] = {}
    for points in size.gram:
        g, seconds = growths(size, "dense", "gram", points, size.spread)
        n, error = needed(g)
        found["gram"][points] = _spread(g, n, error) | {"seconds": seconds}
    g, _ = growths(size, "sweep", "tangent", TANGENTS, 3 * size.spread)
    n, error = needed(g)
    found["sweep"] = _spread(g, n.mean(), error) | {
        "worst": float(n.max()),
        "total": float(n.sum()),
    }
    return found


def _spread(g: np.ndarray, needed: Any, error: float) -> dict[str, float]:
    mean, sem = float(g.mean()), float(g.mean(axis=tuple(range(1, g.ndim))).std() / len(g) ** 0.5)
    spread = {"needed": float(needed), "error": error, "networks": len(g)}
    return spread | {"growth": mean, "growth_error": sem}


def small_memory(size: Size, networks: int) -> float:
    """Peak memory of a process that measures so many small networks."""
    small = dataclasses.replace(size, width=min(size.width, 32), depth=min(size.depth, 4))
    ours(small, "sparse", "tangent", TANGENTS)(networks)
    return _common.peak_memory()


# ---- the run ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    """A line of the table: what a worker measured, `times` networks of it counted as one."""

    law: str
    name: str
    worker: Worker
    flops: float
    needed: float
    times: int = 1
    library: str = "jax"
    numbers: dict[str, Any] = dataclasses.field(default_factory=dict)

    def read(self, peaks: dict[str, float], memory: float) -> None:
        """Turn the worker's turns into the row's numbers."""
        best, peak, own = self.worker.best, max(peaks.values()), peaks[self.library]
        seconds = best.each * self.times
        inside = best.extra.get("products")
        self.numbers = {
            "law": self.law,
            "row": self.name,
            "seconds_a_network": seconds,
            "seconds_a_network_median": self.worker.median * self.times,
            "networks_a_second": 1 / seconds,
            "share_of_peak": self.flops / seconds / peak,
            "share_of_own_peak_in_products": inside and self.flops / self.times / inside / own,
            "peak_memory_bytes": memory,
            "growth": self.worker.mean("growth") if self.times == 1 else None,
            "networks_needed": self.needed,
            "seconds_to_precision": self.needed * seconds,
            "others": best.others,
            "turns": [turn.each * self.times for turn in self.worker.turns],
        }

    def faster_than(self, base: Row) -> float | None:
        """Ratio of the seconds to the precision; None where the base is too slow in itself."""
        if base.numbers["share_of_own_peak_in_products"] < PRODUCTS:
            return None
        key = "seconds_to_precision"
        return float(base.numbers[key] / self.numbers[key])

    def cells(self, base: Row) -> list[str]:
        """What the table shows."""
        shown = self.numbers
        ratio = self.faster_than(base)
        share, inside = shown["share_of_peak"], shown["share_of_own_peak_in_products"]
        return [
            f"{self.law}: {self.name}",
            number(shown["seconds_a_network"]),
            number(shown["seconds_a_network_median"]),
            number(shown["networks_a_second"]),
            f"{share:.1%}",
            "-" if inside is None else f"{inside:.0%}",
            number(shown["peak_memory_bytes"] / 2**20),
            number(shown["growth"], 5),
            number(shown["networks_needed"]),
            number(shown["seconds_to_precision"]),
            "void" if ratio is None else f"{number(ratio)}x",
        ]


HEADER = [
    *("law: row", "s/network", "median", "networks/s", "of peak", "in products", "MiB"),
    *("growth", "N", "s to 0.1 %", "ratio"),
]


def build(size: Size, torch: bool, found: dict[str, Any], gram: int) -> list[Row]:
    """Start the processes of all rows."""
    rows = []
    protocols = {"NumPy protocol": numpy_protocol}
    if torch:
        protocols["PyTorch protocol"] = torch_protocol
    whole, few = size.flops(size.points), size.flops(2 * TANGENTS)
    for law, density in HALF.items():
        n = found[law]["needed"]
        for name, make in protocols.items():
            library = name.split()[0].lower().removeprefix("py")
            rows.append(Row(law, name, Worker(make, size, density), whole, n, library=library))
        rows.append(Row(law, "same grid", Worker(ours, size, law, "grid", size.points), whole, n))
        if law == "sparse":
            worker = Worker(ours, size, law, "tangent", TANGENTS)
            rows.append(Row(law, f"tangents at {TANGENTS} points", worker, few, n))
    flops = size.flops(2 * gram, min(2 * gram, size.width))
    worker = Worker(ours, size, "dense", "gram", gram)
    n = found["gram"][gram]["needed"]
    rows.append(Row("dense", f"gram at {gram} points", worker, flops, n))
    cells, n = size.cells**2, found["sweep"]["needed"]
    base = rows[len(protocols) - 1]
    name = f"{base.name}, {cells} x one cell"
    rows.append(Row("sweep", name, base.worker, whole * cells, n, cells, base.library))
    worker = Worker(ours, size, "sweep", "tangent", TANGENTS)
    rows.append(Row("sweep", f"{cells} cells in one call", worker, few * cells, n))
    return rows


def checks(rows: list[Row], bases: dict[str, Row], flat: dict[int, float]) -> list[dict[str, Any]]:
    """Judge the run: name, what was measured, what is asked for, whether it holds."""
    by = {(row.law, row.name.split()[0]): row for row in rows}
    found: list[dict[str, Any]] = []

    def judge(name: str, value: float | None, target: float, at_most: bool = False) -> None:
        holds = value is not None and (value <= target if at_most else value >= target)
        sign = "<=" if at_most else ">="
        found.append({"name": name, "value": value, "target": f"{sign} {target:g}", "holds": holds})

    for law in HALF:
        base = bases[law].numbers
        judge(
            f"{law}: share of its library's peak in the products of the {bases[law].name}",
            base["share_of_own_peak_in_products"],
            PRODUCTS,
        )
        same = by[law, "same"]
        judge(f"{law}: same-grid share of the peak", same.numbers["share_of_peak"], 0.6)
        judge(f"{law}: same grid against {bases[law].name}", same.faster_than(bases[law]), 1.0)
    sweep = next(row for row in rows if row.law == "sweep" and row is not bases["sweep"])
    few = (by["sparse", "tangents"], 8.0), (by["dense", "gram"], 50.0), (sweep, 50.0)
    for row, target in few:
        than = bases[row.law]
        judge(f"{row.law}: {row.name} against {than.name}", row.faster_than(than), target)
    (few_n, least), (many_n, most) = sorted(flat.items())
    judge(f"peak memory of {many_n} networks over that of {few_n}", most / least, 1.05, True)
    return found


def notes(found: dict[str, Any], chosen: int, size: Size, peaks: dict[str, float]) -> list[str]:
    """Say where the numbers come from, each with its error."""
    rates = ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in peaks.items())
    lines = [f"matmul, GF/s: {rates}; the peak is the largest"]
    for law, method in (("sparse", "tangents"), ("dense", "gram")):
        one = found[law]
        lines.append(
            f"{law}: N = {number(one['needed'])} +- {one['error']:.0%} ({one['networks']} "
            f"networks, {method} at {TANGENTS} points; g of tangents and of the grid differ by "
            f"{number(one['grid_apart'], 2)} std(g) on {one['paired']} networks)"
        )
    for points, one in found["gram"].items():
        mark = "  <- fastest" if points == chosen else ""
        lines.append(
            f"gram at {points} points: {number(1e3 * one['seconds'])} ms a network, "
            f"N = {number(one['needed'])} +- {one['error']:.0%}, growth {number(one['growth'], 5)} "
            f"+- {number(one['growth_error'], 2)}: {number(one['needed'] * one['seconds'])} s{mark}"
        )
    one = found["sweep"]
    lines.append(
        f"sweep: N = {number(one['needed'])} +- {one['error']:.0%} is that of the average cell, on "
        f"both sides; the worst cell takes {number(one['worst'])}. The protocol's time for the "
        f"sweep is {size.cells**2} x the time measured for one sparse network, not a run."
    )
    return lines


def main() -> None:
    options = _common.parser(__doc__).parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else Size()
    seconds = size.seconds if options.seconds is None else options.seconds
    torch = _common.has_torch() and not options.no_torch
    facts = _common.machine(torch)
    print(_common.describe(facts))
    print(
        f"width {size.width}, depth {size.depth}, {size.points} points, weights sigma {SIGMA:g}, "
        f"density {DENSITY:g} or dense, biases sigma {SIGMA_B:g}"
    )
    if not torch:
        print("PyTorch is missing or left out: its rows are absent, the ratios are to NumPy")

    found = _common.apart(statistics_of, size)
    grams = found["gram"]
    chosen = min(size.gram, key=lambda m: grams[m]["needed"] * grams[m]["seconds"])
    libraries = ["numpy", *(["torch"] if torch else []), "jax"]
    products = {x: Worker(_common.matmul, x, size.points, size.width) for x in libraries}
    rows = build(size, torch, found, chosen)
    workers = list(dict.fromkeys([*products.values(), *(row.worker for row in rows)]))
    rounds = _common.take_turns(workers, seconds, size.turn)
    memory = {worker: worker.close() for worker in workers}

    flops = size.flops(size.points) / size.depth
    peaks = {x: flops / min(t.extra["best"] for t in w.turns) for x, w in products.items()}
    for row in rows:
        row.read(peaks, memory[row.worker])
    bases = {row.law: row for row in rows if "protocol" in row.name}  # PyTorch's, if it is there
    # A process's peak varies by some percent from start to start: the largest of three.
    flat = {n: max(_common.apart(small_memory, size, n) for _ in range(3)) for n in size.networks}
    judged = checks(rows, bases, flat)

    print(f"{rounds} rounds; {_common.disturbed(workers)}\n")
    print(_common.table(HEADER, [row.cells(bases[row.law]) for row in rows]))
    print("\n" + "\n".join(notes(found, chosen, size, peaks)) + "\n")
    for one in judged:
        value = "void" if one["value"] is None else number(one["value"])
        print(f"[{'yes' if one['holds'] else 'NO'}] {one['name']}: {value} ({one['target']})")
    report = {
        "machine": facts,
        "size": dataclasses.asdict(size),
        "rounds": rounds,
        "peak_flops": peaks,
        "rows": [row.numbers | {"ratio": row.faster_than(bases[row.law])} for row in rows],
        "statistics": found,
        "memory": flat,
        "checks": judged,
    }
    _common.write(options.json, report)


if __name__ == "__main__":
    main()
