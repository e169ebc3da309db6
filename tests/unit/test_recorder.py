import threading

import pytest
from made import LINE, sink, train

from fitscope.observe import recorder as module
from fitscope.observe.recorder import Region, Table

SECOND = 1_000_000_000


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def test_a_key_has_one_row_and_keeps_it():
    table = Table(2)
    table.row("step", 1)[0] += 5
    table.row("step", 2)[0] += 7
    assert table.row("step", 1) == [5, 0]
    assert table.keys == [("step", 1), ("step", 2)]


def test_a_full_table_takes_no_new_keys_and_still_counts_the_old_ones():
    table = Table(1, most=1)
    table.row("old")[0] += 1
    table.row("new")[0] += 1
    table.row("old")[0] += 1
    assert table.keys == [("old",)]
    assert table.rows == [[2]]


def test_a_step_is_counted_with_its_duration():
    region = Region()
    region.step(12 * SECOND)
    region.step(5 * SECOND)
    assert region.steps == 2
    assert region.take_durations() == [12 * SECOND, 5 * SECOND]


def test_durations_are_taken_once():
    region = Region()
    region.step(SECOND)
    region.take_durations()
    region.step(2 * SECOND)
    assert region.take_durations() == [2 * SECOND]


def test_every_thread_has_a_ledger_of_its_own(recording):
    found = []
    thread = threading.Thread(target=lambda: found.extend([recording.ledger(), recording.ledger()]))
    thread.start()
    thread.join()
    assert found[0] is found[1]
    assert found[0] is not recording.ledger()
    assert recording.ledger() is recording.ledger()


def test_the_first_region_is_announced_once(recording):
    announced = []
    recording.on_first_region.append(lambda: announced.append(1))
    first = recording.root(recording.ledger(), "fit", LINE)
    assert recording.root(recording.ledger(), "fit", LINE) == first
    recording.root(recording.ledger(), "predict", LINE)
    assert announced == [1]


def test_a_fact_is_said_once(recording):
    recording.fact("forced-sync", root=1, callback="Waits")
    recording.fact("forced-sync", root=1, callback="Waits")
    recording.fact("forced-sync", root=2, callback="Waits")
    assert [fact["root"] for fact in recording.facts] == [1, 2]


def test_the_first_failure_is_the_one_that_is_told_with_its_line(recording):
    recording.fail(raised(ValueError("first")))
    recording.fail(raised(KeyError("second")))
    assert recording.failure.startswith("ValueError: first (test_recorder.py:")
    assert recording.facts == [{"fact": "failure", "says": recording.failure}]


def test_a_failure_ends_the_time_of_whatever_was_open(recording, clock):
    ledger = recording.ledger()
    root = recording.root(ledger, "fit", LINE)
    ledger.enter(root)
    clock.passes(2)
    recording.fail(ValueError())
    clock.passes(4)
    assert recording.tree.spent[root] == 2 * SECOND
    assert recording.ledgers == {}


def test_trained_is_what_regions_took_with_the_one_that_is_open(recording, clock):
    train(recording, clock, steps=2)
    clock.passes(100)
    assert recording.trained_ns() == 6 * SECOND
    ledger = recording.ledger()
    ledger.enter(recording.root(ledger, "fit", LINE))
    clock.passes(4)
    assert recording.trained_ns() == 10 * SECOND


def test_what_happened_outside_trainings_does_not_become_training_by_a_failure(recording, clock):
    train(recording, clock, steps=2)
    clock.passes(100)
    recording.fail(ValueError())
    assert recording.trained_ns() == 6 * SECOND


def test_the_writer_ends_with_the_last_sink(recording, tmp_path):
    one, two = sink(tmp_path / "one.run"), sink(tmp_path / "two.run")
    recording.add_sink(one)
    recording.add_sink(two)
    recording.remove_sink(one)
    assert "fitscope" in [thread.name for thread in threading.enumerate()]
    recording.remove_sink(two)
    assert "fitscope" not in [thread.name for thread in threading.enumerate()]


def test_an_error_on_the_writers_thread_is_noted_and_stays_there(recording, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "interval", lambda age: 0.0)
    ticked = threading.Event()

    def tick(now):
        ticked.set()
        raise ValueError("no such counter")

    recording.ticks.append(tick)
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    assert ticked.wait(timeout=60)
    recording.remove_sink(written)
    assert recording.failure.startswith("ValueError: no such counter")


def test_a_forked_child_writes_nothing_to_its_parents_file(recording, clock, tmp_path):
    path = tmp_path / "a.run"
    written = sink(path)
    written.start_from(recording)
    recording._sinks.append(written)  # as after a fork: the sink is there, the writer's thread is not
    before = path.read_bytes()
    recording.silence()
    train(recording, clock)
    recording.flush()
    assert path.read_bytes() == before


@pytest.mark.parametrize(("age", "seconds"), [(0, 1), (3599, 1), (3600, 5)])
def test_a_long_run_is_written_less_often(age, seconds):
    assert module.interval(age) == seconds
