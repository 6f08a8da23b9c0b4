"""The command line loses nothing, and ignores nothing that it is told."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from sims import __main__ as process
from sims import command, running, stored
from sims.__main__ import main
from sims.catalogue import CATALOGUE
from sims.growth import subvector
from sims.regions import constructions

QUICK = "pascanu2013_fig7"  # a second, and no data
SMALL = "price_tanner2019_fig4b"
SMOKE = ("--preset", "smoke", "--no-cache", "--draws", "300", "--dimensions", "5")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with the results of two small simulations."""
    folder = tmp_path_factory.mktemp("finished")
    assert main([SMALL, *SMOKE, "--out", str(folder)]) == 0
    assert main([QUICK, "--preset", "smoke", "--no-cache", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def results(finished, tmp_path):
    """A copy of that folder."""
    for path in finished.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def never(*arguments, **options):
    raise AssertionError("it ran")


def read(folder, stem):
    return json.loads((folder / f"{stem}.json").read_text())


# What is finished


def test_a_finished_run_is_shown_and_not_repeated(results, monkeypatch, capsys):
    monkeypatch.setattr(running, "run", never)
    before = {path: path.read_bytes() for path in results.iterdir()}
    assert main([SMALL, *SMOKE, "--out", str(results)]) == 0
    printed = capsys.readouterr().out
    assert "finished before: preset smoke, changed, seed 0, draws 300" in printed
    assert f"figure: {results / SMALL}.png" in printed
    report = read(results, SMALL)["report"]
    assert report and all(f"  {line}\n" in printed for line in report)
    assert {path: path.read_bytes() for path in results.iterdir()} == before


def test_a_finished_run_that_fails_still_exits_with_1(results, capsys):
    path = results / f"{SMALL}.json"
    content = json.loads(path.read_text())
    content["verdicts"][0]["holds"] = False
    path.write_text(json.dumps(content))
    assert main([SMALL, *SMOKE, "--out", str(results)]) == 1
    assert f"does not hold in {SMALL}" in capsys.readouterr().err


@pytest.mark.parametrize("again", [True, False])
def test_it_is_repeated_if_asked_for_or_if_the_code_is_another(results, monkeypatch, capsys, again):
    before = read(results, SMALL)
    stamp = (results / f"{SMALL}.nc").stat().st_mtime_ns
    if not again:
        monkeypatch.setattr(stored, "code", lambda *packages: "another")
        monkeypatch.setattr(stored, "code_now", lambda *packages: "another")
    flag = ["--again"] if again else []
    assert main([SMALL, *SMOKE, *flag, "--out", str(results)]) == 0
    printed = capsys.readouterr().out
    reason = "the code of jaxexpr/ or sims/ is another than that which made"
    assert (reason in printed) == (not again)
    assert "finished before" not in printed
    after = read(results, SMALL)
    assert after["numbers"] == before["numbers"]
    assert after["code"] == (before["code"] if again else "another")
    assert (results / f"{SMALL}.nc").stat().st_mtime_ns > stamp
    assert not list(results.glob(f"{SMALL}.*-*"))  # the same configuration: replaced
    assert not (results / ".partial").exists()


def test_code_that_changes_while_it_runs_is_not_vouched_for(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "code_now", lambda *packages: "edited")
    assert main([QUICK, "--preset", "smoke", "--no-cache", "--out", str(tmp_path)]) == 0
    assert read(tmp_path, QUICK)["code"] == stored.CHANGED


def test_it_is_drawn_if_it_was_stopped_before(results, monkeypatch, capsys):
    monkeypatch.setattr(subvector, "simulate", never)
    (results / f"{SMALL}.json").unlink()
    (results / f"{SMALL}.png").unlink()
    assert main([SMALL, *SMOKE, "--out", str(results)]) == 0
    assert "finished before" in capsys.readouterr().out
    assert read(results, SMALL)["report"]
    assert (results / f"{SMALL}.png").exists()


# What another configuration left


def test_another_configuration_is_kept_beside_and_comes_back(results, monkeypatch, capsys):
    first = (results / f"{SMALL}.nc").read_bytes()
    assert main([SMALL, *SMOKE, "--seed", "1", "--out", str(results)]) == 0
    (kept,) = results.glob(f"{SMALL}.smoke-0-*.nc")
    assert kept.read_bytes() == first
    assert f"now {kept.stem}.*" in capsys.readouterr().out
    assert read(results, SMALL)["config"]["seed"] == 1
    assert main([SMALL, *SMOKE, "--seed", "2", "--out", str(results)]) == 0
    assert len(list(results.glob(f"{SMALL}.*nc"))) == 3
    monkeypatch.setattr(running, "run", never)
    capsys.readouterr()
    assert main([SMALL, *SMOKE, "--out", str(results)]) == 0
    assert (results / f"{SMALL}.nc").read_bytes() == first
    assert f"{kept.stem}.* are {SMALL}.* again" in capsys.readouterr().out
    assert len(list(results.glob(f"{SMALL}.*"))) == 9


def test_a_run_that_fails_leaves_what_was_there(results, monkeypatch, capsys):
    before = names(results)

    def fails(config, run):
        raise ValueError("no such thing")

    monkeypatch.setattr(subvector, "simulate", fails)
    assert main([SMALL, *SMOKE, "--seed", "1", "--again", "--out", str(results)]) == 2
    assert "no such thing" in capsys.readouterr().err
    assert names(results) == before


def test_a_committed_figure_is_an_existing_result(tmp_path, root, capsys):
    for ending in (".json", ".png"):
        content = (root / "figures" / f"{QUICK}{ending}").read_bytes()
        (tmp_path / f"{QUICK}{ending}").write_bytes(content)
    assert main([QUICK, "--preset", "smoke", "--no-cache", "--out", str(tmp_path)]) == 0
    same = CATALOGUE[QUICK].preset("smoke") == CATALOGUE[QUICK].preset("quick")
    kept = tmp_path / f"{QUICK}.quick-0.json"
    printed = capsys.readouterr().out
    assert ("repeated, since" in printed) == same
    assert ("kept:" in printed) == (not same) == kept.exists()


def test_nothing_is_gone_on_from_that_other_code_began(tmp_path, monkeypatch, capsys):
    def stops(config, run):
        run.samples("numbers", lambda i: 1.0, 3)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(constructions, "simulate", stops)
        with pytest.raises(KeyboardInterrupt):
            main([QUICK, "--preset", "smoke", "--no-cache", "--out", str(tmp_path)])
        (begun,) = (tmp_path / ".partial").iterdir()
        patch.setattr(stored, "code", lambda *packages: "another")
        with pytest.raises(KeyboardInterrupt):
            main([QUICK, "--preset", "smoke", "--no-cache", "--out", str(tmp_path)])
        assert len(list((tmp_path / ".partial").iterdir())) == 2
        assert f"{begun} is of other code, and is not continued" in capsys.readouterr().out


def test_a_repetition_that_is_stopped_goes_on(results, monkeypatch):
    fresh = []

    def stops(config, run):
        fresh.append(run._fresh)
        raise KeyboardInterrupt

    monkeypatch.setattr(subvector, "simulate", stops)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            main([SMALL, *SMOKE, "--again", "--out", str(results)])
    assert fresh == [True, False]  # what the first of them trained is not trained again


# Drawing again


def test_redraw_says_what_it_drew(results, capsys):
    before = (results / f"{SMALL}.nc").read_bytes()
    flags = ["--preset", "smoke", "--draws", "300", "--out", str(results)]
    assert main([SMALL, "--redraw", *flags]) == 0  # flags that say what is stored
    printed = capsys.readouterr().out
    assert f"drawn from {results / SMALL}.nc: preset smoke, changed, seed 0, draws 300" in printed
    assert (results / f"{SMALL}.nc").read_bytes() == before
    assert read(results, SMALL)["code"] == stored.code(*stored.CODE)


@pytest.mark.parametrize(
    "flags",
    [("--draws", "7"), ("--preset", "quick"), ("--data", "mnist"), ("--densities", "0.5", "1")],
)
def test_redraw_refuses_flags_that_say_otherwise(finished, monkeypatch, capsys, flags):
    monkeypatch.setattr(running, "run", never)
    assert main([SMALL, "--redraw", *flags, "--out", str(finished)]) == 2
    error = capsys.readouterr().err
    assert f"{' '.join(flags)} has no effect with --redraw" in error
    assert "draws 300" in error and "leave it out" in error


def test_redraw_refuses_the_result_of_another(results, capsys):
    (results / f"{QUICK}.nc").write_bytes((results / f"{SMALL}.nc").read_bytes())
    assert main([QUICK, "--redraw", "--out", str(results)]) == 2
    assert f"holds '{SMALL}'" in capsys.readouterr().err


# What it is told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([QUICK, "--data", "cifar10"], f"--data cifar10 has no effect on {QUICK}"),
        (["price_tanner2019_fig5a", "--data", "mnist"], "--data mnist has no effect"),
        (
            ["raghu2017_fig4", "--data", "random"],
            "raghu2017_fig4 needs images, choose one of digits",
        ),
        (["raghu2017_fig4", QUICK, "--data", "random"], "--data random has no effect"),
        ([QUICK, SMALL, "--data", "mnist"], "--data mnist has no effect"),
        (["all", "--drows", "3"], "--drows has no effect"),
        (["all", "-x", "3"], "-x has no effect"),
        ([QUICK, "pascanu2013_fig8", "--draws", "3"], "--draws has no effect"),
        ([QUICK, "--redraw", "--again"], "--again has no effect with --redraw"),
        (["nonsense", "--help"], "no simulation 'nonsense'"),
        ([QUICK, "pascanu2013_fig77"], "did you mean pascanu2013_fig7?"),
        (["list", "--preset", "cpu"], "have no effect on 'list'"),
        (["all", QUICK], "'all' stands alone"),
        (["--preset", "smoke"], "no simulation named"),
    ],
)
def test_what_has_no_effect_is_refused(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.setattr(running, "run", never)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Configurations of the simulations that were to be run, none of which is."""
    found = {}

    def noted(name, config, **options):
        found[name] = config
        return stored.Outcome("run", 12.34, 3, 0, 1, 0, 1)

    monkeypatch.setattr(running, "run", noted)
    monkeypatch.chdir(tmp_path)
    return found


def test_all_applies_flags_where_they_have_an_effect_and_says_where_not(ran, capsys):
    assert main(["all", "--preset", "smoke", "--data", "mnist", "--seed=5", "--no-cache"]) == 0
    assert list(ran) == list(CATALOGUE)
    lines = capsys.readouterr().out.splitlines()
    for field, value, start in (
        ("data", "mnist", "--data mnist has no effect on "),
        ("seed", 5, "--seed has no effect on "),
    ):
        (line,) = (line for line in lines if line.startswith(start))
        without = line.removeprefix(start).split(", ")
        assert 0 < len(without) < len(ran)
        for name, config in ran.items():
            own = CATALOGUE[name].config("smoke")
            assert (name in without) == (getattr(own, field, None) in (None, "random"))
            wanted = own if name in without else dataclasses.replace(own, **{field: value})
            assert getattr(config, field, None) == getattr(wanted, field, None), name


def test_several_names_and_a_table(ran, results, capsys):
    arguments = [SMALL, "--preset", "smoke", QUICK, "--no-cache", "--out", str(results)]
    assert main(arguments) == 0
    assert list(ran) == [SMALL]  # the other one was finished
    head, first, second = capsys.readouterr().out.splitlines()[-3:]
    assert head.split() == ["seconds", "holds", "FAILS", "seen", "unresolved", "NOT", "SEEN"]
    assert first.split() == [SMALL, "12.3", "3", "0", "1", "0", "1"]
    found = read(results, QUICK)
    proven = len(found["facts"]) + len(found["verdicts"])
    begin = [QUICK, f"{found['seconds']:.1f}", str(proven), "0"]
    assert second.split()[:4] == begin
    assert second.endswith("finished before")


def test_one_that_cannot_run_does_not_keep_the_others_from_it(monkeypatch, tmp_path, capsys):
    def noted(name, config, **options):
        if name == QUICK:
            raise FileNotFoundError("no data here")
        return stored.Outcome("run", 1.0, 1, 0, 0, 0, 0)

    monkeypatch.setattr(running, "run", noted)
    assert main([QUICK, SMALL, "--no-cache", "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert f"sims: {QUICK}: no data here" in printed.err
    last = printed.out.splitlines()[-2:]
    assert "could not be run" in last[0] and last[1].startswith(SMALL)


def test_ctrl_c_shows_what_was_done_until_then(monkeypatch, tmp_path, capsys):
    def noted(name, config, **options):
        if name == QUICK:
            raise KeyboardInterrupt
        return stored.Outcome("run", 1.0, 1, 0, 0, 0, 0)

    monkeypatch.setattr(running, "run", noted)
    with pytest.raises(KeyboardInterrupt):
        main([SMALL, QUICK, "--no-cache", "--out", str(tmp_path)])
    last = capsys.readouterr().out.splitlines()[-2:]
    assert last[0].startswith(SMALL) and last[1].split() == [QUICK, "not", "finished"]


def test_the_list_says_how_long_it_took(root, capsys):
    assert main(["list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert list(lines) == list(CATALOGUE)
    name = "hanin_rolnick2019_fig5"
    spans = [
        command._span(json.loads((root / folder / f"{name}.json").read_text())["seconds"])
        for folder in ("figures", "figures/cpu")
    ]
    assert lines[name].split(maxsplit=1)[1].startswith(f"{spans[0]} ")
    assert f"{spans[0]} {spans[1]:>6} " in lines[name]
    assert [command._span(s) for s in (0.4, 99, 100, 5400, 7200)] == [
        "< 1 s", "99 s", "2 min", "90 min", "2.0 h",
    ]  # fmt: skip


# Ctrl-C


@pytest.mark.parametrize("moment", ["importing", "compiling"])
def test_a_real_ctrl_c_exits_with_130(tmp_path, root, moment):
    """While modules are imported, some of which lose it, and while jaxlib compiles."""
    flags = ["--preset", "smoke", "--no-cache", "--out", str(tmp_path)]
    how = ["-v"] if moment == "importing" else ["-X", "faulthandler"]
    process = subprocess.Popen(
        [sys.executable, *how, "-m", "sims", "price_tanner2019_fig2", *flags],
        cwd=root,
        env=os.environ | {"JAX_LOG_COMPILES": "1", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wanted = "import 'jaxlib" if moment == "importing" else "Compiling jit(_many_networks)"
    assert any(wanted in line for line in process.stdout)
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=60)[0]
    assert process.returncode == 130, printed
    assert "the same command goes on" in printed
    assert "Traceback" not in printed and "Fatal" not in printed
    assert "Finished XLA compilation of jit(_many_networks)" not in printed
    assert not list(tmp_path.glob("**/*.unfinished"))


def test_a_ctrl_c_that_python_has_to_ignore_comes_again(monkeypatch):
    """Where a finaliser or a callback of the collector is running, an exception is dropped."""

    class Finalised:
        def __del__(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", process._again)
    with pytest.raises(KeyboardInterrupt):
        Finalised()
        time.sleep(5)
