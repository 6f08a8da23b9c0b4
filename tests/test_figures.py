"""The committed figures: real data, stated sizes, and numbers that say what the README says."""

import json
import sys
from pathlib import Path

import pytest

from sims.catalogue import CATALOGUE

# Networks of these are long, or many numbers come from each.
FEWEST = {f"raghu2017_fig{n}": 10 for n in ("14a", "14b", "15", "16")}
FEWEST |= {"raghu2017_fig2": 30, "raghu2017_fig4": 40, "own_grids": 40}


LARGER = sorted(p.stem for p in (Path(__file__).parents[1] / "figures" / "cpu").glob("*.json"))


def content(root, name, preset="quick"):
    folder = root / "figures" / ("" if preset == "quick" else preset)
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("name", "preset"), [*((n, "quick") for n in CATALOGUE), *((n, "cpu") for n in LARGER)]
)
def test_each_figure_has_its_numbers(name, preset, root):
    found = content(root, name, preset)
    assert found["simulation"] == name
    assert found["preset"] == preset
    least = 3 if CATALOGUE[name].trains or preset == "cpu" else FEWEST.get(name, 100)
    assert found["draws"] is None or found["draws"] >= least
    proven = [*found["verdicts"], *found["facts"]]
    assert proven
    assert all(v["holds"] for v in proven)
    # What was not seen is said on the page: in the figure's row, the larger run after the other.
    page = " ".join((root / "docs" / "trained.md").read_text().split())
    label = f"`{name}`" + (", cpu" if preset == "cpu" else " |")
    rows = [row.split("`")[0] for row in page.split(label)[1:]]
    missed = [c["name"] for c in found["claims"] if c["met"] is False]
    if CATALOGUE[name].trains:
        assert rows
        assert not missed or any("**not seen**" in row for row in rows), missed
    else:
        assert all(c["met"] for c in found["claims"])
    image = root / "figures" / ("" if preset == "quick" else preset) / f"{name}.png"
    assert image.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("name", ["fig2", "fig3a", "fig3b"])
def test_the_main_figures_are_of_mnist_at_width_784(name, root):
    found = content(root, f"price_tanner2019_{name}")
    assert found["data"] == "mnist"
    assert found["config"]["width"] == 0  # the input's dimension
    assert found["config"]["indices"] == [100, 1000]
    assert found["config"]["depth"] == 12


def test_growth_crosses_one_at_half_density_and_ends_at_root_two(root):
    numbers = content(root, "price_tanner2019_fig3b")["numbers"]
    density, growth = numbers["density"], numbers["growth_gaussian"]
    assert density[-1] == 1
    assert growth[-1] == pytest.approx(1.413, abs=4 * numbers["error_gaussian"][-1])
    middle = density.index(0.5)
    assert growth[middle] == pytest.approx(1.0, abs=0.02)
    assert growth[middle - 1] < 1 < growth[middle + 1]


def test_regions_in_the_plane_of_mnist_examples(root):
    found = content(root, "hanin_rolnick2019_fig1")
    assert found["data"] == "mnist"
    numbers = found["numbers"]
    ratio = numbers["whole_plane"] / (numbers["units"] ** 2 / 2)
    assert f"holds {ratio:.2f} times" in (root / "README.md").read_text().replace("\n", " ")


def test_initial_constants_are_those_of_the_paper(root):
    lines = content(root, "own_initial_regions")
    distances = content(root, "own_initial_distances")
    assert lines["data"] == distances["data"] == "mnist"
    assert all(abs(x - 1) < 0.05 for x in lines["numbers"]["regions_a_unit"])
    assert all(0.4 < x < 1.5 for x in distances["numbers"]["distance_times_units"])


def test_deep_networks_beat_shallow_ones(root):
    numbers = content(root, "pascanu2013_table")["numbers"]
    assert numbers["shallow"] == [11, 37, 79, 137, 211]
    assert numbers["deep"] == [11, 44, 176, 704, 2816]


def test_readme_shows_what_the_benchmark_wrote(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    monkeypatch.delitem(sys.modules, "readme", raising=False)
    import readme

    found = json.loads((root / "benchmarks" / "growth.json").read_text())
    assert (found["size"]["width"], found["size"]["points"]) == (784, 10_000)
    text = (root / "README.md").read_text()
    assert readme.filled(text, found) == text


def test_the_page_says_what_the_training_benchmark_wrote(root):
    found = json.loads((root / "benchmarks" / "training.json").read_text())
    assert all(check["holds"] for check in found["checks"])
    times = {row["row"]: row["times_at_once"] for row in found["rows"]}
    text = " ".join((root / "docs" / "training.md").read_text().split())
    for label in ("fused", "plain"):
        ratio = times[f"PyTorch, one after the other, {label} Adam"]
        assert f"{ratio:.1f} times less than" in text
    for side in found["accuracy"].values():
        assert f"{100 * side['mean']:.1f} % on both sides" in text
