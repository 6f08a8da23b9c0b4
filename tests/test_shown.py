"""What results print, and how they compare: short, with numbers, never arrays or weights."""

import copy
import typing
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jaxexpr import MLP, Conv, ConvNet, Dense, Estimate, Pool, curves, exact, laws, measure
from jaxexpr.training import steps
from jaxexpr.training.snapshots import Fit, Snapshot

W, B = np.array([[1.0, -1.0], [2.0, 1.0]]), np.array([-0.25, 0.75])
NET = MLP((2, 8, 8), laws.Gaussian(1.5), laws.Zero())


def fit():
    params = {"stages": {}}
    last = Snapshot(NET, 30, 3.0, 2, None, (params, params))
    history = {
        "loss": np.array([[np.nan, np.nan], [0.5, 0.7]]),
        "test_accuracy": np.array([[0.1, 0.1], [0.8, 0.9]]),
        "regions": np.ones((2, 2, 5)),
    }
    return Fit(NET, (2,), np.array([0, 30]), np.array([0.0, 3.0]), history, {}, last)


def test_representations_are_short_and_say_what_was_found():
    assert repr(NET) == "MLP((2, 8, 8), Gaussian(sigma=1.5), Zero(), 'relu', dtype='float32')"
    layers = [Conv(4), Pool(2), Dense(10)]
    net = ConvNet((8, 8, 1), layers, laws.Gaussian(1.5), [laws.Zero()] * 2, "tanh")
    assert repr(net) == (
        "ConvNet((8, 8, 1), (8, 8, 4), (4, 4, 4), (10,), Gaussian(sigma=1.5), (Zero(), Zero()), "
        "'tanh', dtype='float32')"
    )
    found = exact.pieces_of(lambda x: jnp.abs(x - 0.5), [0.0, 0.0], [1.0, 0.75])
    assert repr(found) == (
        "FunctionPieces(count=3, linear_count=3, output shape (2,), dtype='float64')"
    )
    assert repr(exact.cells([(W, B)])) == "Cells(count=4, depth=1, n_in=2)"
    assert repr(fit()) == (
        "Fit: networks (2,) of MLP((2, 8, 8), Gaussian(sigma=1.5), Zero(), 'relu', "
        "dtype='float32'), 30 steps, 2 records\n"
        "  at the end loss 0.6, test_accuracy 0.85; also recorded: regions"
    )
    assert repr(fit().last).startswith("Snapshot(step=30, epoch=3, 2 of MLP((2, 8, 8)")


def test_results_compare_by_identity_and_can_be_kept_in_sets():
    """Comparison entry by entry would have no truth value."""
    made = Estimate.of([[1.0, 2.0], [3.0, 4.0]])
    for one in (made, fit(), exact.cells([(W, B)])):
        other = copy.copy(one)
        assert one == one and one != other
        assert len({one, other, one}) == 2
    np.testing.assert_array_equal(copy.deepcopy(made).mean, made.mean)


def test_a_list_of_pairs_is_typed_as_parameters():
    pairs = Sequence[tuple[typing.Any, typing.Any]]
    for function in (measure, exact.pieces, exact.distance_to_boundary):
        assert typing.get_type_hints(function)["params"] == pairs


@pytest.mark.parametrize(
    ("optimiser", "message"),
    [
        (optax.lbfgs(), "missing 3 required .*: give one that needs gradients and parameters"),
        (optax.contrib.reduce_on_plateau(), "missing 1 required .*: give one that needs"),
        (optax.sgd(np.array([0.1, 0.2], np.float32)), "of several learning rates call train once"),
        (
            optax.sgd(np.ones((5, 2, 3), np.float32)),
            "changes the shapes of parameters: give numbers",
        ),
    ],
    ids=["lbfgs", "plateau", "rates", "shapes"],
)
def test_optimisers_that_cannot_do_a_step_are_refused(optimiser, message):
    model = nnx.Sequential(nnx.Linear(2, 3, rngs=nnx.Rngs(0)))
    with (
        pytest.raises(ValueError, match=f"optimiser .*{message}"),
        jax.numpy_rank_promotion("allow"),
    ):
        steps.steps_with(optimiser, model)
    for good in (optax.adamw(optax.cosine_decay_schedule(0.1, 10)), optax.contrib.muon(0.1)):
        steps.steps_with(good, model)


def test_keys_are_shown():
    """A key in another place is shown, not looked into."""
    with pytest.raises(ValueError, match=r"x0=Array\(\(\), dtype=key<fry>\)"):
        curves.line(jax.random.key(0), [1.0])
