"""The names that other code relies on, and how the pinned functions are called."""

import inspect

import pytest

import jaxexpr
import jaxexpr.training

NAMES = {
    "jaxexpr": (
        "Activation Conv ConvNet Dense Estimate GridNeeded Interrupted MLP Pool Probe "
        "Projection RunOptions Task Verdict activations boundary_volume cifar10_convnet crossings "
        "curves datasets dichotomies estimate exact expected_crossings from_arrays from_flax "
        "from_torch from_torch_state grid_needed judge kernel laws measure perturbations prng "
        "probe project run_task theory trajectory verdict"
    ),
    "jaxexpr.exact": (
        "Adjacency Cells Construction LinearRegions Nearest Pieces Plane cells consecutive "
        "distance_to_boundary distinct_patterns folding general_position linear_regions "
        "montufar2014 nearest_boundary noisy pascanu2013 pascanu2013_folding patterns pieces "
        "pieces_batch pieces_of plane plane_through region_counts regions_in_ball sawtooth"
    ),
    "jaxexpr.theory": (
        "Bound RegionTable Split boundary_upper chi_1 circle_transitions composed "
        "correlation_map covariance_map critical_density critical_sigma curvature_map "
        "deep_density_leading depth_chain distance_lower edge_of_chaos fixed_correlation "
        "fixed_length flips_bound gaussian_growth gaussian_log_growth good_probability "
        "gradient_second_moment length_map line_transitions line_upper linear_probability "
        "lipschitz_upper mean_chi mean_field_growth montufar2014_leading montufar2014_lower "
        "montufar2017_upper parameters pascanu2013_folding_lower pascanu2013_leading "
        "pascanu2013_lower per_layer price_tanner_lower price_tanner_sharp raghu2017_leading "
        "raghu2017_order raghu2017_upper raghu_lower raghu_rate raghu_sharp raghu_transitions "
        "random_walk region_bounds regions_per_parameter sauer_shelah second_moment_upper "
        "serra2018_upper shallow_density_leading telgarsky2015_lower transitions_over_length "
        "trivial_upper turning_share zaslavsky zaslavsky_central zaslavsky_leading "
        "zaslavsky_parallel zero_bias_upper"
    ),
    "jaxexpr.training": (
        "CIFAR10_NORMS Classifier Fit Intervention Normalisation Penalty Prune Snapshot "
        "TrajectoryRegularisation add_noise polyline_length prune track train wrong_labels"
    ),
}

SIGNATURES = {
    "jaxexpr.MLP": "widths, weights, biases, activation='relu', *, dtype='float32'",
    "jaxexpr.estimate": (
        "net, curve, *, key, draws, probes=('length', 'growth'), method='auto', points=None, "
        "**options"
    ),
    "jaxexpr.kernel": "net, curve, *, probes=('length', 'growth'), method='auto', points=None",
    "jaxexpr.measure": (
        "params, curve, *, activation=None, net=None, probes=('length', 'growth'), "
        "method='auto', points=None"
    ),
    "jaxexpr.trajectory": "params, curve, *, activation=None, net=None, points=1001",
    "jaxexpr.verdict": "estimate, lower=None, upper=None, name='', *, level=0.001, axis='layer'",
    "jaxexpr.dichotomies": (
        "net, inputs, *, key, draws, swept=1, readouts=1, path='circle', method='auto', "
        "points=None, **options"
    ),
    "jaxexpr.perturbations": "net, point, *, key, draws, **options",
    "jaxexpr.run_task": "task, net, data=(), *, key, draws, **options",
    "jaxexpr.boundary_volume": (
        "net, origin, directions, half_width=1.0, *, key, draws, codimension=1, "
        "function_only=False, points=16, **options"
    ),
    "jaxexpr.exact.pieces": "params, curve, activation='relu', *, memory=1073741824.0",
    "jaxexpr.exact.pieces_of": "fn, x0, x1, *, memory=1073741824, progress=None",
    "jaxexpr.exact.plane": (
        "params, origin, u, v, half_width=1.0, activation='relu', *, progress=None"
    ),
    "jaxexpr.exact.cells": (
        "params, low=None, high=None, activation='relu', *, limit=2000000, progress=None"
    ),
    "jaxexpr.exact.distance_to_boundary": "params, x, activation='relu'",
    "jaxexpr.exact.region_counts": (
        "params, curves, activation='relu', *, memory=1073741824.0, progress=None"
    ),
    "jaxexpr.curves.line": "x0, x1, whole=False",
    "jaxexpr.curves.arc": "x0, x1",
    "jaxexpr.curves.circle": "x0, x1",
    "jaxexpr.laws.Gaussian": "sigma",
    "jaxexpr.laws.Uniform": "limit",
    "jaxexpr.laws.DiscreteUniform": "limit",
    "jaxexpr.laws.TwoPoint": "c",
    "jaxexpr.laws.Zero": "",
    "jaxexpr.laws.Sparse": "law, density",
    "jaxexpr.theory.price_tanner_lower": "weights, width, fan_in=None",
    "jaxexpr.theory.second_moment_upper": "weights, width, fan_in=None",
    "jaxexpr.theory.gaussian_growth": "sigma, width, fan_in=None",
    "jaxexpr.theory.raghu_lower": "sigma_w, sigma_b, width, activation, fan_in=None",
    "jaxexpr.theory.raghu_rate": "sigma_w, sigma_b, width, activation",
    "jaxexpr.theory.zaslavsky": "hyperplanes, dim",
    "jaxexpr.theory.pascanu2013_lower": "n_in, widths",
    "jaxexpr.theory.montufar2014_lower": "n_in, widths",
    "jaxexpr.theory.raghu2017_upper": "n_in, widths, activation='relu', *, parallel=False",
    "jaxexpr.theory.montufar2017_upper": "n_in, widths, activation='relu'",
    "jaxexpr.theory.serra2018_upper": "n_in, widths",
    "jaxexpr.datasets.load": "name, split='train', *, folder=None",
    "jaxexpr.training.train": (
        "net, examples, *, key, networks=1, epochs=10.0, batch=128, optimiser=None, "
        "test_data=None, readout=None, normalisation=None, intervention=None, trackers=(), "
        "record_at=20, batching=None, checkpoint=None, progress=None, title='training'"
    ),
}


def named(name):
    found = jaxexpr
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("module", NAMES)
def test_public_names_are_these(module):
    assert sorted(named(module).__all__) == NAMES[module].split()


def spelt(function):
    """The arguments of a function, as in its definition."""
    parts, starred = [], False
    for argument in inspect.signature(function).parameters.values():
        if argument.kind is argument.VAR_KEYWORD:
            parts.append(f"**{argument.name}")
            continue
        if argument.kind is argument.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        default = "" if argument.default is argument.empty else f"={argument.default!r}"
        parts.append(argument.name + default)
    return ", ".join(parts)


@pytest.mark.parametrize("name", SIGNATURES)
def test_pinned_functions_are_called_so(name):
    assert spelt(named(name)) == SIGNATURES[name]
