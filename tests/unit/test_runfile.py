import os
import random
from collections import Counter
from pathlib import Path

import pytest
from made import LINE, header, sink, train

from fitscope import store
from fitscope.observe.ledger import Place
from fitscope.observe.runfile import Sink

FULL = Path("/dev/full")
ELSEWHERE = Place("/project/tune.py", 7)


def seconds(path):
    """What a file says that each phase took, in all regions."""
    found = Counter()
    for node in store.read(path).nodes.values():
        found[node.phase] += node.seconds
    return {phase: total for phase, total in found.items() if total}


def fill_the_disk(written):
    """From now on every write fails as on a full disk."""
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, written._file)
    os.close(full)


def test_a_later_sink_sees_only_what_happened_after_it(recording, clock, tmp_path):
    first, second = sink(tmp_path / "first.run"), sink(tmp_path / "second.run")
    recording.add_sink(first)
    root = train(recording, clock, steps=5)
    recording.compiles.row(root, "step", "first", "", None, None)[:] = [1, 10**9]
    recording.unseparated.row(root)[0] += 1
    recording.add_sink(second)
    train(recording, clock, steps=2)
    recording.remove_sink(first)
    recording.remove_sink(second)
    assert seconds(first.path) == {"data": 7, "step": 14}
    assert seconds(second.path) == {"data": 2, "step": 4}
    run = store.read(second.path)
    assert {node.phase: node.count for node in run.nodes.values() if node.count} == {"data": 2, "step": 2}
    assert (run.called[root].calls, run.called[root].steps, run.called[root].epochs) == (1, 2, 1)
    assert run.called[root].durations == (3.0, 3.0)
    assert (run.compiles, run.unseparated) == ({}, frozenset())


def test_a_sink_opened_in_the_middle_of_a_step_gets_the_rest_of_the_step(recording, clock, tmp_path):
    ledger = recording.ledger()
    step = recording.tree.node(recording.root(ledger, "fit", LINE), "step", "step")
    ledger.enter(step)
    clock.passes(5)
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    clock.passes(2)
    ledger.back(ledger.outside)
    recording.remove_sink(written)
    assert seconds(written.path) == {"step": 2}


def test_a_step_that_is_still_running_is_written_with_the_time_it_has_taken(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    ledger = recording.ledger()
    step = recording.tree.node(recording.root(ledger, "fit", LINE), "step", "step")
    ledger.enter(step)
    clock.passes(5)
    recording.flush()
    assert seconds(written.path) == {"step": 5}
    clock.passes(1)
    recording.remove_sink(written)
    assert seconds(written.path) == {"step": 6}


def test_a_sink_that_was_removed_gets_nothing_more(recording, clock, tmp_path):
    written, other = sink(tmp_path / "a.run"), sink(tmp_path / "b.run")
    recording.add_sink(written)
    recording.add_sink(other)
    train(recording, clock)
    recording.remove_sink(written)
    train(recording, clock)
    recording.remove_sink(other)
    assert seconds(written.path) == {"data": 3, "step": 6}
    assert seconds(other.path) == {"data": 6, "step": 12}


def test_the_time_outside_trainings_is_in_no_run(recording, clock, tmp_path):
    train(recording, clock)
    clock.passes(100)
    train(recording, clock)
    recording.ledgers.clear()  # as when the last watcher goes
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    clock.passes(50)
    train(recording, clock)
    recording.remove_sink(written)
    assert seconds(written.path) == {"data": 3, "step": 6}


def test_a_failure_of_an_earlier_recording_is_not_told_of_a_later_one(recording, clock, tmp_path):
    recording.fact("backend", lasting=True, backend="jax")
    recording.fail(ValueError("long ago"))
    recording.failure = None  # as the observer does when somebody begins to watch again
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    train(recording, clock)
    recording.remove_sink(written)
    run = store.read(written.path)
    assert run.backend == "jax"
    assert "failure" not in [fact["fact"] for fact in run.facts]


@pytest.mark.parametrize("again", [False, True])
def test_what_was_seen_in_an_earlier_recording_is_told_of_a_later_one_only_if_it_is_seen_again(
    recording, clock, tmp_path, again
):
    root = train(recording, clock)
    recording.fact("forced-sync", root=root, callback="Waits")
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    train(recording, clock)
    if again:
        recording.fact("forced-sync", root=root, callback="Waits")
    recording.remove_sink(written)
    assert ("forced-sync" in [fact["fact"] for fact in store.read(written.path).facts]) == again


def test_a_node_that_owns_no_time_is_there_if_one_below_it_does(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    ledger = recording.ledger()
    root = recording.root(ledger, "fit", LINE)
    validation = recording.tree.node(root, "validation")
    step = recording.tree.node(validation, "step")
    ledger.enter(step)
    clock.passes(1)
    ledger.back(ledger.outside)
    recording.remove_sink(written)
    nodes = store.read(written.path).nodes
    assert [nodes[step].parent, nodes[validation].parent] == [validation, root]
    assert nodes[root].phase == "region"


def test_what_has_not_changed_is_not_written_again(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    train(recording, clock)
    recording.flush()
    size = written.path.stat().st_size
    train(recording, clock, line=ELSEWHERE)
    recording.flush()
    added = written.path.read_bytes()[size:]
    recording.remove_sink(written)
    assert b"tune.py" in added
    assert b"train.py" not in added


# --- files that cannot be written --------------------------------------------------------------------------


def test_a_full_disk_is_left_for_the_spare_file(recording, clock, tmp_path):
    spare = tmp_path / "spare.run"
    written = Sink(FULL, header(), spare)
    recording.add_sink(written)
    train(recording, clock)
    recording.remove_sink(written)
    assert written.path == spare
    assert seconds(spare) == {"data": 3, "step": 6}
    assert written.problem == f"cannot write /dev/full (No space left on device); the run is in {spare}"


def test_a_disk_that_fills_up_during_the_run_loses_nothing_measured_before(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    recording.fact("backend", backend="jax")
    train(recording, clock)
    recording.flush()
    fill_the_disk(written)
    train(recording, clock)
    recording.flush()
    train(recording, clock)
    recording.remove_sink(written)
    assert written.path == tmp_path / "spare.run"
    assert seconds(written.path) == {"data": 9, "step": 18}
    assert store.read(written.path).backend == "jax"


def test_a_disk_that_is_full_at_the_last_write_loses_nothing_measured_before(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    train(recording, clock, line=ELSEWHERE)
    recording.flush()
    fill_the_disk(written)
    train(recording, clock)
    recording.remove_sink(written)
    assert seconds(written.path) == {"data": 6, "step": 12}


def test_a_disk_that_is_full_when_a_fact_is_written_loses_no_fact(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    train(recording, clock)
    recording.fact("backend", backend="jax")
    recording.flush()
    recording.flush()
    fill_the_disk(written)
    recording.fact("versions", versions={"keras": "3.15.1"})
    recording.flush()
    train(recording, clock)
    recording.remove_sink(written)
    run = store.read(written.path)
    assert (run.backend, run.versions) == ("jax", {"keras": "3.15.1"})


def test_where_the_spare_file_cannot_be_written_either_nothing_is_recorded_and_nothing_raised(
    recording, clock, tmp_path
):
    written = Sink(FULL, header(), FULL)
    recording.add_sink(written)
    train(recording, clock)
    recording.remove_sink(written)
    assert written.problem == "cannot write the run: No space left on device; nothing more is recorded"


def test_a_folder_in_the_place_of_the_file_is_left_for_the_spare_file(tmp_path):
    folder = tmp_path / "a.run"
    folder.mkdir()
    written = sink(folder)
    written.close()
    assert written.path == tmp_path / "spare.run"
    assert store.read(written.path).script == "train.py"


def test_a_file_in_the_place_of_the_folder_is_left_for_the_spare_file(tmp_path):
    blocked = tmp_path / ".fitscope"
    blocked.write_text("not a folder")
    written = Sink(blocked / "a.run", header(), tmp_path / "spare.run")
    written.close()
    assert written.path == tmp_path / "spare.run"
    assert store.read(written.path).script == "train.py"


def test_missing_folders_are_made(tmp_path):
    written = sink(tmp_path / "deep" / "down" / "a.run")
    written.close()
    assert store.read(tmp_path / "deep" / "down" / "a.run").script == "train.py"


def test_the_folder_that_fitscope_chooses_is_nothing_for_a_repository(tmp_path):
    sink(tmp_path / "kept" / "a.run").close()
    sink(tmp_path / ".fitscope" / "a.run").close()
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a.run"]
    assert (tmp_path / ".fitscope" / ".gitignore").read_text() == "*\n"


def test_a_claimed_file_of_another_process_is_left_alone(tmp_path):
    path = tmp_path / "a.run"
    path.write_text("another process' run")
    written = Sink(path, header(), tmp_path / "spare.run", whole=True)
    written.close()
    assert path.read_text() == "another process' run"
    assert written.path == tmp_path / f"a.{os.getpid()}.run"
    assert store.read(written.path).script == "train.py"


def test_a_closed_sink_takes_lines_without_a_word(tmp_path):
    written = sink(tmp_path / "a.run")
    written.close()
    before = written.path.read_bytes()
    written.line({"t": 1})
    assert written.path.read_bytes() == before
    assert written.problem is None


# --- size --------------------------------------------------------------------------------------------------


def test_a_million_steps_fit_into_20_megabytes_and_all_come_back(recording, clock, tmp_path):
    chance = random.Random(0)
    written = sink(tmp_path / "a.run")
    written.start_from(recording)
    root = train(recording, clock, steps=0)
    region = recording.regions[root]
    for _ in range(1000):
        for _ in range(1000):
            region.step(round(chance.lognormvariate(0, 0.3) * 30_000) * 100)
        clock.passes(1)
        written.write(recording, recording._settle())
    written.close()
    assert written.path.stat().st_size < 20e6
    called = store.read(written.path).called[root]
    assert called.steps == len(called.durations) == 1_000_000


def test_past_the_limit_every_hundredth_step_is_kept_and_every_one_counted(recording, clock, tmp_path, monkeypatch):
    monkeypatch.setattr("fitscope.observe.runfile.MOST_STEPS", 1000)
    written = sink(tmp_path / "a.run")
    written.start_from(recording)
    root = train(recording, clock, steps=0)
    region = recording.regions[root]
    for duration in (1000, 2000):
        for _ in range(1000):
            region.step(duration)
        written.write(recording, recording._settle())
    written.close()
    called = store.read(written.path).called[root]
    assert called.steps == 2000
    assert called.durations == (1e-6,) * 1000 + (2e-6,) * 10


@pytest.mark.parametrize("duration", [500 * 10**9, 10**15])
def test_a_step_longer_than_the_file_can_tell_is_as_long_as_it_can_tell(recording, clock, tmp_path, duration):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    root = train(recording, clock, steps=0)
    recording.regions[root].step(duration)
    recording.remove_sink(written)
    assert store.read(written.path).called[root].durations == (0xFFFFFFFF / 1e7,)
