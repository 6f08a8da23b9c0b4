"""The way of one ``estimate`` from its arguments to a number, followed from file to file."""

import ast
import inspect
import sys
from pathlib import Path

import checked_shapes
import jax
import numpy as np
import pytest
from test_structure import LEVELS

import jaxexpr
from jaxexpr import MLP, curves, estimate, laws

PACKAGE = Path(jaxexpr.__file__).parent
NET = MLP((3, 5, 11), laws.Gaussian(1.5), laws.Gaussian(0.3))
LINE = curves.line(np.array([1.0, 0.0, 0.5]), np.array([-1.0, 0.5, 0.0]))
# Whom a room calls above it, because it was handed it: the runner's tasks and probes' functions, a
# function over a sweep, in threads, under a decorator.
HANDED = {
    ("_core", "calls.py"),  # decorated functions
    ("_core", "sweeps.py"),  # a function of one cell
    ("_core", "transforms.py"),  # the body of a loop
    ("measurement", "propagation.py"),  # what observes a layer
    ("along_curves", "traverse.py"),  # what draws a layer
}


def files_called(work):
    """Pairs of files of the package, the second of which was called by the first."""
    pairs = set()

    def watch(frame, event, _):
        back = frame.f_back
        while back is not None and checked_shapes.is_a_check(back.f_code):
            back = back.f_back
        if event == "call" and back is not None:
            here, back = Path(frame.f_code.co_filename), Path(back.f_code.co_filename)
            if PACKAGE in here.parents and PACKAGE in back.parents:
                pairs.add((back.relative_to(PACKAGE), here.relative_to(PACKAGE)))

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return pairs


@pytest.fixture(scope="module")
def pairs():
    def work():  # of sizes of its own, so that it is traced anew
        estimate(NET, LINE, key=jax.random.key(0), draws=2, probes=("growth", "pieces"))

    return files_called(work)


def level(path):
    room = path.parts[0].removesuffix(".py")
    return next(i for i, rooms in enumerate(LEVELS) if room in rooms)


def test_no_room_calls_a_room_above_it_but_what_it_was_handed(pairs):
    climbs = {(str(back), str(here)) for back, here in pairs if level(here) > level(back)}
    unknown = {(a, b) for a, b in climbs if tuple(Path(a).parts[-2:]) not in HANDED}
    assert not unknown
    assert climbs  # the trace sees something


def test_the_spine_is_short(pairs):
    """Above the pieces themselves a call goes through few files."""
    spine = {
        path for pair in pairs for path in pair if path.parts[0] in ("ensemble", "measurement")
    }
    assert len(spine) <= 18


def functions(folder):
    for path in (PACKAGE / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield path.name, node


def test_options_are_spelt_once():
    """No function lists the options of a run again; four questions hand them on."""
    options = set(jaxexpr.RunOptions.__annotations__)
    for name, node in functions("ensemble"):
        arguments = {arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)}
        assert len(arguments & options) < 3, (name, node.name)
    for question in (estimate, jaxexpr.dichotomies, jaxexpr.perturbations, jaxexpr.boundary_volume):
        kinds = {p.kind for p in inspect.signature(question).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD in kinds


def test_sizes_of_arrays_are_the_business_of_three_files():
    """Of what is between the question and the pieces; others carry the capacity unopened."""
    opened = {
        path.name
        for folder in ("measurement", "ensemble")
        for path in (PACKAGE / folder).glob("*.py")
        if path.name != "labelling_passes.py"  # a question of its own, in one file
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("blocks", "in_parts", "held_bytes")
    }
    assert opened <= {"capacity_guess.py", "exact_pass.py", "curve_estimates.py"}


def test_what_is_observed_holds_probes_alone():
    from jaxexpr.measurement.observe import observe
    from jaxexpr.measurement.plan import checked

    curve, passes = checked(NET, LINE, ("length", "transitions"), "exact", None)
    observed = jax.eval_shape(lambda key: observe(NET, key, curve, passes), jax.random.key(0))
    assert sorted(observed.numbers) == ["length", "transitions"]
    assert observed.required.shape == (2, 2)


TWINS = {
    "LayerResult", "advance", "start", "pieces", "length",  # lines and arcs: one way to use both
    "plane", "regions", "load",  # public, each in a module of its own
}  # fmt: skip


def test_few_names_stand_for_two_things():
    """Functions and classes at the top of modules, private ones too."""
    places = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                places.setdefault(node.name, set()).add(path)
    twins = {name for name, where in places.items() if len(where) > 1}
    assert twins <= TWINS
