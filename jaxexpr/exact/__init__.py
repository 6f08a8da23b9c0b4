"""Exact regions, without discretisation error. Never imports probes or theory."""

from typing import TYPE_CHECKING

from jaxexpr._core.calls import absent
from jaxexpr.exact.along_curves.activation_patterns import distinct_patterns, patterns
from jaxexpr.exact.along_curves.counting import region_counts
from jaxexpr.exact.along_curves.solve import Pieces, pieces, pieces_batch
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
from jaxexpr.exact.distances import Nearest, distance_to_boundary, nearest_boundary
from jaxexpr.exact.functions.function_pieces import pieces_of
from jaxexpr.exact.planes.divide import plane, plane_through
from jaxexpr.exact.planes.merge_cells import LinearRegions, linear_regions
from jaxexpr.exact.planes.result import Adjacency, Plane
from jaxexpr.exact.polytopes.balls import regions_in_ball
from jaxexpr.exact.polytopes.boxes import Cells, cells

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
    "nearest_boundary",
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
