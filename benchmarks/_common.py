"""What the benchmarks share: a subprocess for each row, timed in turn, and a table.

Each row of a table has a process of its own, so that its peak memory is its own and no library
disturbs another's threads. All the processes are warmed first and then take turns of a second
or so, one at a time: what slows the machine down for a while slows every row.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

Job = Callable[[int], dict[str, float]]
"""Does so many units of work (networks, products) and returns what else it measured."""

_job: Job | None = None
_rate = 1.0  # seconds of one unit of the job, in the process that runs it


@dataclasses.dataclass(frozen=True)
class Turn:
    """One turn of a worker: units of work, the seconds they took, what the job returned."""

    count: int
    seconds: float
    extra: dict[str, float]
    others: float  # share of all cores' time that other processes took meanwhile; NaN if unknown

    @property
    def each(self) -> float:
        """Seconds of one unit."""
        return self.seconds / self.count


def _build(make: Callable[..., Job], arguments: tuple[Any, ...]) -> None:
    global _job
    _job = make(*arguments)
    _job(1)  # compiles, and faults the buffers in
    _turn(0.0)


def _turn(seconds: float) -> Turn:
    global _rate
    assert _job is not None
    count = max(int(seconds / _rate), 1)
    others, began = _others(), time.perf_counter()
    extra = _job(count)
    spent = time.perf_counter() - began
    _rate = spent / count
    share = max(_others() - others, 0.0) / (spent * (os.cpu_count() or 1))
    return Turn(count, spent, extra, share)


def _others() -> float:
    """Seconds of all cores that other processes, and other machines on this host, have used."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return float("nan")
    user, nice, system, _, _, irq, soft, steal = map(int, stat.read_text().split()[1:9])
    ticks = user + nice + system + irq + soft + steal
    return ticks / os.sysconf("SC_CLK_TCK") - time.process_time()


def peak_memory() -> float:
    """Most bytes that this process has held in memory, its libraries included."""
    status = Path("/proc/self/status")
    if status.exists():  # a child's ru_maxrss starts from its parent's; this does not
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return 1024.0 * int(line.split()[1])
    import resource

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(largest) * (1 if sys.platform == "darwin" else 1024)


def _pool() -> ProcessPoolExecutor:
    # On a GPU each process would else take most of its memory for itself.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


class Worker:
    """A process that runs one job, a turn at a time.

    ``make(*arguments)`` builds the job in that process; it is run twice before the first turn.
    """

    def __init__(self, make: Callable[..., Job], *arguments: Any) -> None:
        self.turns: list[Turn] = []
        self._pool = _pool()
        self._ready: Future[None] = self._pool.submit(_build, make, arguments)

    def warm(self) -> None:
        """Wait until the job is built and warm; raises what it raised."""
        self._ready.result()

    def turn(self, seconds: float) -> None:
        """Run the job for about so many seconds, one unit at the least."""
        self.turns.append(self._pool.submit(_turn, seconds).result())

    def close(self) -> float:
        """End the process; returns its peak memory in bytes."""
        memory = self._pool.submit(peak_memory).result()
        self._pool.shutdown()
        return memory

    @property
    def best(self) -> Turn:
        """The fastest turn."""
        return min(self.turns, key=lambda turn: turn.each)

    @property
    def median(self) -> float:
        """Median over the turns of the seconds of one unit."""
        return statistics.median(turn.each for turn in self.turns)

    def mean(self, name: str) -> float:
        """Mean over all units of what the job returned under this name."""
        total = sum(turn.count * turn.extra[name] for turn in self.turns)
        return total / sum(turn.count for turn in self.turns)


def take_turns(workers: Sequence[Worker], seconds: float, turn: float, rounds: int = 2) -> int:
    """Give every worker a turn of about `turn` seconds, round after round.

    Goes on for `seconds`, and for `rounds` rounds at the least; returns the rounds done.
    """
    for worker in workers:
        worker.warm()
    began, done = time.perf_counter(), 0
    while done < rounds or (time.perf_counter() - began) * (1 + 1 / done) < seconds:
        for worker in workers:
            worker.turn(turn)
        done += 1
    return done


def disturbed(workers: Sequence[Worker]) -> str:
    """Say how quiet the machine was in the turns that count, and warn if it was not."""
    worst = max(worker.best.others for worker in workers)
    if math.isnan(worst):
        return "how busy other processes were is not known here"
    warning = "; NOT QUIET, do not quote these times" if worst > 0.2 else ""
    return f"other processes took at most {worst:.0%} of the cores in a row's best turn{warning}"


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)`` in a fresh process."""
    with _pool() as pool:
        return pool.submit(function, *arguments).result()


def has_torch() -> bool:
    """Whether PyTorch can be imported."""
    return importlib.util.find_spec("torch") is not None


def jax_device() -> str:
    """Name of the device that JAX computes on; to be asked for in a process of its own."""
    import jax

    device = jax.devices()[0]
    return f"{device.platform} ({device.device_kind})"


def matmul(library: str, points: int, width: int) -> Job:
    """One float32 product, points x width times width x width, into a reused buffer.

    Returns the seconds of the fastest one.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    shapes = (points, width), (width, width)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
    if library == "numpy":
        out = np.empty_like(a)

        def once() -> None:
            np.matmul(a, b, out=out)
    elif library == "torch":
        import torch

        device = torch_device()
        ta, tb = (torch.from_numpy(x).to(device) for x in (a, b))
        held = torch.empty_like(ta)

        def once() -> None:
            torch.mm(ta, tb, out=held)
            if device == "cuda":
                torch.cuda.synchronize()
    else:
        import jax

        ja, jb = jax.device_put((a, b))
        dot = jax.jit(lambda x, y, _: jax.lax.dot(x, y, precision="highest"), donate_argnums=2)
        buffer = [jax.numpy.zeros_like(ja)]

        def once() -> None:
            buffer[0] = dot(ja, jb, buffer[0]).block_until_ready()

    def run(count: int) -> dict[str, float]:
        seconds = []
        for _ in range(count):
            began = time.perf_counter()
            once()
            seconds.append(time.perf_counter() - began)
        return {"best": min(seconds)}

    return run


def torch_device() -> str:
    """Kind of device for PyTorch: that which JAX computes on."""
    import torch

    return "cuda" if torch.cuda.is_available() and not jax_device().startswith("cpu") else "cpu"


def machine(torch: bool) -> dict[str, Any]:
    """Processor, cores, device and versions: what a timing must be quoted with."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")]
    affinity = getattr(os, "sched_getaffinity", None)
    packages = ["numpy", "jax", "jaxlib", *(["torch"] if torch else [])]
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "device": apart(jax_device),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def describe(facts: dict[str, Any]) -> str:
    """Return one line of `machine`'s facts."""
    versions = ", ".join(f"{k} {v}" for k, v in list(facts.items())[3:])
    return f"{facts['processor']}, {facts['cores']} cores; JAX on {facts['device']}; {versions}"


def number(value: float | None, digits: int = 3) -> str:
    """Show a number in few digits, without an exponent where it is short; a dash for none.

    >>> number(1234.5), number(0.012345), number(None)
    ('1234', '0.0123', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0 or not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}" if value else "0"
    return f"{value:.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out columns, the first flush left and the others flush right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]

    def laid(line: Sequence[str]) -> str:
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        return "  ".join([line[0].ljust(widths[0]), *cells[1:]]).rstrip()

    return "\n".join([laid(header), "  ".join("-" * w for w in widths), *map(laid, rows)])


def parser(text: str) -> argparse.ArgumentParser:
    """Command line that every benchmark has."""
    made = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help="fewer repetitions: a minute or two")
    made.add_argument("--smoke", action="store_true", help=argparse.SUPPRESS)
    made.add_argument("--json", type=Path, metavar="PATH", help="write all numbers there as well")
    made.add_argument("--seconds", type=float, help="seconds that the rows take turns for")
    made.add_argument("--no-torch", action="store_true", help="leave PyTorch's rows out")
    return made


def write(path: Path | None, report: dict[str, Any]) -> None:
    """Write a report as JSON; numbers that are not finite become null."""

    def clean(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: clean(value) for key, value in item.items()}
        if isinstance(item, list | tuple):
            return [clean(value) for value in item]
        return None if isinstance(item, float) and not math.isfinite(item) else item

    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(clean(report), indent=1, allow_nan=False) + "\n")
