"""Annotations say the shapes of arrays: checked here, plain types for users."""

import ast
import json
import os
import subprocess
import sys

import checked_shapes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError, jaxtyped

from jaxexpr import curves
from jaxexpr._core import linalg, packed_bits
from jaxexpr._core.shapes import Array, Float
from jaxexpr.ensemble.statistics import Moments
from jaxexpr.exact.along_curves import label_changes, lines
from jaxexpr.measurement.nodes import Nodes
from jaxexpr.measurement.propagation import initial_image

GRID = Nodes("grid", 3)
LINE = curves.line(np.zeros(2), np.ones(2))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (linalg.dot, (jnp.ones((2, 3)), jnp.ones((4, 2)))),  # 3 are not 4
        (linalg.norms, (jnp.ones(3),)),  # one axis too few
        (packed_bits.pack, (jnp.ones((2, 3)),)),  # numbers are not bits
        (linalg.power_of_two, (jnp.ones(2), jnp.dtype("float32"))),  # nor whole
        (GRID.segments, (1.0, jnp.ones((3, 2)), jnp.ones((4, 2)))),
        (GRID.thin, (jnp.ones(()),)),
        (initial_image, (LINE, GRID, "float32")),  # a name is not a dtype
        (Moments.of, (np.ones((2, 3)), np.zeros((3, 3), int))),
        (Moments.of, (np.ones((2, 3)), np.zeros((2, 3)))),
        (label_changes.labellings, (jnp.ones((3, 4)), jnp.ones(2, bool))),
        (lines.start, (jnp.ones(2), jnp.ones(2), jnp.ones((3, 2)))),
    ],
)
def test_a_wrong_shape_or_dtype_is_noticed(function, arguments):
    with pytest.raises(TypeCheckError):
        function(*arguments)


def test_a_wrong_result_is_noticed():
    def narrower(x: Float[Array, "rows k"]) -> Float[Array, "rows k"]:
        return x[:, 1:]

    narrower.__module__ = linalg.__name__
    checked = jaxtyped(typechecker=checked_shapes.checked)(narrower)
    with pytest.raises(TypeCheckError, match="return value"):
        checked(jnp.ones((2, 3)))


def test_what_is_right_passes_inside_transformations():
    def twice(x):
        return linalg.norms(linalg.dot(x, x))

    assert jax.jit(jax.vmap(twice))(jnp.ones((5, 2, 2))).shape == (5, 2)
    assert jax.grad(lambda x: jnp.sum(twice(x)))(jnp.ones((2, 2))).shape == (2, 2)


def test_functions_of_four_packages_are_checked():
    for name, module in list(sys.modules.items()):
        if not name.startswith(checked_shapes.PACKAGES):
            continue
        for function in vars(module).values():
            if getattr(function, "__module__", "") == name and hasattr(function, "__code__"):
                assert hasattr(function, "__wrapped__"), (name, function)


def printed(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return json.loads(done.stdout)


USE = """
import inspect, json, sys, typing
import jax, numpy as np
import jaxexpr
from jaxexpr._core import linalg
net = jaxexpr.MLP((2, 3), jaxexpr.laws.Gaussian(1.5), jaxexpr.laws.Zero())
line = jaxexpr.curves.line([1.0, 0.0], [0.0, 1.0])
made = jaxexpr.measure(net.init(jax.random.key(0)), line, probes="pieces", method="exact")
options = inspect.signature(jaxexpr.estimate, eval_str=True).parameters
plain = typing.get_type_hints(linalg.dot)["a"] is jax.Array
wrapped = hasattr(linalg.dot, "__wrapped__")
checker = "beartype" in sys.modules
print(json.dumps([made["pieces"].shape, len(options) > 5, plain, wrapped, checker]))
"""


def test_users_need_no_jaxtyping():
    without = "import sys\nsys.modules['jaxtyping'] = sys.modules['beartype'] = None\n"
    assert printed(without + USE.replace('"beartype" in sys.modules', "False")) == [
        [1], True, True, False, False,
    ]  # fmt: skip


def test_nothing_is_checked_for_users():
    assert printed(USE) == [[1], True, False, False, False]


def annotations(root):
    """Every parameter and every result of the four packages: file, function, name, annotation."""
    for package in checked_shapes.PACKAGES:
        for path in (root / package.replace(".", "/")).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef):
                    given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                    for arg in given:
                        if arg.arg not in ("self", "cls"):
                            yield path.name, node.name, arg.arg, arg.annotation
                    yield path.name, node.name, "return", node.returns


def test_few_are_anything(root):
    every = list(annotations(root))
    anything = [place for *place, kind in every if isinstance(kind, ast.Name) and kind.id == "Any"]
    assert len(every) > 1000
    assert len(anything) <= 0.02 * len(every), anything
