"""Training 20 networks at once, beside training them one after the other, in one run.

Networks of 10 layers of 32 units on MNIST (the embedded digits where MNIST is not at hand), Adam at
1e-3, 128 examples a step. Rows: all at once; ours, one after the other; plain PyTorch, one after
the other (if installed; its usual loop of forward, backward and step, in eager mode, with the fused
Adam that is its fastest on CPU and the plain one). A time is that of one step of all 20. Then both
sides are trained for the same number of epochs, and the distributions of their test accuracies
compared. Last, what trackers cost beside the training, at the usual 20 records.
"""

from __future__ import annotations

from typing import Any

import _common
import numpy as np
from _common import Job, Worker, number

BATCH, RATE = 128, 1e-3
TARGET = 4.0


def examples(name: str) -> Any:
    """Training and test examples: images as rows, labels."""
    from jaxexpr import datasets

    both = [datasets.load(name, part) for part in ("train", "test")]
    return [(part.flat, part.labels) for part in both]


def network(width: int, depth: int, n_in: int) -> Any:
    """He weights, no biases at first."""
    from jaxexpr import MLP, laws

    return MLP((n_in, *(width,) * depth), laws.Gaussian(2**0.5), laws.Zero())


def ours(name: str, width: int, depth: int, networks: int, together: int) -> Job:
    """Steps of `networks` networks, so many at once."""
    import jax
    import jax.numpy as jnp
    import optax

    from jaxexpr.training import parallel, setup

    (x, y), _ = examples(name)
    images, labels = jnp.asarray(x), jnp.asarray(y)
    wanted = setup.TrainingSpec(
        net=network(width, depth, x.shape[1]), networks=together, classes=10, batch=BATCH,
        optimiser=optax.adam(RATE),
    )  # fmt: skip
    spec, per_network, state = wanted.draw(jax.random.key(0))
    advance = parallel.Advance(spec, per_network, parallel.chosen_batching(None))
    most = len(labels) // BATCH
    states = [advance.apart(state)]

    def run(count: int) -> dict[str, float]:
        for _ in range(networks // together):
            left = count
            while left:
                steps = min(left, most)
                told = (images, labels, np.int32(0), np.int32(0), np.int32(steps))
                states[0] = advance(states[0], *told)
                left -= steps
        jax.block_until_ready(states[0])
        return {}

    return run


def torch_model(width: int, depth: int, n_in: int, fused: bool, seed: int) -> Any:
    """A plain PyTorch model with the same law of weights, and its optimiser."""
    import torch

    torch.manual_seed(seed)
    sizes, layers = [n_in, *(width,) * depth], []
    for below, above in zip(sizes, sizes[1:], strict=False):
        layers += [torch.nn.Linear(below, above), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).to(_common.torch_device())
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            scale = 1.0 if layer.out_features == 10 else 2**0.5
            torch.nn.init.normal_(layer.weight, std=scale / layer.in_features**0.5)
            torch.nn.init.zeros_(layer.bias)
    return model, torch.optim.Adam(model.parameters(), RATE, fused=fused)


def torch_steps(model: Any, optimiser: Any, x: Any, y: Any, count: int) -> None:
    """The usual loop, over as many epochs as it takes."""
    import torch

    loss, order = torch.nn.functional.cross_entropy, torch.randperm(len(y), device=y.device)
    most = len(y) // BATCH
    for i in range(count):
        if i and i % most == 0:
            order = torch.randperm(len(y), device=y.device)
        chosen = order[(i % most) * BATCH : (i % most + 1) * BATCH]
        optimiser.zero_grad(set_to_none=True)
        loss(model(x[chosen]), y[chosen]).backward()
        optimiser.step()
    if x.is_cuda:
        torch.cuda.synchronize()


def theirs(name: str, width: int, depth: int, networks: int, fused: bool) -> Job:
    """Steps of `networks` PyTorch networks, one after the other."""
    import torch

    (x, y), _ = examples(name)
    device = _common.torch_device()
    images = torch.tensor(x, device=device)
    labels = torch.tensor(y, dtype=torch.long, device=device)
    model, optimiser = torch_model(width, depth, x.shape[1], fused, 0)

    def run(count: int) -> dict[str, float]:
        torch_steps(model, optimiser, images, labels, networks * count)
        return {}

    return run


def our_accuracies(name: str, width: int, depth: int, networks: int, epochs: int) -> np.ndarray:
    """Test accuracies of networks trained at once."""
    import jax

    from jaxexpr.training import train

    given, test = examples(name)
    net = network(width, depth, given[0].shape[1])
    options: dict[str, Any] = {"key": jax.random.key(1), "networks": networks, "epochs": epochs}
    fit = train(net, given, test_data=test, batch=BATCH, record_at=1, progress=False, **options)
    return fit.history["test_accuracy"][-1]


def their_accuracies(name: str, width: int, depth: int, networks: int, epochs: int) -> np.ndarray:
    """Test accuracies of PyTorch networks trained one after the other."""
    import torch

    (x, y), (xt, yt) = examples(name)
    device = _common.torch_device()
    images = torch.tensor(x, device=device)
    labels = torch.tensor(y, dtype=torch.long, device=device)
    shares = []
    for seed in range(networks):
        model, optimiser = torch_model(width, depth, x.shape[1], True, seed)
        torch_steps(model, optimiser, images, labels, epochs * (len(y) // BATCH))
        with torch.no_grad():
            found = model(torch.tensor(xt, device=device)).argmax(dim=1).cpu().numpy()
        shares.append(np.mean(found == yt))
    return np.array(shares)


def trackers(x: np.ndarray) -> dict[str, Any]:
    """What is recorded, and a tracker of it."""
    from jaxexpr import curves
    from jaxexpr.training import track

    origin, square = np.zeros(x.shape[1]), (x[0], x[1] - x[0], x[2] - x[0])
    return {
        "scales of the weights": track.weight_scale(),
        "length of a line in each layer, 100 tangents": track.lengths(curves.line(x[0], x[1])),
        "distances of 50 points, exact": track.distances(x[:50]),
        "regions along 5 whole lines, exact": track.regions(
            [curves.line(origin, point, whole=True) for point in x[:5]]
        ),
        "regions of a square, exact": track.plane(*square),
        "the same in the first network alone": track.plane(*square, networks=1, name="first"),
    }


def tracking(name: str, width: int, depth: int, networks: int, epochs: int) -> dict[str, float]:
    """Time of each tracker at the usual number of records, over that of the training."""
    import time

    import jax

    from jaxexpr.training import train

    given, _ = examples(name)
    looks, spent = trackers(np.asarray(given[0], np.float64)), {}

    def timed(label: str, look: Any) -> Any:
        def timing(now: Any) -> Any:
            began = time.perf_counter()
            found = look(now)
            spent[label] += time.perf_counter() - began
            return found

        return timing

    net = network(width, depth, given[0].shape[1])
    options: dict[str, Any] = {"key": jax.random.key(1), "networks": networks, "epochs": epochs}
    for _ in range(2):  # the first compiles
        spent |= dict.fromkeys(looks, 0.0)
        fit = train(
            net, given, batch=BATCH, progress=False, **options,
            trackers=[timed(label, look) for label, look in looks.items()],
        )  # fmt: skip
    return {label: seconds / fit.seconds["training"] for label, seconds in spent.items()}


def main() -> None:
    parser = _common.parser(__doc__)
    parser.add_argument("--data", help="what is learnt; MNIST if it is at hand")
    options = parser.parse_args()
    torch = _common.has_torch() and not options.no_torch
    seconds = 0.0 if options.smoke else 10.0 if options.quick else 40.0
    seconds = seconds if options.seconds is None else options.seconds
    name = options.data or ("digits" if options.smoke else "mnist")
    width, depth, networks, epochs = (8, 2, 4, 1) if options.smoke else (32, 10, 20, 4)
    facts = _common.machine(torch)
    print(_common.describe(facts))
    size = (name, width, depth, networks)
    rows = {
        "jaxexpr, at once": Worker(ours, *size, networks),
        "jaxexpr, one after the other": Worker(ours, *size, 1),
    }
    if torch:
        for fused, label in ((True, "fused Adam"), (False, "plain Adam")):
            rows[f"PyTorch, one after the other, {label}"] = Worker(theirs, *size, fused)
    rounds = _common.take_turns(list(rows.values()), seconds, 0.01 if options.smoke else 2.0)
    print(f"{rounds} rounds; {_common.disturbed(list(rows.values()))}\n")
    best = {label: worker.best.each for label, worker in rows.items()}
    first = best["jaxexpr, at once"]
    lines = [
        {"row": label, "milliseconds": 1e3 * each, "times_at_once": each / first}
        for label, each in best.items()
    ]
    cells = [[x["row"], number(x["milliseconds"]), number(x["times_at_once"])] for x in lines]
    print(_common.table([f"a step of {networks} networks", "ms", "times at once"], cells))
    report: dict[str, Any] = {
        "machine": facts, "data": name, "width": width, "depth": depth, "networks": networks,
        "rounds": rounds, "rows": lines, "checks": [],
    }  # fmt: skip
    shares = {"jaxexpr": _common.apart(our_accuracies, name, width, depth, networks, epochs)}
    if torch:
        shares["PyTorch"] = _common.apart(their_accuracies, name, width, depth, networks, epochs)
        fastest = min(v for label, v in best.items() if label.startswith("PyTorch"))
        gap = shares["jaxexpr"].mean() - shares["PyTorch"].mean()
        error = np.sqrt(sum(s.var(ddof=1) / s.size for s in shares.values()))
        report["checks"] = [
            {
                "name": f"at once {TARGET:g} times faster than PyTorch one after the other",
                "holds": bool(fastest / first >= TARGET),
                "value": fastest / first,
            },
            {
                "name": "mean test accuracies differ by less than 3 standard errors",
                "holds": bool(abs(gap) < 3 * error),
                "value": float(gap / error),
            },
        ]
    report["accuracy"] = {
        label: {"mean": float(s.mean()), "sd": float(s.std(ddof=1)), "least": float(s.min())}
        for label, s in shares.items()
    }
    long = 1 if options.smoke else 10
    costs = _common.apart(tracking, name, width, depth, networks, long)
    report["tracking"] = {"records": 20, "epochs": long, "over_training": costs}
    print(f"\ntrackers at 20 records in {long} epochs, over the time of the training:")
    cells = [[label, f"{100 * cost:.1f} %"] for label, cost in costs.items()]
    print(_common.table(["tracker", "cost"], cells))
    print()
    for label, s in report["accuracy"].items():
        found = f"{100 * s['mean']:.2f} %, sd {100 * s['sd']:.2f}, least {100 * s['least']:.2f}"
        print(f"test accuracy after {epochs} epochs, {label}: {found}")
    for one in report["checks"]:
        print(f"[{'yes' if one['holds'] else 'NO'}] {one['name']}: {one['value']:.3g}")
    _common.write(options.json, report)


if __name__ == "__main__":
    main()
