"""Time to draw sparse Gaussian matrices: mask times normal, 100 matrices of 784 x 784.

Rows: JAX's own ``bernoulli * normal``, vmapped and in a loop; one block of JAX's Threefry
primitive for an entry, its first word the mask and its second the value; ``jaxexpr.laws``, the
same with the rounds unrolled; NumPy and PyTorch into buffers that are reused, the mask from
uniform numbers and from ``bernoulli_``. Each matrix is multiplied by 8 rows and the products are
summed, so that no draw can be left out; the time of these products is in every row. A row's time
is that of its fastest turn. The mean square of the entries is printed: all rows must agree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import _common
import numpy as np
from _common import Job, Worker, number

DENSITY, ROWS = 0.5, 8


@dataclasses.dataclass(frozen=True)
class Size:
    """Matrices in one unit of work, their width, seconds in all and of a turn."""

    matrices: int = 100
    width: int = 784
    seconds: float = 90.0
    turn: float = 1.0


QUICK = Size(seconds=30.0, turn=0.5)
SMOKE = Size(4, 16, 0.0, 0.01)


def _naive(key: Any, width: int) -> Any:
    import jax

    mask, value = jax.random.split(key)
    kept = jax.random.bernoulli(mask, DENSITY, (width, width))
    return kept * jax.random.normal(value, (width, width))


def _block(key: Any, width: int) -> Any:
    import jax
    import jax.numpy as jnp
    from jax.extend.random import threefry2x32_p

    from jaxexpr import prng

    counts = jax.lax.iota(jnp.uint32, width * width)
    words = [jnp.broadcast_to(word, counts.shape) for word in jax.random.key_data(key)]
    first, second = threefry2x32_p.bind(*words, jnp.zeros_like(counts), counts)
    kept = prng.unit_interval(first, jnp.float32) < DENSITY
    return jnp.where(kept, prng.normal(second, jnp.float32), 0.0).reshape(width, width)


def _laws(key: Any, width: int) -> Any:
    from jaxexpr import laws

    return laws.Sparse(laws.Gaussian(1.0), DENSITY).sample(key, (width, width))


def in_jax(size: Size, draw: Callable[[Any, int], Any], at_once: bool) -> Job:
    """``draw(key, width)`` for every matrix, side by side or one after another, in one jit."""
    import jax
    import jax.numpy as jnp

    rows = jnp.asarray(_rows(size))

    def one(key: Any) -> Any:
        return jnp.dot(rows, draw(key, size.width), precision="highest")

    @jax.jit
    def all_of(key: Any) -> Any:
        keys = jax.random.split(key, size.matrices)
        products = jax.vmap(one)(keys) if at_once else jax.lax.map(one, keys)
        return jnp.mean(products**2)

    def run(count: int) -> dict[str, float]:
        return {"square": [float(all_of(jax.random.key(i))) for i in range(count)][-1]}

    return run


def in_numpy(size: Size) -> Job:
    """NumPy: ``standard_normal`` and ``random`` into reused buffers."""
    rng = np.random.Generator(np.random.SFC64(0))
    rows, shape = _rows(size), (size.width, size.width)
    value, uniform = np.empty((2, *shape), np.float32)
    mask, product = np.empty(shape, bool), np.empty_like(rows)

    def run(count: int) -> dict[str, float]:
        square = 0.0
        for _ in range(count * size.matrices):
            rng.standard_normal(out=value, dtype=np.float32)
            rng.random(out=uniform, dtype=np.float32)
            np.multiply(value, np.less(uniform, DENSITY, out=mask), out=value)
            np.matmul(rows, value, out=product)
            square += float(np.vdot(product, product)) / product.size
        return {"square": square / (count * size.matrices)}

    return run


def in_torch(size: Size, bernoulli: bool) -> Job:
    """PyTorch: ``normal_`` and ``uniform_`` (or ``bernoulli_``) into reused buffers."""
    import torch

    device = _common.torch_device()
    rows = torch.from_numpy(_rows(size)).to(device)
    value, uniform = torch.empty((2, size.width, size.width), device=device)
    mask = torch.empty((size.width, size.width), dtype=torch.bool, device=device)
    product = torch.empty_like(rows)

    @torch.inference_mode()
    def run(count: int) -> dict[str, float]:
        square = torch.zeros((), device=device)
        for _ in range(count * size.matrices):
            value.normal_()
            if bernoulli:
                value.mul_(uniform.bernoulli_(DENSITY))
            else:
                value.mul_(torch.lt(uniform.uniform_(), DENSITY, out=mask))
            torch.mm(rows, value, out=product)
            square += product.square().mean()
        return {"square": float(square) / (count * size.matrices)}

    return run


def _rows(size: Size) -> np.ndarray:
    """Rows of unit length, so that the mean square of a product is that of an entry."""
    rows = np.random.default_rng(0).standard_normal((ROWS, size.width), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def main() -> None:
    options = _common.parser(__doc__).parse_args()
    size = SMOKE if options.smoke else QUICK if options.quick else Size()
    seconds = size.seconds if options.seconds is None else options.seconds
    torch = _common.has_torch() and not options.no_torch
    facts = _common.machine(torch)
    print(_common.describe(facts))
    print(f"{size.matrices} matrices, {size.width} x {size.width}, density {DENSITY:g}")

    base = "jaxexpr.laws"
    workers = {
        "jax bernoulli * normal, vmap": Worker(in_jax, size, _naive, True),
        "jax bernoulli * normal, loop": Worker(in_jax, size, _naive, False),
        "one Threefry block an entry": Worker(in_jax, size, _block, False),
        base: Worker(in_jax, size, _laws, False),
        "NumPy, uniform mask": Worker(in_numpy, size),
    }
    if torch:
        workers["PyTorch, bernoulli_ mask"] = Worker(in_torch, size, True)
        workers["PyTorch, uniform mask"] = Worker(in_torch, size, False)
    else:
        print("PyTorch is missing or left out: its rows are absent")
    rounds = _common.take_turns(list(workers.values()), seconds, size.turn)
    own = workers[base].best.each
    rows: list[dict[str, Any]] = []
    for name, worker in workers.items():
        best = worker.best
        rows.append(
            {
                "row": name,
                "milliseconds": 1e3 * best.each,
                "milliseconds_median": 1e3 * worker.median,
                "times_jaxexpr": best.each / own,
                "mean_square": worker.mean("square"),
                "others": best.others,
                "peak_memory_bytes": worker.close(),
            }
        )
    print(f"{rounds} rounds; {_common.disturbed(list(workers.values()))}\n")
    header = ("row", "ms", "median", f"ms / {base}", "mean square", "MiB")
    cells = [
        [
            row["row"],
            number(row["milliseconds"]),
            number(row["milliseconds_median"]),
            f"{number(row['times_jaxexpr'])}x",
            number(row["mean_square"]),
            number(row["peak_memory_bytes"] / 2**20),
        ]
        for row in rows
    ]
    print(_common.table(header, cells))
    report = {
        "machine": facts,
        "size": dataclasses.asdict(size),
        "rounds": rounds,
        "rows": rows,
    }
    _common.write(options.json, report)


if __name__ == "__main__":
    main()
