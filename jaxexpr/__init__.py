"""Expressivity of neural networks: growth, transitions and regions, with errors or exact."""

from jaxexpr import curves, datasets, exact, laws, theory
from jaxexpr.activations import Activation
from jaxexpr.boundary import boundary_volume
from jaxexpr.convert import from_arrays, from_flax, from_torch_state
from jaxexpr.convnets import ConvNet, cifar10_convnet
from jaxexpr.dichotomies import dichotomies
from jaxexpr.ensemble import estimate
from jaxexpr.grids import GridNeeded, grid_needed
from jaxexpr.kernels import kernel, measure, trajectory
from jaxexpr.layers import Conv, Dense, Pool
from jaxexpr.moments import Estimate
from jaxexpr.networks import MLP
from jaxexpr.perturbations import perturbations
from jaxexpr.probes import Probe, crossings, expected_crossings, probe
from jaxexpr.projections import Projection, project
from jaxexpr.runner import Interrupted
from jaxexpr.verdicts import Verdict, judge, verdict

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
    "Verdict",
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
    "from_torch_state",
    "grid_needed",
    "judge",
    "kernel",
    "laws",
    "measure",
    "perturbations",
    "probe",
    "project",
    "theory",
    "trajectory",
    "verdict",
]
