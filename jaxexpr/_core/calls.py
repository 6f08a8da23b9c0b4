"""Calls that a function does not take, and names that a module does not have, explained.

Python says that an argument is unexpected; a user wants to know which one was meant.
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

GIVEN = {"key": "jax.random.key(0)", "draws": "1000"}  # examples of what is asked for
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def explained(function: Function, **advice: str) -> Function:
    """Return `function` with a TypeError for a call it does not take that says what it does take.

    Of a class, its ``__init__`` is explained and the class itself returned.

    advice : what to say of arguments that do not exist and that nothing here stands for.
    """
    if isinstance(function, type):
        function.__init__ = explained(function.__init__, **advice)  # type: ignore[misc]
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> object:
        try:
            return function(*args, **kwargs)
        except TypeError:
            fault = _fault(function, args, kwargs, advice)
            if fault is None:
                raise
        raise TypeError(fault)

    return typing.cast(Function, call)


def advised(**advice: str) -> Callable[[Function], Function]:
    """``explained`` as a decorator with advice."""
    return lambda function: explained(function, **advice)


def _fault(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    advice: Mapping[str, str],
) -> str | None:
    """What is wrong with a call, and what to give instead; None if the signature takes it."""
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
    places = [key for key, p in parameters.items() if p.kind in _POSITIONAL]
    if len(args) > len(places) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        others = [key for key in known if key not in places]
        fix = f"name the others, such as {others[0]}=" if others else "leave the others out"
        return (
            f"{name}() takes {len(places)} arguments by place ({', '.join(places)}) and is given "
            f"{len(args)}, with {checks.shown(args[len(places)])}: {fix}"
        )
    twice = [key for key in places[: len(args)] if key in kwargs]
    if twice:
        return f"{name}() is given {twice[0]} twice, by place and by name: give it once"
    missing = [
        key
        for key, p in parameters.items()
        if p.default is p.empty
        and p.kind not in _REST
        and key not in (*places[: len(args)], *kwargs)
    ]
    if missing:
        asked = ", ".join(f"{key}={GIVEN.get(key, '...')}" for key in missing)
        return f"{name}() is called without {' and '.join(missing)}: give {asked}"
    return None


def _options(function: Callable[..., Any]) -> list[str]:
    """Names that ``**options: Unpack[Options]`` allows; none if anything goes."""
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            for kind in typing.get_args(parameter.annotation):
                return list(kind.__annotations__)
    return []


def _nearest_name(name: str, known: list[str]) -> str:
    """Which of the known names may be meant."""
    meant = [x for x in MEANT.get(name.lower(), ()) if x.partition("=")[0] in known]
    meant = meant or difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return f"did you mean {' or '.join(meant)}?" if meant else f"it takes {', '.join(known)}"


def elsewhere(owner: str, instead: Mapping[str, str]) -> Callable[[object, str], NoReturn]:
    """Return a ``__getattr__`` for a class that says where what it lacks is to be found."""

    def missing(self: object, name: str) -> NoReturn:
        if name not in instead:
            raise AttributeError(f"{owner!r} object has no attribute {name!r}")
        raise AttributeError(f"{owner} has no {name!r}: use {instead[name]}")

    return missing


def absent(module: str, public: Iterable[str]) -> Callable[[str], NoReturn]:
    """Return a ``__getattr__`` for a module that says which of its public names may be meant."""
    names, known = list(public), INSTEAD.get(module.removeprefix("jaxexpr").strip("."), {})

    def missing(name: str) -> NoReturn:
        if name.startswith("_"):  # asked for by Python and by tools
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        fix = known.get(name.lower().replace("_", ""))
        if fix is None:
            lower = {n.lower(): n for n in names}
            near = difflib.get_close_matches(name.lower(), lower, n=1)
            some = f"one of {', '.join(names)}" if len(names) < 15 else f"what dir({module}) lists"
            fix = f"did you mean {lower[near[0]]}?" if near else f"use {some}"
        raise AttributeError(f"{module} has no {name!r}: {fix}")

    return missing
