"""Bounds and the random walk on the cube, against counting."""

from math import comb

import numpy as np
import pytest

from jaxexpr.theory import flips_bound, random_walk, sauer_shelah


@pytest.mark.parametrize("points", [1, 2, 3, 4, 7, 8, 15])
def test_walk_agrees_with_the_recursion_of_its_returns(points):
    """``sum_i q_(n-i) p_i = 1``: a walk of n steps was last where it began after i of them."""
    steps = 80
    eigenvalues = 1 - 2 * np.arange(points + 1) / points
    shares = np.array([comb(points, i) for i in range(points + 1)]) / 2.0**points
    p = np.array([(shares * eigenvalues**n).sum() for n in range(steps)])
    q = np.zeros(steps)
    for n in range(steps):
        q[n] = 1 - sum(q[n - i] * p[i] for i in range(1, n + 1))
    np.testing.assert_allclose(random_walk(points, np.arange(steps)), np.cumsum(q), rtol=1e-12)


@pytest.mark.parametrize("flips", [5, 40, 300])
def test_walk_agrees_with_walking(flips):
    points, walks = 6, 20_000
    rng = np.random.default_rng(flips)
    flipped = 1 << rng.integers(0, points, (walks, flips))
    codes = np.bitwise_xor.accumulate(np.pad(flipped, ((0, 0), (1, 0))), axis=1)
    visited = np.zeros((walks, 2**points), bool)
    np.put_along_axis(visited, codes, True, axis=1)
    counts = visited.sum(axis=1)
    error = counts.std() / walks**0.5
    assert error < 0.0025 * counts.mean()
    assert abs(counts.mean() - random_walk(points, flips)) < 4 * error


def test_walk_of_many_points_and_many_steps():
    # For large cubes nothing but the step straight back is met again soon.
    assert random_walk(62, [0, 1, 2]) == pytest.approx([1, 2, 3 - 1 / 62], rel=1e-14)
    assert random_walk(15, 1e9) == pytest.approx(2**15, rel=1e-12)
    assert random_walk(62, 1e6) < 1e6
    walked = random_walk(15, np.arange(2000))
    assert np.all(np.diff(walked) > 0)
    assert np.all(walked <= flips_bound(15, np.arange(2000)))


def test_walk_between_whole_numbers_is_interpolated():
    steps = np.linspace(0, 6, 601)
    for points in (2, 3, 15):
        walked = random_walk(points, steps)
        assert np.all(np.diff(walked) >= 0)
        np.testing.assert_allclose(walked[150], random_walk(points, [1, 2]).mean())


def test_bounds():
    assert flips_bound(15, [0, 10, 1e6]).tolist() == [1, 11, 2**15]
    assert [sauer_shelah(4, d) for d in range(6)] == [1, 5, 11, 15, 16, 16]
    # Half spaces through the origin in the plane (VC dimension 2) label 4 points in 8 ways.
    assert sauer_shelah(4, 2) >= 8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_walk(63, 5), "points=63: labels are coded in 62 bits"),
        (lambda: random_walk(0, 5), "points=0"),
        (lambda: random_walk(5, -1), "flips=-1 is negative"),
        (lambda: flips_bound(5, np.nan), "flips holds nan"),
        (lambda: sauer_shelah(5, -1), "vc=-1"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
