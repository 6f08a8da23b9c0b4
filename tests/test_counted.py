"""Regions and distances in many networks at once, against one network after the other."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import activations, curves
from jaxexpr._core import threads
from jaxexpr.exact import distance_to_boundary, nearest_boundary, pieces_batch, region_counts
from jaxexpr.exact.along_curves import counting

STAIRS = activations.piecewise_linear([-1.0, 0.25, 2.0], [0.5, 1.0, -0.5, 0.1])


def networks(count, widths=(5, 12, 12), sigma=1.5):
    r = np.random.default_rng(0)
    return tuple(
        (r.normal(0, sigma / np.sqrt(i), (count, i, o)), r.normal(0, 0.3, (count, o)))
        for i, o in zip(widths, widths[1:], strict=False)
    )


def one(params, index):
    return jax.tree.map(lambda x: x[index], params)


def some(kind):
    r = np.random.default_rng(1)
    make = {
        "line": lambda: curves.line(*r.normal(size=(2, 5))),
        "whole": lambda: curves.line(np.zeros(5), r.normal(size=5), whole=True),
        "circle": lambda: curves.circle(*r.normal(size=(2, 5))),
    }[kind]
    return [make() for _ in range(4)]


@pytest.mark.parametrize(("kind", "cores"), [("line", 3), ("whole", 2), ("circle", 1)])
def test_counts_are_those_of_the_pieces(kind, cores, monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: cores)
    params, family = networks(5), some(kind)
    phi = STAIRS if kind == "line" else "relu"
    found = region_counts(params, family, phi)
    assert found.shape == (5, 4, 2) and found.min() > 0
    for i in range(5):
        each = pieces_batch(one(params, i), family, phi)
        np.testing.assert_array_equal(found[i], [c.counts for c in each])


def sawteeth(depth):
    """A network whose pieces are many more than is guessed, between two that have one."""
    first = (np.ones((1, 2)), np.array([0.0, -0.5]))
    fold = (np.array([[2.0, 2.0], [-4.0, -4.0]]), np.array([0.0, -0.5]))
    return jax.tree.map(lambda x: np.stack([0 * x, x, 0 * x]), (first, *(fold,) * (depth - 1)))


@pytest.mark.parametrize(("depth", "memory"), [(5, 2.0**30), (8, 2.0**13)])
def test_room_grows_for_the_networks_that_lack_it(depth, memory, monkeypatch):
    tried, run = [], counting._count_compiled

    def watched(params, **options):
        tried.append((options["blocks"][-1].size, options["splits"]))
        return run(params, **options)

    monkeypatch.setattr(counting, "_count_compiled", watched)
    monkeypatch.setattr(threads, "cores", lambda: 1)
    # One of them is in one piece in all networks: those that lack room for another go on.
    family = [curves.line([0.0], [1.0]), curves.line([0.0], [0.25]), curves.line([-2.0], [-1.0])]
    found = region_counts(sawteeth(depth), family, memory=memory)
    assert found[:, :, -1].tolist() == [[1] * 3, [2**depth, 2 ** (depth - 2), 1], [1] * 3]
    assert len(tried) > 1 and tried[0][0] < 2**depth
    if memory < 2**20:
        assert tried[-1][1] > 1 and max(size for size, _ in tried) < 2**depth
    else:
        assert tried[-1][1] == 1 and tried[-1][0] > 2**depth


def test_distances_are_those_of_each_network(monkeypatch):
    params, x = networks(5, (20, 12)), np.random.default_rng(2).normal(size=(3, 4, 20))
    monkeypatch.setattr(threads, "cores", lambda: 2)
    found = nearest_boundary(params, x)
    assert isinstance(found.distance, np.ndarray) and found.distance.shape == (5, 3, 4)
    for i in range(5):
        alone = nearest_boundary(one(params, i), x)
        np.testing.assert_allclose(found.distance[i], alone.distance, rtol=1e-12)
        np.testing.assert_array_equal(found.layer[i], alone.layer)
        np.testing.assert_array_equal(found.unit[i], alone.unit)
    with jax.enable_x64(True):
        traced = jax.jit(distance_to_boundary)(jax.tree.map(jnp.asarray, params), jnp.asarray(x))
    np.testing.assert_allclose(traced, found.distance, rtol=1e-10)


def test_shares_are_filled_up_and_joined(monkeypatch):
    sizes = []

    def doubled(own):
        sizes.append(len(own["x"]))
        return 2 * own["x"], jnp.sum(own["y"], axis=1)

    own = {"x": np.arange(7.0, dtype=np.float32), "y": np.ones((7, 3), np.float32)}
    for cores, wanted in ((1, [7]), (2, [4, 4]), (3, [3, 3, 3]), (5, [2] * 4), (9, [1] * 7)):
        sizes.clear()
        monkeypatch.setattr(threads, "cores", lambda cores=cores: cores)
        x, y = threads.on_cores(doubled, own)
        assert sizes == wanted
        assert x.tolist() == [0, 2, 4, 6, 8, 10, 12] and y.tolist() == [3] * 7
    assert len(threads.shares(own, 2)) == 2 and len(threads.shares(own, 1)) == 1


def test_threads_know_the_precision(monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 2)
    with jax.enable_x64(True):
        found = threads.on_cores(lambda x: jnp.asarray(x) / 3, np.arange(4.0))
        assert found.dtype == np.float64
    assert found.dtype == np.float64


def test_cores_are_those_that_the_process_may_use():
    allowed = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    assert threads.cores() == len(allowed)


def test_what_is_no_ensemble_is_refused():
    params, family = networks(3), some("line")
    with pytest.raises(ValueError, match=r"params\[0\]\[0\] has shape \(5, 12\): give networks"):
        region_counts(one(params, 0), family)
    with pytest.raises(ValueError, match=r"curves\[1\] is a circle"):
        region_counts(params, [family[0], some("circle")[0]])
    with pytest.raises(ValueError, match="smooth"):
        region_counts(params, family, "tanh")
    with pytest.raises(ValueError, match=r"params\[1\]\[0\] has shape"):
        region_counts((params[0], one(params, 0)[1]), family)
    with pytest.raises(ValueError, match="traced arrays; regions are counted on the host"):
        jax.jit(lambda params: region_counts(params, family))(params)
    with pytest.raises(ValueError, match="memory"):
        region_counts(params, family, memory=0)
    with pytest.raises(ValueError, match="points of shape"):
        distance_to_boundary(params, np.zeros((2, 4)))
