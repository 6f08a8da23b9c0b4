"""What lies in a folder of results is never lost to another run."""

import json
import sys

import h5netcdf
import pytest

from sims import stored

NAME = "price_tanner2019_fig3a"
CONFIG = {"data": "digits", "widths": [3, 4], "sigma": 2**0.5, "draws": 7, "seed": 0}


def made(**changes):
    """What a file of a run says; `changes` are of its configuration but for some."""
    said = {"simulation": NAME, "preset": "quick", "code": "now", "created": "today"}
    said |= {key: changes.pop(key) for key in list(changes) if key in said}
    return said | {"config": CONFIG | changes}


def put(folder, said, stem=NAME, endings=(".nc", ".json", ".png"), mark="first"):
    """Lay down the files of a run; `mark` tells its figure from others."""
    if ".nc" in endings:
        with h5netcdf.File(folder / f"{stem}.nc", "w") as file:
            for key, value in said.items():
                file.attrs[key] = json.dumps(value) if key == "config" else value
    if ".json" in endings:
        text = json.dumps(said | {"report": [mark]})
        (folder / f"{stem}.json").write_text(text)
    if ".png" in endings:
        (folder / f"{stem}.png").write_text(mark)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def three(stem):
    return [f"{stem}{ending}" for ending in (".json", ".nc", ".png")]


@pytest.fixture(autouse=True)
def _code(monkeypatch):
    monkeypatch.setattr(stored, "code", lambda *packages: "now")


def test_nothing_there_is_nothing_found(tmp_path):
    assert stored.find(tmp_path, NAME, CONFIG) == (None, False, "")
    assert stored.put_aside(tmp_path, NAME, CONFIG) == []


def test_the_same_run_is_found_and_left_where_it_is(tmp_path):
    put(tmp_path, made())
    assert stored.find(tmp_path, NAME, CONFIG) == (NAME, True, "")
    assert stored.put_aside(tmp_path, NAME, CONFIG) == []
    assert names(tmp_path) == three(NAME)


@pytest.mark.parametrize(
    ("other", "stem"),
    [
        ({"data": "mnist"}, "mnist-quick-0"),
        ({"seed": 3}, "digits-quick-3"),
        ({"preset": "paper", "draws": 9}, "digits-paper-0"),
        ({"preset": "quick, changed", "draws": 9}, "digits-quick-0-"),
        ({"sigma": 1.41421}, "digits-quick-0"),  # the seventh digit
        ({"simulation": "another"}, "digits-quick-0"),
        ({"data": "../../up"}, "______up-quick-0"),
    ],
)
def test_another_run_is_kept_beside(tmp_path, other, stem):
    put(tmp_path, made(**other))
    assert stored.find(tmp_path, NAME, CONFIG) == (None, False, "")
    (line,) = stored.put_aside(tmp_path, NAME, CONFIG)
    found = names(tmp_path)
    assert len(found) == 3
    assert all(name.startswith(f"{NAME}.{stem}") for name in found)
    kept = found[0].removesuffix(".json")
    assert f"now {kept}.*" in line
    assert (len(kept) > len(f"{NAME}.{stem}")) == stem.endswith("-")  # a digest of what changed


def test_two_of_the_same_label_are_both_kept(tmp_path):
    for draws, mark in ((8, "eight"), (9, "nine"), (8, "eight again")):
        put(tmp_path, made(draws=draws), mark=mark)
        stored.put_aside(tmp_path, NAME, CONFIG)
    marks = sorted(path.read_text() for path in tmp_path.glob("*.png"))
    assert marks == ["eight again", "nine"]  # one of each configuration, the newest
    assert len(names(tmp_path)) == 6


def test_a_summary_without_its_result_is_kept_too(tmp_path):
    put(tmp_path, made(data="mnist"), endings=(".json", ".png"))
    stored.put_aside(tmp_path, NAME, CONFIG)
    stem = f"{NAME}.mnist-quick-0"
    assert names(tmp_path) == [f"{stem}.json", f"{stem}.png"]
    # It does not replace a part of what lies there whole: that would mix two runs.
    put(tmp_path, made(data="mnist"), stem=stem, mark="whole")
    put(tmp_path, made(data="mnist"), endings=(".json", ".png"), mark="later")
    stored.put_aside(tmp_path, NAME, CONFIG)
    assert (tmp_path / f"{stem}.png").read_text() == "whole"
    assert [p.read_text() for p in tmp_path.glob(f"{stem}-*.png")] == ["later"]


def test_files_that_say_nothing_are_kept(tmp_path):
    (tmp_path / f"{NAME}.nc").write_text("half of a fil")
    (tmp_path / f"{NAME}.png").write_text("of nobody knows what")
    (line,) = stored.put_aside(tmp_path, NAME, CONFIG)
    assert "nothing says of which run" in line
    assert names(tmp_path) == [f"{NAME}.unknown.nc", f"{NAME}.unknown.png"]
    (tmp_path / f"{NAME}.nc").write_text("half of another")
    stored.put_aside(tmp_path, NAME, CONFIG)
    assert (tmp_path / f"{NAME}.unknown.nc").read_text() == "half of a fil"
    assert (tmp_path / f"{NAME}.unknown-2.nc").read_text() == "half of another"


def test_a_move_that_was_stopped_is_finished(tmp_path):
    """Killed after the first of three files was moved: the others join it."""
    stem = f"{NAME}.mnist-quick-0"
    put(tmp_path, made(data="mnist"), endings=(".nc", ".png"))
    put(tmp_path, made(data="mnist"), stem=stem, endings=(".json",))
    stored.put_aside(tmp_path, NAME, CONFIG)
    assert names(tmp_path) == three(stem)


def test_files_of_two_runs_under_one_name_part(tmp_path):
    """Killed after the result was replaced, and before the summary was."""
    put(tmp_path, made(), endings=(".nc",))
    put(tmp_path, made(data="mnist"), endings=(".json", ".png"))
    assert stored.find(tmp_path, NAME, CONFIG) == (NAME, False, "")  # to be drawn
    stored.put_aside(tmp_path, NAME, CONFIG)
    stem = f"{NAME}.mnist-quick-0"
    assert names(tmp_path) == sorted([f"{NAME}.nc", f"{stem}.json", f"{stem}.png"])


def test_a_run_that_was_kept_comes_back(tmp_path):
    put(tmp_path, made(data="mnist"), mark="mnist")
    stored.put_aside(tmp_path, NAME, CONFIG)
    put(tmp_path, made(), mark="digits")
    wanted = CONFIG | {"data": "mnist"}
    kept = stored.find(tmp_path, NAME, wanted)
    assert kept == (f"{NAME}.mnist-quick-0", True, "")
    stored.bring_back(tmp_path, NAME, kept.stem, wanted)
    assert names(tmp_path) == sorted([*three(NAME), *three(f"{NAME}.digits-quick-0")])
    assert (tmp_path / f"{NAME}.png").read_text() == "mnist"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"code": "then"}, "is another than that which made"),
        ({"code": stored.CHANGED}, "changed while it ran"),
    ],
)
def test_a_run_of_other_code_is_repeated_and_says_why(tmp_path, changes, why):
    put(tmp_path, made(**changes))
    kept = stored.find(tmp_path, NAME, CONFIG)
    assert kept.stem is None
    assert why in kept.why
    assert stored.put_aside(tmp_path, NAME, CONFIG) == []  # the same configuration: replaced


def test_a_run_from_before_the_code_was_kept_is_repeated(tmp_path):
    said = made()
    del said["code"]
    put(tmp_path, said)
    assert "does not say which code made it" in stored.find(tmp_path, NAME, CONFIG).why
    # Its summary alone, as figures/ holds it, with numbers of six digits.
    (tmp_path / f"{NAME}.nc").unlink()
    put(tmp_path, said | {"config": CONFIG | {"sigma": 1.41421}}, endings=(".json",))
    assert f"{NAME}.nc is not there" in stored.find(tmp_path, NAME, CONFIG).why
    assert stored.put_aside(tmp_path, NAME, CONFIG) == []


def test_a_damaged_result_is_repeated(tmp_path):
    put(tmp_path, made(), endings=(".json", ".png"))
    (tmp_path / f"{NAME}.nc").write_bytes(b"half of a fil")
    assert "cannot be read" in stored.find(tmp_path, NAME, CONFIG).why


@pytest.mark.parametrize("ending", [".json", ".png"])
def test_a_run_without_its_figure_or_summary_is_to_be_drawn(tmp_path, ending):
    put(tmp_path, made())
    (tmp_path / f"{NAME}{ending}").unlink()
    assert stored.find(tmp_path, NAME, CONFIG) == (NAME, False, "")
    put(tmp_path, made(created="yesterday"), endings=(ending,))  # of an earlier run
    assert stored.find(tmp_path, NAME, CONFIG).whole == (ending == ".png")


def test_code_is_the_content_of_all_files(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    inner = tmp_path / "some_package" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner / "a.py").write_text("x = 1\n")
    first = stored.code_now("some_package")
    (inner / "notes.txt").write_text("no code")
    assert stored.code_now("some_package") == first
    (inner / "a.py").write_text("x = 2\n")
    second = stored.code_now("some_package")
    (inner / "a.py").rename(inner / "b.py")
    third = stored.code_now("some_package")
    assert len({first, second, third}) == 3
    assert "some_package" not in sys.modules  # nothing is imported
    assert stored.code_now("jaxexpr") != stored.code_now("jaxexpr", "sims")
