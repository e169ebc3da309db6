"""When a training changes over between with and without a cause, and how long it took: on a clock of ours."""

import pytest

from fitscope.observe.removals import stretches as module
from fitscope.observe.removals.stretches import SETTLING, Stretches


class Training:
    """A training whose steps take a second, three with the cause; what is behind an epoch's steps takes two."""

    def __init__(self, monkeypatch, *, steps=4, cost=2.0, **plan):
        self.now = 100.0
        monkeypatch.setattr(module, "clock", lambda: self.now)
        self.lines = []
        self.flips = []
        usual = {"by": "epochs", "seconds": 1.0, "warm": 0.0, "cut": None, "whole_first": True, "settles": False}
        self.stretches = Stretches({**usual, **plan}, self.lines.append)
        self.stretches.flip = self.flips.append
        self.steps, self.cost = steps, cost
        self.states = []

    def epoch(self, steps=None):
        stretches = self.stretches
        stretches.epoch_begins()
        most = stretches.most_steps
        number = min(steps or self.steps, most or 10**9)
        self.states.append((stretches.removed, stretches.counts, number))
        for _ in range(number):
            self.now += 1.0 + (0.0 if stretches.removed else self.cost)
            stretches.step_ends(1, lambda: None)
        self.now += 2.0
        stretches.epoch_ends()


def test_epochs_go_with_without_without_with_and_the_first_does_not_count(monkeypatch):
    training = Training(monkeypatch)
    for _ in range(9):
        training.epoch()
    assert [removed for removed, _, _ in training.states] == [
        *(False, False, True, True, False, False, True, True, False)
    ]
    assert [counts for _, counts, _ in training.states] == [False] + [True] * 8
    assert [line["removed"] for line in training.lines] == [False, True, True, False, False, True, True, False]
    assert training.flips == [True, False, True, False]


def test_a_stretch_of_epochs_knows_its_steps_and_the_rest(monkeypatch):
    training = Training(monkeypatch)
    for _ in range(3):
        training.epoch()
    present, absent = training.lines
    # The first of four steps belongs to the beginning of the epoch.
    assert (present["seconds"], present["loop"], present["rest"], present["steps"]) == (14.0, 9.0, 5.0, 3)
    assert (absent["seconds"], absent["loop"], absent["rest"], absent["steps"]) == (6.0, 3.0, 3.0, 3)


@pytest.mark.parametrize(("by", "seconds"), [("epochs", 6.0), ("steps", 2.0)])
def test_what_a_stretch_leaves_to_be_done_is_its_own(monkeypatch, by, seconds):
    training = Training(monkeypatch, by=by, seconds=seconds)

    def finish():
        training.now += 10.0 if training.stretches.removed else 0.0

    lengths = {}
    for done in (lambda: None, finish):
        training = Training(monkeypatch, by=by, seconds=seconds)
        training.stretches.finish = done
        for _ in range(6):
            training.epoch()
        lengths[done] = [line["seconds"] for line in training.lines if line["removed"]]
    without, with_it = lengths.values()
    assert with_it[:2] == [each + 10.0 for each in without[:2]]


def test_short_epochs_are_put_together(monkeypatch):
    training = Training(monkeypatch, seconds=20.0)
    for _ in range(8):
        training.epoch()
    assert [line["epochs"] for line in training.lines] == [2, 4]
    assert [line["seconds"] for line in training.lines] == [28.0, 24.0]


def test_epochs_that_belong_together_are_not_parted(monkeypatch):
    training = Training(monkeypatch)
    training.stretches.multiple = 3
    for _ in range(8):
        training.epoch()
    assert [line["epochs"] for line in training.lines] == [3, 3]


def test_behind_a_change_that_the_input_notices_an_epoch_does_not_count(monkeypatch):
    training = Training(monkeypatch, settles=True)
    for _ in range(12):
        training.epoch()
    assert training.states == [
        *((False, False, 4), (False, True, 4)),
        (True, False, 4),  # whole: what it compiles is compiled now
        *((True, True, 4), (True, True, 4)),
        (False, False, SETTLING),
        *((False, True, 4), (False, True, 4)),
        (True, False, SETTLING),
        *((True, True, 4), (True, True, 4)),
        (False, False, SETTLING),
    ]


def test_long_epochs_are_cut_off_but_for_the_first(monkeypatch):
    training = Training(monkeypatch, steps=100, cut=10)
    for _ in range(3):
        training.epoch()
    assert [number for _, _, number in training.states] == [100, 10, 10]
    training = Training(monkeypatch, steps=100, cut=10, whole_first=False)
    training.epoch()
    assert training.states == [(False, False, 10)]


def test_steps_change_over_inside_an_epoch(monkeypatch):
    training = Training(monkeypatch, by="steps", seconds=9.0, warm=5.0)
    training.epoch(steps=60)
    assert [line["removed"] for line in training.lines[:4]] == [False, True, True, False]
    assert [line["steps"] for line in training.lines[:4]] == [3, 9, 9, 3]
    assert [line["loop"] for line in training.lines[:4]] == [9.0] * 4


def test_what_lies_between_two_epochs_is_in_no_stretch_of_steps(monkeypatch):
    training = Training(monkeypatch, by="steps", seconds=9.0, warm=0.0)
    for _ in range(12):
        training.epoch(steps=5)
    assert {line["loop"] / line["steps"] for line in training.lines} == {1.0, 3.0}


def test_a_stretch_ends_when_the_device_is_done(monkeypatch):
    training = Training(monkeypatch, by="steps", seconds=2.0, cost=0.0)
    stretches = training.stretches

    def wait():
        training.now += 5.0

    stretches.epoch_begins()
    for _ in range(6):
        training.now += 1.0
        stretches.step_ends(1, wait)
    assert [(line["loop"], line["steps"]) for line in training.lines] == [(8.0, 3)]


@pytest.mark.parametrize("by", ["steps", "epochs"])
def test_several_steps_in_one_execution_are_counted(monkeypatch, by):
    training = Training(monkeypatch, by=by, seconds=3.0)
    stretches = training.stretches
    for _ in range(3):
        stretches.epoch_begins()
        for _ in range(5):
            training.now += 1.0
            stretches.step_ends(8, lambda: None)
        stretches.epoch_ends()
    assert {line["steps"] % 8 for line in training.lines} == {0}
    assert training.lines
