"""Exact regions, without discretisation error. Never imports probes or theory."""

from jaxexpr.exact.arrangements import consecutive, general_position
from jaxexpr.exact.constructions import (
    Construction,
    folding,
    montufar2014,
    noisy,
    pascanu2013,
    pascanu2013_folding,
    sawtooth,
)

__all__ = [
    "Construction",
    "consecutive",
    "folding",
    "general_position",
    "montufar2014",
    "noisy",
    "pascanu2013",
    "pascanu2013_folding",
    "sawtooth",
]
