"""Parts of the runner by hand: when a target is reached, what is merged, what is asked for."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import MLP, curves, estimate, laws
from jaxexpr._core import linalg
from jaxexpr.ensemble import devices, runner
from jaxexpr.ensemble.statistics import Accumulator, Moments
from jaxexpr.exact.along_curves.traverse import Totals
from jaxexpr.measurement.exact_pass import numbers


def accumulated(values, draws=None):
    moments = Moments.of(np.asarray(values, np.float64), np.zeros(np.shape(values), int))
    zero = np.zeros(np.shape(values)[1:])
    return {
        "a": Accumulator(moments, moments, zero, zero.astype(int), draws or len(values), "mark")
    }


def test_a_target_is_of_the_standard_error_of_every_number(rng):
    values = np.stack([rng.normal(1.0, 0.1, 100), rng.normal(5.0, 1.0, 100)], axis=1)
    error = values.std(axis=0, ddof=1) / 10 / values.mean(axis=0)
    assert error[0] < error[1]
    for target, reached in ((0.999 * error[1], False), (1.001 * error[1], True)):
        assert runner._reached(accumulated(values), target) is reached
    assert not runner._reached({}, 1.0)
    assert not runner._reached(accumulated(values[:1]), 1e9)  # one network has no error


@pytest.mark.parametrize(("draws", "waits"), [(63, True), (64, False)])
def test_a_layer_without_numbers_is_waited_for_a_while(rng, draws, waits):
    values = np.stack([rng.normal(1.0, 0.1, draws), np.full(draws, np.nan)], axis=1)
    assert runner._reached(accumulated(values), 0.5) is not waits
    few = values.copy()
    few[0, 1] = 1.0  # one number has no error yet
    assert not runner._reached(accumulated(few), 0.5)


def test_what_is_merged_is_counted():
    """A network that dies has no number and has not failed; overflow has failed."""
    value = np.array([[1.0, np.nan, np.inf], [2.0, np.nan, 3.0], [np.nan, np.nan, 4.0]])
    sound = np.array([[True, True, True], [True, True, True], [False, True, True]])
    dead = np.array([[0.25, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 1.0, 0.0]])
    number = types.SimpleNamespace(value=value, exponent=np.zeros(value.shape, int))
    told = {"a": (number, np.zeros(value.shape), dead, sound)}
    made = runner._merged({}, told, "mark", 3)
    again = runner._merged(made, told, "mark", 3)
    for one, times in ((made["a"], 1), (again["a"], 2)):
        assert one.failed.tolist() == [times, 0, times]
        assert one.left_out.tolist() == [0.75 * times, 2 * times, 0]
        assert one.moments[0].tolist() == [2 * times, 0, 2 * times]
        assert one.draws == 3 * times


def test_no_more_networks_are_asked_for_than_the_buffers_hold():
    count = jax.local_device_count()
    for chunk, wanted in ((7, 7), (10**6, 10 * count), (None, 2 * count)):
        assert devices.Pace((0, 2, 10), chunk).count() == wanted
    quick = devices.Pace((0, 2, 10), None)
    for _ in range(4):
        quick.timed(lambda: None, 1)
    assert quick.count() == 10 * count


def test_rows_that_hold_nan_have_no_norm_and_zeros_have_one():
    found = linalg.norms(jnp.array([[3.0, 4.0], [np.nan, 1.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(found, [5.0, np.nan, 0.0])


def test_scales_of_weights_are_added_to_logarithms():
    """Networks without biases whose images are far smaller than any float32."""
    curve = curves.line(np.ones(3), -np.ones(3) + np.arange(3))
    options = {"key": jax.random.key(0), "draws": 3, "probes": "log_length", "method": "grid"}
    shapes = (3, *(8,) * 20)
    one, small = (
        estimate(MLP(shapes, laws.Gaussian(s), laws.Zero()), curve, points=9, **options)
        for s in (1.0, 2.0**-20)
    )
    shift = -20 * np.log(2) * np.arange(1, 21)
    np.testing.assert_allclose(small["log_length"].mean - one["log_length"].mean, shift, atol=2e-4)


def test_a_triangular_factor_of_rows_of_all_signs_and_sizes():
    with jax.enable_x64(True):
        rows = np.random.default_rng(0).normal(size=(4, 9))
        rows[:, :4] = -np.abs(rows[:, :4])
        rows[1] *= 1e-12
        rows[2] = 0
        found = np.asarray(linalg.triangular(jnp.asarray(rows)))
        wanted = rows @ rows.T
        size = np.linalg.norm(rows, axis=1)
        assert np.all(np.abs(found @ found.T - wanted) <= 1e-14 * np.outer(size, size))
        assert np.all(np.triu(found, 1) == 0)


def test_exact_numbers_of_a_curve_from_its_integrals():
    """In units of powers of two that differ from layer to layer; void from an overflow on."""
    r = np.random.default_rng(2)
    length, share, growth, squared, survives, log = r.uniform(1, 2, (6, 4))
    survives[1] = 0
    length[3] = np.inf
    exponent = np.array([3, -5, 40, 41], np.int32)
    crossings, pieces = r.integers(2, 90, (2, 4)).astype(np.int32)
    with jax.enable_x64(True):
        totals = Totals(
            *(jnp.asarray(x) for x in (length, exponent, share, growth, squared, survives, log)),
            still=jnp.zeros(4, jnp.int32),
            crossings=jnp.asarray(crossings),
            pieces=jnp.asarray(pieces),
        )
        counts = r.integers(2, 90, (4, 2)).astype(np.int32)
        found = numbers(totals, jnp.asarray(1.5), jnp.asarray(counts), (-1.0, 2.0))
        found = {k: np.asarray(v * 2.0 ** e.astype(v.dtype)) for k, (v, e) in found.items()}
    true = length * 2.0**exponent
    wanted = {
        "length": true,
        "log_length": np.log(true),
        "length_ratio": true / np.concatenate([[1.5], true[:3]]),
        "growth": growth / share,
        "growth_squared": squared / share,
        "log_growth": log / np.where(survives > 0, survives, np.nan),
        "transitions": crossings,
        "pieces": pieces,
        "patterns": pieces,
        "network_transitions": np.cumsum(crossings),
        -1.0: counts[:, 0],
        2.0: counts[:, 1],
    }
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name][:3], value[:3], rtol=1e-14, err_msg=str(name))
        assert np.isnan(found[name][3])


def test_refinement_goes_on_until_there_is_a_coarser_look():
    """One or two tangents say nothing of their error, so that they cannot be fine enough."""
    net = MLP((2, 4), laws.Gaussian(1.5), laws.Zero(), "relu")
    line = curves.line([1.0, 0.0], [0.0, 1.0])
    options = {"key": jax.random.key(0), "draws": 4, "method": "tangent", "points": 1}
    assert estimate(net, line, probes="length", refine=0.9, **options)["length"].points == 4
