"""What is kept on disk survives failures, and no network is lost or counted twice."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxexpr import MLP, Interrupted, curves, estimate, laws
from jaxexpr._core import files
from jaxexpr._core.files import write_atomically
from jaxexpr.ensemble import runner
from jaxexpr.ensemble.checkpoints import load_accumulators, save_accumulators
from jaxexpr.ensemble.statistics import Accumulator, Moments

KEY = jax.random.key(4)
NET = MLP((2, 4), laws.Gaussian(np.array([1.0, 2.0])), laws.Gaussian(0.1))
LINE = curves.line([1.0, 0.0], [0.0, 1.0])
CHUNK = 10


def run(draws: int = 60, **options):
    return estimate(NET, LINE, key=KEY, draws=draws, points=5, chunk=CHUNK, batch=1, **options)


@pytest.fixture(scope="module")
def whole():
    return run()


def assert_same(made, expected) -> None:
    """The same networks, merged in another order perhaps."""
    assert made.keys() == expected.keys()
    for name, one in made.items():
        other = expected[name]
        assert one.draws == other.draws and one.points == other.points
        np.testing.assert_array_equal(one.n, other.n)
        for field in ("mean", "sem", "discretisation", "left_out", "failed"):
            np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-12)


def some_accumulators() -> dict[str, Accumulator]:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(9, 2, 3))
    numbers[:, 1, 2] = np.nan
    moments = Moments.of(numbers, np.full(numbers.shape, 4000))
    counts = rng.integers(0, 5, size=(2, 3))
    coarser = Moments.of(-numbers, np.broadcast_to(counts, numbers.shape))
    return {
        name: Accumulator(moments, coarser, counts / 2, counts, 9, "mark")
        for name in ("length", "user's own")
    }


def assert_equal(loaded: dict[str, Accumulator], saved: dict[str, Accumulator]) -> None:
    assert list(loaded) == list(saved)
    for name in saved:
        assert (loaded[name].draws, loaded[name].fingerprint) == (9, "mark")
        for mine, theirs in zip(
            jax.tree.leaves(loaded[name][:4]), jax.tree.leaves(saved[name][:4]), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype


# Files


def test_a_failing_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "kept.npz"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half of the n")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_replaces_the_file_in_one_step(tmp_path):
    path = tmp_path / "new" / "folder" / "kept.npz"
    seen = []

    def write(text: str, temporary: Path) -> None:
        temporary.write_text(text)
        seen.append(path.read_text() if path.exists() else None)

    for text in ("first", "second"):
        write_atomically(path, lambda temporary, text=text: write(text, temporary))
        assert path.read_text() == text
    assert seen == [None, "first"]  # until it is whole, readers see what was there
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(path.parent.iterdir()) == [path]


WRITER = """
import sys, time
from pathlib import Path
from jaxexpr._core.files import write_atomically

def slowly(temporary):
    temporary.write_text("slow")
    print(temporary, flush=True)
    while not Path(sys.argv[2]).exists():
        time.sleep(0.02)

write_atomically(Path(sys.argv[1]), slowly)
"""


def test_what_a_killed_writer_left_is_cleared_and_what_a_living_one_writes_is_not(tmp_path, root):
    path, stop = tmp_path / "kept.npz", tmp_path / "stop"
    command = [sys.executable, "-c", WRITER, str(path), str(stop)]
    writers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(2)
    ]
    killed, alive = (Path(writer.stdout.readline().strip()) for writer in writers)
    writers[0].kill()
    writers[0].wait()
    assert killed.exists() and alive.exists()
    write_atomically(path, lambda temporary: temporary.write_text("quick"))
    assert path.read_text() == "quick"
    assert not killed.parent.exists()
    assert alive.read_text() == "slow"
    stop.touch()
    assert writers[1].wait() == 0
    assert path.read_text() == "slow"
    assert sorted(tmp_path.iterdir()) == [path, stop]
    for writer in writers:
        writer.stdout.close()


def left(folder: Path, host: str, days: float, name: str = "kept.npz") -> Path:
    """What a writer on some machine may have left so many days ago."""
    own = folder / f".{name}.{host}.abcd_123.unfinished"
    own.mkdir()
    (own / name).write_text("half")
    then = time.time() - days * 24 * 3600
    for part in (own / name, own):
        os.utime(part, (then, then))
    return own


@pytest.mark.parametrize("locks", [True, False])
def test_only_age_tells_of_writers_elsewhere(tmp_path, monkeypatch, locks):
    here = files._host()
    old, new = left(tmp_path, "0" * 8, 1.1), left(tmp_path, "1" * 8, 0.9)
    own = left(tmp_path, here, 0.9)
    others = left(tmp_path, "0" * 8, 1.1, "another.npz")
    strange = tmp_path / ".kept.npz.unfinished"
    strange.mkdir()
    if not locks:  # as on Windows
        monkeypatch.setitem(sys.modules, "fcntl", None)
    path = tmp_path / "kept.npz"
    write_atomically(path, lambda temporary: temporary.write_text("whole"))
    assert path.read_text() == "whole"
    assert not old.exists() and new.exists() and others.exists() and strange.exists()
    assert own.exists() == (not locks)
    files.clear_unfinished(tmp_path)
    assert not others.exists() and new.exists() and strange.exists()


def test_a_writer_that_was_cleared_before_its_lock_begins_again(tmp_path, monkeypatch):
    original, calls = files._locked, itertools.count()

    def late(folder: Path, *, wait: bool):
        if wait and next(calls) == 0:
            folder.rmdir()
        return original(folder, wait=wait)

    monkeypatch.setattr(files, "_locked", late)
    path = tmp_path / "kept.npz"
    write_atomically(path, lambda temporary: temporary.write_text("whole"))
    assert list(tmp_path.iterdir()) == [path]


def test_one_after_the_other_in_a_folder(tmp_path):
    order: list[str] = []

    def second() -> None:
        with files.alone_in(tmp_path):
            order.append("second")

    with files.alone_in(tmp_path):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_file_is_on_the_disk_before_it_is_in_its_place(tmp_path, monkeypatch):
    """Written beside the file, so that one step can replace it; synced, or a crash empties it."""
    path, done = tmp_path / "kept.npz", []
    path.write_text("old")
    sync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        done.append(("synced", os.fstat(handle).st_ino))
        sync(handle)

    def replaced(source: Path, target: Path) -> None:
        assert Path(source).parent.parent == tmp_path and path.read_text() == "old"
        done.append(("replaced", os.stat(source).st_ino))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_atomically(path, lambda temporary: temporary.write_text("new"))
    number = path.stat().st_ino
    assert done == [("synced", number), ("replaced", number)]
    assert path.read_text() == "new"


def test_round_trip(tmp_path):
    saved = some_accumulators()
    save_accumulators(tmp_path / "kept", saved)
    assert_equal(load_accumulators(tmp_path / "kept", "mark"), saved)


def refused(path: Path, fix: str) -> None:
    with pytest.raises(ValueError, match=fix) as caught:
        load_accumulators(path, "mark")
    assert "checkpoint=" in str(caught.value) and repr(str(path)) in str(caught.value)


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "kept.npz"
    np.savez(path, names=np.array(["length"]))
    refused(path, "delete it")
    path.write_text("no numbers here")
    refused(path, "delete it")
    path.write_bytes(b"")
    refused(path, "delete it")
    with open(path, "wb") as file:
        np.save(file, np.arange(3.0))
    refused(path, "delete it")
    refused(tmp_path, "delete it")


def test_another_estimate_is_refused(tmp_path):
    path = tmp_path / "kept.npz"
    saved = some_accumulators()
    saved["length"] = saved["length"]._replace(fingerprint="another")
    save_accumulators(path, saved)
    refused(path, "another path, or delete it")


def test_damage_never_passes_for_numbers(tmp_path):
    path, saved = tmp_path / "kept.npz", some_accumulators()
    save_accumulators(path, saved)
    good = path.read_bytes()
    for cut in range(0, len(good), 211):
        path.write_bytes(good[:cut])
        refused(path, "delete it")
    flipped = 0
    for place in range(0, len(good), 37):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        try:
            loaded = load_accumulators(path, "mark")
        except ValueError as error:
            assert repr(str(path)) in str(error) and "delete it" in str(error)
            flipped += 1
        else:
            assert_equal(loaded, saved)  # a byte that no reader looks at
    assert flipped > len(good) / 37 / 2


# Estimates


def test_a_finished_estimate_is_read_back_and_draws_nothing(tmp_path, whole, monkeypatch):
    path = tmp_path / "run"
    assert_same(run(checkpoint=path), whole)
    monkeypatch.setattr(runner, "_merged", None)  # no further network can be counted
    assert_same(run(checkpoint=str(path)), whole)
    assert_same(run(draws=20, checkpoint=path), whole)  # draws are the total


def test_a_finished_estimate_is_continued(tmp_path, whole):
    path = tmp_path / "run"
    assert run(draws=25, checkpoint=path)["growth"].draws == 25
    assert_same(run(checkpoint=path), whole)
    assert_same(run(draws=60, extend=run(draws=25)), whole)


@pytest.mark.parametrize(
    "other",
    [
        {"points": 6},
        {"key": jax.random.key(5)},
        {"probes": "growth"},
        {"net": MLP((2, 4), laws.Gaussian(np.array([1.0, 2.5])), laws.Gaussian(0.1))},
        {"curve": curves.line([1.0, 0.0], [0.0, 1.5])},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_checkpoint_of_another_estimate_is_refused(tmp_path, other):
    path = tmp_path / "run"
    run(draws=10, checkpoint=path)
    before = path.read_bytes()
    given = {"net": NET, "curve": LINE, "key": KEY, "draws": 10, "points": 5} | other
    with pytest.raises(ValueError, match="belongs to another") as caught:
        estimate(**given, checkpoint=path)
    assert repr(str(path)) in str(caught.value) and "delete it" in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("chunks", [0, 1, 3])
def test_ctrl_c_keeps_what_was_gathered(tmp_path, whole, monkeypatch, chunks):
    path, original, calls = tmp_path / "run", runner._merged, itertools.count()

    def stop(*arguments):
        if next(calls) == chunks:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "_merged", stop)
        with pytest.raises(Interrupted) as caught:
            run(checkpoint=path)
    assert isinstance(caught.value, KeyboardInterrupt)
    partial = caught.value.estimates
    assert path.exists() == bool(partial) == (chunks > 0)
    if partial:
        assert_same(partial, run(draws=chunks * CHUNK))
        assert_same(run(draws=60, extend=partial), whole)
    assert_same(run(checkpoint=path), whole)


def die_while_writing(path: str, write: int) -> None:
    """Kill this process half-way through the writing of checkpoint number `write`."""
    clock, writes, savez = itertools.count(0, 10), itertools.count(), np.savez
    runner.time = types.SimpleNamespace(monotonic=lambda: next(clock))  # every chunk is saved

    def half(file, **arrays):
        savez(file, **arrays)
        if next(writes) == write:
            file.truncate(file.tell() // 2)
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    np.savez = half
    run(checkpoint=path)


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, whole):
    path = tmp_path / "run"
    command = f"import test_checkpoint; test_checkpoint.die_while_writing({str(path)!r}, 3)"
    killed = subprocess.run(
        [sys.executable, "-c", command],
        cwd=Path(__file__).parent,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    mark = whole["growth"].accumulated.fingerprint
    assert {item.draws for item in load_accumulators(path, mark).values()} == {3 * CHUNK}
    assert_same(run(checkpoint=path), whole)


# No network is lost


@pytest.mark.parametrize("chunk", [8192, 9000, 20_000])
def test_a_large_chunk_loses_no_network(chunk):
    options = {"key": KEY, "draws": 20_000, "points": 2, "probes": "growth"}
    expected = estimate(NET, LINE, chunk=1000, **options)["growth"]
    made = estimate(NET, LINE, chunk=chunk, **options)["growth"]
    assert np.all(made.n == 20_000) and np.all(expected.n == 20_000)
    np.testing.assert_allclose(made.mean, expected.mean, rtol=1e-7)


def test_a_large_sweep_loses_no_network():
    """Many cells and layers leave room for few networks at a time, whatever the pace asks for."""
    weights = laws.Gaussian(np.linspace(1, 2, 1500))
    deep = MLP((2,) + (2,) * 12, weights, laws.Zero())
    options = {"key": KEY, "points": 2, "probes": ("length", "growth")}
    for pace in ({}, {"chunk": 500}, {"target": 1e-9}):
        assert np.all(estimate(deep, LINE, draws=500, **options, **pace)["length"].n == 500)
