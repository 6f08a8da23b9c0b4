"""Intervals that are drawn: Student's t, and none by hand."""

import ast

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr

from jaxexpr import Estimate, plotting
from jaxexpr.ensemble.statistics import error_bar
from sims.growth import trajectories

mpl.use("agg")
T_2 = 4.302652729911275  # 97.5 % quantile of Student's t with 2 degrees of freedom


@pytest.fixture
def three():
    return Estimate.of(np.random.default_rng(0).normal(size=(3, 4)), "growth")


@pytest.fixture
def ax():
    ax = plotting.axes()
    yield ax
    mpl.pyplot.close(ax.figure)


def heights(collection):
    """Half the lengths of error bars, from what was drawn."""
    bars = [ends for ends in collection.get_segments() if np.size(ends)]
    return np.array([np.ptp(ends, axis=0).max() / 2 for ends in bars])


def test_bars_are_as_long_as_student_says(three, ax):
    plotting.curve_with_interval(range(4), three.mean, three.sem, three.n, ax=ax)
    plotting.layers(three, ax=ax)
    plotting.against(three, three, ax=ax)
    bars = [bar for container in ax.containers for bar in container[2]]
    assert len(bars) == 4  # one, one, and two
    for bar in bars:
        np.testing.assert_allclose(heights(bar), T_2 * three.sem)
    low, high = three.interval()
    np.testing.assert_allclose((high - low) / 2, T_2 * three.sem)


def test_bands_of_logarithms_are_as_wide(three, ax):
    plotting.geometric_band(range(4), three, ax=ax)
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices
    for x, sem in enumerate(three.sem):
        own = np.log(edges[edges[:, 0] == x, 1])
        np.testing.assert_allclose(np.ptp(own) / 2, T_2 * sem)


def test_an_estimate_is_drawn_with_its_own_errors(ax):
    three = Estimate.of(np.arange(12.0).reshape(3, 4) ** 2)
    plotting.curve_with_interval(range(4), three, ax=ax)
    plotting.curve_with_interval(range(4), three.mean, three.sem, three.n, ax=ax)
    bars = [heights(container[2][0]) for container in ax.containers]
    np.testing.assert_allclose(bars[0], bars[1])
    assert np.all(bars[0] > 0)


def test_one_network_has_no_bar_and_many_have_the_normal_one(ax):
    assert error_bar(1.0, 1) == np.inf
    assert error_bar(1.0, 10**6) == pytest.approx(1.959966, abs=1e-5)
    plotting.curve_with_interval([0, 1], [1.0, 2.0], [np.inf, 0.5], [1, 3], ax=ax)
    (bar,) = ax.containers[0][2]
    assert heights(bar)[-1] == pytest.approx(0.5 * T_2)
    assert not np.any(heights(bar)[:-1] > 0)


def test_no_interval_is_drawn_by_hand(root):
    """All go through ``plotting``, and nothing multiplies an error by a normal quantile."""
    files = [*(root / "sims").rglob("*.py"), *(root / "jaxexpr").rglob("*.py")]
    assert len(files) > 100
    for path in files:
        own = path.name == "plotting.py"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                assert round(node.value, 2) not in (1.64, 1.65, 1.96, 2.58), path
            if isinstance(node, ast.Call) and not own:
                name = getattr(node.func, "attr", "")
                assert name not in ("errorbar", "fill_between"), path
                assert not {k.arg for k in node.keywords} & {"xerr", "yerr"}, path


def test_a_point_without_a_number_is_marked():
    """Three widths; no unit survives in the networks of the second."""
    growth, n = np.array([1.5, np.nan, 2.0]), np.array([3, 0, 3])
    config = trajectories.Config(view="width", exact=2, narrow=4, many=30, draws=3)
    parts = {"growth": growth, "growth_sem": [0.1, np.inf, 0.1], "growth_n": n}
    parts |= dict.fromkeys(("lower", "upper", "mean_field", "rate"), np.ones(3))
    data = xr.Dataset(
        {name: (("cell", "layer"), np.reshape(x, (3, 1))) for name, x in parts.items()},
        {"width": ("cell", [2, 4, 8]), "scale": ("cell", np.full(3, 64.0))},
    )
    figure, details = trajectories.draw(data, config)
    (ax,) = figure.axes
    marked = [line.get_xdata() for line in ax.lines if line.get_marker() == "x"]
    assert [4] in [list(x) for x in marked]
    assert "no unit survives in any network" in [t.get_text() for t in ax.get_legend().texts]
    assert details.startswith("30 of widths from 3 to 4, bars")
    mpl.pyplot.close(figure)
