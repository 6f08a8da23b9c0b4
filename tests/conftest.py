"""Strictness for every test: no silent promotion of dtypes or ranks, warnings are errors."""

import os
import signal
from pathlib import Path

import checked_shapes
import jax
import numpy as np
import pytest

checked_shapes.install()

from jaxexpr import curves  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# A shell starts background jobs with Ctrl-C ignored, and their children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if os.environ.get("JAXEXPR_TEST_CACHE"):
    jax.config.update("jax_compilation_cache_dir", os.environ["JAXEXPR_TEST_CACHE"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


# Most of their time is compilation, and nothing in them hangs on rounding: these are compiled
# without LLVM's optimisation, unless all tests are run. All others are compiled as for users.
HARDLY_OPTIMISED = {
    *("test_boundary", "test_checkpoint", "test_command", "test_convnets", "test_counted"),
    *("test_dichotomies", "test_ensemble", "test_exact_estimates"),
    *("test_gradients", "test_identity", "test_in_other_jax", "test_laws", "test_own_models"),
    *("test_probes", "test_progress", "test_runner_parts", "test_shown", "test_sims"),
    *(
        "test_growth",
        "test_mean_field",
        "test_stored",
        "test_tasks",
        "test_training",
        "test_training_parts",
        "test_training_resume",
    ),
}


@pytest.fixture(autouse=True, scope="module")
def _compiled_quickly(request: pytest.FixtureRequest):
    name = request.path.stem
    if name not in HARDLY_OPTIMISED or request.config.getoption("--all"):
        yield
        return
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # processes that the tests begin
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20191114)


@pytest.fixture
def segment():
    """A segment between two fixed points of R^n, as ``segment(n)``."""

    def make(n: int) -> curves.Curve:
        points = np.random.default_rng(n).normal(size=(2, n))
        return curves.line(*points)

    return make


@pytest.fixture
def root() -> Path:
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def compiled_once(tmp_path: Path) -> dict[str, str]:
    """Environment of processes that compile the same: the first compiles for the others."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "0",  # long runs
    }
    return {**os.environ, **cache}


@pytest.fixture(autouse=True, scope="module")
def _forget_what_was_compiled():
    """One process cannot hold the code of all tests: it runs out of memory maps."""
    yield
    jax.clear_caches()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests of slow.txt as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out; begin with the file that takes longest.

    Of two processes none then waits long for the other's last file.
    """
    listed = Path(__file__).with_name("slow.txt")  # not beside tests that were copied elsewhere
    lines = listed.read_text().splitlines() if listed.exists() else []
    slow = {line for line in lines if line and not line.startswith("#")}
    if not config.getoption("--all"):
        left_out = [item for item in items if item.nodeid in slow]
        items[:] = [item for item in items if item.nodeid not in slow]
        config.hook.pytest_deselected(items=left_out)
    items.sort(key=lambda item: item.path.stem != "test_sims")
