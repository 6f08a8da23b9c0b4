"""Exact regions, without discretisation error. Never imports probes or theory."""

from typing import TYPE_CHECKING

from jaxexpr._core.calls import absent
from jaxexpr.exact.arrangements import consecutive, general_position
from jaxexpr.exact.balls import regions_in_ball
from jaxexpr.exact.cells import Cells, cells
from jaxexpr.exact.constructions import (
    Construction,
    folding,
    montufar2014,
    noisy,
    pascanu2013,
    pascanu2013_folding,
    sawtooth,
)
from jaxexpr.exact.counted import region_counts
from jaxexpr.exact.distance import Nearest, distance_to_boundary
from jaxexpr.exact.interpret import pieces_of
from jaxexpr.exact.merge import LinearRegions, linear_regions
from jaxexpr.exact.patterns import distinct_patterns, patterns
from jaxexpr.exact.pieces import Pieces, pieces, pieces_batch
from jaxexpr.exact.planar import Adjacency, Plane
from jaxexpr.exact.plane import plane, plane_through

__all__ = [
    "Adjacency",
    "Cells",
    "Construction",
    "LinearRegions",
    "Nearest",
    "Pieces",
    "Plane",
    "cells",
    "consecutive",
    "distance_to_boundary",
    "distinct_patterns",
    "folding",
    "general_position",
    "linear_regions",
    "montufar2014",
    "noisy",
    "pascanu2013",
    "pascanu2013_folding",
    "patterns",
    "pieces",
    "pieces_batch",
    "pieces_of",
    "plane",
    "plane_through",
    "region_counts",
    "regions_in_ball",
    "sawtooth",
]


if not TYPE_CHECKING:
    __getattr__ = absent(__name__, __all__)
