"""Simulations run, check themselves, and go on where they were killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import types

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr

from jaxexpr import MLP, datasets, laws, theory, training
from jaxexpr.training import loop
from sims import findings, running, stored
from sims.__main__ import main
from sims.catalogue import CATALOGUE, PRESETS
from sims.growth import weight_laws

mpl.use("agg")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Runs a simulation's smallest preset, once, and returns the folder of its files."""
    folder = tmp_path_factory.mktemp("results")

    def run_once(name):
        if not (folder / f"{name}.json").exists():
            assert main([name, "--preset", "smoke", "--no-cache", "--out", str(folder)]) == 0
        return folder

    return run_once


def test_all_of_them_run_one_after_the_other(tmp_path, monkeypatch):
    ran = []

    def noted(name, config, **options):
        ran.append((name, options["preset"]))
        fails = name == "pascanu2013_table"  # the last but for our own: the others still run
        return stored.Outcome("run", 1.0, 2, int(fails), 0, 0, 0)

    monkeypatch.setattr(running, "run", noted)
    code = main(["all", "--preset", "smoke", "--no-cache", "--out", str(tmp_path)])
    assert code == 1
    assert ran == [(name, "smoke") for name in CATALOGUE]


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_leaves_its_files_and_finds_what_is_proven(name, done):
    folder = done(name)
    content = json.loads((folder / f"{name}.json").read_text())
    assert content["simulation"] == name
    assert content["preset"] == "smoke"
    proven = [*content["verdicts"], *content["facts"]]
    assert proven
    assert all(v["holds"] for v in proven)
    missed = [c["name"] for c in content["claims"] if c["met"] is not True]
    if CATALOGUE[name].trains:
        assert content["claims"]  # seen or not: a minute's training on digits says little
    else:
        assert not missed
    assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert not (folder / ".partial").exists() or not any((folder / ".partial").iterdir())


def test_redraw_uses_the_stored_result(done, capsys):
    name = "price_tanner2019_fig4b"
    folder = done(name)
    before = (folder / f"{name}.nc").stat().st_mtime_ns
    (folder / f"{name}.png").unlink()
    assert main([name, "--redraw", "--no-cache", "--out", str(folder)]) == 0
    assert (folder / f"{name}.png").exists()
    assert (folder / f"{name}.nc").stat().st_mtime_ns == before
    assert "agrees" in capsys.readouterr().out


def test_a_proven_bound_that_fails_exits_with_1(tmp_path, monkeypatch, capsys):
    wrong = dict(weight_laws._BOUNDS)
    wrong["lower"] = lambda w, k, i: 3.0 * theory.price_tanner_lower(w, k, i)
    monkeypatch.setattr(weight_laws, "_BOUNDS", wrong)
    arguments = [
        "price_tanner2019_fig3a",
        "--preset",
        "smoke",
        "--no-cache",
        "--out",
        str(tmp_path),
    ]
    assert main([*arguments, "--limits", "3"]) == 1
    printed = capsys.readouterr()
    assert "FAILS" in printed.out
    assert "price_tanner2019_fig3a" in printed.err


def test_wrong_arguments_exit_with_2(tmp_path, capsys):
    assert main(["price_tanner2019_fig3"]) == 2
    assert "did you mean price_tanner2019_fig3" in capsys.readouterr().err
    out = ["--no-cache", "--out", str(tmp_path)]
    assert main(["price_tanner2019_fig1", "--redraw", *out]) == 2
    assert "run the simulation first" in capsys.readouterr().err
    assert main(["price_tanner2019_fig2", "--indices", "5", "99999", *out]) == 2
    assert "digits has examples 0 to 1436" in capsys.readouterr().err
    assert main(["price_tanner2019_fig2", "--densities", "1.5", *out]) == 2
    assert "density" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["price_tanner2019_fig1", "--preset", "huge"])
    assert stop.value.code == 2


def test_every_preset_is_a_configuration_of_its_module():
    for entry in CATALOGUE.values():
        configs = [entry.config(preset) for preset in PRESETS]
        assert all(dataclasses.is_dataclass(entry.module.Config) for entry in CATALOGUE.values())
        assert {type(config) for config in configs} == {entry.module.Config}
        for config in configs:
            assert entry.stored_config(stored.configuration(config)) == config


def test_a_configuration_of_another_version_is_refused():
    entry = CATALOGUE["price_tanner2019_fig4a"]
    settings = stored.configuration(entry.config("smoke"))
    with pytest.raises(ValueError, match=r"other fields .*'entries'.*run the simulation again"):
        entry.stored_config(settings | {"entries": 3})


def test_a_caption_says_preset_data_and_draws_of_what_is_random():
    data = xr.Dataset(attrs={"title": "lengths", "preset": "quick"})
    settings = {"seed": 0, "data": "digits", "draws": 3}
    assert running.caption(data, settings, "") == "lengths\npreset quick, data digits, 3 draws"
    assert running.caption(data, {"units": 3}, "6 lines") == "lengths\n6 lines"
    assert running.caption(data, {"units": 3}, "") == "lengths"


def test_a_killed_run_goes_on_and_ends_the_same(tmp_path, root, compiled_once):
    name = "price_tanner2019_fig2"
    options = ["--preset", "smoke", "--draws", "20000", "--no-cache"]

    def command(folder):
        return [sys.executable, "-m", "sims", name, *options, "--out", str(tmp_path / folder)]

    where = {"cwd": root, "env": compiled_once, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(command("killed"), **where)
    partial = tmp_path / "killed" / ".partial"
    deadline = time.monotonic() + 120
    while not list(partial.glob("*/lengths.npz")) and time.monotonic() < deadline:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    saved = next(partial.glob("*/lengths.npz"))
    with np.load(saved) as file:
        assert 0 < int(file["0.draws"]) < 20_000
    for folder in ("killed", "whole"):
        subprocess.run(command(folder), check=True, **where)
    numbers = [
        json.loads((tmp_path / folder / f"{name}.json").read_text())["numbers"]
        for folder in ("killed", "whole")
    ]
    assert numbers[0] == numbers[1]


def test_a_claim_is_open_where_its_interval_holds_0():
    numbers = np.array([1.0, 2.0, 3.0, 2.5, 1.5])
    assert findings.claim_positive("a", numbers).met is True
    assert findings.claim_positive("a", -numbers).met is False
    assert findings.claim_positive("a", numbers - numbers.mean()).met is None
    assert findings.claim_positive("a", numbers[:1]).met is None
    low = numbers.mean() - 2.776445 * numbers.std(ddof=1) / 5**0.5  # Student's t, 4 degrees
    assert findings.claim_positive("a", numbers - low + 1e-6).met is True
    assert findings.claim_positive("a", numbers - low - 1e-6).met is None


def test_a_turn_is_no_noise(rng):
    x = np.linspace(0, 1, 11)
    noise = rng.normal(size=(11, 4000))
    rise, fall = findings.rise_and_fall(noise)
    assert abs(rise.mean()) < 4 * 2**0.5 / 4000**0.5
    assert abs(fall.mean()) < 4 * 2**0.5 / 4000**0.5
    few = np.array(
        [[side.mean() for side in findings.rise_and_fall(noise[:, i : i + 4])] for i in range(3900)]
    )
    assert np.all(np.abs(few.mean(axis=0)) < 0.1)  # where the top is, other networks say
    rise, fall = findings.rise_and_fall(10 * x[:, None] * (1 - x[:, None]) + 0.1 * noise)
    assert rise.mean() == pytest.approx(2.5, abs=0.02)
    assert fall.mean() == pytest.approx(2.5, abs=0.02)


def test_a_turn_is_measured_from_the_first_and_to_the_last():
    numbers = np.array([[0.0, 0.1, 0.2, 0.3], [5.0, 6.0, 7.0, 8.0], [2.0, 3.0, 1.0, 4.0]])
    rise, fall = findings.rise_and_fall(numbers)
    np.testing.assert_allclose(rise, numbers[1] - numbers[0])
    np.testing.assert_allclose(fall, numbers[1] - numbers[2])


def test_what_json_cannot_hold_is_null():
    found = running._plain(
        {"a": np.array([1 / 3, np.nan, np.inf, -np.inf]), 2: (np.int64(3), None)}
    )
    assert found == {"a": [0.333333, None, None, None], "2": [3, None]}


def test_a_changed_configuration_is_no_preset():
    preset = next(iter(CATALOGUE.values())).config("smoke")
    fields = [
        f.name for f in dataclasses.fields(preset) if isinstance(getattr(preset, f.name), int)
    ]
    assert running._is_preset(preset, preset)
    other = dataclasses.replace(preset, **{fields[0]: getattr(preset, fields[0]) + 1})
    assert not running._is_preset(other, preset)


def test_claims_and_verdicts_have_words():
    assert str(findings.Claim("a", None, "b")).startswith("unresolved")
    assert str(findings.Claim("a", True, "b")).startswith("seen")
    assert str(findings.Claim("a", False, "b")).startswith("NOT SEEN")


def test_networks_are_trained_once_and_their_time_counts(tmp_path, monkeypatch):
    digits = datasets.load("digits")
    net = MLP((64, 8), laws.Gaussian(1.5), laws.Zero())

    @dataclasses.dataclass
    class Config:
        data: str = "digits"
        draws: int = 2
        epochs: float = 1.0
        batch: int = 128
        seed: int = 0

    def trained(name):
        one = running.Run(tmp_path / ".partial" / name, progress=False, say=lambda text: None)
        return one, one.train("networks", net, digits, Config(), record_at=1)

    first, fit = trained("one")
    assert first.earlier < 0.1
    with monkeypatch.context() as stopped:  # reading takes no time: all of it was earlier
        stopped.setattr(
            running, "time", types.SimpleNamespace(monotonic=lambda: 0.0, time=time.time)
        )
        second, again = trained("two")
    assert second.earlier == pytest.approx(sum(fit.seconds.values()))
    assert second.earlier > 0
    np.testing.assert_array_equal(fit.params(1)[0][0], again.params(1)[0][0])
    assert len(list((tmp_path / ".trained").iterdir())) == 1
    one = running.Run(tmp_path / ".partial" / "four", progress=False, say=lambda text: None)
    other = one.train("networks", net, digits, Config(seed=1), record_at=1)
    assert len(list((tmp_path / ".trained").iterdir())) == 2
    assert np.any(other.params(1)[0][0] != fit.params(1)[0][0])
    monkeypatch.setattr(loop, "FORMAT", loop.FORMAT + 1)  # networks of an older version
    third, _ = trained("three")
    assert third.earlier < 0.1


def test_networks_of_other_code_are_not_taken_and_older_ones_only_unless_asked(
    tmp_path, monkeypatch
):
    digits = datasets.load("digits")
    config = types.SimpleNamespace(data="digits", draws=2, epochs=1.0, batch=128, seed=0)
    found = []

    def train(net, examples, checkpoint, **options):
        found.append((checkpoint.name, checkpoint.exists()))
        checkpoint.parent.mkdir(exist_ok=True)
        checkpoint.touch()
        shares = {f"{kind}_accuracy": np.ones((2, 2)) for kind in ("train", "test")}
        spent = dict.fromkeys(("training", "tracking", "first_look"), 1.0)
        return types.SimpleNamespace(history=shares, seconds=spent)

    monkeypatch.setattr(training, "train", train)
    net = MLP((64, 8), laws.Gaussian(1.5), laws.Zero())

    def taken(fresh=False):
        where = tmp_path / ".partial" / "some"
        one = running.Run(where, progress=False, say=lambda text: None, fresh=fresh)
        one.train("networks", net, digits, config)
        return found[-1][1]

    assert not taken()
    assert taken()
    assert taken(fresh=True)  # trained in this process
    with monkeypatch.context() as patch:
        patch.setattr(running, "_STARTED", time.time() + 10)
        assert not taken(fresh=True)
    assert len({name for name, _ in found}) == 1
    monkeypatch.setattr(stored, "code", lambda *packages: f"other {packages}")
    assert not taken()
    assert len({name for name, _ in found}) == 2
