"""The house: imports point one way, and importing is cheap."""

import ast
import json
import re
import subprocess
import sys
import types

import pytest

import jaxexpr
import jaxexpr.training
from sims.catalogue import CATALOGUE

# Rooms from the ground up: a file imports its own room and rooms of lower levels, nothing else.
LEVELS = [
    {"_core"},
    {"prng", "datasets"},
    {"laws", "activations", "curves"},
    {"layers", "params"},
    {"networks", "theory", "exact"},
    {"convnets", "convert"},
    {"probes"},
    {"measurement"},
    {"ensemble"},
    {"verdicts", "results", "plotting", "training"},
    {"__init__"},
]
WINGS = {"along_curves", "functions", "planes", "polytopes"}  # of exact
GUESS = "measurement/capacity_guess.py"  # sizes of arrays: the one estimator that asks theory


def dotted(source, package):
    """Modules of `package`, dotted, that a piece of code imports, at any depth of it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name for name in names if name.split(".")[0] == package}
    return found


def rooms(source):
    """Rooms of the package that a piece of code imports; the package itself is ``__init__``."""
    return {(name.split(".") + ["__init__"])[1] for name in dotted(source, "jaxexpr")}


def room_of(path, root):
    return path.relative_to(root / "jaxexpr").parts[0].removesuffix(".py")


def allowed(room):
    """Rooms that the files of a room may import."""
    (level,) = (i for i, level in enumerate(LEVELS) if room in level)
    return {room}.union(*LEVELS[:level])


def test_every_file_has_a_room_and_every_room_files(root):
    found = {room_of(path, root) for path in (root / "jaxexpr").rglob("*.py")}
    assert found == set().union(*LEVELS)
    assert sum(map(len, LEVELS)) == len(found)


def test_imports_point_downwards(root):
    for path in (root / "jaxexpr").rglob("*.py"):
        room = room_of(path, root)
        if room == "__init__":
            continue
        own = {"__init__"} if room == "results" else set()  # which writes the version
        assert rooms(path.read_text()) <= allowed(room) | own, path


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("import jaxexpr.ensemble.runner as r", "ensemble"),
        ("import jaxexpr", "__init__"),
        ("from jaxexpr import ensemble", "ensemble"),
        ("from jaxexpr.ensemble.runner import gather", "ensemble"),
        ("from jaxexpr.ensemble import runner", "ensemble"),
    ],
)
def test_an_import_that_runs_upwards_is_seen(line, room):
    assert rooms(f"import numpy\n\ndef f():\n    {line}\n") == {room}
    assert room not in allowed("measurement")


def test_theory_is_an_independent_oracle(root):
    for path in (root / "jaxexpr" / "theory").glob("*.py"):
        assert rooms(path.read_text()) <= {"_core", "laws", "activations", "curves", "theory"}
    asks = {
        str(path.relative_to(root / "jaxexpr"))
        for path in (root / "jaxexpr").rglob("*.py")
        if "theory" in rooms(path.read_text()) and room_of(path, root) not in ("theory", "__init__")
    }
    assert asks == {GUESS}


def test_exact_stands_on_parameters_curves_and_activations(root):
    for path in (root / "jaxexpr" / "exact").rglob("*.py"):
        assert rooms(path.read_text()) <= {"_core", "params", "curves", "activations", "exact"}, (
            path
        )


def test_parts_of_exact_meet_in_few_places(root):
    """Functions need no other part; nothing is needed by all but the refusal of activations."""
    meet = set()
    for wing in WINGS:
        for path in (root / "jaxexpr" / "exact" / wing).glob("*.py"):
            parts = {
                name.split(".")[2]
                for name in dotted(path.read_text(), "jaxexpr")
                if name.startswith("jaxexpr.exact.")
            }
            meet |= {(wing, part) for part in parts & WINGS - {wing}}
    assert meet == {
        ("along_curves", "planes"),  # patterns on both sides of a breakpoint
        ("planes", "along_curves"), ("polytopes", "along_curves"),  # which activations are exact
    }  # fmt: skip


def public():
    """All packages and modules that list public names."""
    return [jaxexpr, jaxexpr.exact, jaxexpr.theory, jaxexpr.training]


def test_no_module_bears_the_name_of_something_public(root):
    """``jaxexpr.dichotomies`` must not be a function or a module by the order of imports."""
    names = {
        name
        for package in public()
        for name in package.__all__
        if not isinstance(getattr(package, name), types.ModuleType)
    }
    files = {path.stem for path in (root / "jaxexpr").rglob("*.py")}
    folders = {path.name for path in (root / "jaxexpr").rglob("*") if path.is_dir()}
    assert (files | folders) & names == set()


def test_package_never_imports_the_simulations(root):
    for path in (root / "jaxexpr").rglob("*.py"):
        assert dotted(path.read_text(), "sims") == set(), path


@pytest.mark.parametrize(
    "line",
    [
        "import sims",
        "import sims.running as r",
        "from sims import running",
        "from sims.running import *",
    ],
)
def test_an_import_of_the_simulations_is_seen(line):
    assert dotted(f"import numpy\n\ndef f():\n    {line.replace('*', 'Run')}\n", "sims")


def test_a_simulation_borrows_from_its_own_topic_alone(root):
    shared = {"config", "data_points", "findings", "running"}
    scripts = {entry.script for entry in CATALOGUE.values()}
    for path in (root / "sims").glob("*/*.py"):
        topic = path.parent.name
        found = {(name.split(".") + ["sims"])[1] for name in dotted(path.read_text(), "sims")}
        assert found <= (set() if topic == "papers" else shared | {topic}), path
        whole = {"simulate", "check", "draw", "Config"} <= set(re.findall(
            r"^(?:def|class) (\w+)", path.read_text(), re.M))  # fmt: skip
        assert whole == (f"{topic}.{path.stem}" in scripts), path


def test_what_simulations_share_is_light_where_names_are_listed(root):
    """The list of simulations needs no array library, and few files what is not public."""
    code = "import sys, sims.catalogue, sims.command; print('jax' in sys.modules)"
    assert python(code) == "False\n"
    private = {
        path.name for path in (root / "sims").rglob("*.py") if "_core" in rooms(path.read_text())
    }
    assert private == {"running.py", "command.py"}


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_is_quick_and_light():
    code = """
import json, sys, time
import jax, jax.numpy
began = time.process_time()
import jaxexpr
seconds = time.process_time() - began
heavy = ["flax", "optax", "matplotlib", "xarray", "sklearn", "rich", "tyro", "pooch"]
print(json.dumps([seconds, [m for m in heavy if m in sys.modules]]))
"""
    seconds, heavy = json.loads(python(code))
    assert heavy == []
    assert seconds < 1.0


def test_import_touches_no_device_and_no_setting():
    code = """
import jax
before = {k: v for k, v in jax.config.values.items()}
import jaxexpr
after = {k: v for k, v in jax.config.values.items()}
jax.config.update("jax_num_cpu_devices", 2)  # refused once a device is in use
print(before == after, len(jax.devices()))
"""
    assert python(code).split() == ["True", "2"]


def test_help_and_list_load_nothing_heavy():
    code = """
import sys
from sims.__main__ import main
for arguments in (["--help"], ["list"]):
    assert main(arguments) == 0
print([m for m in ("jax", "xarray", "matplotlib") if m in sys.modules])
"""
    assert python(code).splitlines()[-1] == "[]"


def test_slow_tests_are_tests(root):
    lines = (root / "tests" / "slow.txt").read_text().splitlines()
    for name in (line for line in lines if not line.startswith("#")):
        path, function = name.split("::")
        assert f"def {function.split('[')[0]}(" in (root / path).read_text(), name
