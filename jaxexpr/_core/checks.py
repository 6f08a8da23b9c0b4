"""Checks of arguments: each raises a ValueError that names the argument, its value and the fix.

Traced values pass unchecked: under ``jit``, ``vmap`` or ``grad`` their entries are unknown.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np


def shown(value: object, limit: int = 60) -> str:
    """Return ``repr(value)`` cut to `limit` characters, for messages."""
    if isinstance(value, np.ndarray | jax.Array) and value.ndim == 0 and not is_key(value):
        value = value if is_traced(value) else value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def is_traced(value: object) -> bool:
    """Whether `value` is a tracer, whose entries are unknown."""
    return isinstance(value, jax.core.Tracer)


def on_host(function: str, inside: str, *values: object) -> None:
    """Refuse calls inside jit, vmap and other transformations.

    function : name of the function that is called.
    inside : what to use inside a transformation instead.
    values : arguments of the function.
    """
    # Inside jit every new array is traced; vmap and grad trace what depends on their arguments.
    leaves = jax.tree.leaves((jax.numpy.zeros(()), values))
    if any(is_traced(leaf) for leaf in leaves):
        raise ValueError(
            f"{function} is called inside jit, vmap, grad or scan and works on the host: call it "
            f"outside, or use {inside} inside"
        )


def concrete(name: str, value: object, action: str) -> None:
    """Refuse a pytree with traced arrays.

    action : what is done on the host, as in "pieces are found".
    """
    if any(is_traced(leaf) for leaf in jax.tree.leaves(value)):
        raise ValueError(
            f"{name}: traced arrays; {action} on the host: call it outside jit and vmap"
        )


def numeric(name: str, value: object) -> Any:
    """Return `value` if it is a real number or an array of finite real numbers.

    JAX arrays, tracers, ints and floats are returned unchanged, everything else as a NumPy array.
    Refuses text, None, complex numbers, ragged lists, empty arrays, NaN and infinity.
    """
    if is_traced(value):
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}={shown(value)} is not numeric: give a real number or an array of them"
        ) from None
    if array.size == 0:
        raise ValueError(
            f"{name}={shown(value)} is empty, of shape {array.shape}: give at least one number"
        )
    invalid = ~np.isfinite(array)
    if invalid.any():
        index = tuple(int(i) for i in np.argwhere(invalid)[0])
        location = f" at index {index}" if index else ""
        raise ValueError(
            f"{name} holds {array[index]}{location}: give finite numbers (clean the input first)"
        )
    return value if isinstance(value, jax.Array | int | float) else array


def non_negative(name: str, value: object, fix: str = "give a number >= 0") -> Any:
    """Return `value` if all its entries are finite and >= 0."""
    value = numeric(name, value)
    if not is_traced(value) and np.any(np.asarray(value) < 0):
        raise ValueError(f"{name}={shown(value)} is negative: {fix}")
    return value


def fraction(name: str, value: object) -> Any:
    """Return `value` if all its entries lie in [0, 1]."""
    value = numeric(name, value)
    if not is_traced(value):
        array = np.asarray(value)
        if np.any((array < 0) | (array > 1)):
            raise ValueError(
                f"{name}={shown(value)} lies outside [0, 1]: give a probability, such as 0.5"
            )
    return value


def level(value: object) -> float:
    """Return `value` as a float if it is a probability strictly between 0 and 1."""
    if not isinstance(value, int | float | np.number) or not 0 < float(value) < 1:
        raise ValueError(f"level={shown(value)} lies outside (0, 1): give for instance 0.001")
    return float(value)


def sequence(name: str, value: Any) -> tuple[float, ...]:
    """Return `value` as floats if it is a flat sequence of finite numbers; it may be empty."""
    if np.ndim(value) != 1:
        raise ValueError(f"{name}={shown(value)}: give a sequence of numbers")
    return tuple(float(x) for x in numeric(name, value)) if len(value) else ()


def path(name: str, value: object) -> Path:
    """Return `value` as a path, if it is a string or a path."""
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise ValueError(f"{name}={shown(value)}: give a path, as a text or a pathlib.Path")
    return Path(value)


def flag(name: str, value: object) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={shown(value)}: give True or False")
    return bool(value)


def integer(name: str, value: object, minimum: int = 1) -> int:
    """Return `value` as an int if it is a whole number >= `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ValueError(f"{name}={shown(value)}: give an integer >= {minimum}")
    return int(value)


def positive(name: str, value: object) -> float:
    """Return `value` as a float if it is one finite number > 0."""
    array = numeric(name, value)
    if np.ndim(array) != 0 or not float(array) > 0:
        raise ValueError(f"{name}={shown(value)}: give one number > 0")
    return float(array)


def one_of(name: str, value: object, allowed: Iterable[str]) -> str:
    """Return `value` if it is among `allowed`; the message suggests the nearest name."""
    names = tuple(allowed)
    if isinstance(value, str) and value in names:
        return value
    lower = {n.lower(): n for n in names}
    nearest = difflib.get_close_matches(str(value).lower(), lower, n=1)
    nearest = [lower[n] for n in nearest]
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(f"{name}={shown(value)} is unknown: choose one of {', '.join(names)}{hint}")


def is_key(value: np.ndarray | jax.Array) -> bool:
    """Whether an array holds random keys."""
    return bool(jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key))


def random_key(name: str, value: object) -> jax.Array:
    """Return `value` if it is one typed JAX random key."""
    if not isinstance(value, jax.Array) or not is_key(value):
        raise ValueError(f"{name}={shown(value)} is not a random key: give jax.random.key(seed)")
    if value.shape != ():
        raise ValueError(f"{name} has shape {value.shape}: give one key, not an array of keys")
    return value


def floating(name: str, value: Any) -> str:
    """Return the name of a precision, ``"float32"`` or ``"float64"``."""
    try:
        dtype_name = None if value is None else np.dtype(value).name
    except TypeError:
        dtype_name = None
    return one_of(name, value if dtype_name is None else dtype_name, ("float32", "float64"))


def held(name: str, value: object, dtype: str) -> None:
    """Refuse numbers that overflow to infinity or underflow to 0 in `dtype`."""
    if is_traced(value):
        return
    array = np.asarray(value, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        cast = array.astype(dtype)
    lost = ~np.isfinite(cast) | ((cast == 0) & (array != 0))
    if lost.any():
        raise ValueError(
            f"{name} holds {array[lost][0]}, which {dtype} cannot: rescale it, or use a network "
            "with dtype='float64'"
        )


def network_sizes(n_in: object, widths: object) -> tuple[int, tuple[int, ...]]:
    """Return ``n_in`` and ``(n_1, ..., n_L)`` if all are integers >= 1."""
    n_in = integer("n_in", n_in)
    if isinstance(widths, str) or not isinstance(widths, Iterable):
        raise ValueError(f"widths={shown(widths)}: give a sequence (n_1, ..., n_L)")
    sizes = tuple(integer(f"widths[{i}]", n) for i, n in enumerate(widths))
    if not sizes:
        raise ValueError("widths=() has no layer: give (n_1, ..., n_L) with L >= 1")
    return n_in, sizes
