"""Compute in a given precision whatever JAX's flag says."""

from __future__ import annotations

from contextlib import AbstractContextManager

import jax


def precision(dtype: str) -> AbstractContextManager[object]:
    """Return a context in which `dtype` is available, whatever JAX's global flag says.

    Inside a caller's trace the caller's flag holds: callers refuse float64 there if it is off.
    """
    return jax.enable_x64(double_enabled() or dtype == "float64")


def double_enabled() -> bool:
    """Whether float64 is enabled here."""
    return bool(jax.config.read("jax_enable_x64"))
