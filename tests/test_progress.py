"""What is seen while work is done: bars, lines, calls, warnings; and Ctrl-C."""

import io
import itertools
import subprocess
import sys
import types

import jax
import numpy as np
import pytest

from jaxexpr import MLP, boundary_volume, curves, estimate, exact, laws
from jaxexpr._core import progress
from jaxexpr._core.threads import in_spans
from jaxexpr.ensemble import devices, runner
from jaxexpr.exact.functions import evaluator

KEY = jax.random.key(3)
NET = MLP((2, 4), laws.Gaussian(1.5), laws.Gaussian(0.3))
LINE = curves.line([1.0, 0.0], [0.0, 1.0])


class Clock:
    """Time that passes only when it is told to; or a little each time it is asked for."""

    def __init__(self, step=0.0):
        self.now, self.step = 0.0, step

    def monotonic(self):
        self.now += self.step
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def run(draws=60, **options):
    return estimate(NET, LINE, key=KEY, draws=draws, points=5, chunk=10, batch=1, **options)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def lines_of(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


# Where it is shown


def test_a_log_has_a_line_every_ten_seconds_and_one_at_the_end(clock, capsys):
    with progress.Bar(100, "nets", True) as bar:
        for done in range(1, 31):
            clock.now += 1.0
            bar.update(2 * done)
    assert lines_of(capsys) == [
        "nets: 20/100, 2 networks/s, 0:00:40 left",
        "nets: 40/100, 2 networks/s, 0:00:30 left",
        "nets: 60/100, 2 networks/s, 0:00:20 left",
        "nets: 60/100, 2 networks/s, 0:00:30 in all",
    ]


def test_a_log_says_where_it_was_stopped(clock, capsys):
    with pytest.raises(KeyboardInterrupt), progress.Bar(100, "nets", True) as bar:
        clock.now = 4.0
        bar.update(8, "loss 0.1")
        raise KeyboardInterrupt
    assert lines_of(capsys) == ["nets: 8/100, 2 networks/s, 0:00:04, stopped, loss 0.1"]


def test_networks_from_before_do_not_count_for_the_rate(clock, capsys):
    with progress.Bar(0, "nets", True) as bar:
        bar.resumed(400, 1000)
        clock.now = 10.0
        bar.update(450)
        clock.now = 20.0
        bar.update(550)
    assert lines_of(capsys) == [
        "nets: 450/1000, 0:00:10",  # perhaps it was compiled meanwhile
        "nets: 550/1000, 10 networks/s, 0:00:45 left",
        "nets: 550/1000, 7.5 networks/s, 0:00:20 in all",
    ]


def test_a_resumed_estimate_counts_new_networks_only(tmp_path, monkeypatch, capsys):
    run(draws=40, checkpoint=tmp_path / "run.npz", progress=False)
    monkeypatch.setattr(progress, "time", Clock(step=10.0))
    seen = []
    run(draws=60, checkpoint=tmp_path / "run.npz", progress=lambda *now: seen.append(now))
    assert seen[0][:2] == (50, 60) and seen[-1][:2] == (60, 60)
    run(draws=80, checkpoint=tmp_path / "run.npz", progress=True)
    # The clock steps at the start and at each update: 10 networks in 10 seconds.
    assert lines_of(capsys) == [
        "networks: 70/80, 0:00:10",
        "networks: 80/80, 1 networks/s, 0:00:00 left",
        "networks: 80/80, 0.667 networks/s, 0:00:30 in all",
    ]


def test_networks_that_are_extended_are_known():
    seen = []
    before = run(draws=40, progress=False)
    run(draws=60, extend=before, progress=lambda *now: seen.append(now))
    assert seen[-1][:2] == (60, 60)


def test_a_log_is_silent_unless_asked(clock, capsys):
    for quiet in (None, False, np.False_):
        with progress.Bar(10, "nets", quiet) as bar:
            clock.now += 100.0
            bar.update(10)
    assert lines_of(capsys) == []
    run(progress=True)
    assert len(lines_of(capsys)) == 1


def test_a_function_is_called_with_numbers_at_most_ten_times_a_second(clock):
    seen = []
    with progress.Bar(100, "nets", lambda *now: seen.append(now)) as bar:
        for done in range(1, 101):
            clock.now += 0.0625
            bar.update(done)
    assert seen[-1] == (100, 100, 6.25)
    assert [done for done, *_ in seen[:-1]] == list(range(2, 101, 2))


def test_a_function_may_raise(tmp_path, monkeypatch):
    monkeypatch.setattr(progress._Calls, "interval", 1e9)  # at the end alone

    def refuse(done, total, seconds):
        raise RuntimeError(f"{done} of {total}")

    with pytest.raises(RuntimeError, match="60 of 60"):
        run(progress=refuse, checkpoint=tmp_path / "run.npz")
    assert (tmp_path / "run.npz").exists()
    assert run(progress=False, checkpoint=tmp_path / "run.npz")["growth"].draws == 60

    def stop(done, total, seconds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        boundary_volume(NET, [0, 0], np.eye(2), key=KEY, draws=2, points=2, progress=stop)


def test_a_function_is_called_whatever_is_measured():
    seen = []

    def see(*now):
        seen.append(now)

    boundary_volume(NET, [0, 0], np.eye(2), key=KEY, draws=2, points=2, progress=see)
    assert seen[-1][:2] == (2, 2)
    exact.pieces_of(lambda x: jax.numpy.abs(x).sum(), [-1.0, 1.0], [1.0, 2.0], progress=see)
    assert seen[-1][:2] == (2, 2)
    layer = (np.array([[1.0, -1.0], [1.0, 1.0]]), np.zeros(2))
    exact.plane([layer], [0, 0], [1, 0], [0, 1], progress=see)
    assert seen[-1][:2] == (1, 1)
    exact.cells([layer], progress=see)
    assert seen[-1][:2] == (2, 2)
    params = jax.vmap(NET.init)(jax.random.split(KEY, 3))
    exact.region_counts(params, [LINE, LINE], progress=see)
    assert seen[-1][:2] == (6, 6)
    assert all(seconds >= 0 for *_, seconds in seen)


@pytest.mark.parametrize("bad", [1, "yes", 10.0, [True]])
def test_anything_else_is_refused(bad):
    wanted = r"progress=.*: give True, False, None or a function of \(done, total, seconds\)"
    layer = (np.ones((2, 2)), np.zeros(2))
    many = jax.tree.map(lambda x: x[None], [layer])
    for call in (
        lambda: run(progress=bad),
        lambda: boundary_volume(NET, [0, 0], np.eye(2), key=KEY, draws=2, progress=bad),
        lambda: exact.pieces_of(abs, [0.0], [1.0], progress=bad),
        lambda: exact.plane([layer], [0, 0], [1, 0], [0, 1], progress=bad),
        lambda: exact.plane_through([layer], [0, 0], [1, 0], [0, 1], progress=bad),
        lambda: exact.cells([layer], progress=bad),
        lambda: exact.region_counts(many, [LINE], progress=bad),
    ):
        with pytest.raises(ValueError, match=wanted):
            call()


def test_a_terminal_shows_a_bar_after_a_while_and_clears_it(clock, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with progress.Bar(10, "nets [1]", delay=2.0) as bar:
        clock.now = 1.9
        bar.update(1)
        assert shown.getvalue() == ""
        clock.now = 2.5
        bar.update(5)
        bar.say("a word")
        with progress.Bar(3, "inner") as inner:  # one bar at a time
            clock.now = 9.0
            inner.update(1)
    text = shown.getvalue()
    assert "nets [1]: 5/10, 6.67 networks/s, 0:00:01 left" in text and "a word" in text
    assert "inner" not in text and "\x1b[2K" in text
    with progress.Bar(3, "next") as bar:
        clock.now = 19.0
        bar.update(1)
    assert "next: 1/3" in shown.getvalue()


def test_rich_is_loaded_only_when_a_bar_appears():
    code = """
import sys
import numpy as np
from jaxexpr import exact
sys.stderr.isatty = lambda: True
exact.plane([(np.eye(2), np.zeros(2))], [0, 0], [1, 0], [0, 1])
print("rich" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


class Notebook:
    """IPython, as far as it is looked at in a notebook's kernel."""

    def __init__(self):
        self.shown = []
        self.display = types.ModuleType("IPython.display")
        self.display.display = self.put

    def get_ipython(self):
        kind = type("ZMQInteractiveShell", (), {})
        return type("Shell", (kind,), {})()

    def put(self, shown, *, raw, display_id):
        assert raw and display_id
        self.shown.append(shown["text/plain"])
        return types.SimpleNamespace(
            update=lambda shown, *, raw: self.shown.append(shown["text/plain"])
        )


def test_a_notebook_shows_a_bar(clock, monkeypatch, capsys):
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook.display)
    for wanted in (None, True):
        notebook.shown.clear()
        clock.now = 0.0
        with progress.Bar(10, "nets", wanted) as bar:
            clock.now = 0.5
            bar.update(1)
            assert notebook.shown == []
            clock.now = 2.0
            bar.update(5)
            clock.now = 2.05
            bar.update(6)
            clock.now = 4.0
            bar.update(10)
        half = progress.WIDTH // 2
        assert notebook.shown == [
            "█" * half + "░" * half + " nets: 5/10, 2.67 networks/s, 0:00:02 left",
            "█" * 2 * half + " nets: 10/10, 2.57 networks/s, 0:00:00 left",
            "nets: 10/10, 2.5 networks/s, 0:00:04 in all",
        ]
    with progress.Bar(10, "nets", False) as bar:
        clock.now += 100.0
        bar.update(5)
    assert len(notebook.shown) == 3 and lines_of(capsys) == []


def test_python_in_a_terminal_is_no_notebook(monkeypatch):
    assert not progress.in_notebook()
    shell = types.SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert not progress.in_notebook()


# How far it is


def test_steps_of_a_function_are_counted_with_those_that_it_calls(monkeypatch):
    def loop(x):
        return jax.lax.scan(lambda c, _: (jax.nn.relu(c) * 0.5 - 0.1, None), x, None, length=7)[0]

    def conditional(x):
        begin = (np.int32(0), x)
        return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, abs(s[1])), begin)[1]

    def fn(x):
        constant = jax.lax.scan(lambda c, _: (c + 1.0, None), 0.0, None, length=4)[0]
        return jax.jit(loop)(x) + conditional(x) + constant.astype(x.dtype)

    done, begun = [], evaluator.Walk.__init__

    def watched(self, segment, dtype, see):
        begun(self, segment, dtype, lambda steps: (done.append(steps), see(steps)))

    monkeypatch.setattr(evaluator.Walk, "__init__", watched)
    seen = []
    x0, x1 = np.array([-1.0, 0.5]), np.array([1.0, 0.0])
    found = exact.pieces_of(fn, x0, x1, progress=lambda *now: seen.append(now))
    assert done == sorted(done) and done[0] < done[-1]
    assert seen[-1][0] == seen[-1][1] == done[-1] > 7 * 3
    # In parts each has its share of the segment.
    seen.clear()
    monkeypatch.setattr(progress, "SHOW_SECONDS", 0.0)
    monkeypatch.setattr(progress._Calls, "interval", 0.0)
    less = exact.pieces_of(fn, x0, x1, memory=64.0, progress=lambda *now: seen.append(now[0]))
    assert less.count == found.count
    assert seen[-1] == done[-1] and len(set(seen)) > 3


def test_planes_and_cells_say_how_many_regions_there_are(clock, capsys):
    clock.step = 11.0
    r = np.random.default_rng(0)
    params = [(r.normal(size=(2, 3)), r.normal(size=3)), (r.normal(size=(3, 3)), r.normal(size=3))]
    found = exact.plane(params, [0, 0], [1, 0], [0, 1], 9.0, progress=True)
    lines = lines_of(capsys)
    assert any(line.startswith("plane: 1/2 layers, 0:00:") for line in lines)
    assert lines[-1].startswith("plane: 2/2 layers") and lines[-1].endswith(
        f"{found.count} regions"
    )
    cells = exact.cells(params, progress=True)
    lines = lines_of(capsys)
    assert lines[0].startswith("cells: 1/6 hyperplanes, 0:00:11, ") and len(lines) == 7
    assert lines[-1].startswith("cells: 6/6 hyperplanes")
    assert int(lines[-1].split()[-2]) >= cells.count  # cones of space part some of them


def test_spans_do_all_of_the_work_once(monkeypatch):
    for threads, total, most in ((1, 5, 2), (2, 23, 4), (3, 2, 9), (2, 1, 1)):
        monkeypatch.setattr("jaxexpr._core.threads.cores", lambda threads=threads: threads)
        seen = []
        made = in_spans(lambda first, count: first, total, most, seen.append)
        parts = sorted((first, count) for first, count, _ in made)
        ends = list(itertools.accumulate(count for _, count in parts))
        assert [first for first, _ in parts] == [0, *ends[:-1]] and ends[-1] == total
        assert max(count for _, count in parts) <= most
        assert seen == sorted(seen) and seen[-1] == total


def test_spans_pass_on_what_goes_wrong():
    def work(first, count):
        if first > 3:
            raise ArithmeticError("here")

    with pytest.raises(ArithmeticError, match="here"):
        in_spans(work, 100, 1, lambda done: None)


# Runs that take hours


class Slow:
    """A clock of the runner's steps: so many seconds for each, 300 for those that compile."""

    def __init__(self, seconds):
        self.asked, self.now, self.seconds = 0, 0.0, seconds

    def monotonic(self):
        self.asked += 1
        if self.asked % 2 == 0:
            self.now += 300.0 if self.asked == 2 else self.seconds
        return self.now


@pytest.mark.parametrize(
    ("seconds", "draws", "method", "says"),
    [
        (35.0, 1000, "exact", "9.7"),
        (35.0, 90, "exact", None),
        (0.5, 100_000, "tangent", None),
    ],
)
def test_an_estimate_that_takes_hours_says_so_once(
    seconds, draws, method, says, monkeypatch, capsys
):
    monkeypatch.setattr(devices, "time", Slow(seconds))
    merges = itertools.count()
    merge = runner._merged

    def some(*arguments):
        if next(merges) == 8:
            raise KeyboardInterrupt
        return merge(*arguments)

    monkeypatch.setattr(runner, "_merged", some)
    with pytest.raises(runner.Interrupted):
        estimate(NET, LINE, key=KEY, draws=draws, method=method, probes="length", chunk=1)
    lines = lines_of(capsys)
    if says is None:
        assert lines == []
    else:
        (line,) = lines
        assert line.startswith(f"networks: about {says} hours left at this pace; shorter: fewer")
        for way in ("target=", 'method="grid"', "checkpoint="):
            assert way in line


def test_a_target_is_looked_at_at_the_same_numbers_whatever_the_pace(monkeypatch):
    looks, reached = [], runner._reached

    def watched(gathered, target):
        looks.append(next(iter(gathered.values())).draws if gathered else 0)
        return reached(gathered, target)

    monkeypatch.setattr(runner, "_reached", watched)
    monkeypatch.setattr(devices, "_STEP_SECONDS", 1e-6)  # one network a step
    options = {"key": KEY, "points": 5, "probes": "length", "target": 1e-4, "batch": 1}
    seen = []
    monkeypatch.setattr(progress._Calls, "interval", 0.0)
    estimate(NET, LINE, draws=200, **options, progress=lambda done, *_: seen.append(done))
    assert looks == [0, 64, 128, 192] and len(seen) > 100
    looks.clear()
    estimate(NET, LINE, draws=130, **options, chunk=50)
    assert looks == [0, 50, 100]


# Ctrl-C


STOPPED = """
import os, signal, threading, time
import jax, numpy as np
from jaxexpr import curves, exact
from jaxexpr._core import threads

r = np.random.default_rng(0)

def layers(*widths, lead=()):
    return [
        (r.normal(size=(*lead, i, o)) * 2 / np.sqrt(i), r.normal(size=(*lead, o)))
        for i, o in zip(widths, widths[1:])
    ]

def pieces_of(progress):
    def fn(x):
        return jax.lax.fori_loop(0, 40, lambda i, y: 1 - 2 * abs(y - 0.5), x)

    exact.pieces_of(fn, [0.0], [1.0], memory=2.0**22, progress=progress)

def plane(progress):
    exact.plane(layers(2, *[40] * 20), [0, 0], [1, 0], [0, 1], 20.0, progress=progress)

def cells(progress):
    exact.cells(layers(4, 80), progress=progress)

def region_counts(progress):
    lines = [curves.line(*r.normal(size=(2, 4))) for _ in range(100)]
    exact.region_counts(layers(4, 32, 32, lead=(1000,)), lines, progress=progress)

def compiled(progress):
    work = lambda first, count: time.sleep(1.5 if first > 2 else 0.2)
    threads.PATIENCE = 0.1
    began = time.monotonic()
    threads.in_spans(work, 100, 1, lambda done: progress(done, 100, time.monotonic() - began))

for work in (pieces_of, plane, cells, region_counts, compiled):
    sent = []

    def stop(done, total, seconds):
        if seconds > 0.3 and not sent:
            sent.append(time.monotonic())
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    try:
        work(stop)
    except KeyboardInterrupt:
        print(work.__name__, time.monotonic() - sent[0], threading.active_count())
"""


def test_ctrl_c_ends_exact_counts_at_once():
    done = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    names = ["pieces_of", "plane", "cells", "region_counts", "compiled"]
    assert [name for name, *_ in found] == names
    for name, seconds, threads in found:
        assert float(seconds) < (1.2 if name == "compiled" else 2.0), name
        assert threads == "1" or name == "compiled", name
