"""Twenty and more models of other people: either their own pieces come out, or a refusal."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx
from safetensors.numpy import load_file, save_file

from jaxexpr import (
    MLP,
    activations,
    exact,
    from_flax,
    from_torch,
    from_torch_state,
    laws,
)
from jaxexpr.training.models import Classifier

ENDS = 3 * np.random.default_rng(5).normal(size=(2, 3))
NAMES = ("hidden_one", "hidden_two", "hidden_three")  # in the order of use, not of the alphabet


def drawn(key, shape, dtype=jnp.float32):
    """Weights and biases, without compiling a sampler for each shape."""
    draw = np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(size=shape)
    return jnp.asarray(draw / (1 if len(shape) == 1 else np.sqrt(shape[0] / 2)), dtype)


class Net(nnx.Module):
    """Layers whose names sort in another order than that of their use."""

    def __init__(self, seed=0, act=nnx.relu, kind="chain", dtype=None):
        rngs = nnx.Rngs(seed)

        def layer(n, m):
            return nnx.Linear(n, m, rngs=rngs, kernel_init=drawn, bias_init=drawn, dtype=dtype)

        self.hidden_one = layer(3, 6)
        if kind == "reversed":
            self.hidden_three, self.hidden_two = layer(6, 6), layer(6, 6)
        else:
            self.hidden_two, self.hidden_three = layer(6, 6), layer(6, 6)
        self.logits = layer(6, 2)
        self.act, self.kind = act, kind
        self.extra = layer(6, 2) if kind in ("heads", "joined", "unused") else None
        self.norm = nnx.LayerNorm(6, rngs=rngs) if kind == "norm" else None
        self.drop = nnx.Dropout(0.5, rngs=rngs) if kind == "dropout" else lambda x: x

    def __call__(self, x):
        z = self.act(self.hidden_one(x))
        if self.kind == "skipped":
            z = self.hidden_two(z)
        elif self.kind == "residual":
            z = z + self.act(self.hidden_two(z))
        elif self.kind == "factor":
            z = self.act(self.hidden_two(z) / np.sqrt(2)) * 2
        elif self.kind == "scaled":
            z = self.act(self.hidden_two(z) / np.sqrt(2) - 0.1)
        elif self.kind == "mixed":
            z = nnx.leaky_relu(self.hidden_two(z))
        else:
            z = self.act(self.hidden_two(z))
        if self.kind == "shared":
            z = self.act(self.hidden_two(z))
        if self.norm is not None:
            z = self.norm(z)
        z = self.act(self.hidden_three(self.drop(z)))
        if self.kind == "heads":
            return self.logits(z), self.extra(z)
        if self.kind == "joined":
            return jnp.concatenate([self.logits(z), self.extra(z)], axis=-1)
        if self.kind == "jump":
            return self.logits(z) + x[..., :2]
        return self.logits(z)


class Dense(linen.Module):
    """The same, in Linen."""

    act: object = linen.relu
    kind: str = "chain"

    @linen.compact
    def __call__(self, x, train=False):
        def dense(n, name):
            return linen.Dense(n, name=name)

        for i, name in enumerate(NAMES):
            z = self.act(dense(6, name)(x))
            z = linen.Dropout(0.5, deterministic=not train)(z)
            x = x + z if self.kind == "residual" and i else z
        if self.kind == "shared":
            again = dense(6, "again")
            x = self.act(again(self.act(again(x))))
        return dense(2, "logits")(x)


class Stack(linen.Module):
    """Layers under a scan, one kernel for all of them."""

    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.Dense(6, name="z_first")(x))

        class Step(linen.Module):
            @linen.compact
            def __call__(self, x, _):
                return linen.relu(linen.Dense(6, name="deep")(x)), None

        split = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}}
        x, _ = linen.scan(Step, length=3, **split)(name="a_loop")(x, None)
        return linen.Dense(2, name="b_out")(x)


class Own(nnx.Module):
    """Products written by hand: a scale that depends on the width, W on the left, an image."""

    def __init__(self):
        draw = np.random.default_rng(3).normal
        self.z = nnx.Param(jnp.asarray(draw(size=(6, 4)), jnp.float32))
        self.y = nnx.Param(jnp.asarray(draw(size=(6, 6)), jnp.float32))
        self.b = nnx.Param(jnp.asarray(draw(size=6), jnp.float32))
        self.x = nnx.Param(jnp.asarray(draw(size=(6, 2)), jnp.float32))

    def __call__(self, image):
        rows = image.reshape(image.shape[0], -1)
        z = jax.nn.relu(rows @ self.z[...].T / 2 + self.b[...])
        z = jax.nn.relu(jnp.einsum("ij,bj->bi", self.y[...], z) - 1)
        return jax.nn.softmax(z @ self.x[...])


def stepped(module):
    """A module after one step of an optimiser."""
    graph, state = nnx.split(module)

    @jax.jit
    def step(state):
        def loss(state):
            return (nnx.merge(graph, state)(jnp.ones((4, 3))) ** 2).sum()

        opt = optax.sgd(0.01)
        updates, _ = opt.update(jax.grad(loss)(state), opt.init(state))
        return optax.apply_updates(state, updates)

    return nnx.merge(graph, step(state))


def jitted(module):
    with jax.numpy_dtype_promotion("standard"):
        nnx.jit(lambda m: m(jnp.ones((2, 3))))(module)
    return module


def linen_of(model):
    """A model and its variables, with sorted names as after every step of an optimiser."""
    rng = np.random.default_rng(1)
    made = jax.eval_shape(model.init, jax.random.key(1), jnp.ones(3))
    scaled = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape, scale=0.6).astype("f"), made)
    return model, scaled


def pieces(params, activation="relu"):
    """Of the chain, without what ``exact.pieces`` compiles for each shape."""

    def chain(x):
        for weights, biases in params:
            x = activations.get(activation)(x @ weights + biases)
        return x

    return exact.pieces_of(chain, *ENDS)


LEAKY = activations.leaky_relu(0.2)
NET = MLP((3, 6, 6), laws.Gaussian(1.5), laws.Gaussian(0.5))

# Models of which the answer is that of ``pieces_of``; what from_flax is told; activation.
CHAINS = {
    "nnx": (lambda: Net(), {}),
    "nnx, defined in another order": (lambda: Net(10, kind="reversed"), {}),
    "nnx after jit": (lambda: jitted(Net(1)), {}),
    "nnx after clone": (lambda: nnx.clone(Net(2)), {}),
    "nnx after merge": (lambda: nnx.merge(*nnx.split(Net(3))), {}),
    "nnx after a step": (lambda: stepped(Net(4)), {}),
    "nnx, shared layer": (lambda: Net(5, kind="shared"), {}),
    "nnx, factor before the activation": (lambda: Net(6, kind="scaled"), {}),
    "nnx, leaky": (lambda: Net(7, lambda x: nnx.leaky_relu(x, 0.2)), {"activation": LEAKY}),
    "nnx, hard tanh": (lambda: Net(8, nnx.hard_tanh), {"activation": "hard_tanh"}),
    "nnx, computed in bfloat16": (lambda: Net(9, dtype=jnp.bfloat16), {}),
    "linen, sorted": (lambda: linen_of(Dense()), {}),
    "linen, shared layer": (lambda: linen_of(Dense(kind="shared")), {}),
    "linen, scan": (lambda: linen_of(Stack()), {}),
    "jaxexpr's own": (lambda: Classifier(NET, 2, key=jax.random.key(2)), {}),
}
# Models that are not chains of the activation said: the words of the refusal.
REFUSED = {
    "nnx, residual": (lambda: Net(kind="residual"), {}, "'hidden_three' takes something else"),
    "nnx, layer without activation": (
        lambda: Net(kind="skipped"),
        {},
        "no activation between 'hidden_two' and 'hidden_three'",
    ),
    "nnx, tanh": (lambda: Net(act=nnx.tanh), {}, "tanh between 'hidden_one' and 'hidden_two'"),
    "nnx, two activations": (
        lambda: Net(kind="mixed"),
        {},
        r"leaky_relu\(0.01\) between 'hidden_two' and 'hidden_three'",
    ),
    "nnx, ReLU said of leaky": (lambda: Net(), {"activation": LEAKY}, "has relu between"),
    "nnx, two heads": (lambda: Net(kind="heads"), {}, "returns 2 arrays"),
    "nnx, two heads in one": (
        lambda: Net(kind="joined"),
        {},
        "'extra' takes the output of 'hidden_three'",
    ),
    "nnx, factor after the activation": (lambda: Net(kind="factor"), {}, "'hidden_three' takes"),
    "nnx, normalised": (lambda: Net(kind="norm"), {}, "'norm.bias', 'norm.scale'"),
    "nnx, layer that is not used": (lambda: Net(kind="unused"), {}, "holds 'extra.bias'"),
    "nnx, skip to the output": (lambda: Net(kind="jump"), {}, "returns something else"),
    "nnx in training": (lambda: Net(kind="dropout"), {}, r"drop, Dropout\): call module.eval"),
    "nnx, linear end": (lambda: Net(), {"readout": False}, "say readout=True"),
    "linen, residual": (lambda: linen_of(Dense(kind="residual")), {}, "'hidden_three' takes"),
    "linen, gelu": (lambda: linen_of(Dense(linen.gelu)), {}, "gelu between 'hidden_one'"),
    "linen in training": (lambda: linen_of(Dense()), {"call": {"train": True}}, "'train': False"),
}


def given(made):
    """What from_flax takes, and the model as a function of its input."""
    if isinstance(made, tuple):
        return made, lambda x: made[0].apply(made[1], x)
    if isinstance(made, Classifier):
        return (made,), lambda x: made(x[None])[0]
    return (made,), made


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_has_the_pieces_of_the_model(name):
    make, said = CHAINS[name]
    with jax.numpy_dtype_promotion("standard"):
        arguments, model = given(make())
    params = from_flax(*arguments, **said)
    found = pieces(params, said.get("activation", "relu"))
    expected = exact.pieces_of(model, *ENDS)
    assert found.count == expected.count > 8
    np.testing.assert_allclose(found.breakpoints, expected.breakpoints, atol=1e-9)
    assert {a.dtype for pair in params for a in pair} == {np.dtype(np.float64)}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_a_chain_is_refused(name):
    make, said, words = REFUSED[name]
    with jax.numpy_dtype_promotion("standard"), pytest.raises(ValueError, match=words) as told:
        from_flax(*given(make())[0], **said)
    assert "pieces_of" in str(told.value) or "say readout" in words or "training" in name


def test_activations_that_are_smooth_are_compared_as_well():
    model = Net(act=nnx.tanh)
    x = ENDS.astype(np.float32)
    expected = np.asarray(model(x))
    for weights, biases in from_flax(model, activation="tanh"):
        x = np.tanh(x @ weights + biases)
    kernel, bias = (np.asarray(v[...]) for v in (model.logits.kernel, model.logits.bias))
    np.testing.assert_allclose(x @ kernel + bias, expected, atol=1e-5)


def test_products_by_hand_and_images():
    model = Own()
    params = from_flax(model, input_shape=(2, 2))
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        z, y, b, x = (np.asarray(v[...], np.float64) for v in (model.z, model.y, model.b, model.x))
    np.testing.assert_allclose(params[0][0], z.T / 2)
    np.testing.assert_allclose(params[0][1], b)
    np.testing.assert_allclose(params[1][0], y.T)
    np.testing.assert_allclose(params[1][1], -np.ones(6))
    with pytest.raises(ValueError, match="give input_shape="):
        from_flax(model, input_shape=3)


def test_what_a_call_may_hold():
    rngs = nnx.Rngs(0)
    one, two, out = (nnx.Linear(*n, rngs=rngs) for n in ((3, 6), (6, 6), (6, 1)))

    class Calls(nnx.Module):
        def __init__(self, function):
            self.one, self.two, self.out, self.function = one, two, out, function

        def __call__(self, x):
            return self.function(self, x)

    def looped(rounds):
        def loop(m, x):
            def step(z):
                return nnx.relu(z @ m.two.kernel[...] + m.two.bias[...])

            if rounds:
                z = jax.lax.fori_loop(0, rounds, lambda i, z: step(z), nnx.relu(m.one(x)))
            else:
                z = jax.lax.while_loop(lambda z: z.sum() < 0, step, nnx.relu(m.one(x)))
            return m.out(z)

        return loop

    def jumps(m, x):  # a batch of one only, a recomputed layer, an output that is squeezed
        z = jax.vmap(jax.checkpoint(lambda z: nnx.relu(m.two(nnx.relu(m.one(z))))))(x)
        return m.out(z)[..., 0] / 3

    assert [w.shape for w, _ in from_flax(Calls(looped(3)))] == [(3, 6), *[(6, 6)] * 3]
    assert [w.shape for w, _ in from_flax(Calls(jumps))] == [(3, 6), (6, 6)]
    for function, said, words in (
        (looped(0), {}, "module holds while"),
        (lambda m, x: m.out(m.two(nnx.relu(m.one(x))).sum() * x), {}, "cannot be called"),
        (lambda m, x: m.out(m.two(m.one(x))).mean(0), {"input_shape": (2, 3)}, "'one' to several"),
        (lambda m, x: m.out(nnx.relu(m.two(nnx.relu(m.one(x / 255))))), {}, "changes its input"),
        (lambda m, x: nnx.relu(m.out(nnx.relu(m.two(nnx.relu(m.one(x)))))), {}, "readout=False"),
        (lambda m, x: jnp.tanh(m.out(nnx.relu(m.two(nnx.relu(m.one(x)))))), {}, "tanh after its"),
        (lambda m, x: m.one.bias[...] * 2, {}, "the same for every input"),
    ):
        with pytest.raises(ValueError, match=words):
            from_flax(Calls(function), **said)
    two.kernel[...] = two.kernel[...].at[0, 0].set(jnp.nan)
    with pytest.raises(ValueError, match=r"two.kernel holds nan at index \(0, 0\)"):
        from_flax(Calls(jumps))
    with pytest.raises(ValueError, match="call=3: give a dictionary"):
        from_flax(one, call=3)


def test_parameters_are_compared_within_float64():
    """A model that is a chain but for one part in a million is refused."""

    class Nearly(Net):
        def __call__(self, x):
            return super().__call__(x + 1e-6 * x**2)

    class Leaks(nnx.Module):
        def __init__(self):
            self.net = Net()

        def __call__(self, x):
            net = self.net
            z = nnx.relu(net.hidden_one(x))
            z = nnx.relu(net.hidden_two(z)) + 1e-9 * z
            return net.logits(nnx.relu(net.hidden_three(z)))

    with pytest.raises(ValueError, match="changes its input"):
        from_flax(Nearly())
    with pytest.raises(ValueError, match=r"'net.hidden_three' takes something else"):
        from_flax(Leaks())


def dicts(tmp_path, names, sizes, seed=0):
    """A state dict in the order of use, and as safetensors holds it."""
    draw = np.random.default_rng(seed).normal
    state = {}
    for name, n, m in zip(names, sizes, sizes[1:], strict=False):
        state |= {f"{name}.weight": draw(size=(m, n)), f"{name}.bias": draw(size=m)}
    save_file(state, tmp_path / "model.safetensors")
    return state, load_file(tmp_path / "model.safetensors")


def count(params):
    return pieces(params).count


def truth(state, names):
    def model(x):
        for name in names[:-1]:
            x = jax.nn.relu(state[f"{name}.weight"] @ x + state[f"{name}.bias"])
        return state[f"{names[-1]}.weight"] @ x

    return exact.pieces_of(model, *ENDS).count


def test_state_dicts_of_hostile_names_are_refused_or_ordered(tmp_path):
    names = [*NAMES, "logits"]
    for state in dicts(tmp_path, names, (3, 6, 6, 6, 2)):
        with pytest.raises(ValueError, match="'hidden_(two|three)'.*order=") as told:
            from_torch_state(state)
        assert "from_torch" in str(told.value)
        assert count(from_torch_state(state, order=names)) == truth(state, names)


@pytest.mark.parametrize(
    "names", [[f"net.{2 * i}" for i in range(12)], ["fc1", "fc2", "fc3", "fc4"], ["z", "y", "x"]]
)
def test_numbers_and_shapes_settle_the_order(tmp_path, names):
    sizes = [3, *([6] * (len(names) - 1)), 2] if len(names) > 3 else [3, 6, 5, 2]
    found = {count(from_torch_state(state)) for state in dicts(tmp_path, names, sizes)}
    state, _ = dicts(tmp_path, names, sizes)
    assert found == {truth(state, names)}


def test_orders_that_shapes_leave_open(tmp_path):
    # a, b, c, d chain in four orders, though no two neighbours have the same shape
    state, _ = dicts(tmp_path, ["a", "b", "c", "d"], (3, 6, 3, 6, 3))
    with pytest.raises(ValueError, match="state leaves open which of"):
        from_torch_state(state)
    state, _ = dicts(tmp_path, [f"l{chr(97 + i)}" for i in range(20)], [4] * 20 + [5])
    with pytest.raises(ValueError, match="order="):
        from_torch_state(state)
    for order, said in ((["a", "b"], "'c', 'd'"), ("abcd", "name each layer"), (3, "order=3")):
        with pytest.raises(ValueError, match=said):
            from_torch_state(dicts(tmp_path, "abcd", (3, 6, 3, 6, 3))[0], order=order)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
class TestTorch:
    """Modules of PyTorch, where it is installed (the group ``bench``)."""

    def module(self, kind="chain", act=None, **options):
        import torch
        from torch.nn import functional

        act = act or functional.relu

        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(0)
                linear = torch.nn.Linear
                self.logits = linear(6, 2)
                self.three, self.two, self.one = linear(6, 6), linear(6, 6), linear(3, 6)
                if kind == "norm":
                    self.norm = torch.nn.LayerNorm(6)

            def forward(self, x):
                if kind == "cast":
                    x = x.float()
                z = act(self.one(x))
                if kind == "functional":
                    z = act(functional.linear(z, self.two.weight, self.two.bias))
                else:
                    z = act(self.two(z)) + (z if kind == "residual" else 0)
                if kind == "dropout":
                    z = functional.dropout(z, 0.5, self.training)
                if kind == "norm":
                    z = self.norm(z)
                z = act(self.three(z))
                if kind == "shared":
                    z = act(self.three(z))
                if kind == "heads":
                    return self.logits(z), z
                return self.logits(z)

        return Module()

    @pytest.mark.parametrize("kind", ["chain", "shared", "cast"])
    def test_chains(self, kind):
        module = self.module(kind)
        state = {name: value.detach().numpy() for name, value in module.state_dict().items()}
        names = ["one", "two", "three", *(["three"] if kind == "shared" else []), "logits"]
        assert count(from_torch(module)) == truth(state, names)
        assert next(module.parameters()).dtype.itemsize == 4

    @pytest.mark.parametrize(
        ("kind", "words"),
        [
            ("residual", "'three' takes something else.*written in JAX"),
            ("functional", "'two.weight', 'two.bias'"),
            ("dropout", r"module\.eval\(\)"),
            ("norm", "'norm.weight', 'norm.bias'"),
            ("heads", "returns tuple"),
        ],
    )
    def test_refusals(self, kind, words):
        with pytest.raises(ValueError, match=words):
            from_torch(self.module(kind))
        if kind == "dropout":
            assert len(from_torch(self.module(kind).eval())) == 3

    def test_activations(self):
        import torch

        with pytest.raises(ValueError, match="tanh between 'one' and 'two'"):
            from_torch(self.module(act=torch.tanh))
        assert len(from_torch(self.module(act=torch.tanh), activation="tanh")) == 3
        with pytest.raises(ValueError, match=r"activations\.leaky_relu\(0.01\)"):
            from_torch(self.module(act=torch.nn.functional.leaky_relu))

    def test_containers_and_images(self):
        import torch

        nn = torch.nn
        layers = [nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.1), nn.Linear(6, 6)]
        module = nn.Sequential(*layers, nn.ReLU(), nn.Linear(6, 2), nn.Softmax(-1))
        with pytest.raises(ValueError, match=r"\(3, Dropout\): call module.eval"):
            from_torch(module)
        params = from_torch(module.eval(), input_shape=(2, 2))
        assert [w.shape for w, _ in params] == [(4, 6), (6, 6)]
        np.testing.assert_array_equal(params[1][0], module[4].weight.detach().numpy().T)
        convolves = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
        with pytest.raises(ValueError, match="holds '0.weight', '0.bias'"):
            from_torch(convolves, input_shape=(1, 4, 4))
        with pytest.raises(ValueError, match="give input_shape="):
            from_torch(convolves)
        with pytest.raises(ValueError, match="not a torch.nn.Module"):
            from_torch({})


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_without_pytorch_it_is_named():
    with pytest.raises(ValueError, match="PyTorch, which is not installed.*from_torch_state"):
        from_torch(None)
