"""Bad input is refused at the entry: the message names the argument, its value and the fix."""

import difflib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxexpr import (
    MLP,
    Estimate,
    activations,
    curves,
    estimate,
    judge,
    kernel,
    measure,
    probe,
    theory,
    trajectory,
    verdict,
)
from jaxexpr.laws import DiscreteUniform, Gaussian, Sparse, TwoPoint, Uniform, Zero

KEY, KEYS = jax.random.key(0), jax.random.split(jax.random.key(0), 2)
OLD_KEY = jax.random.PRNGKey(0)
UNIT = Gaussian(1.0)
LINE = curves.line([1.0, 0.0], [0.0, 1.0])
SOLID = curves.line([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
WHOLE = curves.line([1.0, 0.0], [0.0, 1.0], whole=True)
W, B = np.ones((2, 3)), np.zeros(3)
NAN = np.full(3, np.nan)
TWO_LAYERS = Estimate.of([[1.0, 2.0], [1.5, 2.5]])

NUMERIC = "give a real number or an array of them"
FINITE = "give finite numbers"
NAMED = "give one of Gaussian(sigma), Uniform(limit)"
AXES = "give each sweep an axis of its own"
SEED = "give jax.random.key(seed)"
WHOLE_NUMBER = "give an integer >= 1"
LEVEL = "lies outside (0, 1): give for instance"


def net(widths=(2, 4, 4), weights=UNIT, biases=None, activation="relu", **options):
    return MLP(widths, weights, Zero() if biases is None else biases, activation, **options)


def draw(**options):
    return UNIT.sample(**({"key": KEY, "shape": (2, 3)} | options))


def run(**options):
    options = {"net": net(), "curve": LINE, "key": KEY, "draws": 4, "points": 3} | options
    return estimate(options.pop("net"), options.pop("curve"), **options)


def one(**options):
    return kernel(options.pop("net", net()), options.pop("curve", LINE), **options)


def given(params=((W, B),), curve=LINE, **options):
    return measure(params, curve, **options)


def bent(**options):
    return curves.from_function(lambda t: jnp.stack([t, t * t]), **options)


def judged(estimate=TWO_LAYERS, **options):
    return verdict(estimate, **options)


def total(layer):
    return jnp.sum(layer.h)


# (call, argument, value, fix)
CASES = {
    "laws": [
        (lambda: Gaussian(-1.5), "sigma", "-1.5", "give a number >= 0"),
        (lambda: Gaussian([1.0, -2.0]), "sigma", "-2.", "give a number >= 0"),
        (lambda: Gaussian(jnp.array([1.0, -2.0])), "sigma", "-2.", "give a number >= 0"),
        (lambda: Gaussian(np.nan), "sigma", "nan", FINITE),
        (lambda: Gaussian([1.0, np.inf]), "sigma", "inf at index (1,)", FINITE),
        (lambda: Gaussian("2"), "sigma", "'2'", NUMERIC),
        (lambda: Gaussian(None), "sigma", "None", NUMERIC),
        (lambda: Gaussian(1j), "sigma", "1j", NUMERIC),
        (lambda: Gaussian([1.0, [2.0]]), "sigma", "[1.0, [2.0]]", NUMERIC),
        (lambda: Gaussian([]), "sigma", "[]", "give at least one number"),
        (lambda: Uniform(-0.5), "limit", "-0.5", "give a number >= 0"),
        (lambda: TwoPoint(np.array(-np.inf)), "c", "-inf", FINITE),
        (lambda: DiscreteUniform(1.5), "limit", "1.5", "Uniform takes any limit"),
        (lambda: DiscreteUniform(100_000), "limit", "100000", "use Uniform"),
        (lambda: Sparse(UNIT, 1.2), "density", "1.2", "give a probability"),
        (lambda: Sparse(UNIT, [0.5, -0.1]), "density", "-0.1", "give a probability"),
        (lambda: Sparse(UNIT, np.nan), "density", "nan", FINITE),
        (lambda: Sparse(UNIT, []), "density", "[]", "give at least one number"),
        (lambda: Sparse("gaussian", 0.5), "law", "'gaussian'", "such as Gaussian(1.0)"),
        (lambda: Sparse(Gaussian, 0.5), "law", "laws.Gaussian", "such as Gaussian(1.0)"),
        (lambda: Sparse(Sparse(UNIT, 0.5), 0.5), "law", "density=0.5", "give the product"),
        (lambda: Sparse(Gaussian([1.0, 2]), [0.1, 0.2, 0.3]), "density", "(3,)", AXES),
        (lambda: draw(key=0), "key", "=0", SEED),
        (lambda: draw(key=OLD_KEY), "key", "Array([0, 0]", SEED),
        (lambda: draw(key=KEYS), "key", "(2,)", "give one key"),
        (lambda: draw(shape=3), "shape", "=3", "give (n,) or (rows, columns)"),
        (lambda: draw(shape=()), "shape", "()", "give (n,) or (rows, columns)"),
        (lambda: draw(shape=(2, 3, 4)), "shape", "(2, 3, 4)", "give (n,) or (rows, columns)"),
        (lambda: draw(shape=(2, -3)), "shape", "-3", "give (n,) or (rows, columns)"),
        (lambda: draw(dtype="int32"), "dtype", "int32", "choose one of float32, float64"),
        (lambda: draw(dtype="flaot32"), "dtype", "flaot32", "did you mean 'float32'"),
        (lambda: draw(dtype="float64"), "dtype", "float64", "jax_enable_x64"),
    ],
    "networks": [
        (lambda: net(None), "widths", "None", "give a sequence (n_in, k_1, ..., k_d)"),
        (lambda: net(8), "widths", "=8", "give a sequence (n_in, k_1, ..., k_d)"),
        (lambda: net("28"), "widths", "'28'", "give a sequence (n_in, k_1, ..., k_d)"),
        (lambda: net(()), "widths", "()", "with d >= 1"),
        (lambda: net((2,)), "widths", "(2,)", "with d >= 1"),
        (lambda: net((2, 0)), "widths[1]", "=0", WHOLE_NUMBER),
        (lambda: net((-2, 4)), "widths[0]", "=-2", WHOLE_NUMBER),
        (lambda: net((2, 8.0)), "widths[1]", "8.0", WHOLE_NUMBER),
        (lambda: net((2, True)), "widths[1]", "True", WHOLE_NUMBER),
        (lambda: net(weights=1.0), "weights", "1.0", NAMED),
        (lambda: net(weights=None), "weights", "None", NAMED),
        (lambda: net(weights=Gaussian), "weights", "laws.Gaussian", NAMED),
        (lambda: net(biases="zero"), "biases", "'zero'", NAMED),
        (lambda: net(weights=[UNIT] * 3), "weights", "3 entries for 2 layers", "give one law, or"),
        (lambda: net(biases=[UNIT]), "biases", "1 entries for 2 layers", "give one law, or 2"),
        (lambda: net(weights=[UNIT, 2.0]), "weights[1]", "2.0", NAMED),
        (lambda: net(activation="rleu"), "activation", "'rleu'", "did you mean 'relu'"),
        (lambda: net(activation="hardtanh"), "activation", "'hardtanh'", "mean 'hard_tanh'"),
        (lambda: net(activation=jnp.tanh), "activation", "tanh", "give 'tanh', or"),
        (lambda: net(dtype="float16"), "dtype", "'float16'", "choose one of float32, float64"),
        (lambda: net(dtype=None), "dtype", "None", "choose one of float32, float64"),
        (
            lambda: net(weights=Gaussian([1.0, 2.0]), biases=Gaussian([1.0, 2.0, 3.0])),
            "weights and biases",
            "[(2,), (3,)]",
            AXES,
        ),
        (lambda: net(weights=Gaussian(1e60)), "weights", "1e+60", "float64"),
        (lambda: net(weights=Uniform([1.0, 1e-60])), "weights", "1e-60", "float64"),
        (lambda: net().init(0), "key", "=0", SEED),
        (lambda: net().init(KEYS), "key", "(2,)", "give one key"),
    ],
    "curves": [
        (lambda: curves.line([1.0, 2.0], [1.0, 2.0]), "x1", "[1., 2.]", "two distinct end points"),
        (lambda: curves.line([1.0], [1.0, 2.0]), "x1", "(2,)", "two points of the same space"),
        (lambda: curves.line([np.nan, 0], [1.0, 2.0]), "x0", "nan at index (0,)", FINITE),
        (lambda: curves.line([1.0, 0], [1.0, np.inf]), "x1", "inf at index (1,)", FINITE),
        (lambda: curves.line(1.0, 2.0), "x0", "1.0", "an array of shape (n,)"),
        (lambda: curves.line([], []), "x0", "(0,)", "give at least one number"),
        (lambda: curves.line("ab", [1.0]), "x0", "'ab'", NUMERIC),
        (lambda: curves.line([1.0], None), "x1", "None", NUMERIC),
        (lambda: curves.line([1j, 0], [1.0, 2.0]), "x0", "1j", NUMERIC),
        (lambda: curves.arc([1.0, 2.0], [2.0, 4.0]), "x1", "[2., 4.]", "two directions"),
        (lambda: curves.arc([1.0, 2.0], [-1.0, -2.0]), "x1", "[-1., -2.]", "use line"),
        (lambda: curves.arc([0.0, 0.0], [2.0, 4.0]), "x0", "zero vector", "give a direction"),
        (lambda: curves.circle([1.0, 2.0], [0.0, 0.0]), "x1", "zero vector", "give a direction"),
        (lambda: curves.circle([1.0], [3.0]), "x1", "[3.]", "two directions"),
        (
            lambda: curves.ellipse([1.0, 2.0], [2.0, 4.0], [0.0, 0.0]),
            "axis1",
            "[2., 4.]",
            "two directions",
        ),
        (
            lambda: curves.ellipse([1.0, 2.0], [2.0, 1.0], [0.0]),
            "centre",
            "(1,)",
            "three vectors of the same space",
        ),
        (lambda: curves.polyline([[1.0, 2.0]]), "vertices", "(1, 2)", "at least two points"),
        (lambda: curves.polyline([1.0, 2.0]), "vertices", "(2,)", "at least two points"),
        (
            lambda: curves.polyline([[1.0], [2.0], [2.0]]),
            "vertices",
            "1 and 2 are equal",
            "drop one of them",
        ),
        (lambda: curves.semicircles(7, [1.0, 0], [0, 1.0]), "key", "=7", SEED),
        (lambda: curves.semicircles(KEYS, [1.0, 0], [0, 1.0]), "key", "(2,)", "give one key"),
        (lambda: curves.semicircles(KEY, [1.0], [0.0]), "x0", "(1,)", "2 or more dimensions"),
        (lambda: curves.semicircles(KEY, [1, 0], [1, 0]), "x1", "[1., 0.]", "two distinct points"),
        (lambda: curves.semicircles(KEY, [1, 0], [0, 1], 0), "planes", "=0", WHOLE_NUMBER),
        (lambda: curves.semicircles(KEY, [1, 0], [0, 1], 2.5), "planes", "2.5", WHOLE_NUMBER),
        (lambda: curves.from_function(3), "function", "=3", "give x(t)"),
        (lambda: curves.from_function(lambda t: t), "function", "a scalar", "return a point"),
        (lambda: curves.from_function(lambda t: [t, t]), "function", "list", "return an array"),
        (lambda: bent(domain=(1.0, 0.0)), "domain", "(1.0, 0.0)", "first < last"),
        (lambda: bent(domain=(0.0, np.inf)), "domain", "inf", FINITE),
        (lambda: bent(domain=(0.0, "1")), "domain", "'1'", NUMERIC),
        (lambda: bent(domain=(0.0, 1.0, 2.0)), "domain", "(0.0, 1.0, 2.0)", "give (first, last)"),
        (lambda: bent(domain=None), "domain", "None", "give (first, last)"),
    ],
    "estimate": [
        (lambda: run(net=5), "net", "=5", "give jaxexpr.MLP(...)"),
        (lambda: run(curve=5), "curve", "=5", "give curves.line(x0, x1)"),
        (lambda: run(curve=SOLID), "curve", "(3,)", "give points of shape (2,)"),
        (lambda: run(curve=WHOLE), "curve", "infinite line", "give a segment"),
        (lambda: run(curve=curves.line([1e200, 0], [0, 1.0])), "curve", "1e+200", "float64"),
        (lambda: run(curve=curves.line([1e-90, 0], [0, 1e-90])), "curve", "1e-90", "float64"),
        (
            lambda: run(curve=curves.line([1.0, 0], [1.0 + 1e-12, 0])),
            "curve",
            "equal end points in float32",
            "dtype='float64'",
        ),
        (lambda: run(key=0), "key", "=0", SEED),
        (lambda: run(key=OLD_KEY), "key", "Array([0, 0]", SEED),
        (lambda: run(key=KEYS), "key", "(2,)", "give one key"),
        (lambda: run(draws=0), "draws", "=0", WHOLE_NUMBER),
        (lambda: run(draws=2.5), "draws", "2.5", WHOLE_NUMBER),
        (lambda: run(draws=None), "draws", "None", WHOLE_NUMBER),
        (lambda: run(probes="lenght"), "probes", "'lenght'", "did you mean 'length'"),
        (lambda: run(probes=("growth", "agle")), "probes", "'agle'", "did you mean 'angle'"),
        (lambda: run(probes=("growth", "growth")), "probes", "growth", "give each once"),
        (lambda: run(probes=()), "probes", "()", "name at least one of length"),
        (lambda: run(probes=None), "probes", "None", "one of length"),
        (lambda: run(probes=3), "probes", "=3", "one of length"),
        (lambda: run(method="tangnet"), "method", "'tangnet'", "did you mean 'tangent'"),
        (lambda: run(method=None), "method", "None", "choose one of auto, exact, tangent"),
        (lambda: run(points=0), "points", "=0", WHOLE_NUMBER),
        (lambda: run(points=2.5), "points", "2.5", WHOLE_NUMBER),
        (lambda: run(points=1, method="grid"), "points", "=1", "give an integer >= 2"),
        (lambda: run(points=1, probes="transitions"), "points", "=1", "give at least 2"),
        (
            lambda: run(probes="angle", method="tangent"),
            "method",
            "'tangent' cannot measure probe 'angle'",
            "use method='grid'",
        ),
        (
            lambda: run(probes="transitions", net=net(activation="tanh")),
            "activation",
            "'tanh'",
            "use relu, leaky_relu, abs or hard_tanh",
        ),
        (
            lambda: run(net=net(weights=Sparse(UNIT, 0.5)), method="gram"),
            "weights[0]",
            "density=0.5",
            "use method='tangent' or 'grid'",
        ),
        (
            lambda: run(net=net(weights=[UNIT, Uniform(2.0)]), method="gram"),
            "weights[1]",
            "Uniform(limit=2.0)",
            "use method='tangent' or 'grid'",
        ),
        (lambda: run(target=0), "target", "=0", "give one number > 0"),
        (lambda: run(target=-0.1), "target", "-0.1", "give one number > 0"),
        (lambda: run(target=[0.1, 0.2]), "target", "[0.1, 0.2]", "give one number > 0"),
        (lambda: run(target=np.nan), "target", "nan", FINITE),
        (lambda: run(chunk=0), "chunk", "=0", WHOLE_NUMBER),
        (lambda: run(chunk=1.5), "chunk", "1.5", WHOLE_NUMBER),
        (lambda: run(batch=0), "batch", "=0", WHOLE_NUMBER),
        (lambda: run(memory=-1), "memory", "=-1", "give one number > 0"),
        (lambda: run(memory="1GB"), "memory", "'1GB'", NUMERIC),
        (lambda: run(checkpoint=3), "checkpoint", "=3", "give a path"),
        (lambda: run(extend=3), "extend", "=3", "give what estimate returned"),
        (lambda: run(extend=TWO_LAYERS), "extend", "samples", "give what estimate returned"),
        (lambda: run(extend={"length": 3, "growth": 4}), "extend", "3", "what estimate returned"),
        (lambda: run(extend={"growth": TWO_LAYERS}), "extend", "['growth']", "give the same"),
        (
            lambda: run(extend={"growth": TWO_LAYERS}, probes="growth"),
            "extend",
            "made of samples",
            "draw anew",
        ),
        (
            lambda: run(extend={"growth": TWO_LAYERS}, checkpoint="here"),
            "checkpoint",
            "'here'",
            "give one of them",
        ),
    ],
    "kernel": [
        (lambda: one(net=((W, B),)), "net", "array", "give jaxexpr.MLP(...)"),
        (lambda: one(curve=[[1.0, 0], [0, 1.0]]), "curve", "[[1.0", "give curves.line(x0, x1)"),
        (lambda: one(curve=SOLID), "net.widths[0]", "(3,)", "a network of that input"),
        (lambda: one(probes="grwth"), "probes", "'grwth'", "did you mean 'growth'"),
        (lambda: one(method="grids"), "method", "'grids'", "did you mean 'grid'"),
        (lambda: one(points=-1), "points", "=-1", WHOLE_NUMBER),
        (lambda: one()(0), "key", "=0", SEED),
        (lambda: one()(KEYS), "key", "(2,)", "give one key"),
        (lambda: one(net=net(dtype="float64"))(KEY), "net", "'float64'", "switch it on"),
        (
            lambda: one(probes=probe()(lambda layer: layer.h[0]))(KEY),
            "probe '<lambda>'",
            "(4,)",
            "return one number",
        ),
    ],
    "measure": [
        (lambda: given(None), "params", "None", "a sequence of pairs (W, b)"),
        (lambda: given(()), "params", "()", "(W, b) of at least one layer"),
        (lambda: given((W, B)), "params", "array", "a sequence of pairs (W, b)"),
        (lambda: given(((W,),)), "params", "array", "a sequence of pairs (W, b)"),
        (lambda: given(((W[0], B),)), "params[0][0]", "(3,)", "give W of shape (fan_in, fan_out)"),
        (lambda: given(((W, B), (W, B))), "params[1][0]", "(2, 3)", "give W of shape (3, fan_out)"),
        (lambda: given(((W, B[:2]),)), "params[0][1]", "(2,)", "give b of shape (3,)"),
        (lambda: given(((W, 0.0),)), "params[0][1]", "()", "give b of shape (3,)"),
        (lambda: given(((W, NAN),)), "params[0][1]", "nan at index (0,)", FINITE),
        (lambda: given(((W + np.inf, B),)), "params[0][0]", "inf", FINITE),
        (lambda: given(((1j * W, B),)), "params[0][0]", "1.j", NUMERIC),
        (lambda: given(((W, None),)), "params[0][1]", "None", NUMERIC),
        (lambda: given(((W[:, :0], B[:0]),)), "params[0][0]", "(2, 0)", "give at least one number"),
        (lambda: given(curve=5), "curve", "=5", "give curves.line(x0, x1)"),
        (lambda: given(curve=SOLID), "params[0][0]", "(3,)", "give points of shape (2,)"),
        (lambda: given(curve=WHOLE), "curve", "infinite line", "give a segment"),
        (lambda: given(activation="rellu"), "activation", "'rellu'", "did you mean 'relu'"),
        (lambda: given(method="gram"), "method", "'gram'", "use 'tangent' or 'grid'"),
        (lambda: given(probes="norms"), "probes", "'norms'", "did you mean 'norm'"),
        (lambda: given(points=1, method="grid"), "points", "=1", "give an integer >= 2"),
        (
            lambda: given(probes="transitions", activation="erf"),
            "activation",
            "'erf'",
            "use relu, leaky_relu, abs or hard_tanh",
        ),
        (lambda: trajectory(((W, B),), LINE, points=1), "points", "=1", "give an integer >= 2"),
        (lambda: trajectory(((W, B),), WHOLE), "curve", "infinite line", "give a segment"),
        (lambda: trajectory(((W, B[:1]),), LINE), "params[0][1]", "(1,)", "give b of shape (3,)"),
    ],
    "verdicts": [
        (lambda: judged(), "lower", "None", "give the bound"),
        (lambda: judged(lower=np.nan), "lower", "nan", FINITE),
        (lambda: judged(upper=[1.0, np.inf]), "upper", "inf at index (1,)", FINITE),
        (lambda: judged(upper="high"), "upper", "'high'", NUMERIC),
        (lambda: judged(lower=np.ones(3)), "lower", "(3,)", "give a number, one a layer"),
        (lambda: judged(upper=np.ones((2, 2))), "upper", "(2, 2)", "last axis of 1"),
        (lambda: judged(lower=1.0, level=2), "level", "=2", LEVEL),
        (lambda: judged(lower=1.0, level=0.0), "level", "0.0", LEVEL),
        (lambda: judged(lower=1.0, level=np.nan), "level", "nan", LEVEL),
        (lambda: judged(lower=1.0, level="low"), "level", "'low'", LEVEL),
        (lambda: judged(5, lower=1.0), "estimate", "=5", "give an Estimate"),
        (lambda: judged({"growth": TWO_LAYERS}, lower=1.0), "estimate", "{", "give an Estimate"),
        (
            lambda: judge([judged(lower=0.0), judged(lower=0.0, level=0.5)]),
            "verdicts",
            "[0.001, 0.5]",
            "use one level for all",
        ),
        (lambda: judge([judged(lower=0.0), 5]), "verdicts[1]", "=5", "give a Verdict"),
        (lambda: TWO_LAYERS.interval(2), "level", "=2", LEVEL),
        (lambda: TWO_LAYERS.interval(0), "level", "=0", LEVEL),
        (lambda: TWO_LAYERS.interval("95%"), "level", "'95%'", LEVEL),
        (lambda: Estimate.of(1.0), "samples", "()", "along the first axis"),
        (lambda: Estimate.of([]), "samples", "(0,)", "along the first axis"),
        (lambda: Estimate.of(["a"]), "samples", "'a'", NUMERIC),
        (lambda: Estimate.of([1j]), "samples", "1j", NUMERIC),
    ],
    "theory": [
        (lambda: theory.price_tanner_lower(2.0, 32), "weights", "2.0", NAMED),
        (lambda: theory.price_tanner_lower(UNIT, 0), "width", "=0", WHOLE_NUMBER),
        (lambda: theory.price_tanner_sharp(UNIT, 2.5), "width", "2.5", WHOLE_NUMBER),
        (lambda: theory.second_moment_upper(UNIT, 32, 0), "fan_in", "=0", WHOLE_NUMBER),
        (lambda: theory.second_moment_upper(None, 32), "weights", "None", NAMED),
        (lambda: theory.gaussian_growth(-1.0, 32), "sigma", "-1.0", "give a number >= 0"),
        (lambda: theory.gaussian_growth(UNIT, 32), "sigma", "Gaussian(sigma=1.0)", NUMERIC),
        (lambda: theory.gaussian_log_growth(1.0, -3), "width", "=-3", WHOLE_NUMBER),
        (lambda: theory.lipschitz_upper(np.nan, 32), "sigma", "nan", FINITE),
        (lambda: theory.mean_chi(-1), "dof", "=-1", "give a number >= 0"),
        (
            lambda: theory.linear_probability(1.0, 0.0, "tanh"),
            "activation",
            "'tanh'",
            "one of relu, hard_tanh",
        ),
        (lambda: theory.raghu_lower(-2.0, 0.0, 32, "relu"), "sigma_w", "-2.0", ">= 0"),
        (lambda: theory.raghu_lower(2.0, -1.0, 32, "relu"), "sigma_b", "-1.0", ">= 0"),
        (lambda: theory.raghu_sharp(2.0, 0.0, 32, "abs"), "activation", "'abs'", "relu, hard_tanh"),
        (lambda: theory.raghu_rate(2.0, 0.0, 32, "tahn"), "activation", "'tahn'", "mean 'tanh'"),
        (
            lambda: theory.raghu_lower([1.0, 2.0], [1.0, 2.0, 3.0], 32, "relu"),
            "sigma_b",
            "(3,)",
            "broadcast",
        ),
        (lambda: theory.composed(2.0, 0), "depth", "=0", WHOLE_NUMBER),
        (lambda: theory.composed(2.0), "factors", "2.0", "depth"),
        (lambda: theory.composed([]), "factors", "[]", "at least one"),
        (lambda: theory.composed(["a"]), "factors", "'a'", NUMERIC),
        (lambda: theory.per_layer(theory.price_tanner_lower, 5), "net", "=5", "give jaxexpr.MLP"),
        (
            lambda: theory.per_layer(
                theory.second_moment_upper,
                MLP((2, 2), Gaussian(1.0), Zero(), "hard_tanh"),
            ),
            "net.activation",
            "'hard_tanh'",
            "lipschitz_upper",
        ),
        (lambda: theory.critical_sigma(2.0, 32), "density", "2.0", "give a probability"),
        (lambda: theory.critical_sigma(0.5, 32, law=5), "law", "=5", NAMED),
        (lambda: theory.critical_sigma(0.5, 32, law=Zero()), "law", "Zero()", "std > 0"),
        (lambda: theory.critical_density(-2.0, 32), "sigma_w", "-2.0", "give a number >= 0"),
        (lambda: theory.critical_density(2.0, 32, law=Gaussian(0)), "law", "Gaussian", "std > 0"),
    ],
    "probes": [
        (lambda: probe(degree=1.5), "degree", "1.5", "give an integer"),
        (lambda: probe(of="pionts"), "of", "'pionts'", "did you mean 'points'"),
        (lambda: probe(nodes=("gird",)), "nodes", "'gird'", "did you mean 'grid'"),
        (lambda: probe(nodes="gird"), "nodes", "'gird'", "did you mean 'grid'"),
        (lambda: probe(nodes=()), "nodes", "()", "one of tangent, grid"),
        (lambda: probe(points=(30,)), "points", "(30,)", "give 2"),
        (lambda: probe(points=(30, 0)), "points", "0", "give an integer"),
        (lambda: probe(points=(2.5, 30)), "points", "2.5", "give an integer"),
        (lambda: probe(degree=1)(3), "function", "=3", "a function of a Layer"),
    ],
    "activations": [
        (lambda: activations.leaky_relu("0.1"), "slope", "'0.1'", NUMERIC),
        (lambda: activations.leaky_relu(np.inf), "slope", "inf", FINITE),
        (lambda: activations.leaky_relu([0.1, 0.2]), "slope", "[0.1, 0.2]", "give one number"),
        (lambda: activations.get(3), "activation", "=3", "choose one of relu"),
        (
            lambda: activations.piecewise_linear([1, 0], [1, 2, 3]),
            "breakpoints",
            "(1.0, 0.0)",
            "give them in order",
        ),
        (
            lambda: activations.piecewise_linear([0, 0], [1, 2, 3]),
            "breakpoints",
            "(0.0, 0.0)",
            "each once",
        ),
        (lambda: activations.piecewise_linear([0], [1]), "slopes", "(1.0,)", "give 2"),
        (lambda: activations.piecewise_linear([np.nan], [1, 2]), "breakpoints", "nan", FINITE),
        (lambda: activations.piecewise_linear([0], [1, np.inf]), "slopes", "inf", FINITE),
        (lambda: activations.piecewise_linear(["a"], [1, 2]), "breakpoints", "['a']", NUMERIC),
        (lambda: activations.piecewise_linear(0.0, [1, 2]), "breakpoints", "0.0", "a sequence"),
        (lambda: activations.piecewise_linear([0.0], 1), "slopes", "=1", "a sequence"),
        (lambda: activations.piecewise_linear([[0.0]], [1, 2]), "breakpoints", "[[0", "a sequence"),
    ],
}


def name_of(group: str, case: tuple) -> str:
    return f"{group}-{case[1]}-{case[2]}".replace(" ", "_").replace("::", ":")


FLAT = [
    pytest.param(*case, id=name_of(group, case)) for group, cases in CASES.items() for case in cases
]


@pytest.mark.parametrize(("call", "argument", "value", "fix"), FLAT)
def test_the_message_names_argument_value_and_mend(call, argument, value, fix):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call()
    message = str(caught.value)
    assert argument in message
    assert value in message
    assert fix in message
    assert len(message) < 300 and "\n" not in message  # fits on the screen


def test_the_table_covers_many_distinct_faults():
    assert (
        len({(argument, value) for cases in CASES.values() for _, argument, value, _ in cases})
        > 150
    )


# What is sensible is taken


@pytest.mark.parametrize(
    "widths", [[2, 4, 4], np.array([2, 4, 4]), (np.int64(2), np.uint8(4), 4)], ids=str
)
def test_widths_of_any_integers(widths):
    assert net(widths).widths == (2, 4, 4)
    assert all(type(width) is int for width in net(widths).widths)


def test_options_of_any_numbers():
    plain = run(draws=6, points=3)["growth"]
    options = [
        {"draws": np.int64(6), "points": np.int32(3), "chunk": np.int8(2), "batch": np.int64(1)},
        {"draws": 6, "target": np.float32(1e-9), "memory": np.int64(10**9), "probes": ["growth"]},
        {"draws": 6, "memory": jnp.float32(1e9), "method": "tangent", "target": jnp.array(1e-9)},
    ]
    for option in options:
        made = run(**option)["growth"]
        np.testing.assert_allclose(made.mean, plain.mean, rtol=1e-6)


@pytest.mark.parametrize(
    "params",
    [
        [([[1, 0], [0, 1]], [0, 0])],
        [[np.eye(2, dtype=bool), [False, False]]],
        ((np.eye(2, dtype=np.int8), np.zeros(2, np.float32)),),
        [(jnp.eye(2), np.zeros(2))],
        [(np.eye(2), jnp.zeros(2, jnp.int32))],
    ],
    ids=["lists", "bools", "mixed", "jax_and_numpy", "numpy_and_jax"],
)
def test_params_of_any_numbers(params):
    assert measure(params, LINE, points=3)["length"][0] == pytest.approx(np.sqrt(2), rel=1e-6)


@pytest.mark.parametrize(
    "bound", [1, True, 1.0, [1, 1.0], np.float32(1), np.ones(2, int), jnp.ones(2), np.ones((1,))]
)
def test_bounds_of_any_numbers(bound):
    assert judged(lower=bound).bound == 1.0


@pytest.mark.parametrize(
    ("name", "near"), [("reLU", "relu"), ("leaky-relu", "leaky_relu"), ("hard tanh", "hard_tanh")]
)
def test_near_misses_are_suggested_and_far_ones_are_not(name, near):
    with pytest.raises(ValueError, match=f"did you mean '{near}'"):
        activations.get(name)
    assert not difflib.get_close_matches("maxout", activations.NAMES, n=1)
    with pytest.raises(ValueError, match="linear, leaky_relu$"):
        activations.get("maxout")


def test_double_precision_takes_what_single_cannot_hold():
    near = curves.line([1.0, 0.0], [1.0 + 1e-12, 0.0])
    made = run(net=net(dtype="float64"), curve=near)["length"]
    assert np.all(made.mean > 0) and np.all(made.mean < 1e-10)
    assert net(weights=Gaussian(1e60), dtype="float64").depth == 2
    assert net(weights=Sparse(Gaussian(0.0), 0.0)).depth == 2  # 0 itself is no underflow


def test_tracers_pass_the_checks():
    """Under a transformation a number has no value to look at: the checks must let it through."""

    @jax.jit
    def std(sigma, density):
        return Sparse(Gaussian(sigma), density).std

    assert float(std(2.0, 0.25)) == 1.0
    ends = jnp.array([[1.0, 0.0], [1.0, 0.0]])
    assert jax.jit(lambda x: curves.line(*x).arrays[0])(ends).shape == (2,)
    assert jax.jit(lambda x: curves.arc(*x).arrays[0])(ends).shape == (2,)
