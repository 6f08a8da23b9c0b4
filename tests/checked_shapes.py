"""Annotations of four packages, checked at run time while tests run: shapes, dtypes and types.

``install`` must be called before the package is imported. A public function with ``@explained``
reports wrong arguments itself, so only its result is checked.
"""

import functools
import re
import sys
from pathlib import Path
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

PACKAGES = (
    "jaxexpr._core",
    "jaxexpr.measurement",
    "jaxexpr.ensemble",
    "jaxexpr.exact.along_curves",
)
# These receive what a user gave from functions that are explained, and check it themselves.
VALIDATE = {
    *("validate_network", "checked", "plan", "kernel.<locals>.f", "distinct_patterns"),
    *("Estimate.__init__", "Estimate.of", "Estimate.from_moments"),
    *("Estimate.__sub__", "Estimate.interval", "error_bar", "observations", "Bar.__init__"),
}
_CHECK = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int will do for a float
# Kinds that cannot be checked: the class itself, no result, a protocol.
_NOT_CHECKABLE = re.compile(r"typing\.(Self|NoReturn)|_View")
_EXPLAINED = re.compile(r"^ *@explained\n(?: *@.*\n)*? *def (\w+)", re.MULTILINE)


def install() -> None:
    assert "jaxexpr" not in sys.modules, "imported before its annotations can be checked"
    jaxtyping.install_import_hook(PACKAGES, "checked_shapes.checked")


@functools.cache
def unchecked(module: str) -> frozenset[str]:
    """Names of the functions of a module that check their arguments themselves."""
    text = Path(sys.modules[module].__file__).read_text()
    return frozenset(_EXPLAINED.findall(text)) | VALIDATE


def checked(function):
    """A function whose arguments and result are compared with its annotations."""
    kinds = function.__annotations__
    if function.__qualname__ in unchecked(function.__module__):
        kinds = {"return": kinds.get("return", Any)}
    not_checkable = (name for name, kind in kinds.items() if _NOT_CHECKABLE.search(repr(kind)))
    function.__annotations__ = kinds | dict.fromkeys(not_checkable, Any)
    return _CHECK(function)


def is_a_check(code) -> bool:
    """Whether code belongs to the checks around a function."""
    return "/jaxtyping/" in code.co_filename or "beartype" in code.co_filename
