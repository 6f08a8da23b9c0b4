"""What a new user tries and cannot have: the answer names the argument, its value and a way on.

Mistakes that are refused before anything compiles; ``test_errors.py`` has the checks of each
argument.
"""

import pathlib
import re
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx

import jaxexpr
from jaxexpr import MLP, Activation, Conv, ConvNet, Dense, Estimate, curves, estimate
from jaxexpr.laws import Gaussian, Sparse, Uniform, Zero
from jaxexpr.training import Prune, train


class Convolutional(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(1, 2, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(2, rngs=rngs)

    def __call__(self, x):
        return nnx.relu(self.norm(self.conv(x[None])))[0]


class Normed(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(2, rngs=rngs)

    def __call__(self, x):
        return self.norm(x)  # named in the message


KEY, G, Z, REPO = jax.random.key(0), Gaussian(1.5), Zero(), pathlib.Path(jaxexpr.__file__).parent
NET = MLP((2, 4, 4), G, Z)
BIASED = MLP((2, 4), G, G)
LINE = curves.line([1.0, 0.0], [0.0, 1.0])
WHOLE = curves.line([1.0, 0.0], [0.0, 1.0], whole=True)
W, B = np.ones((2, 3)), np.zeros(3)
P = ((W, B),)
KERNELS = ((np.ones((3, 3, 1, 2)), np.zeros(2)), (np.ones((32, 3)), np.zeros(3)))
CNN = ConvNet((4, 4, 1), [Conv(2), Dense(3)], G, Z)
X = np.random.default_rng(0).normal(size=(20, 2))
Y = np.arange(20) % 2
E = Estimate.of([[1.0, 2.0], [3.0, 4.0]], "growth")
SWEEP = Estimate.of(np.random.default_rng(0).normal(size=(5, 3, 2)), "growth")
MODEL = Convolutional(nnx.Rngs(0))
MODEL_OF_LINEN = linen.Dense(3)
IMAGES = np.zeros((4, 4, 1)), np.ones((4, 4, 1))


class Torch:
    """Stands for a module of PyTorch, which is known by where its class is from."""

    __module__ = "torch.nn.modules.linear"


def est(**options):
    return estimate(NET, LINE, **({"key": KEY, "draws": 4} | options))


def fit(net=NET, examples=(X, Y), **options):
    return train(net, examples, **({"key": KEY, "epochs": 1, "batch": 4, "record_at": 1} | options))


def steep(*args, **options):
    """An activation is held against its own function where it is first used."""
    return MLP((2, 4), G, Z, Activation(*args, **options))


# What the codes below may name.
SCOPE = vars(jaxexpr) | {name: getattr(jaxexpr, name) for name in dir(jaxexpr)} | globals()
SCOPE |= {"jnp": jnp, "optax": optax, "Sparse": Sparse, "Uniform": Uniform, "Prune": Prune}

# (what is tried, argument or name, value, what to do)
NAMES = [
    ("jaxexpr.ReLU", "ReLU", "jaxexpr", "give activation='relu'"),
    ("jaxexpr.Mlp", "Mlp", "jaxexpr", "did you mean MLP?"),
    ("jaxexpr.train", "train", "jaxexpr", "use training.train"),
    ("jaxexpr.count_regions", "count_regions", "jaxexpr", "use exact.region_counts"),
    ("jaxexpr.frobnicate", "frobnicate", "jaxexpr", "use what dir(jaxexpr) lists"),
    ("laws.Normal", "Normal", "laws", "use Gaussian(sigma)"),
    ("laws.Gausian", "Gausian", "laws", "did you mean Gaussian?"),
    ("laws.he_normal", "he_normal", "laws", "Gaussian(2**0.5)"),
    ("laws.kaiming_uniform_", "kaiming_uniform_", "laws", "Uniform(6**0.5)"),
    ("laws.Bernoulli", "Bernoulli", "laws", "use Sparse(law, density)"),
    ("laws.StudentT", "StudentT", "laws", "dataclass from laws.Law"),
    ("activations.gelu", "gelu", "activations", "Activation('gelu', jax.nn.gelu, lipschitz=1.13)"),
    ("activations.ReLU", "ReLU", "activations", "did you mean relu?"),
    ("exact.count_regions", "count_regions", "exact", "plane in a square"),
    ("curves.segment", "segment", "curves", "use line(x0, x1)"),
    ("theory.bounds", "bounds", "theory", "use price_tanner_lower"),
    ("plotting.plot", "plot", "plotting", "use layers(estimate)"),
    ("training.track.weights", "weights", "track", "use weight_scale()"),
    ("E.plot()", "plot", "Estimate", "use plotting.layers(estimate)"),
    ("E.to_xarray()", "to_xarray", "Estimate", "use results.dataset"),
    ("E.std_err", "std_err", "Estimate", "use estimate.sem"),
    ("NET.params", "params", "MLP", "use net.init(key)"),
    ("NET.apply(P, X)", "apply", "MLP", "for W, b in net.init(key)"),
]
KEYWORDS = [
    ("est(n=10)", "estimate()", "n=10", "did you mean draws or points?"),
    ("est(n_samples=10)", "estimate()", "n_samples=10", "did you mean draws?"),
    ("est(seed=0)", "estimate()", "seed=0", "did you mean key?"),
    ("est(num_points=3)", "estimate()", "num_points=3", "did you mean points?"),
    ("est(probe='growth')", "estimate()", "probe='growth'", "did you mean probes?"),
    ("est(frobnicate=3)", "estimate()", "frobnicate=3", "it takes net, curve, key, draws"),
    ("estimate(NET, LINE, key=KEY)", "draws", "estimate()", "give draws=1000"),
    ("estimate(NET, LINE)", "key and draws", "estimate()", "give key=jax.random.key(0)"),
    ("estimate(NET, LINE, KEY, 9)", "(net, curve)", "given 4", "name the others, such as key="),
    ("estimate(NET, LINE, net=NET, key=KEY, draws=1)", "net", "twice", "give it once"),
    ("MLP((2, 4), G, Z, activation_fn='tanh')", "MLP()", "='tanh'", "did you mean activation?"),
    ("MLP((2, 4), G, Z, act='tanh')", "MLP()", "act='tanh'", "did you mean activation?"),
    ("MLP((2, 4), sigma_w=1.5, sigma_b=0)", "MLP()", "sigma_w=1.5", "did you mean weights?"),
    ("MLP((2, 4), weights=G)", "biases", "MLP()", "give biases=..."),
    ("MLP((2, 4), G, Z, 'relu', 'float64')", "widths", "'float64'", "name the others"),
    ("Gaussian(std=1.5)", "Gaussian()", "std=1.5", "did you mean sigma?"),
    ("Gaussian(0, 1)", "(sigma)", "1", "leave the others out"),
    ("Gaussian()", "sigma", "Gaussian()", "give sigma=..."),
    ("Sparse(G, sparsity=0.5)", "Sparse()", "sparsity=0.5", "did you mean density?"),
    ("Conv(2, kernel_size=3)", "Conv()", "kernel_size=3", "did you mean kernel?"),
    ("Conv(filters=2)", "Conv()", "filters=2", "did you mean features?"),
    ("Dense(features=3)", "Dense()", "features=3", "did you mean units?"),
    ("curves.line([1, 0], [0, 1], infinite=True)", "line()", "=True", "did you mean whole?"),
    ("curves.line(start=[1, 0], end=[0, 1])", "line()", "start=[1, 0]", "did you mean x0?"),
    ("curves.line(X[0])", "x1", "line()", "give x1=..."),
    ("curves.polyline([1, 0], [0, 1])", "(vertices)", "[0, 1]", "leave the others out"),
    ("datasets.load('mnist', train=True)", "load()", "train=True", "did you mean split?"),
    ("datasets.load('mnist', path='x')", "load()", "path='x'", "did you mean folder?"),
    ("fit(optimizer=3)", "train()", "optimizer=3", "did you mean optimiser?"),
    ("fit(lr=0.1)", "train()", "lr=0.1", "did you mean optimiser=optax.adam(1e-3)?"),
    ("fit(batch_size=8)", "train()", "batch_size=8", "did you mean batch?"),
    ("fit(loss='mse')", "train()", "loss='mse'", "write your own loop"),
    ("fit(every=5)", "train()", "every=5", "an epoch is N // batch steps"),
    ("fit(callbacks=[3])", "train()", "callbacks=[3]", "did you mean trackers?"),
    ("training.Classifier(NET, 2)", "key", "Classifier()", "give key=jax.random.key(0)"),
    ("Prune(0.5)", "begin and end", "Prune()", "give begin=..."),
    ("verdict(E, bound=1)", "verdict()", "bound=1", "did you mean lower or upper?"),
    ("dichotomies(NET, X, key=KEY, draws=1, seed=4)", "dichotomies()", "seed=4", "mean key?"),
    (
        "perturbations(NET, X[0], key=KEY, draws=1, xyz=4)",
        "()",
        "xyz=4",
        "it takes net, point",
    ),
    ("boundary_volume(BIASED, X[0], X[:1], draws=1)", "key", "boundary_volume()", "give key="),
    ("measure(P, LINE, activation_fn='abs')", "measure()", "='abs'", "did you mean activation?"),
    ("exact.pieces_of(jnp.abs, LINE)", "x1", "pieces_of()", "give x1=..."),
    ("exact.plane(P, [0, 0], [1, 0])", "v", "plane()", "give v=..."),
    ("exact.plane(P, *X[:3], radius=2)", "plane()", "radius=2", "did you mean half_width?"),
    ("theory.price_tanner_lower(sigma=1, width=9)", "()", "sigma=1", "it takes weights, width"),
    ("theory.raghu2017_upper((2, 4, 4))", "widths", "raghu2017_upper()", "give widths=..."),
    ("plotting.regions(P, cmap='viridis')", "regions()", "='viridis'", "did you mean colours?"),
    ("G.sample(KEY)", "shape", "sample()", "give shape=..."),
    ("NET.init()", "key", "init()", "give key=jax.random.key(0)"),
    ("training.track.measures(LINE, probe='norm')", "()", "probe='norm'", "did you mean probes?"),
    ("activations.leaky_relu(alpha=0.1)", "leaky_relu()", "alpha=0.1", "did you mean slope?"),
]
VALUES = [
    # networks, activations
    ("MLP((2, 4), G, Z, 'gelu')", "activation", "'gelu'", "give jaxexpr.Activation('gelu'"),
    ("MLP((2, 4), G, Z, jax.nn.silu)", "activation", "silu", "give jaxexpr.Activation('silu'"),
    ("MLP((2, 4), G, Z, 'relu6')", "activation", "'relu6'", "piecewise_linear([0, 6], [0, 1, 0])"),
    ("MLP((2, 4), G, Z, jnp.abs)", "activation", "abs", "give 'abs', or"),
    ("MLP((2, 4), G, Z, nnx.Linear)", "activation", "Linear", "jaxexpr.Activation(name"),
    ("Activation('x', jnp.tanh)", "lipschitz", "None", "give its steepest slope, 1 for tanh"),
    ("Activation('x', 3, lipschitz=1)", "function", "=3", "give a JAX function"),
    ("Activation('x', jnp.tanh, 3, lipschitz=1)", "derivative", "=3", "or leave it out"),
    ("Activation(jnp.tanh, jnp.tanh)", "name", "tanh", "give a text"),
    ("Activation('x', jnp.tanh, lipschitz=-1)", "lipschitz", "=-1", "give one number >= 0"),
    ("Activation('x', jnp.tanh, lipschitz='1')", "lipschitz", "='1'", "give one number >= 0"),
    ("Activation('x', jnp.abs, None, (0,))", "breakpoints", "(0,)", "give both"),
    ("Activation('x', jnp.abs, None, (0,), (1,))", "slopes", "(1.0,)", "give 2"),
    ("MLP((2, 4), G, Z).apply", "apply", "MLP", "use its parameters"),
    ("ConvNet((28, 28), [Conv(2)], G, Z)", "input_shape", "(28, 28)", "give (height, width"),
    ("ConvNet((28, 28, 1), Conv(2), G, Z)", "layers", "Conv(", "give a sequence of Conv"),
    ("ConvNet((28, 28, 1), [32], G, Z)", "layers[0]", "=32", "give Conv, Pool or Dense"),
    ("CNN.apply(KERNELS, X)", "x", "(20, 2)", "use jax.vmap"),
    ("CNN.apply(P, IMAGES[0])", "params", "(2, 3)", "as net.init(key)"),
    ("CNN.apply(IMAGES[0], KERNELS)", "params", "array", "give net.init(key) first"),
    ("Pool(2, kind='avg')", "kind", "'avg'", "choose one of max, mean"),
    ("cifar10_convnet(G, Z, features=3)", "features", "=3", "give two numbers"),
    ("cifar10_convnet(G, Z, input_shape=32)", "input_shape", "(32,)", "multiples of 4"),
    # curves
    (
        "curves.from_function(lambda t: np.stack([np.cos(t), t]))",
        "function",
        "lambda",
        "with jax.numpy",
    ),
    ("curves.from_function(lambda: 3)", "function", "lambda", "a function of one t"),
    ("curves.line([1, 0], [0, 1], whole='no')", "whole", "'no'", "give True or False"),
    ("curves.semicircles([1, 0], [0, 1], KEY)", "key", "[1, 0]", "give jax.random.key(seed)"),
    # random networks
    ("estimate(MODEL, LINE, key=KEY, draws=4)", "net", "Convolutional", "exact.pieces_of"),
    ("est(probes=lambda layer: 1.0)", "probes", "lambda", "decorate it with @probe(degree=0)"),
    ("est(probes=['growth', jnp.mean])", "probes", "mean", "decorate it with @probe(degree=0)"),
    ("probe(lambda layer: 1.0)", "probe(", "lambda", "decorate with @probe(degree=0)"),
    ("crossings([0.0, 1.0])", "levels", "[0.0, 1.0]", "give a sequence of numbers"),
    ("est(checkpoint=True)", "checkpoint", "=True", "give a path"),
    ("est(memory='1GB')", "memory", "'1GB'", "give a real number"),
    ("est(extend=E)", "extend", "growth", "give what estimate returned"),
    (
        "jax.jit(lambda k: estimate(NET, LINE, key=k, draws=4))(KEY)",
        "estimate",
        "inside jit",
        "use jaxexpr.kernel",
    ),
    (
        "jax.jit(lambda x: dichotomies(NET, x, key=KEY, draws=4))(X)",
        "dichotomies",
        "inside jit",
        "use jaxexpr.kernel",
    ),
    ("kernel(MODEL, LINE)", "net", "Convolutional", "give jaxexpr.MLP(...)"),
    ("dichotomies(NET, X, key=KEY, draws=1, swept='first')", "swept", "'first'", "give the number"),
    ("dichotomies(CNN, X, key=KEY, draws=1)", "net", "ConvNet(", "give jaxexpr.MLP(...)"),
    ("perturbations(NET, X, key=KEY, draws=1)", "point", "(20, 2)", "give a point (2,)"),
    ("boundary_volume(5, X[0], X[:1], key=KEY, draws=1)", "net", "=5", "give jaxexpr.MLP(...)"),
    ("boundary_volume(BIASED, X[0], X[0], key=KEY, draws=1)", "directions", "(2,)", "a row"),
    # trained and given networks
    ("measure(MODEL, LINE)", "params", "Convolutional", "use exact.pieces_of"),
    ("measure(MODEL_OF_LINEN, LINE)", "params", "Dense", "give from_flax(model)"),
    ("measure(Torch(), LINE)", "params", "Torch", "give from_torch(model)"),
    ("measure({'0.weight': W}, LINE)", "params", "0.weight", "from_torch_state(state)"),
    ("measure({'W1': W, 'b1': B}, LINE)", "params", "'W1'", "give from_flax(module, variables)"),
    ("measure(NET, LINE)", "params", "MLP((2, 4, 4)", "give its parameters, net.init(key)"),
    ("measure(CNN, LINE)", "params", "ConvNet(", "with net=net"),
    ("measure(lambda x: x, LINE)", "params", "lambda", "use exact.pieces_of"),
    ("measure((W, B), LINE)", "params", "array", "[(W, b)] for one layer"),
    ("measure(KERNELS, LINE)", "params[0][0]", "(3, 3, 1, 2)", "use exact.pieces_of"),
    ("measure(P, LINE, net=CNN)", "params", "holds 1 pairs", "give 2 pairs (W, b)"),
    ("measure(P, LINE, net=5)", "net", "=5", "give the ConvNet or MLP"),
    ("exact.distance_to_boundary(MODEL, X)", "params", "Convolutional", "use exact.pieces_of"),
    ("exact.distance_to_boundary(KERNELS, X)", "params[0][0]", "(3, 3, 1, 2)", "pieces_of"),
    ("exact.plane(MODEL, *X[:3])", "params", "Convolutional", "use exact.pieces_of"),
    ("exact.cells(CNN)", "params", "ConvNet(", "use exact.pieces_of"),
    ("exact.cells(P, low=-1)", "high", "None", "give both corners"),
    ("exact.cells(P, low=1, high=-1)", "high", "=-1", "give low < high"),
    ("exact.plane(P, *X[:3], half_width=[1, 2])", "half_width", "[1, 2]", "give one number > 0"),
    ("exact.region_counts(P, LINE)", "params[0][0]", "(2, 3)", "as the first axis"),
    ("exact.regions_in_ball(P, [0, 0], -1)", "radius", "=-1", "give numbers > 0"),
    ("exact.linear_regions(P)", "partition", "array", "give what plane returned"),
    ("exact.sawtooth(2.5)", "depth", "2.5", "give an integer"),
    ("exact.noisy(P, 1, 0)", "key", "=0", "give jax.random.key(seed)"),
    ("exact.pieces_of(P, *X[:2])", "fn", "array", "use exact.pieces(params"),
    ("exact.pieces_of(NET, *X[:2])", "fn", "MLP(", "exact.pieces(net.init(key)"),
    ("exact.pieces_of(CNN, *IMAGES)", "fn", "ConvNet(", "give lambda x: net.apply(params, x)"),
    ("exact.pieces_of(MODEL, *IMAGES)", "BatchNorm", "'norm'", "call model.eval() first"),
    ("exact.pieces_of(lambda x: MODEL(x), *IMAGES)", "fn", "(4, 4, 1)", "call model.eval()"),
    ("exact.pieces_of(MODEL_OF_LINEN, *X[:2])", "fn", "(2,)", "module.apply(variables, x)"),
    ("exact.pieces_of(lambda x: np.maximum(x, 0), *X[:2])", "fn", "NumPy", "with jax.numpy"),
    ("exact.pieces_of(lambda x: x if x[0] > 0 else -x, *X[:2])", "fn", "if on", "jnp.where"),
    ("exact.pieces_of(lambda x: x.reshape(3), *X[:2])", "fn", "(2,)", "give end points"),
    ("exact.pieces_of(lambda x, y: x, *X[:2])", "fn", "'y'", "give end points"),
    ("exact.pieces_of(lambda x: None, *X[:2])", "fn", "None", "return an array"),
    ("exact.pieces_of(jnp.tanh, *X[:2])", "fn", "tanh", "give a function made of affine"),
    ("exact.pieces_of(Normed(nnx.Rngs(0)), *X[:2])", "fn", "test_mistakes.py", "give a function"),
    ("trajectory(MODEL, LINE)", "params", "Convolutional", "give from_flax(model)"),
    ("grid_needed(P, LINE, rtol=0)", "rtol", "=0", "give one number > 0"),
    ("project([1, 2, 3])", "points", "(3,)", "give (n, k)"),
    ("from_arrays({'a': W})", "arrays", "{'a'", "give a list of arrays"),
    ("from_torch_state([W, B])", "state", "array", "give a mapping"),
    # results
    ("E[3]", "estimate[3]", "3", "results.estimate_of(results.dataset("),
    ("E + E", "estimate +", "growth", "use estimate(..., extend=previous"),
    ("results.save({'growth': E}, 'x.nc')", "data", "growth", "give results.dataset(data)"),
    ("results.save(E, 'x.nc')", "data", "growth", "give results.dataset({'growth': data})"),
    ("results.dataset(E)", "estimates", "growth", "give {'growth': estimate}"),
    ("results.dataset({'a': 3})", "estimates['a']", "=3", "give an Estimate"),
    ("results.dataset({'g': SWEEP}, 'sigma')", "dims", "'sigma'", "give a list of names"),
    ("results.dataset({'g': SWEEP}, ['layer'])", "dims[0]", "'layer'", "a name of its own"),
    ("results.dataset({'g': SWEEP}, ['s'], {'s': [1]})", "coords['s']", "(1,)", "give 3 values"),
    ("results.dataset({'g': SWEEP}, ['s'], {'t': [1]})", "coords['t']", "[1]", "coordinates of s"),
    ("results.dataset({'g': SWEEP}, ['s'], [1])", "coords", "[1]", "give {name of an axis"),
    ("results.estimate_of({'g': E}, 'g')", "data", "growth", "give what results.dataset"),
    ("results.estimate_of(results.dataset({'g': E}), 'h')", "name", "'h'", "choose one of g"),
    ("results.concat([], 'width')", "parts", "empty", "give one dataset"),
    ("results.concat({8: E}, 'width')", "parts", "growth", "give what results.dataset returned"),
    ("results.load(str(REPO / 'none.nc'))", "path", "none.nc", "run the simulation first"),
    ("results.load(REPO / '__init__.py')", "path", "__init__.py", "give a file that results.save"),
    ("results.load(REPO)", "path", "jaxexpr", "give a file in it"),
    ("results.load(3)", "path", "=3", "give a path"),
    ("results.provenance(3, 1.0)", "config", "=3", "give a dict"),
    ("datasets.load('mnist', folder=3)", "folder", "=3", "give a path"),
    ("datasets.load(['mnist'])", "name", "['mnist']", "did you mean 'mnist'"),
    ("plotting.layers(SWEEP)", "estimate", "(3, 2)", "results.estimate_of(results.dataset("),
    ("plotting.layers({'growth': E})", "estimate", "growth", "give one of its Estimates"),
    ("plotting.layers(E.mean)", "estimate", "array", "give what estimate returned"),
    ("plotting.layers(E, ax=3)", "ax", "=3", "give Matplotlib Axes"),
    ("plotting.regions(P)", "plane", "array", "give what exact.plane returned"),
    ("plotting.reference([1], [1], kind='lowr')", "kind", "'lowr'", "did you mean 'lower'"),
    ("plotting.curve_with_interval([1], [1, 2], [1, 2], 9)", "mean", "(2,)", "give an x"),
    ("plotting.curve_with_interval([1], E, [1], 9)", "mean", "growth", "give an array"),
    ("verdict(E, 1.0, 0.5)", "lower", "1.0", "give lower <= upper"),
    ("verdict({'growth': E}, lower=1)", "estimate", "growth", "made['growth']"),
    ("verdict(E, lower=0, axis=3)", "axis", "=3", "give a text"),
    ("judge(verdict(E, lower=0))", "verdicts", "Verdict(", "give a list"),
    ("judge(E)", "verdicts", "growth", "give a list"),
    # theory
    ("theory.gaussian_growth(np.array(['a']), 32)", "sigma", "'a'", "give a real number"),
    ("theory.gaussian_growth(1.5, [32, 64])", "width", "[32, 64]", "give an integer"),
    ("theory.per_layer('growth', NET)", "factor", "'growth'", "such as theory.price_tanner_lower"),
    ("theory.good_probability(5)", "widths", "=5", "give (n_in, n_1, ..., n_d)"),
    ("theory.serra2018_upper(2, '44')", "widths", "'44'", "give a sequence"),
    ("theory.correlation_map(2.0, 1, 1, 1, 'relu')", "c", "2.0", "give numbers in [-1, 1]"),
    # training
    ("fit(net=MODEL)", "net", "Convolutional", "in a loop of your own"),
    ("fit(optimiser='adam')", "optimiser", "'adam'", "optax.adam(1e-3)"),
    ("fit(optimiser=optax.adam)", "optimiser", "adam", "call it with its learning rate"),
    ("fit(optimiser=optax.constant_schedule(0.1))", "optimiser", "schedule", "call it with"),
    ("fit(optimiser=1e-3)", "optimiser", "0.001", "such as optax.adam(1e-3)"),
    ("fit(trackers=training.track.density())", "trackers", "density", "give a list"),
    ("fit(trackers=[training.track.density])", "trackers[0]", "density", "track.density(...)"),
    ("fit(trackers=['density'])", "trackers[0]", "'density'", "give a function of a Snapshot"),
    ("fit(trackers={'a': 3})", "trackers", "{'a': 3}", "give a list"),
    ("fit(checkpoint=3)", "checkpoint", "=3", "give a path"),
    ("fit(readout=1.0)", "readout", "1.0", "give one of Gaussian(sigma)"),
    ("fit(record_at='all')", "record_at", "'all'", "give a sequence of numbers"),
    ("fit(examples=X)", "examples", "array", "give (images, labels)"),
    ("fit(examples=(X, np.eye(2)[Y]))", "examples[1]", "(20, 2)", "give one whole number"),
    ("training.Intervention(prune=0.5)", "prune", "0.5", "give Prune(density, begin, end)"),
    ("training.Normalisation('layer')", "kind", "'layer'", "choose one of batch, trajectory"),
    ("training.prune(MODEL, 0.5)", "params", "Convolutional", "give from_flax(model)"),
    ("training.prune(P, [0.5])", "density", "[0.5]", "give one number"),
    ("training.add_noise(MODEL, 1, G, key=KEY)", "params", "Convolutional", "from_flax(model)"),
    ("training.wrong_labels(Y, 2.0, 2, KEY)", "fraction", "2.0", "give a probability"),
    ("training.wrong_labels(Y, 0.5, 2, 0)", "key", "=0", "give jax.random.key(seed)"),
    ("training.Classifier(5, 2, key=KEY)", "net", "=5", "give an MLP or a ConvNet"),
    ("training.Classifier(NET, 0, key=KEY)", "classes", "=0", "give an integer >= 1"),
    ("training.track.regions(LINE)", "lines", "Curve(", "[line] for one"),
    ("training.track.distances(X[0])", "x", "(2,)", "[x] for one"),
    ("training.track.measures(LINE, probes='lenght')", "probes", "'lenght'", "mean 'length'"),
]
ALL = NAMES + KEYWORDS + VALUES
REMEDY = re.compile(
    r"\b(give|use|say|call|choose|did you mean|leave|name|return|decorate|write|it takes|draw"
    r"|run|derive)\b"
)
OWN = (ValueError, TypeError, FileNotFoundError, AttributeError)


@pytest.mark.parametrize(("code", "argument", "value", "fix"), ALL, ids=[row[0] for row in ALL])
def test_the_answer_names_argument_value_and_remedy(code, argument, value, fix):
    with pytest.raises(OWN) as caught:
        eval(code, SCOPE)
    raised_in = pathlib.Path(traceback.extract_tb(caught.tb)[-1].filename)
    assert raised_in.is_relative_to(REPO), raised_in  # by the package, not below it
    message = str(caught.value)
    assert argument in message
    assert value in message
    assert fix in message
    assert REMEDY.search(message)
    assert len(message) < 320 and "\n" not in message  # fits on the screen
    assert " is no " not in message


def test_the_table_is_of_many_mistakes():
    assert len({row[0] for row in ALL}) == len(ALL) > 160
