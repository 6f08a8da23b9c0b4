"""A fingerprint of all that determines the numbers of an estimate.

What was gathered for one network, curve, key and set of probes must never be continued with
another. Users' own functions (probes, curves, activations) are told apart by their code and by
what they close over; where that is not the same from one process to the next, continuing is
refused rather than risked.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np


def fingerprint(*what: object) -> str:
    """Fingerprint of values: arrays, numbers, laws, functions and what these close over."""
    found = hashlib.sha256()
    for part in _parts(what, set()):
        found.update(len(part).to_bytes(8, "little") + part)  # 1 and 23 are not 12 and 3
    return found.hexdigest()


def _parts(value: object, seen: set[int]) -> Iterable[bytes]:
    """Bytes that say what `value` is, down to the code of functions."""
    if isinstance(value, jax.core.Tracer):
        yield str(value.aval).encode()  # a function may keep what it saw while it was traced
    elif isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        yield from _parts((str(jax.random.key_impl(value)), jax.random.key_data(value)), seen)
    elif isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        yield f"{array.dtype}{array.shape}".encode() + array.tobytes()
    elif isinstance(value, dict):
        yield from _parts(sorted(value.items(), key=lambda item: repr(item[0])), seen)
    elif isinstance(value, tuple | list):
        yield f"({len(value)}".encode()
        for item in value:
            yield from _parts(item, seen)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value).__qualname__.encode()
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name), seen)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, sorted(value.keywords.items())), seen)
    elif isinstance(value, types.FunctionType):
        if id(value) not in seen:
            yield from _function(value, seen | {id(value)})
    elif isinstance(value, types.MethodType):
        yield from _parts((value.__func__, value.__self__), seen)
    elif isinstance(value, types.CodeType):
        yield value.co_code
        yield from _parts((value.co_consts, value.co_names), seen)
    elif hasattr(value, "__wrapped__") and isinstance(value.__wrapped__, types.FunctionType):
        yield from _parts(value.__wrapped__, seen)  # what jax.jit was given
    elif callable(value) and hasattr(value, "__qualname__"):
        yield f"{value.__module__}.{value.__qualname__}".encode()
    else:
        yield repr(value).encode()


def _function(value: types.FunctionType, seen: set[int]) -> Iterable[bytes]:
    yield f"{value.__module__}.{value.__qualname__}".encode()
    yield from _parts(value.__code__, seen)
    yield from _parts((value.__defaults__ or (), value.__kwdefaults__ or {}), seen)
    for cell in value.__closure__ or ():
        yield from _parts(cell.cell_contents, seen)
    # Globals that the code names: another module-level constant is another function. Modules and
    # library functions are known by their names.
    for name in _names_read(value.__code__):
        found = value.__globals__.get(name)
        plain = bool | int | float | str | tuple | list | dict | np.ndarray | jax.Array
        if isinstance(found, plain):
            yield from _parts((name, found), seen)
        elif isinstance(found, types.FunctionType) and found.__module__ == value.__module__:
            yield from _parts(found, seen)


def _names_read(code: types.CodeType) -> list[str]:
    """Names that code reads, with those of the functions inside it."""
    inner = [_names_read(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return [*code.co_names, *(name for names in inner for name in names)]
