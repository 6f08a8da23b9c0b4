"""Helpful errors for wrong calls and unknown names.

Python's own message says that an argument is unexpected; these also suggest the intended one.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from jaxexpr._core import checks
from jaxexpr._core.spellings import INSTEAD, MEANT

Function = TypeVar("Function", bound=Callable[..., Any])

EXAMPLES = {"key": "jax.random.key(0)", "draws": "1000"}  # values shown for missing arguments
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def explained(function: Function, **advice: str) -> Function:
    """Return `function` with TypeErrors that say how to correct a wrong call.

    For a class, its ``__init__`` is wrapped and the class itself is returned.

    advice : messages for arguments that do not exist, by the name of the argument.
    """
    if isinstance(function, type):
        function.__init__ = explained(function.__init__, **advice)  # type: ignore[misc]
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> object:
        try:
            return function(*args, **kwargs)
        except TypeError:
            message = _call_error(function, args, kwargs, advice)
            if message is None:
                raise
        raise TypeError(message)

    return typing.cast(Function, call)


def advised(**advice: str) -> Callable[[Function], Function]:
    """Return ``explained`` as a decorator, with `advice`."""
    return lambda function: explained(function, **advice)


def _call_error(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    advice: Mapping[str, str],
) -> str | None:
    """Return what is wrong with a call and how to correct it; None if the signature accepts it."""
    parameters = dict(inspect.signature(function).parameters)
    if "self" in parameters:
        del parameters["self"]
        args = args[1:]
    name = function.__qualname__.removesuffix(".__init__")
    kinds = {p.kind for p in parameters.values()}
    known = [key for key, p in parameters.items() if p.kind not in _REST]
    options = _options(function) if inspect.Parameter.VAR_KEYWORD in kinds else []
    if inspect.Parameter.VAR_KEYWORD not in kinds or options:
        for key, value in kwargs.items():
            if key not in (*known, *options):
                fix = advice.get(key) or _nearest_name(key, [*known, *options])
                return f"{name}() takes no argument {key}={checks.shown(value)}: {fix}"
    positional = [key for key, p in parameters.items() if p.kind in _POSITIONAL]
    if len(args) > len(positional) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        others = [key for key in known if key not in positional]
        fix = f"name the others, such as {others[0]}=" if others else "leave the others out"
        return (
            f"{name}() takes {len(positional)} positional arguments ({', '.join(positional)}) and "
            f"is given {len(args)}, with {checks.shown(args[len(positional)])}: {fix}"
        )
    repeated = [key for key in positional[: len(args)] if key in kwargs]
    if repeated:
        return f"{name}() is given {repeated[0]} twice, by position and by name: give it once"
    missing = [
        key
        for key, p in parameters.items()
        if p.default is p.empty
        and p.kind not in _REST
        and key not in (*positional[: len(args)], *kwargs)
    ]
    if missing:
        examples = ", ".join(f"{key}={EXAMPLES.get(key, '...')}" for key in missing)
        return f"{name}() is called without {' and '.join(missing)}: give {examples}"
    return None


def _options(function: Callable[..., Any]) -> list[str]:
    """Return the names that ``**options: Unpack[Options]`` allows; none if it allows any name."""
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            for kind in typing.get_args(parameter.annotation):
                return list(kind.__annotations__)
    return []


def _nearest_name(name: str, known: list[str]) -> str:
    """Return a message that suggests the nearest of the known names."""
    candidates = [x for x in MEANT.get(name.lower(), ()) if x.partition("=")[0] in known]
    candidates = candidates or difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    if candidates:
        return f"did you mean {' or '.join(candidates)}?"
    return f"it takes {', '.join(known)}"


def elsewhere(owner: str, instead: Mapping[str, str]) -> Callable[[object, str], NoReturn]:
    """Return a ``__getattr__`` for a class whose errors say what to use instead.

    owner : name of the class.
    instead : from the name of a missing attribute to what to use.
    """

    def missing(self: object, name: str) -> NoReturn:
        if name not in instead:
            raise AttributeError(f"{owner!r} object has no attribute {name!r}")
        raise AttributeError(f"{owner} has no {name!r}: use {instead[name]}")

    return missing


def absent(module: str, public: Iterable[str]) -> Callable[[str], NoReturn]:
    """Return a ``__getattr__`` for a module whose errors suggest one of its public names."""
    names, known = list(public), INSTEAD.get(module.removeprefix("jaxexpr").strip("."), {})

    def missing(name: str) -> NoReturn:
        if name.startswith("_"):  # requested by Python and by tools
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        fix = known.get(name.lower().replace("_", ""))
        if fix is None:
            lower = {n.lower(): n for n in names}
            nearest = difflib.get_close_matches(name.lower(), lower, n=1)
            few = len(names) < 15
            choice = f"one of {', '.join(names)}" if few else f"what dir({module}) lists"
            fix = f"did you mean {lower[nearest[0]]}?" if nearest else f"use {choice}"
        raise AttributeError(f"{module} has no {name!r}: {fix}")

    return missing
