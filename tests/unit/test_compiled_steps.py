"""Steps that a loop of the user's compiles: how they are charged, and that a compiled function stays what it was."""

import inspect
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fitscope.observe import compiled_steps, compiles, loops, updates
from fitscope.observe.ledger import Place

MS = 1_000_000


class Function:
    """Has the method that a `tf.function` calls its graph by."""

    def __init__(self, clock):
        self.clock = clock

    def __call__(self, *args):
        return self._call(*args)

    def _call(self, seconds):
        self.clock.passes(seconds)
        return seconds


@pytest.fixture
def loop(recording, clock, monkeypatch):
    """Runs a compiled step that takes 2 ms behind pauses of so many seconds; gives the seconds of each part."""
    for module in (compiled_steps, updates):
        monkeypatch.setattr(module, "recorder", recording)
        monkeypatch.setattr(module, "_stations", {})
        monkeypatch.setattr(module, "clock", clock)
    monkeypatch.setattr(compiles, "recorder", recording)
    monkeypatch.setattr(compiled_steps, "_ledgers", recording.ledgers)
    monkeypatch.setattr(compiled_steps, "_steps", {})
    for name in ("_places", "_traces"):
        monkeypatch.setattr(updates, name, {})
    ledger = recording.ledger()

    def loop(*pauses, dispatched=False):
        step = Function(clock)
        compiled_steps.watch(step, dispatched=dispatched)
        for pause in pauses:
            clock.passes(pause)
            assert step(0.002) == 0.002
        ledger.back(ledger.outside)
        nodes = recording.tree.nodes
        return {
            (node.phase, node.name): recording.tree.spent[at] // MS
            for at, node in enumerate(nodes)
            if recording.tree.spent[at] and node.phase != "outside"
        }

    return loop


def test_what_passes_between_two_steps_is_the_users_code(loop, recording):
    assert loop(1.0, 0.005, 0.005) == {("step", "step"): 6, ("data", "your code between calls"): 10}
    (region,) = recording.regions.values()
    assert (region.calls, region.steps) == (1, 3)
    assert region.durations == [2 * MS, 7 * MS, 7 * MS]


def test_a_long_pause_lies_between_two_epochs(loop):
    parts = loop(0.0, 0.005, 0.005, 2.0, 0.005)
    assert parts["data", "your code between calls"] == 15
    assert parts["epoch", "end of the epoch"] == 2000


def test_what_is_done_for_long_between_two_loops_is_nobodys(loop, recording):
    for dispatched in (False, True):
        assert sum(loop(0.0, 0.005, 60.0, 0.005, dispatched=dispatched).values()) < 100
    (region,) = recording.regions.values()
    assert max(region.durations) < 100 * MS


def test_steps_that_are_only_dispatched_are_not_told_from_the_code_around_them(loop):
    assert loop(0.0, 0.005, 2.0, dispatched=True) == {("step", "your code in the loop"): 2011}


def test_lines_that_were_seen_between_two_steps_are_those_of_the_loop(loop, recording):
    ledger = recording.ledger()
    line = ("train.py", 7, "augment", "")

    loop(0.0, 0.005)
    assert recording.lines.keys == []
    ledger.seen_outside.append(line)
    loop(0.005)
    assert [key[1:] for key in recording.lines.keys] == [line]


def test_a_trace_before_the_first_seen_step_is_charged_to_its_loop(loop, recording):
    here = Place(__file__, inspect.getsourcelines(Function.__call__)[1] + 1)
    ledger = recording.ledger()
    updates.traced(ledger, here, updates.Trace(500 * MS, "step", "first", ""))
    assert loop(1.0, 0.005)["compile", "tracing"] == 500
    assert recording.compiles.rows[0][0] == 1


def test_a_function_is_as_before_once_the_seams_are_released(clock):
    step = Function(clock)
    released = []

    class Seams:
        def on_release(self, undo):
            released.append(undo)

    compiled_steps.hold(Seams())
    compiled_steps.watch(step, dispatched=False)
    assert type(step) is not Function
    assert isinstance(step, Function)
    assert repr(type(step)) == repr(Function)
    released[0]()
    assert type(step) is Function


def test_what_the_users_code_jits_is_used_as_ever():
    """In a program of its own: once JAX is there, no process may fork."""
    done = subprocess.run([sys.executable, Path(__file__).parent / "jitted.py"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "all as ever\n"), done.stderr


def test_a_step_that_was_traced_before_a_loop_over_a_dataset_shows_that_it_trains(loop, recording, monkeypatch):
    monkeypatch.setattr(loops, "recorder", recording)
    monkeypatch.setattr(loops, "_training", set())
    monkeypatch.setattr(loops, "_updating", set())
    recording.ledger().loop = SimpleNamespace(trains=False, updates=False, root=7)
    assert loop(0.0, 0.005) == {}  # the loop itself has the time
    assert recording.ledger().loop.trains
    assert recording.ledger().loop.updates
    assert recording.facts == [
        {"fact": "loop-updates", "root": 7},
        {"fact": "loop-trains", "root": 7, "eager": False},
    ]


@pytest.mark.parametrize("eagerly", [True, False])
def test_a_compiled_gradient_is_the_step_unless_the_weights_are_updated_eagerly_behind_it(
    loop, clock, recording, eagerly
):
    ledger = recording.ledger()

    def gradient():
        ledger.gradients_traced += not ledger.gradients_traced  # the first call traces it
        clock.passes(0.005)

    compiled = compiled_steps.Jitted(gradient)
    for _ in range(4):
        compiled()
        if eagerly:
            ledger.last_update = (7, 0, 0)
    steps = sum(region.steps for region in recording.regions.values())
    facts = {fact["fact"] for fact in recording.facts}
    assert (steps, facts) == ((0, {"gradient-compiled"}) if eagerly else (3, {"loop-trains", "loop-updates"}))
