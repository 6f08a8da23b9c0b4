"""Names in other libraries and their equivalents here."""

# Names of arguments in other libraries, and the arguments here that may be meant.
MEANT = {
    "act": ("activation",),
    "activation_fn": ("activation",),
    "activation_function": ("activation",),
    "nonlinearity": ("activation",),
    "alpha": ("slope",),
    "negative_slope": ("slope",),
    "b": ("biases",),
    "batch_size": ("batch",),
    "bound": ("lower", "upper"),
    "callbacks": ("trackers",),
    "ci": ("level",),
    "confidence": ("level",),
    "cmap": ("colours",),
    "color": ("colours",),
    "colors": ("colours",),
    "end": ("x1", "domain"),
    "features": ("units",),
    "filters": ("features",),
    "fn": ("function",),
    "func": ("function",),
    "hidden": ("widths",),
    "infinite": ("whole",),
    "keep": ("density",),
    "kernel_size": ("kernel",),
    "lr": ("optimiser=optax.adam(1e-3)",),
    "learning_rate": ("optimiser=optax.adam(1e-3)",),
    "max_steps": ("epochs",),
    "steps": ("epochs",),
    "most_points": ("max_points",),
    "within": ("rtol",),
    "good": ("function_only",),
    "n": ("draws", "networks", "points", "units"),
    "n_epochs": ("epochs",),
    "num_epochs": ("epochs",),
    "n_networks": ("draws", "networks"),
    "n_points": ("points",),
    "num_points": ("points",),
    "n_samples": ("draws",),
    "num_samples": ("draws",),
    "samples": ("draws",),
    "opt": ("optimiser",),
    "tx": ("optimiser",),
    "path": ("folder",),
    "root": ("folder",),
    "prob": ("density",),
    "p": ("density",),
    "sparsity": ("density",),
    "radius": ("half_width",),
    "rng": ("key",),
    "rngs": ("key",),
    "random_state": ("key",),
    "seed": ("key",),
    "scale": ("sigma", "limit"),
    "std": ("sigma", "limit"),
    "stddev": ("sigma", "limit"),
    "size": ("widths", "units"),
    "start": ("x0", "domain"),
    "tol": ("target", "refine"),
    "train": ("split",),
    "verbose": ("progress",),
    "w": ("weights",),
    "sigma_w": ("weights", "sigma"),
    "sigma_b": ("biases",),
}

# Smooth activations of JAX, with their Lipschitz constants rounded up.
SMOOTH = {
    name: f"Activation({name!r}, {function}, lipschitz={lipschitz})"
    for name, function, lipschitz in (
        ("gelu", "jax.nn.gelu", 1.13),
        ("silu", "jax.nn.silu", 1.1),
        ("swish", "jax.nn.silu", 1.1),
        ("softplus", "jax.nn.softplus", 1.0),
        ("elu", "jax.nn.elu", 1.0),
        ("celu", "jax.nn.celu", 1.0),
        ("selu", "jax.nn.selu", 1.76),
        ("mish", "jax.nn.mish", 1.09),
        ("sigmoid", "jax.nn.sigmoid", 0.25),
        ("sin", "jax.numpy.sin", 1.0),
    )
}

# For each module, missing names (in lower case, without underscores) and what to use instead.
INSTEAD = {
    "": {
        "countregions": "use exact.region_counts, exact.plane or exact.cells",
        "dense": "did you mean Dense?",
        "net": "did you mean MLP?",
        "network": "did you mean MLP or ConvNet?",
        "relu": "give activation='relu' to MLP, or use activations.relu",
        "tanh": "give activation='tanh' to MLP, or use activations.tanh",
        "noise": "use jaxexpr.prng",
        "normal": "use laws.Gaussian(sigma)",
        "gaussian": "use laws.Gaussian(sigma)",
        "plot": "use jaxexpr.plotting",
        "save": "use results.save(results.dataset({name: estimate}, dims), path)",
        "load": "use results.load(path), or datasets.load(name)",
        "train": "use training.train",
        "line": "use curves.line(x0, x1)",
        "pieces": "use exact.pieces",
        "piecesof": "use exact.pieces_of",
        "sim": "the simulations are run from a checkout: use python -m sims list",
        "sims": "the simulations are run from a checkout: use python -m sims list",
    },
    "laws": {
        "normal": "use Gaussian(sigma)",
        "gauss": "use Gaussian(sigma)",
        "bernoulli": "use Sparse(law, density), or TwoPoint(c) for signs",
        "rademacher": "use TwoPoint(c)",
        "sign": "use TwoPoint(c)",
        "constant": "use Zero() for none, TwoPoint(c) for one size",
        "zeros": "use Zero()",
        "none": "use Zero()",
        "dropout": "use Sparse(law, density)",
        "mask": "use Sparse(law, density)",
        "laplace": (
            "derive a frozen dataclass from laws.Law, as its docstring says, to "
            "give one of your own"
        ),
        "studentt": (
            "derive a frozen dataclass from laws.Law, as its docstring says, to "
            "give one of your own"
        ),
        "truncatednormal": (
            "derive a frozen dataclass from laws.Law, as its docstring says, to "
            "give one of your own"
        ),
        "orthogonal": (
            "its entries depend on each other: draw the matrices and give them to measure"
        ),
        "lecunnormal": "weights are divided by sqrt(fan_in) here: use Gaussian(1.0)",
        "lecununiform": "weights are divided by sqrt(fan_in) here: use Uniform(3**0.5)",
        "henormal": "weights are divided by sqrt(fan_in) here: use Gaussian(2**0.5)",
        "kaimingnormal": "weights are divided by sqrt(fan_in) here: use Gaussian(2**0.5)",
        "heuniform": "weights are divided by sqrt(fan_in) here: use Uniform(6**0.5)",
        "kaiminguniform": "weights are divided by sqrt(fan_in) here: use Uniform(6**0.5)",
        "xaviernormal": (
            "weights are divided by sqrt(fan_in) here: use Gaussian((2 * "
            "fan_in / (fan_in + fan_out))**0.5)"
        ),
        "glorotnormal": (
            "weights are divided by sqrt(fan_in) here: use Gaussian((2 * "
            "fan_in / (fan_in + fan_out))**0.5)"
        ),
        "xavieruniform": (
            "weights are divided by sqrt(fan_in) here: use Uniform((6 * "
            "fan_in / (fan_in + fan_out))**0.5)"
        ),
        "glorotuniform": (
            "weights are divided by sqrt(fan_in) here: use Uniform((6 * "
            "fan_in / (fan_in + fan_out))**0.5)"
        ),
    },
    "activations": {
        "prelu": "use leaky_relu(slope)",
        "relu6": "use piecewise_linear([0, 6], [0, 1, 0])",
        **{name: f"use {activation}" for name, activation in SMOOTH.items()},
    },
    "curves": {
        "segment": "use line(x0, x1)",
        "ray": "use line(x0, x1, whole=True)",
        "path": "use polyline(vertices) or from_function(function)",
        "points": "use polyline(vertices)",
        "interpolate": "use line(x0, x1)",
        "spline": "use from_function(function)",
        "greatcircle": "use arc(x0, x1) or circle(x0, x1)",
        "sphere": "use arc(x0, x1) or circle(x0, x1)",
    },
    "exact": {
        "countregions": "use region_counts along lines, plane in a square, cells in a box",
        "regions": "use region_counts along lines, plane in a square, cells in a box",
        "linearregions2d": "use plane and linear_regions",
        "breakpoints": "use pieces(params, line).breakpoints",
        "polytopes": "use cells",
        "distance": "use distance_to_boundary",
        "piecesconv": "use pieces_of",
    },
    "theory": {
        "bounds": (
            "use price_tanner_lower, raghu_lower, second_moment_upper, or region_bounds for regions"
        ),
        "growth": "use gaussian_growth, price_tanner_lower or second_moment_upper",
        "regions": "use region_bounds, montufar2017_upper, serra2018_upper or montufar2014_lower",
        "meanfield": "use mean_field_growth, length_map, chi_1 and edge_of_chaos",
        "chi1": "did you mean chi_1?",
        "lowerbound": "use price_tanner_lower or raghu_lower",
        "upperbound": "use second_moment_upper or lipschitz_upper",
    },
    "plotting": {
        "plot": "use layers(estimate), or curve_with_interval(x, estimate)",
        "sweep": "use curve_with_interval(x, mean, sem) for one layer's row of a sweep",
        "plane": "use regions(plane)",
        "heatmap": (
            "draw estimate.mean with Matplotlib's imshow: give it one layer, mean[..., layer]"
        ),
    },
    "training.track": {
        "weights": "use weight_scale()",
        "sparsity": "use density()",
        "accuracy": (
            "use the history: train records train_accuracy, and test_accuracy with test_data="
        ),
        "loss": "use the history: train records loss",
        "growth": "use measures(curve, probes=('growth',))",
        "transitions": "use measures(curve, probes=('transitions',))",
    },
}

_A_DATASET = "results.dataset({name: estimate}, dims)"
_A_STEP = "its parameters: for W, b in net.init(key): z = jax.nn.relu(z @ W + b)"
# For each class, missing attributes and what to use instead.
ATTRIBUTES = {
    "Estimate": {
        "plot": "plotting.layers(estimate)",
        "to_xarray": _A_DATASET,
        "to_dataset": _A_DATASET,
        "to_pandas": f"{_A_DATASET}[name].to_pandas()",
        "to_netcdf": f"results.save({_A_DATASET}, path)",
        "save": f"results.save({_A_DATASET}, path)",
        "value": "estimate.mean",
        "values": "estimate.mean",
        "error": "estimate.sem",
        "stderr": "estimate.sem",
        "std_err": "estimate.sem",
        "se": "estimate.sem",
        "variance": "estimate.std ** 2",
        "var": "estimate.std ** 2",
        "ci": "estimate.interval(0.95)",
        "samples": "kernel with jax.vmap, which returns each network's own number",
        "shape": "estimate.mean.shape",
    },
    "Layer": {"index": "layer.number, which counts from 1"},
    "MLP": {
        "params": "net.init(key)",
        "parameters": "net.init(key)",
        "apply": _A_STEP,
        "forward": _A_STEP,
        "sample": "net.init(key)",
        "measure": "measure(net.init(key), curve)",
        "estimate": "estimate(net, curve, key=key, draws=1000)",
    },
    "Fit": {
        "loss": "fit.history['loss']",
        "losses": "fit.history['loss']",
        "test_accuracy": "fit.history['test_accuracy']",
        "models": "fit.model(0), or fit.params(0)",
        "networks": "fit.model(0), or fit.params(0)",
        "plot": "plotting.curve_with_interval on fit.epochs and fit.history",
        "to_xarray": "fit.dataset(dims)",
        "save": "results.save(fit.dataset(dims), path)",
    },
}
