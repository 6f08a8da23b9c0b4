"""A task of one's own through the runner: the numbers are those of a loop over its networks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxexpr
from jaxexpr import MLP, ConvNet, Interrupted, boundary_volume, laws
from jaxexpr.ensemble import runner

KEY = jax.random.key(3)
BIASES = laws.Gaussian(0.3)
NET = MLP((3, 8, 8), laws.Gaussian(1.4), BIASES)
POINTS = np.random.default_rng(0).normal(size=(5, 3))


@dataclasses.dataclass(frozen=True)
class Active(jaxexpr.Task):
    """Share of points at which a unit is active, and the largest value, layer by layer."""

    scale: float = 1.0

    def observe(self, net, key, data):
        z, shares, largest = data, [], []
        for weights, biases in net.init(key):
            z = net.activation(z @ weights + biases[None])
            shares.append(jnp.mean(z > 0, dtype=z.dtype))
            largest.append(jnp.max(z))
        return {"shares": jnp.stack(shares), "largest": self.scale * jnp.stack(largest)}


def by_hand(task, net, data, draws):
    """Means and standard errors of a plain loop in which nothing is batched."""
    made = [task.observe(net, jax.random.fold_in(KEY, i), data) for i in range(draws)]
    rows = {name: np.array([one[name] for one in made], float) for name in made[0]}
    return {
        name: (x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(draws)) for name, x in rows.items()
    }


def assert_same(made, others):
    for name, one in made.items():
        assert one.draws == others[name].draws
        np.testing.assert_allclose(one.mean, others[name].mean, rtol=2e-6)
        np.testing.assert_allclose(one.sem, others[name].sem, rtol=2e-5)


def run(task=None, net=NET, data=POINTS, **options):
    return jaxexpr.run_task(task or Active(), net, data, **({"key": KEY, "draws": 40} | options))


def test_means_and_errors_are_those_of_a_loop():
    made = run()
    assert list(made) == ["shares", "largest"]  # in the order of the task
    for name, (mean, sem) in by_hand(Active(), NET, jnp.asarray(POINTS, jnp.float32), 40).items():
        np.testing.assert_allclose(made[name].mean, mean, rtol=2e-6)
        np.testing.assert_allclose(made[name].sem, sem, rtol=2e-5)
        assert made[name].method == "Active" and np.isnan(made[name].discretisation).all()


@pytest.mark.parametrize("option", [{"chunk": 7}, {"batch": 3}, {"memory": 1.0}])
def test_nothing_depends_on_how_it_is_run(option):
    assert_same(run(**option), run())


def test_a_run_goes_on_from_a_checkpoint_and_from_estimates(tmp_path):
    file = tmp_path / "run.npz"
    run(draws=15, checkpoint=file)
    assert_same(run(checkpoint=file), run())
    assert_same(run(extend=run(draws=25)), run())
    with pytest.raises(ValueError, match="belongs to another net"):
        run(Active(2.0), draws=60, checkpoint=file)


def test_draws_are_those_of_the_result():
    part = run(draws=25)
    for draws in (5, 25):
        with pytest.raises(ValueError, match=f"for {draws} more give draws={25 + draws}"):
            run(draws=draws, extend=part)
    assert run(draws=26, extend=part)["shares"].draws == 26


def test_another_code_is_another_task(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Other(Active):
        def observe(self, net, key, data):
            return {name: 2 * value for name, value in super().observe(net, key, data).items()}

    Other.__qualname__ = Active.__qualname__
    run(draws=15, checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match="belongs to another net"):
        run(Other(), checkpoint=tmp_path / "run.npz")


def test_ctrl_c_hands_over_what_was_done(monkeypatch):
    original, calls = runner._merged, []

    def stop(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(runner, "_merged", stop)
    with pytest.raises(Interrupted) as caught:
        run(chunk=10)
    monkeypatch.setattr(runner, "_merged", original)
    assert caught.value.estimates["shares"].draws == 20
    assert_same(run(extend=caught.value.estimates), run())


def test_cells_of_a_sweep_see_the_same_draws():
    swept = MLP(NET.widths, laws.Gaussian(np.array([0.7, 1.4])[:, None]), BIASES)
    made = run(net=swept)
    assert made["shares"].mean.shape == (2, 1, 2)
    for name, one in run().items():
        np.testing.assert_allclose(made[name].mean[1, 0], one.mean, rtol=2e-6)


@dataclasses.dataclass(frozen=True)
class Odd(jaxexpr.Task):
    """Of each network one number of any shape: itself, nothing, or an overflow."""

    def observe(self, net, key, data):
        (weights, _), *_ = net.init(key)
        first = weights[0, 0]
        return {
            "scalar": first,
            "some": jnp.where(first > 0, first, jnp.nan)[None],
            "failing": jnp.where(first > 0, first, jnp.inf)[None],
            "count": jnp.sum(data["labels"] == 2**24 + 1)[None],
            "square": jnp.outer(weights[0], weights[0]),
        }


def test_numbers_of_any_shape_missing_ones_and_failures():
    data = {"labels": np.array([2**24 + 1, 2**24, 3])}
    made = run(Odd(), data=data, draws=100)
    assert made["scalar"].mean.shape == () and made["square"].mean.shape == (8, 8)
    positive = made["some"].n[0]
    assert 30 < positive < 70
    assert made["some"].failed[0] == 0 and made["failing"].failed[0] == 100 - positive
    assert made["failing"].n[0] == positive and made["some"].mean[0] > 0
    assert made["count"].mean[0] == 1  # integers stay integers


def test_float64_and_convolutions():
    double = MLP(NET.widths, laws.Gaussian(1.4), BIASES, dtype="float64")
    made = run(net=double)
    for name, one in run().items():
        np.testing.assert_allclose(made[name].mean, one.mean, rtol=1e-5)

    @dataclasses.dataclass(frozen=True)
    class Sizes(jaxexpr.Task):
        def observe(self, net, key, data):
            return {"size": jnp.stack([jnp.sum(w**2) for w, _ in net.init(key)])}

    net = ConvNet(
        (6, 6, 2), [jaxexpr.Conv(4, 3), jaxexpr.Dense(3)], laws.Gaussian(1.0), laws.Zero()
    )
    found = run(Sizes(), net=net, data=(), draws=400)["size"]
    entries = np.array([4.0, 3.0])  # fan_in * outputs entries of variance 1 / fan_in
    assert np.all(np.abs(found.mean - entries) < 4 * found.sem)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"task": 3}, ["task=3", "subclass of jaxexpr.Task"]),
        ({"task": type("Plain", (Active,), {"__init__": lambda self: None})()}, []),
        ({"net": 3}, ["net=3", "give jaxexpr.MLP"]),
        ({"data": ["a"]}, ["data='a'", "not numeric"]),
        ({"draws": 0}, ["draws=0"]),
        ({"extend": 3}, ["extend=3", "give what estimate returned"]),
    ],
)
def test_mistakes_are_named(change, parts):
    if not parts:
        assert run(**change)  # a subclass of a frozen dataclass is one
        return
    with pytest.raises(ValueError) as caught:
        run(**change)
    for part in parts:
        assert part in str(caught.value)


def test_a_task_that_cannot_be_told_from_another_is_refused():
    class Bare(jaxexpr.Task):
        def observe(self, net, key, data):
            return {"one": jnp.ones(())}

    with pytest.raises(ValueError, match=r"decorate its class with @dataclasses.dataclass"):
        run(Bare())

    @dataclasses.dataclass(frozen=True)
    class Holds(Active):
        array: np.ndarray = None

    with pytest.raises(ValueError, match=r"task has array=.*give arrays to run_task as data"):
        run(Holds(array=np.ones(3)))


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (jnp.ones(3), "return {name: array}"),
        ({}, "return {name: array}"),
        ({3: jnp.ones(3)}, "the name 3"),
        ({"a": "text"}, "a='text'"),
        ({"a": jnp.ones(3, complex)}, "real number"),
    ],
)
def test_what_a_task_returns_is_checked(returned, says):
    @dataclasses.dataclass(frozen=True)
    class Wrong(jaxexpr.Task):
        def observe(self, net, key, data):
            return returned

    with pytest.raises(ValueError, match="observe returns") as caught:
        run(Wrong())
    assert says in str(caught.value)


def test_an_option_that_does_not_exist_is_named():
    with pytest.raises(
        TypeError, match=r"run_task\(\) takes no argument draw=3: did you mean draws"
    ):
        run(draw=3)


def test_boundary_volume_is_a_task_like_others(tmp_path):
    options = {"key": KEY, "points": 4}
    place = [NET, np.zeros(3), np.eye(3)[:2]]
    whole = boundary_volume(*place, draws=50, **options)
    part = boundary_volume(*place, draws=20, checkpoint=tmp_path / "b.npz", **options)
    again = boundary_volume(*place, draws=50, checkpoint=tmp_path / "b.npz", **options)
    further = boundary_volume(*place, draws=50, extend=part, batch=7, **options)
    for one in (again, further):
        assert_same({"volume": one}, {"volume": whole})
    assert boundary_volume(*place, draws=4000, target=0.05, **options).draws < 4000
    with pytest.raises(ValueError, match="another net"):
        boundary_volume(*place[:2], np.eye(3)[1:], draws=50, extend=part, **options)
    with pytest.raises(ValueError, match="refine=0.1: the mean is exact"):
        boundary_volume(*place, draws=50, refine=0.1, **options)


def test_perturbations_in_networks_that_overflow_have_failed():
    steep = jaxexpr.activations.piecewise_linear([1.0], [1.0, 2.0])  # nothing dies
    net = MLP((2, 2, 2, 2), laws.TwoPoint(1e20), laws.Zero(), steep)
    for name, one in jaxexpr.perturbations(net, np.ones(2), key=KEY, draws=200).items():
        above = np.triu(np.ones((3, 3), bool))
        assert np.all((one.n + one.failed)[above] == 200), name
        assert one.failed[0, 2] > 50 and one.failed[0, 0] == 0
        assert np.all(one.failed[~above] == 0) and np.all(one.n[~above] == 0)
