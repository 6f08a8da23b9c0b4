"""The kernel inside other people's JAX on two and four devices: the plain kernel's numbers."""

import json
import os
import subprocess
import sys

import pytest

CODE = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
devices = int(sys.argv[1])
jax.config.update("jax_num_cpu_devices", devices)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jaxexpr import MLP, curves, kernel, laws, measure
from jaxexpr._core.derivatives import without_derivative

auto = jax.make_mesh((devices,), ("i",), axis_types=(AxisType.Auto,))
explicit = jax.make_mesh((devices,), ("i",), axis_types=(AxisType.Explicit,))
keys = jax.random.split(jax.random.key(0), 4)
on = lambda mesh, x: jax.device_put(x, NamedSharding(mesh, P("i")))
sharded = lambda f, mesh: jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
line = curves.line([1.0, 0.2, -0.3, 0.5], [-0.4, 0.9, 0.6, 0.1])
sparse = MLP((4, 5, 5, 5), laws.Sparse(laws.Gaussian(1.7), 0.8), laws.Gaussian(0.1), "hard_tanh")
dense = MLP((4, 5, 5, 5), laws.Gaussian(1.7), laws.Gaussian(0.1))
METHODS = {
    "tangent": (sparse, {"points": 3}),
    "grid": (sparse, {"points": 3, "probes": ("growth", "transitions")}),
    "gram": (dense, {"points": 2}),
    "exact": (sparse, {"probes": ("growth", "transitions")}),
}


def places(net, options):
    f = jax.vmap(kernel(net, line, **options))
    inside = lambda keys: jax.vmap(kernel(net, line, **options))(keys)
    one = kernel(net, line, **options)
    yield "shard_map", lambda: sharded(f, auto)(on(auto, keys))
    yield "explicit", lambda: jax.jit(f)(on(explicit, keys))
    if sys.argv[2] == "few":
        return
    yield "inside jit", lambda: jax.jit(inside)(keys)
    yield "inside shard_map", lambda: sharded(inside, auto)(on(auto, keys))
    yield "explicit shard_map", lambda: sharded(f, explicit)(on(explicit, keys))
    yield "remat", lambda: jax.jit(jax.checkpoint(f))(keys)
    yield "scan", lambda: jax.lax.scan(lambda c, k: (c, one(k)), 0, keys)[1]
    yield "map", lambda: jax.lax.map(one, keys)
    if hasattr(jax, "pmap"):
        each = keys.reshape(devices, -1)
        flat = lambda x: x.reshape(-1, *x.shape[2:])
        yield "pmap", lambda: jax.tree.map(flat, jax.pmap(f)(each))


def numbers():
    for method in sys.argv[3].split(",") if sys.argv[3] else ():
        net, options = METHODS[method]
        options = {"method": method, **options}
        plain = jax.jit(jax.vmap(kernel(net, line, **options)))(keys)
        for place, found in places(net, options):
            yield method, place, found, plain
    if sys.argv[2] != "laws":
        return

    # Not the keys but the numbers in the laws are on several devices; and parameters.
    def growth(sigma):
        net = MLP((4, 5, 5, 5), laws.Gaussian(sigma), laws.Zero())
        return kernel(net, line, points=3)(keys[0])

    sigmas = jnp.arange(1.0, 5.0)
    plain = jax.jit(jax.vmap(growth))(sigmas)
    yield "laws", "shard_map", lambda: sharded(jax.vmap(growth), auto)(on(auto, sigmas)), plain
    yield "laws", "explicit", lambda: jax.jit(jax.vmap(growth))(on(explicit, sigmas)), plain
    slopes = jax.vmap(jax.grad(lambda s: growth(s)["growth"][-1]))
    plain = {"slope": jax.jit(slopes)(sigmas)}
    assert np.isfinite(plain["slope"]).all()
    yield "slopes", "shard_map", lambda: {"slope": sharded(slopes, auto)(on(auto, sigmas))}, plain
    yield "slopes", "explicit", lambda: {"slope": jax.jit(slopes)(on(explicit, sigmas))}, plain

    given = jax.vmap(lambda params: measure(params, line, points=3))
    params = jax.vmap(dense.init)(keys)
    plain = jax.jit(given)(params)
    yield "measure", "explicit", lambda: jax.jit(given)(on(explicit, params)), plain

    # A derivative that does not exist.
    steps = jax.vmap(jax.grad(lambda x: without_derivative(jnp.floor(x), x) + x**2))
    nan = {"nan": jnp.full(4, jnp.nan)}
    yield "nan", "shard_map", lambda: {"nan": sharded(steps, auto)(on(auto, sigmas))}, nan
    yield "nan", "explicit", lambda: {"nan": jax.jit(steps)(on(explicit, sigmas))}, nan
    if hasattr(jax, "pmap"):
        each = sigmas.reshape(devices, -1)
        yield "nan", "pmap", lambda: {"nan": jax.pmap(steps)(each).reshape(-1)}, nan


seen = {}
for method, place, found, plain in numbers():
    try:
        found = found()
        for name in plain:
            np.testing.assert_allclose(found[name], plain[name], rtol=1e-4, atol=1e-6)
        seen[f"{method} {place}"] = "same"
    except Exception as error:
        seen[f"{method} {place}"] = f"{type(error).__name__}: {error}"[:300]
print(json.dumps(seen))
"""


def found(devices, much, methods):
    cache = os.environ.get("JAXEXPR_TEST_CACHE")
    kept = {"JAX_COMPILATION_CACHE_DIR": cache} if cache else {}
    kept |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"} if cache else {}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(devices), much, methods],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **kept},
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("devices", "much", "methods"),
    [
        (2, "few", "tangent,gram"),
        *((n, "all", method) for n in (2, 4) for method in ("tangent", "grid", "gram", "exact")),
        (2, "laws", ""),
        (4, "laws", ""),
    ],
)
def test_numbers_are_those_of_the_plain_kernel(devices, much, methods):
    seen = found(devices, much, methods)
    assert {place for place, what in seen.items() if what == "same"} == set(seen), seen
