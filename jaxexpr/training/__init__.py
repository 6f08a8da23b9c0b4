"""Networks trained, many at once, and measured while they are: Flax models, Optax steps."""

from jaxexpr.training import track
from jaxexpr.training.interventions import Intervention, Prune, add_noise, prune, wrong_labels
from jaxexpr.training.loop import train
from jaxexpr.training.models import CIFAR10_NORMS, Classifier, Normalisation
from jaxexpr.training.regularise import Penalty, TrajectoryRegularisation, polyline_length
from jaxexpr.training.snapshots import Fit, Snapshot

__all__ = [
    "CIFAR10_NORMS",
    "Classifier",
    "Fit",
    "Intervention",
    "Normalisation",
    "Penalty",
    "Prune",
    "Snapshot",
    "TrajectoryRegularisation",
    "add_noise",
    "polyline_length",
    "prune",
    "track",
    "train",
    "wrong_labels",
]
