"""Calls that do not fit are explained; those that fit, and faults inside a function, are left."""

import inspect
import subprocess
import sys
from typing import TypedDict, Unpack

import checked_shapes
import jax
import pytest

import jaxexpr
from jaxexpr import MLP, estimate, laws, measure, training
from jaxexpr._core import calls, spellings
from jaxexpr._core.calls import absent, advised, explained


class Options(TypedDict, total=False):
    colour: str


@explained
def plain(first, second=2, *rest, key):
    return first, second, rest, key


def inner(*, colour="blue"):
    return colour


@explained
def optional(first, **options: Unpack[Options]):
    return first, inner(**options)


@explained
def anything(first, **options):
    return first, options


@advised(wheel="there are none: give rails")
def train(engine, *, batch=1):
    return engine, batch


def refused(call):
    with pytest.raises(TypeError) as caught:
        call()
    return str(caught.value)


def test_calls_that_fit_pass():
    assert plain(1, key=3) == (1, 2, (), 3)
    assert plain(1, 5, 6, 7, key=3) == (1, 5, (6, 7), 3)
    assert plain(first=1, second=4, key=3) == (1, 4, (), 3)
    assert optional(1, colour="red") == (1, "red")
    assert anything(1, colour="red") == (1, {"colour": "red"})


def test_calls_that_do_not_fit_are_explained():
    assert refused(lambda: plain(1, seed=3)) == (
        "plain() takes no argument seed=3: did you mean key?"
    )
    assert refused(lambda: plain(1, frist=2, key=3)) == (
        "plain() takes no argument frist=2: did you mean first?"
    )
    assert refused(lambda: plain(1, xyz=2, key=3)) == (
        "plain() takes no argument xyz=2: it takes first, second, key"
    )
    assert refused(lambda: plain(1)) == "plain() is called without key: give key=jax.random.key(0)"
    assert refused(lambda: plain(key=3)) == "plain() is called without first: give first=..."
    assert refused(lambda: plain(1, 2, second=4, key=3)) == (
        "plain() is given second twice, by position and by name: give it once"
    )
    assert refused(lambda: train(1, 2)) == (
        "train() takes 1 positional arguments (engine) and is given 2, with 2: name the others, "
        "such as batch="
    )
    assert refused(lambda: train(1, wheel=4)) == (
        "train() takes no argument wheel=4: there are none: give rails"
    )
    assert refused(lambda: optional(1, color="red")) == (
        "optional() takes no argument color='red': did you mean colour?"
    )


def test_faults_inside_a_function_stay_as_they_are():
    @explained
    def broken(x):
        return len(x)

    assert refused(lambda: broken(3)) == "object of type 'int' has no len()"


def test_a_decorated_function_keeps_its_signature_name_and_place():
    for function, name in ((estimate, "estimate"), (measure, "measure"), (training.train, "train")):
        assert function.__name__ == name and function.__doc__
        assert "activation" in str(inspect.signature(measure))
        assert inspect.unwrap(function) is not function
    assert list(inspect.signature(MLP).parameters)[:3] == ["widths", "weights", "biases"]
    assert str(inspect.signature(laws.Gaussian)).startswith("(sigma")
    assert isinstance(laws.Gaussian, type) and laws.Gaussian(2.0) == laws.Gaussian(2.0)


def public_functions():
    """Functions of the package and of its public modules, with their names."""
    modules = [jaxexpr, *(getattr(jaxexpr, name) for name in dir(jaxexpr) if name[0] != "_")]
    for module in (m for m in modules if inspect.ismodule(m)):
        own = [
            n for n, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__
        ]
        for name in getattr(module, "__all__", own):
            found = getattr(module, name)
            if inspect.isfunction(found) and name[0] != "_":
                yield f"{module.__name__}.{name}".removeprefix("jaxexpr."), found


def layers(found):
    """How often a function is wrapped; once where annotations are checked."""
    return 1 + layers(found.__wrapped__) if hasattr(found, "__wrapped__") else 0


def test_public_functions_are_explained():
    """But the few that others of the package call, or that have nothing to be misspelt."""
    left = {
        name
        for name, found in public_functions()
        if layers(found) == found.__module__.startswith(checked_shapes.PACKAGES)
    }
    assert left == {
        "activations.get", "curves.as_curve", "exact.distinct_patterns", "laws.as_float64",
        "laws.as_law", "laws.unit_of", "plotting.axes", "training.polyline_length", "prng.child",
        "prng.further", "prng.normal", "prng.permutation", "prng.seed", "prng.symmetric",
        "prng.threefry2x32", "prng.unit_interval", "prng.words",
    }  # fmt: skip


def test_other_names_lead_to_names_that_exist():
    """What is suggested for an argument is an argument of some public function or class."""
    known = set()
    for _, found in public_functions():
        known |= set(inspect.signature(found).parameters)
    classes = [x for x in (*vars(jaxexpr).values(), *vars(laws).values()) if inspect.isclass(x)]
    known |= set(jaxexpr.RunOptions.__annotations__)
    for kind in classes:
        if kind.__module__.startswith("jaxexpr") and kind is not jaxexpr.RunOptions:
            known |= set(inspect.signature(kind).parameters)
    for name, meant in spellings.MEANT.items():
        for suggestion in meant:
            assert suggestion.partition("=")[0] in known, (name, suggestion)
    assert known.isdisjoint({"seed", "n_samples", "optimizer"})


def test_smooth_activations_are_described_as_they_are():
    """Each suggestion is taken; with a constant 2 % smaller it would be refused."""
    scope = {"Activation": jaxexpr.Activation, "jax": jax}
    for name in ("gelu", "selu", "sigmoid"):
        made = eval(spellings.SMOOTH[name], scope)
        assert jaxexpr.activations.get(made) is made
        small = jaxexpr.Activation(name, made.function, lipschitz=0.98 * made.lipschitz)
        with pytest.raises(ValueError, match=r"lipschitz=.* the function's slope is"):
            jaxexpr.activations.get(small)


def test_missing_names_are_attribute_errors_that_tools_can_read():
    missing = absent("jaxexpr.somewhere", ["alpha", "beta"])
    with pytest.raises(AttributeError, match=r"has no 'alhpa': did you mean alpha\?"):
        missing("alhpa")
    with pytest.raises(AttributeError, match="has no attribute '__wrapped__'"):
        missing("__wrapped__")
    assert not hasattr(laws, "Normal") and not hasattr(laws, "_anything")
    assert getattr(jaxexpr, "nothing_like_it", None) is None
    assert calls.__name__ == "jaxexpr._core.calls"


def test_modules_that_need_more_are_imported_where_they_are_used():
    code = """
import sys
import jaxexpr
before = [m for m in ("xarray", "flax") if m in sys.modules]
names = set(dir(jaxexpr))
assert {"plotting", "results", "training", "MLP", "estimate"} <= names
assert not {"plans", "runner", "checks", "importlib", "Any"} & names, names
print(before, callable(jaxexpr.results.load), callable(jaxexpr.plotting.layers),
      callable(jaxexpr.training.train))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True True True\n"
