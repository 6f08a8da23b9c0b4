"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import jaxexpr

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(jaxexpr.__path__, prefix="jaxexpr.")
)
FINDER = doctest.DocTestFinder(exclude_empty=True)


def examples_of(name):
    """Doctests of a module, of what it defines alone."""
    return FINDER.find(importlib.import_module(name), name)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    for example in examples_of(name):
        runner.run(example, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_most_public_functions_have_an_example():
    with_examples = {test.name for name in MODULES for test in examples_of(name) if test.examples}
    assert len(with_examples) >= 90
