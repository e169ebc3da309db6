import itertools

import pytest
from made import LINE, Tree, sink

from fitscope import store
from fitscope.account import account
from fitscope.model import Called, Mark, Tick, Where
from fitscope.observe import recorder as recorders


def epochs(recording, clock, *, count, steps=2, line=LINE):
    """A fit with that many epochs: each waits 1 s for data, works 2 s per step, and validates for 3 s."""
    ledger = recording.ledger()
    root = recording.root(ledger, "fit", line)
    region = recording.regions[root]
    region.calls += 1
    data, step = recording.tree.node(root, "data", "arrays"), recording.tree.node(root, "step", "step")
    validation = recording.tree.node(root, "validation", "")
    for _ in range(count):
        for _ in range(steps):
            began = ledger.enter(data)
            clock.passes(1)
            ledger.enter(step)
            clock.passes(2)
            region.step(clock() - began)
        ledger.enter(validation)
        clock.passes(3)
        region.epochs += 1
        region.mark(ledger.enter(step), ledger.spent)
    ledger.back(ledger.outside)
    return root


def region_of(path):
    (region,) = account(store.read(path)).regions
    return region


def test_every_epoch_has_its_seconds_by_phase(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    epochs(recording, clock, count=2)
    recording.flush()
    epochs(recording, clock, count=1, steps=5)
    recording.remove_sink(written)
    found = region_of(written.path).course.epochs
    assert [(epoch.first, epoch.last, epoch.steps) for epoch in found] == [(1, 1, 2), (2, 2, 2), (3, 3, 5)]
    assert found[0].phases == found[1].phases == {"data": 2.0, "step": 4.0, "validation": 3.0}
    assert found[2].phases == {"data": 5.0, "step": 10.0, "validation": 3.0}
    assert [epoch.wall_seconds for epoch in found] == [9.0, 9.0, 18.0]


def test_a_later_sink_has_only_the_epochs_that_ended_after_it(recording, clock, tmp_path):
    epochs(recording, clock, count=2)
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    epochs(recording, clock, count=1)
    recording.remove_sink(written)
    (epoch,) = region_of(written.path).course.epochs
    assert (epoch.first, epoch.last, epoch.steps, epoch.wall_seconds) == (1, 1, 2, 9.0)


def test_of_very_many_epochs_only_some_ends_are_marked_and_no_second_is_lost(recording, clock, tmp_path, monkeypatch):
    monkeypatch.setattr(recorders, "MOST_MARKS", 20)
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    epochs(recording, clock, count=1000)
    recording.remove_sink(written)
    run = store.read(written.path)
    assert len(run.marks) == 20 + 18 + 8
    found = region_of(written.path).course.epochs
    assert found[-1].last == 1000
    assert sum(epoch.wall_seconds for epoch in found) == 9000
    assert sum(epoch.steps for epoch in found) == 2000
    assert all(after.first == before.last + 1 for before, after in itertools.pairwise(found))


def training(durations, ticks=(), marks=(), **changes):
    tree = Tree()
    fit = tree.region(where=Where("train.py", 40))
    tree.add(fit, "data", "tf.data", 10)
    tree.add(fit, "step", "step", sum(durations))
    tree.add(fit, "compile", "tracing", 1)
    called = Called(1, len(durations), 1, tuple(durations))
    return tree.run(**{"called": {fit: called}, "ticks": tuple(ticks), "marks": tuple(marks), **changes})


def course_of(run):
    (region,) = account(run).regions
    return region.course


FIT, DATA, STEP, COMPILE = 1, 2, 3, 4


def test_a_slow_step_is_named_by_what_took_longer_in_that_second():
    durations = [5.0, *[1.0] * 30]
    ticks = [
        Tick(5.0, {COMPILE: 4.0, STEP: 1.0}, {FIT: 1}),
        Tick(20.0, {STEP: 15.0}, {FIT: 15}),
        Tick(35.0, {STEP: 15.0}, {FIT: 15}),
    ]
    (outlier,) = course_of(training(durations, ticks, [Mark(FIT, 35.0, 1, 31, {})])).outliers
    assert (outlier.step, outlier.epoch, outlier.seconds, outlier.times) == (1, 1, 5.0, 5.0)
    assert (outlier.phase, outlier.name, outlier.extra_seconds) == ("compile", "tracing", 4.0)


def test_the_first_step_of_an_epoch_may_have_waited_for_the_end_of_the_one_before():
    tree = Tree()
    fit = tree.region(where=Where("train.py", 40))
    step = tree.add(fit, "step", "step", 30)
    closing = tree.add(fit, "epoch", "closing the input pipeline", 8)
    durations = [*[1.0] * 20, 9.0, *[1.0] * 9]
    ticks = [
        Tick(20.0, {step: 20.0}, {fit: 20}),
        Tick(29.0, {step: 1.0, closing: 8.0}, {fit: 1}),
        Tick(38.0, {step: 9.0}, {fit: 9}),
    ]
    marks = [Mark(fit, 20.0, 1, 20, {}), Mark(fit, 38.0, 2, 30, {})]
    called = {fit: Called(1, 30, 2, tuple(durations))}
    (outlier,) = course_of(tree.run(called=called, ticks=tuple(ticks), marks=tuple(marks))).outliers
    assert (outlier.step, outlier.epoch, outlier.first, outlier.name) == (21, 2, True, "closing the input pipeline")


def test_a_step_that_ended_early_in_a_second_spent_its_time_in_the_one_before():
    durations = [*[1.0] * 20, 9.0, *[1.0] * 9]
    ticks = [
        Tick(28.0, {STEP: 20.0, COMPILE: 8.0}, {FIT: 20}),
        Tick(38.0, {STEP: 10.0}, {FIT: 10}),
    ]
    (outlier,) = course_of(training(durations, ticks)).outliers
    assert (outlier.step, outlier.phase, outlier.extra_seconds) == (21, "compile", 8.0)


def test_slow_steps_that_are_known_only_later_share_what_took_longer_meanwhile():
    durations = [*[1.0] * 20, 9.0, 5.0, *[1.0] * 8]
    ticks = [Tick(20.0, {STEP: 10.0, COMPILE: 10.0}, {}), Tick(42.0, {STEP: 20.0, COMPILE: 2.0}, {FIT: 30})]
    found = course_of(training(durations, ticks)).outliers
    assert [(each.step, each.phase, each.extra_seconds) for each in found] == [
        (21, "compile", 8.0),
        (22, "compile", 4.0),
    ]


def test_what_grew_by_far_more_than_a_slow_step_is_not_its_reason():
    durations = [*[1.0] * 20, 9.0, *[1.0] * 30]
    ticks = [
        Tick(20.0, {STEP: 20.0}, {FIT: 20}),
        Tick(59.0, {STEP: 31.0, COMPILE: 8.0, DATA: 90.0}, {FIT: 31}),
    ]
    (outlier,) = course_of(training(durations, ticks)).outliers
    assert (outlier.step, outlier.phase, outlier.extra_seconds) == (21, "compile", 8.0)


def test_a_slow_step_that_nothing_explains_has_no_name():
    durations = [*[1.0] * 20, 9.0]
    ticks = [Tick(20.0, {STEP: 20.0}, {FIT: 20}), Tick(29.0, {STEP: 1.0}, {FIT: 1})]
    (outlier,) = course_of(training(durations, ticks)).outliers
    assert (outlier.step, outlier.phase, outlier.epoch) == (21, "", None)


@pytest.mark.parametrize("durations", [[1.0] * 50, [1.0, 1.2, 0.8] * 20, [1.0, 9.0]])
def test_ordinary_steps_and_a_handful_of_steps_have_no_outliers(durations):
    assert course_of(training(durations)).outliers == ()


def test_a_million_steps_become_a_few_hundred_points_and_none_is_left_out():
    durations = [0.001] * 1_000_000
    durations[777_777] = 4.0
    found = course_of(training(durations)).steps
    assert len(found) <= 240
    assert (found[0].first, found[-1].last) == (1, 1_000_000)
    assert all(after.first == before.last + 1 for before, after in itertools.pairwise(found))
    assert max(point.high for point in found) == 4.0


def test_the_calmest_stretches_are_what_disturbed_steps_do_not_touch():
    calm, disturbed = [0.01] * 90, [0.012, 0.02, 0.011] * 400
    found = course_of(training([3.0, *disturbed, *calm, *disturbed])).calmest
    assert found.seconds == pytest.approx(0.01)
    assert found.usual == pytest.approx(0.0143, rel=0.03)
    assert course_of(training([0.01] * 200)).calmest is None, "two seconds are too few"


def test_steps_are_numbered_as_keras_counts_them_when_several_are_one_execution():
    run = training([1.0] * 10, called={FIT: Called(1, 80, 1, (1.0,) * 10)})
    assert [(point.first, point.last) for point in course_of(run).steps][:2] == [(1, 8), (9, 16)]


def test_time_that_is_moved_later_makes_one_stretch_with_what_went_before():
    """On TensorFlow the wait for data is told from the step some batches later."""
    ticks = [
        Tick(1.0, {STEP: 1.0}, {FIT: 1}),
        Tick(2.0, {STEP: 1.0}, {FIT: 2}),
        Tick(3.0, {STEP: -0.5, DATA: 1.5}, {FIT: 3}),
        Tick(4.0, {STEP: 1.0}, {}),
    ]
    found = course_of(training([1.0] * 6, ticks)).intervals
    assert [(each.began, each.ended, each.phases, each.steps) for each in found] == [
        (0.0, 1.0, {"step": 1.0}, 1),
        (1.0, 3.0, {"step": 0.5, "data": 1.5}, 5),
        (3.0, 4.0, {"step": 1.0}, 0),
    ]


def test_a_run_of_days_is_read_into_a_bounded_number_of_looks(recording, clock, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MOST_TICKS", 10)
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    for _ in range(50):
        epochs(recording, clock, count=1)
        recording.flush()
    recording.remove_sink(written)
    run = store.read(written.path)
    assert len(run.ticks) <= 10
    assert sum(sum(tick.spent.values()) for tick in run.ticks) == 450
    assert sum(sum(tick.steps.values()) for tick in run.ticks) == 100
