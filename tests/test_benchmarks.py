"""The benchmarks run from start to end in their smallest setting, with PyTorch and without."""

import functools
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxexpr

TORCH = pytest.param(
    True,
    id="torch",
    marks=pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
    ),
)
WITHOUT = pytest.param(False, id="no-torch")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a benchmark in a process of its own, once; returns what it printed, and its JSON."""
    root = Path(__file__).resolve().parents[1]
    home = tmp_path_factory.mktemp("benchmarks")
    environment = os.environ | {
        "PYTHONPATH": str(Path(jaxexpr.__file__).parents[1]),
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(home / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }

    @functools.cache
    def run(name, torch):
        path = home / f"{torch}" / f"{name}.json"
        command = [sys.executable, str(root / "benchmarks" / name), "--smoke", "--json", str(path)]
        done = subprocess.run(
            command + ([] if torch else ["--no-torch"]),
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, json.loads(path.read_text())

    return run


@pytest.mark.parametrize("torch", [TORCH, WITHOUT])
def test_growth_prints_its_table_and_writes_its_numbers(run, torch):
    text, report = run("growth.py", torch)
    base = "PyTorch" if torch else "NumPy"
    names = [(row["law"], row["row"]) for row in report["rows"]]
    protocols = ["NumPy protocol", *(["PyTorch protocol"] if torch else [])]
    gram = next(name for law, name in names if name.startswith("gram at "))
    assert names == [
        *(("sparse", name) for name in protocols),
        ("sparse", "same grid"),
        ("sparse", "tangents at 30 points"),
        *(("dense", name) for name in protocols),
        ("dense", "same grid"),
        ("dense", gram),
        ("sweep", f"{base} protocol, 4 x one cell"),
        ("sweep", "4 cells in one call"),
    ]
    for row in report["rows"]:
        assert f"{row['law']}: {row['row']}" in text
        assert row["seconds_a_network"] > 0
        assert row["seconds_a_network"] <= row["seconds_a_network_median"]
        assert row["peak_memory_bytes"] > 2**20
        product = row["networks_needed"] * row["seconds_a_network"]
        assert row["seconds_to_precision"] == pytest.approx(product)
    assert set(report["peak_flops"]) == {"numpy", "jax"} | ({"torch"} if torch else set())
    assert set(report["machine"]) >= {"processor", "cores", "device", "numpy", "jax"}
    assert ("PyTorch is missing" in text) == (not torch)
    for check in report["checks"]:
        assert f"{check['name']}: " in text
        mark = "[yes]" if check["holds"] else "[NO]"
        assert f"{mark} {check['name']}" in text
    # At this size the protocol is far from the peak in its products, so it proves nothing.
    share = report["checks"][0]
    assert share["name"].endswith(f"products of the {base} protocol")
    ratios = [row["ratio"] for row in report["rows"] if row["law"] == "sparse"]
    assert all((ratio is None) == (not share["holds"]) for ratio in ratios)


def test_few_points_measure_what_the_grid_measures(run):
    _, report = run("growth.py", False)
    found = report["statistics"]
    for law in ("sparse", "dense"):  # the same networks, at tangents and on the grid
        assert found[law]["grid_apart"] < 0.5
    dense = found["dense"]
    for one in found["gram"].values():
        error = (one["growth_error"] ** 2 + dense["growth_error"] ** 2) ** 0.5
        assert abs(one["growth"] - dense["growth"]) < 5 * error


@pytest.mark.parametrize("torch", [TORCH, WITHOUT])
def test_sampling_draws_the_same_law_in_every_row(run, torch):
    text, report = run("sampling.py", torch)
    assert len(report["rows"]) == (7 if torch else 5)
    for row in report["rows"]:
        assert row["row"] in text
        assert row["milliseconds"] > 0
        assert row["times_jaxexpr"] > 0
        assert 0.2 < row["mean_square"] < 1.0  # 0.5, from a few products of few entries


@pytest.mark.parametrize("density", [0.5, 1.0])
@pytest.mark.parametrize(
    "protocol", ["numpy_protocol", pytest.param("torch_protocol", marks=TORCH.marks)]
)
def test_the_protocols_measure_what_jaxexpr_measures(monkeypatch, protocol, density):
    """Mean growth of the plain protocols, over more points than a chunk holds."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "benchmarks"))
    growth = importlib.import_module("growth")
    size = growth.Size(width=48, depth=4, points=2 * growth.ROWS_IN_CACHE + 107)
    networks = 300
    mean = getattr(growth, protocol)(size, density)(networks)["growth"]
    kind = "dense" if density == 1 else "sparse"
    ours, _ = growth.growths(size, kind, "tangent", 30, float("inf"), networks)
    error = (2 / len(ours)) ** 0.5 * ours.std(ddof=1)
    assert error < 0.01 * ours.mean()
    assert abs(mean - ours.mean()) < 5 * error


def test_regions_count_what_they_must(run):
    text, report = run("regions.py", False)
    (row,) = report["rows"]
    assert row["count"] == row["expected"] == 333
    assert "regions" in text
    assert report["length"]["exact"] > 0


def test_transitions_beside_their_grids(run):
    text, report = run("transitions.py", False)
    crossing, labelling = report["rows"]
    assert crossing["error"] <= crossing["within"]
    assert labelling["counts"][0] == 30  # 15 points, each plane met twice
    assert "all grids s" in text


def test_memory_of_a_curve_in_parts(run):
    text, report = run("memory.py", False)
    (row,) = report["rows"]
    assert "parts of up to" in row["method"]
    assert row["all"] == sum(row["counts"])
    np.testing.assert_allclose(row["counts"], row["expected"], rtol=0.25)
    assert "[yes] depth 2: less than 4 GiB" in text


def test_training_at_once_and_one_after_the_other(run):
    text, report = run("training.py", False)
    assert [row["row"] for row in report["rows"]] == [
        "jaxexpr, at once", "jaxexpr, one after the other",
    ]  # fmt: skip
    assert all(row["milliseconds"] > 0 for row in report["rows"])
    assert 0 <= report["accuracy"]["jaxexpr"]["least"] <= 1
    assert "a step of 4 networks" in text
