"""Results on disk: labelled, whole or absent, and enough to judge and draw again."""

import jax
import matplotlib as mpl
import numpy as np
import pytest

from jaxexpr import Estimate, plotting, results, verdict

mpl.use("agg")


@pytest.fixture
def made():
    rng = np.random.default_rng(0)
    return {"growth": Estimate.of(rng.normal(1.0, 0.1, size=(30, 4, 3)), "growth")}


def test_round_trip(made, tmp_path):
    data = results.dataset(made, ("density",), {"density": [0.1, 0.2, 0.5, 1.0]})
    data.attrs |= results.provenance({"draws": 30, "data": "digits"}, 1.5)
    path = results.save(data, tmp_path / "deep" / "x.nc")
    back = results.load(path)
    assert back.identical(data)
    assert back.growth.dims == ("density", "layer")
    assert back.layer.values.tolist() == [1, 2, 3]
    assert back.attrs["jax"] == jax.__version__
    again = results.estimate_of(back, "growth")
    np.testing.assert_array_equal(again.sem, made["growth"].sem)
    assert verdict(again, lower=0.5).margin == verdict(made["growth"], lower=0.5).margin
    assert list(path.parent.iterdir()) == [path]


def test_an_estimate_comes_back_from_transposed_data():
    """Every number in its own cell, whatever the order of the axes of each variable."""
    shape, rng = (4, 3), np.random.default_rng(1)
    parts = {name: rng.normal(size=shape) for name in ("mean", "sem", "left_out", "discretisation")}
    counts = {name: rng.integers(2, 90, shape) for name in ("n", "failed")}
    one = Estimate(name="growth", draws=90, method="grid", points=17, **parts, **counts)
    data = results.dataset({"growth": one}, ("density",))
    turned = data.copy()
    turned["growth"] = turned.growth.transpose("layer", "density")
    for view, cells in ((data, one), (data.transpose(), "turned"), (turned, "turned")):
        again = results.estimate_of(view, "growth")
        assert (again.draws, again.method, again.points) == (90, "grid", 17)
        for part in (*parts, *counts):
            wanted = getattr(one, part)
            found = getattr(again, part)
            np.testing.assert_array_equal(found, wanted if cells is one else wanted.T)


def test_a_failed_write_leaves_the_old_file(made, tmp_path, monkeypatch):
    data = results.dataset(made, ("density",))
    path = results.save(data, tmp_path / "x.nc")
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(type(data), "to_netcdf", fail)
    with pytest.raises(OSError, match="disk full"):
        results.save(data, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_errors_name_the_file_or_the_argument(made, tmp_path):
    with pytest.raises(ValueError, match=r"dims=\(\) names 0 sweep axes and 'growth' has 1"):
        results.dataset(made)
    with pytest.raises(FileNotFoundError, match=r"none\.nc' does not exist: run the simulation"):
        results.load(tmp_path / "none.nc")
    (tmp_path / "bad.nc").write_bytes(b"not netCDF")
    with pytest.raises(ValueError, match=r"bad\.nc' cannot be read .*delete it"):
        results.load(tmp_path / "bad.nc")
    data = results.dataset(made, ("density",))
    layer = data.sel(layer=1)  # its axis of densities is no axis of layers
    with pytest.raises(ValueError, match=r"along \('density',\), of which none are layers: give"):
        results.estimate_of(layer, "growth")
    with pytest.raises(ValueError, match="name='length' is not in data: choose one of growth$"):
        results.estimate_of(data, "length")


def test_drawing_returns_the_axes_it_was_given(made):
    one = Estimate.of(np.random.default_rng(0).normal(size=(20, 3)), "growth")
    ax = plotting.layers(one)
    assert plotting.reference([1, 2, 3], [1, 1, 1], ax=ax, kind="upper") is ax
    assert ax.get_xlabel() == "layer"
    with pytest.raises(ValueError, match="one cell of the sweep"):
        plotting.layers(made["growth"])
    mpl.pyplot.close(ax.figure)


def test_datasets_of_several_networks_are_joined_and_give_their_estimates():
    rng = np.random.default_rng(5)
    few, many = (Estimate.of(rng.normal(size=(n, 3)), "growth") for n in (40, 90))
    parts = {64: results.dataset({"growth": many}), 8: results.dataset({"growth": few})}
    data = results.concat(parts, "width")
    assert data.growth.dims == ("width", "layer")
    for width, made in ((8, few), (64, many)):
        again = results.estimate_of(data.sel(width=width), "growth")
        for part in ("mean", "sem", "n"):
            np.testing.assert_array_equal(getattr(again, part), getattr(made, part))
        assert (again.draws, again.method) == (40, few.method)
    cells = [
        results.dataset({"growth": Estimate.of(rng.normal(size=(5, k, 3)), "growth")}, ["cell"])
        for k in (1, 2)
    ]
    assert results.concat(cells, "cell").growth.shape == (3, 3)
