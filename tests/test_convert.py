"""Networks from elsewhere give the parameters that compute what they computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from safetensors.numpy import load_file, save_file

from jaxexpr import exact, from_arrays, from_flax, from_torch_state

X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


def hidden(params, x):
    for weights, biases in params:
        x = np.maximum(x @ weights + biases, 0)
    return x


class Odd(nnx.Module):
    """Layers in another order than that of their names."""

    def __init__(self, rngs):
        self.second_to_none = nnx.Linear(4, 8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.blocks = nnx.List([nnx.Linear(8, 7, rngs=rngs), nnx.Linear(7, 6, rngs=rngs)])
        self.a_last = nnx.Linear(6, 3, use_bias=False, rngs=rngs)

    def __call__(self, x):
        x = self.drop(nnx.relu(self.second_to_none(x)))
        for layer in self.blocks:
            x = nnx.relu(layer(x))
        return self.a_last(x)


class Many(linen.Module):
    """Twelve layers, whose names sort as numbers."""

    @linen.compact
    def __call__(self, x):
        for i in range(11):
            x = linen.relu(linen.Dense(5 + i, bias_init=linen.initializers.normal(0.1))(x))
        return linen.Dense(2)(x)


def test_nnx():
    model = Odd(nnx.Rngs(0))
    model.eval()
    params = from_flax(model)
    assert [w.shape for w, _ in params] == [(4, 8), (8, 7), (7, 6)]
    expected = hidden(params, X) @ np.asarray(model.a_last.kernel[...])
    np.testing.assert_allclose(expected, model(X), rtol=1e-5, atol=1e-6)
    assert {a.dtype for pair in params for a in pair} == {np.dtype(np.float64)}


class InDicts(nnx.Module):
    def __init__(self, rngs):
        self.parts = nnx.Dict(low=nnx.Linear(4, 5, rngs=rngs), high=nnx.Linear(5, 5, rngs=rngs))
        self.out = nnx.Linear(5, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(nnx.relu(self.parts["high"](nnx.relu(self.parts["low"](x)))))


def test_layers_in_dictionaries_are_found():
    assert [w.shape for w, _ in from_flax(InDicts(nnx.Rngs(0)))] == [(4, 5), (5, 5)]


def test_layers_that_are_used_twice_come_twice():
    rngs = nnx.Rngs(0)
    twice = nnx.Linear(4, 4, rngs=rngs)
    model = nnx.Sequential(twice, nnx.relu, twice, nnx.relu, nnx.Linear(4, 2, rngs=rngs))
    (first, _), (second, _) = from_flax(model)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, np.asarray(twice.kernel[...]))


def test_bfloat16():
    rngs = nnx.Rngs(0)
    low = nnx.Linear(4, 4, rngs=rngs, param_dtype="bfloat16")
    model = nnx.Sequential(low, nnx.relu, nnx.Linear(4, 2, rngs=rngs))
    ((weights, biases),) = from_flax(model)
    assert weights.dtype == biases.dtype == np.float64
    np.testing.assert_array_equal(weights, np.asarray(low.kernel[...].astype("float32")))


def test_torch_layers_come_in_the_order_that_is_said(rng):
    names = ["inp", "block2.b", "block2.a", "block10.b", "block10.a", "head"]
    state = {f"{name}.weight": np.full((3, 3), i) for i, name in enumerate(names)}
    with pytest.raises(ValueError, match="state leaves open"):
        from_torch_state(state, readout=False)
    found = from_torch_state(state, readout=False, order=names)
    assert [int(w[0, 0]) for w, _ in found] == [0, 1, 2, 3, 4, 5]
    state = {"low.weight": np.ones((3, 2)), "high.weight": np.ones((4, 5))}
    with pytest.raises(ValueError, match="'low' with 3 outputs and then 'high' with 5 inputs"):
        from_torch_state(state)


def test_linen(rng):
    model = Many()
    made = jax.eval_shape(model.init, jax.random.key(0), jnp.ones(4))
    variables = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype("f") / 2, made)
    params = from_flax(model, variables)
    assert len(params) == 11
    last = variables["params"]["Dense_11"]
    expected = hidden(params, X) @ np.asarray(last["kernel"]) + np.asarray(last["bias"])
    np.testing.assert_allclose(expected, model.apply(variables, X), rtol=1e-4, atol=1e-5)


def test_torch_state(rng):
    sizes = [4] + [6] * 12 + [2]
    state = {}
    for i, (a, b) in enumerate(zip(sizes, sizes[1:], strict=False)):
        state |= {f"net.{2 * i}.weight": rng.normal(size=(b, a)), f"net.{2 * i}.bias": np.ones(b)}
    shuffled = {name: state[name] for name in sorted(state)}  # net.10 before net.2
    params = from_torch_state(shuffled)
    x = X.astype(float)
    for i in range(12):
        x = np.maximum(x @ state[f"net.{2 * i}.weight"].T + state[f"net.{2 * i}.bias"], 0)
    np.testing.assert_allclose(hidden(params, X.astype(float)), x)


def test_torch_files(tmp_path, rng):
    sizes = [4, *range(5, 17), 2]  # 12 layers: their names sort otherwise than they follow
    state = {
        f"{2 * i}.weight": rng.normal(size=(b, a))
        for i, (a, b) in enumerate(zip(sizes, sizes[1:], strict=False))
    }
    np.savez(tmp_path / "model.npz", **state)
    save_file(state, tmp_path / "model.safetensors")
    with np.load(tmp_path / "model.npz") as file:
        npz = from_torch_state(file)
    for params in (npz, from_torch_state(load_file(tmp_path / "model.safetensors"))):
        assert len(params) == 12
        for (weights, biases), expected in zip(params, state.values(), strict=False):
            np.testing.assert_array_equal(weights, expected.T)
            assert not biases.any()


def test_torch_itself(rng):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    params = from_torch_state(model.state_dict())
    last = model[2]
    expected = hidden(params, X) @ last.weight.detach().numpy().T + last.bias.detach().numpy()
    np.testing.assert_allclose(expected, model(torch.tensor(X)).detach().numpy(), atol=1e-6)


def test_arrays(rng):
    arrays = [rng.normal(size=(4, 6)), rng.normal(size=6), rng.normal(size=(6, 3)), np.ones(3)]
    flat, paired = from_arrays(arrays), from_arrays([tuple(arrays[:2]), arrays[2:]])
    for (a, b), (c, d) in zip(flat, paired, strict=True):
        assert a is c or (a == c).all()
        assert (b == d).all()
    line = X[0].astype(float), X[1].astype(float)

    def network(x):
        return jax.nn.relu(x @ arrays[0] + arrays[1]) @ arrays[2]

    with jax.enable_x64(True):
        pieces = exact.pieces_of(network, *line)
    from jaxexpr import curves

    found = exact.pieces(flat, curves.line(*line))
    np.testing.assert_allclose(found.breakpoints, pieces.breakpoints, atol=1e-9)
    nested = from_arrays([[[1.0, 2.0], [3.0, 4.0]], [0.5, 0.5]], readout=False)
    assert [w.shape for w, _ in nested] == [(2, 2)]
    unbiased = from_arrays([arrays[0], arrays[2]], readout=False)
    assert [b.tolist() for _, b in unbiased] == [[0] * 6, [0] * 3]


class Convolves(nnx.Module):
    def __init__(self):
        self.conv = nnx.Conv(1, 2, (3, 3), rngs=nnx.Rngs(0))

    def __call__(self, x):
        return self.conv(x)


class Normalises(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(linen.LayerNorm()(linen.Dense(3)(x)))


def test_what_does_not_fit_is_named():
    norm = Normalises()
    for make, words in (
        (lambda: from_flax(Convolves()), "holds 'conv.kernel'.*pieces_of"),
        (
            lambda: from_flax(Convolves(), input_shape=(4, 4, 1)),
            "'conv.bias', 'conv.kernel', not weights.*pieces_of",
        ),
        (lambda: from_flax(norm, norm.init(jax.random.key(0), X)), "'LayerNorm_0.bias'.*pieces_of"),
        (lambda: from_flax(norm), "variables=None"),
        (lambda: from_flax(Odd(nnx.Rngs(0)), {}), "belong to flax.linen"),
        (lambda: from_flax(print), "not a Flax module"),
        (lambda: from_torch_state([1]), "mapping of names"),
        (lambda: from_torch_state({"bn.running_mean": X}), "'bn.running_mean'"),
        (lambda: from_torch_state({"0.weight": np.ones((2, 3, 3, 3))}), r"\(2, 3, 3, 3\)"),
        (lambda: from_torch_state({"0.bias": np.ones(3)}), "no weight for '0'"),
        (
            lambda: from_torch_state({"0.weight": np.ones((2, 3)), "1.weight": np.ones((2, 5))}),
            "'0' with 2 outputs and then '1' with 5 inputs",
        ),
        (lambda: from_arrays([np.ones(3)]), r"arrays\[0\] has shape \(3,\)"),
        (lambda: from_arrays([np.ones((3, 2))]), "readout=False"),
        (lambda: from_arrays("weights"), "list of arrays"),
        (lambda: from_arrays([[["a"]]]), r"arrays\[0\]"),
    ):
        with pytest.raises(ValueError, match=words):
            make()
