"""The window of a trace: when it opens and closes, what is marked, and that its failure is nobody's problem."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from fitscope.observe import capture
from fitscope.observe.capture import MOST_STEPS, WARM_UP, Window
from fitscope.observe.ledger import Ledger


class Profiler:
    """A backend's profiler that writes down what it is told."""

    def __init__(self, *, breaks=""):
        self.told = []
        self.open = []
        self.breaks = breaks

    def start_trace(self, folder):
        if self.breaks == "start":
            raise RuntimeError("the profiler is already in use")
        self.told.append("start")

    def stop_trace(self, folder):
        assert self.open == [], "every marker has ended"
        if self.breaks == "stop":
            raise OSError("no space")
        self.told.append("stop")
        Path(folder, "host.xplane.pb").write_bytes(b"trace")
        return str(Path(folder, "host.xplane.pb"))

    @contextmanager
    def mark(self, name):
        self.open.append(name)
        self.told.append(name)
        yield
        assert self.open.pop() == name, "the inner marker ends first"

    def mark_step(self, number):
        return self.mark(f"step {number}")


@pytest.fixture
def ledger(recording, monkeypatch):
    monkeypatch.setattr(capture, "recorder", recording)
    return recording.ledger()


@pytest.fixture
def window(tmp_path):
    capture.arm(tmp_path / "it.run")
    yield capture._windows[0]
    capture._windows.clear()


def train(window: Window, ledger: Ledger, profiler: Profiler, steps: int, total=None) -> None:
    data = ledger.tree.node(0, "data", "arrays")
    step = ledger.tree.node(0, "step", "step")
    for _ in range(steps):
        ledger.enter(data)
        ledger.enter(step)
        if not window.done:
            window.step_ended(ledger, profiler, total)


def traces(recording):
    return [fact for fact in recording.facts if fact["fact"] == "trace"]


def test_a_window_opens_after_the_warm_up_marks_steps_and_parts_and_closes(window, ledger, recording, tmp_path):
    profiler = Profiler()
    train(window, ledger, profiler, WARM_UP + MOST_STEPS + 5)
    assert profiler.told[:4] == ["start", f"step {WARM_UP}", "fitscope:data arrays", f"step {WARM_UP + 1}"]
    assert profiler.told.count("fitscope:data arrays") == MOST_STEPS
    assert profiler.told[-1] == "stop"
    assert type(ledger) is Ledger
    assert (tmp_path / "it.xplane.pb").read_bytes() == b"trace"
    (fact,) = traces(recording)
    assert (fact["path"], fact["steps"]) == ("it.xplane.pb", MOST_STEPS)


def test_a_short_training_is_traced_after_a_quarter_of_it(window, ledger):
    profiler = Profiler()
    train(window, ledger, profiler, 3, total=12)
    assert window.open
    window.finish()
    assert profiler.told[-1] == "stop"


@pytest.mark.parametrize("breaks", ["start", "stop"])
def test_a_profiler_that_fails_ends_the_window_and_says_why(window, ledger, recording, tmp_path, breaks):
    train(window, ledger, Profiler(breaks=breaks), WARM_UP + MOST_STEPS + 5)
    (fact,) = traces(recording)
    assert {"start": "already in use", "stop": "no space"}[breaks] in fact["problem"]
    assert window.done
    assert type(ledger) is Ledger
    assert list(tmp_path.iterdir()) == []


def test_a_marker_that_fails_ends_the_window(window, ledger, recording):
    profiler = Profiler()
    train(window, ledger, profiler, WARM_UP)
    profiler.mark = None
    train(window, ledger, profiler, 3)
    assert window.done
    assert type(ledger) is Ledger
    assert "TypeError" in traces(recording)[0]["problem"]


def test_a_loop_that_was_left_does_not_keep_the_profiler_running(window, ledger, recording, monkeypatch):
    profiler = Profiler()
    train(window, ledger, profiler, WARM_UP + 8)
    profiler.open.clear()  # markers stay open: they cannot be ended on another thread
    window.look()
    assert window.open
    monkeypatch.setattr(capture, "PATIENCE", -1.0)
    window.look()
    assert window.done
    assert traces(recording)[0]["steps"] == 8
