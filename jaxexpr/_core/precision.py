"""In which precision a piece of work is done, whatever JAX is set to."""

from __future__ import annotations

from contextlib import AbstractContextManager

import jax


def precision(dtype: str) -> AbstractContextManager[object]:
    """Context in which `dtype` is computed as itself, whatever JAX's global flag says.

    Inside another trace the caller's flag rules; float64 is refused there if it is off.
    """
    return jax.enable_x64(double_enabled() or dtype == "float64")


def double_enabled() -> bool:
    """Whether JAX computes in float64 where we stand."""
    return bool(jax.config.read("jax_enable_x64"))
