"""The committed figures: real data, stated sizes, and numbers that say what the README says."""

import json
import sys

import pytest

from sims.presets import CATALOGUE


def content(root, name):
    return json.loads((root / "figures" / f"{name}.json").read_text())


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_figure_has_its_numbers(name, root):
    found = content(root, name)
    assert found["simulation"] == name
    assert found["preset"] == "quick"
    assert found["draws"] >= 100
    assert all(v["holds"] for v in found["verdicts"])
    assert all(c["met"] for c in found["claims"])
    assert (root / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


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


def test_readme_shows_what_the_benchmark_wrote(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    monkeypatch.delitem(sys.modules, "readme", raising=False)
    import readme

    found = json.loads((root / "benchmarks" / "growth.json").read_text())
    assert (found["size"]["width"], found["size"]["points"]) == (784, 10_000)
    text = (root / "README.md").read_text()
    assert readme.filled(text, found) == text
