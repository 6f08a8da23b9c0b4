"""A fingerprint of all that determines the numbers of an estimate.

Results of one network, curve, key and set of probes must never be extended with those of another.
Users' own functions (probes, curves, activations) are distinguished by their code and by the values
they close over. Where these differ between two processes, extending is refused.
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


def fingerprint(*values: object) -> str:
    """Return a digest of arrays, numbers, laws, functions and the values that these close over."""
    digest = hashlib.sha256()
    for part in _parts(values, set()):
        digest.update(len(part).to_bytes(8, "little") + part)  # (1, 23) is not (12, 3)
    return digest.hexdigest()


def _parts(value: object, visited: set[int]) -> Iterable[bytes]:
    """Yield bytes that identify `value`, including the code of functions.

    visited : ids of functions that are not followed again.
    """
    if isinstance(value, jax.core.Tracer):
        yield str(value.aval).encode()  # a function may have stored a tracer
    elif isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        yield from _parts((str(jax.random.key_impl(value)), jax.random.key_data(value)), visited)
    elif isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        yield f"{array.dtype}{array.shape}".encode() + array.tobytes()
    elif isinstance(value, dict):
        yield from _parts(sorted(value.items(), key=lambda item: repr(item[0])), visited)
    elif isinstance(value, tuple | list):
        yield f"({len(value)}".encode()
        for item in value:
            yield from _parts(item, visited)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value).__qualname__.encode()
        for field in dataclasses.fields(value):
            yield from _parts(getattr(value, field.name), visited)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, sorted(value.keywords.items())), visited)
    elif isinstance(value, types.FunctionType):
        if id(value) not in visited:
            yield from _function(value, visited | {id(value)})
    elif isinstance(value, types.MethodType):
        yield from _parts((value.__func__, value.__self__), visited)
    elif isinstance(value, types.CodeType):
        yield value.co_code
        yield from _parts((value.co_consts, value.co_names), visited)
    elif hasattr(value, "__wrapped__") and isinstance(value.__wrapped__, types.FunctionType):
        yield from _parts(value.__wrapped__, visited)  # the function that jax.jit wraps
    elif callable(value) and hasattr(value, "__qualname__"):
        yield f"{value.__module__}.{value.__qualname__}".encode()
    else:
        yield repr(value).encode()


def _function(value: types.FunctionType, visited: set[int]) -> Iterable[bytes]:
    yield f"{value.__module__}.{value.__qualname__}".encode()
    yield from _parts(value.__code__, visited)
    yield from _parts((value.__defaults__ or (), value.__kwdefaults__ or {}), visited)
    for cell in value.__closure__ or ():
        yield from _parts(cell.cell_contents, visited)
    # Globals that the code reads: a changed module-level constant changes the function. Modules and
    # functions of other modules are identified by their names alone.
    for name in _names_read(value.__code__):
        global_value = value.__globals__.get(name)
        data_types = bool | int | float | str | tuple | list | dict | np.ndarray | jax.Array
        if isinstance(global_value, data_types):
            yield from _parts((name, global_value), visited)
        elif (
            isinstance(global_value, types.FunctionType)
            and global_value.__module__ == value.__module__
        ):
            yield from _parts(global_value, visited)


def _names_read(code: types.CodeType) -> list[str]:
    """Return the names that code reads, including the functions defined inside it."""
    inner = [_names_read(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return [*code.co_names, *(name for names in inner for name in names)]
