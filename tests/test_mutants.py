"""The lists of faults of ``make mutants`` fit the package as it is."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants_run", HERE / "mutants" / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_fault_can_be_made(mutants, root):
    faults = mutants.faults()
    assert len({(f.file, f.old, f.new) for f in faults}) == len(faults)
    for fault in faults:
        text = (root / fault.file).read_text()
        compile(fault.made_in(text), str(fault), "exec")  # made_in: old occurs exactly once
        assert fault.new != fault.old, fault
        assert fault.file in mutants.tests_of(), f"{fault.file} has no tests in tests.toml"


def test_tests_of_modules_exist(mutants, root):
    slow = (root / "tests" / "slow.txt").read_text().splitlines()
    for module, tests in mutants.tests_of().items():
        assert (root / module).is_file(), module
        assert tests, module
        for test in tests:
            path, _, function = test.partition("::")
            assert test not in slow, f"{module}: {test} is left out of a run"
            text = (root / path).read_text()
            assert not function or f"def {function.split('[')[0]}(" in text, test


def test_a_fault_that_is_not_noticed_is_told(mutants, capsys):
    good = {"fault": "a:1", "noticed": True, "seconds": 1.0, "by": "", "reason": ""}
    bad = good | {"fault": "a:2", "noticed": False}
    excused = bad | {"fault": "a:3", "reason": "same numbers"}
    assert mutants.summed([good, excused], 1.0) == 0
    assert "1 of 1 noticed" in capsys.readouterr().out
    assert mutants.summed([good, bad, excused], 1.0) == 1
    printed = capsys.readouterr().out
    assert "1 of 2 noticed (50.0%)" in printed and "a:2" in printed and "a:3" not in printed


def test_faults_are_made_in_copies_and_taken_out_again(mutants, tmp_path):
    module = tmp_path / "jaxexpr" / "_core" / "checks.py"
    module.parent.mkdir(parents=True)
    module.write_text("def one():\n    return 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_errors.py").write_text(
        "import importlib.util\n"
        "spec = importlib.util.spec_from_file_location('checks', 'jaxexpr/_core/checks.py')\n"
        "checks = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(checks)\n"
        "def test_one():\n    assert checks.one() > 0\n"
    )
    mutants.tests_of = lambda: {"jaxexpr/_core/checks.py": ["tests/test_errors.py"]}
    told = [
        mutants.judged(mutants.Fault("x", "jaxexpr/_core/checks.py", "1", new), i, tmp_path, 60.0)
        for i, new in enumerate(("2", "0"), 1)
    ]
    assert [t["noticed"] for t in told] == [False, True]
    assert told[1]["by"].endswith("test_one")
    assert module.read_text().endswith("return 1\n")
    with pytest.raises(ValueError, match="occurs 0 times"):
        mutants.Fault("x", "jaxexpr/_core/checks.py", "7", "8").made_in(module.read_text())
