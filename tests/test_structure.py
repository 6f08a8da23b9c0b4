"""The house: imports point one way, and importing is cheap."""

import ast
import json
import subprocess
import sys

import pytest

ORDER = [
    "checks", "derivatives", "transforms", "spellings", "calls", "progress",
    "projections", "noise", "laws", "activations",
    "curves", "products", "layers", "networks", "cores", "convnets", "given", "propagation",
    "exact", "convert", "theory", "exactly", "rice", "probes", "plans", "moments",
    "boundary", "checkpoint",
    "jobs", "kernels", "batches", "identity", "grids", "runner", "ensemble", "sweeps",
    "dichotomies", "perturbations", "verdicts", "training",
]  # fmt: skip


def imports(path):
    """Modules of the package that a file imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxexpr"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("name", ORDER)
def test_imports_point_downwards(name, root):
    below = set(ORDER[: ORDER.index(name)]) | {"noise"}
    folder = root / "jaxexpr" / name
    files = list(folder.glob("*.py")) or [folder.with_suffix(".py")]
    for path in files:
        assert imports(path) <= (below | {name} if folder.is_dir() else below), path


def test_theory_is_an_independent_oracle(root):
    for path in (root / "jaxexpr" / "theory").glob("*.py"):
        assert imports(path) <= {"checks", "calls", "laws", "activations", "theory"}


def imported(source):
    """Top-level names of all modules that a piece of code imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_package_never_imports_the_simulations(root):
    for path in (root / "jaxexpr").rglob("*.py"):
        assert "sims" not in imported(path.read_text()), path


@pytest.mark.parametrize(
    "line",
    ["import sims", "import sims.run as r", "from sims import run", "from sims.run import *"],
)
def test_an_import_of_the_simulations_is_seen(line):
    assert "sims" in imported(f"import numpy\n\ndef f():\n    {line.replace('*', 'Run')}\n")


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
