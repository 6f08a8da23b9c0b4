"""Expressivity of neural networks: growth, transitions and regions, with errors or exact."""

import importlib
from typing import TYPE_CHECKING

from jaxexpr import activations, curves, datasets, exact, laws, prng, theory
from jaxexpr._core import calls
from jaxexpr.activations import Activation
from jaxexpr.convert import from_arrays, from_flax, from_torch, from_torch_state
from jaxexpr.convnets import ConvNet, cifar10_convnet
from jaxexpr.ensemble.boundary_integrals import boundary_volume
from jaxexpr.ensemble.curve_estimates import estimate
from jaxexpr.ensemble.labellings import dichotomies
from jaxexpr.ensemble.options import RunOptions
from jaxexpr.ensemble.perturbation_growth import perturbations
from jaxexpr.ensemble.runner import Interrupted, run_task
from jaxexpr.ensemble.statistics import Estimate
from jaxexpr.ensemble.tasks import Task
from jaxexpr.layers import Conv, Dense, Pool
from jaxexpr.measurement.finer_grids import GridNeeded, grid_needed
from jaxexpr.measurement.images import Projection, project, trajectory
from jaxexpr.measurement.single import kernel, measure
from jaxexpr.networks import MLP
from jaxexpr.probes.base import Probe, probe
from jaxexpr.probes.crossing_counts import crossings
from jaxexpr.probes.kac_rice import expected_crossings
from jaxexpr.verdicts import Verdict, judge, verdict

if TYPE_CHECKING:
    from jaxexpr import plotting as plotting
    from jaxexpr import results as results
    from jaxexpr import training as training

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "Activation",
    "Conv",
    "ConvNet",
    "Dense",
    "Estimate",
    "GridNeeded",
    "Interrupted",
    "Pool",
    "Probe",
    "Projection",
    "RunOptions",
    "Task",
    "Verdict",
    "activations",
    "boundary_volume",
    "cifar10_convnet",
    "crossings",
    "curves",
    "datasets",
    "dichotomies",
    "estimate",
    "exact",
    "expected_crossings",
    "from_arrays",
    "from_flax",
    "from_torch",
    "from_torch_state",
    "grid_needed",
    "judge",
    "kernel",
    "laws",
    "measure",
    "perturbations",
    "prng",
    "probe",
    "project",
    "run_task",
    "theory",
    "trajectory",
    "verdict",
]

_WHERE_USED = ("plotting", "results", "training")  # these need Matplotlib, xarray, Flax
_ABSENT = calls.absent(__name__, [*__all__, *_WHERE_USED])


def _imported(name: str) -> object:
    if name in _WHERE_USED:
        return importlib.import_module(f"{__name__}.{name}")
    return _ABSENT(name)


if not TYPE_CHECKING:  # which knows all names
    __getattr__ = _imported


def __dir__() -> list[str]:
    return sorted([*__all__, *_WHERE_USED, "__version__"])
