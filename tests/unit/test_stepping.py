"""What stands in for Keras' two functions around a step: a list of callbacks as Keras has it, and a clock of ours."""

import pytest
from made import LINE

from fitscope.observe.callbacks import Watched
from fitscope.observe.calls import Call, Stations
from fitscope.observe.stepping import Charging, Stepping

MS = 1_000_000


class CallbackList:
    """Calls a hook of every callback after a step, as Keras' own does."""

    def __init__(self, *callbacks):
        self.callbacks = Watched(list(callbacks))
        self.begun = []

    def on_train_batch_begin(self, batch, logs=None):
        assert not isinstance(self.callbacks, Charging)
        self.begun.append(batch)

    def on_train_batch_end(self, batch, logs=None):
        for callback in self.callbacks:
            callback(batch)


@pytest.fixture
def epoch(clock, recording):
    """The nodes of one epoch, and what each owned after steps of 5 ms with callbacks that take 1, 0 and 2 ms."""
    ledger = recording.ledger()
    root = recording.root(ledger, "fit", LINE)
    stations = Stations(recording.tree, root)
    call = ledger.call = Call("fit", stations, ledger, recording.regions[root], None)
    call.reading = stations.logs
    call.step_began = ledger.enter(stations.step)
    first, third = (stations.callback("callback", name, None) for name in ("First.hook", "Third.hook"))
    seconds = {0: 0.001, 1: 0.0, 2: 0.002}
    callbacks = CallbackList(*(lambda batch, number=number: clock.passes(seconds[number]) for number in seconds))

    class Epoch:
        def __init__(self):
            self.callbacks, self.call, self.ledger, self.stations = callbacks, call, ledger, stations
            self.now_and_then = []
            self.begins([first, 0, third])

        def begins(self, nodes):
            call.stepping = Stepping(ledger, call, callbacks, nodes, None, self.now_and_then.append)
            call.stepping.stand_in("train", CallbackList.on_train_batch_begin, CallbackList.on_train_batch_end)

        def begins_again(self, hook, *, alone):
            """The first callback is this one; it may be the only one with a hook."""
            call.stepping.leave()
            callbacks.callbacks[0] = hook
            self.begins([first, 0, 0 if alone else third])

        def runs(self, steps):
            for batch in range(steps):
                callbacks.on_train_batch_begin(batch)
                clock.passes(0.005)
                callbacks.on_train_batch_end(batch)

        def owned(self):
            nodes = {"step": stations.step, "logs": stations.logs, "first": first, "third": third}
            return {name: (ledger.spent[node] // MS, ledger.counts[node]) for name, node in nodes.items()}

    return Epoch()


def test_each_callback_has_its_time_and_its_calls(epoch):
    epoch.runs(7)
    epoch.call.stepping.leave(over=True)
    owned = epoch.owned()
    assert {name: spent for name, (spent, _) in owned.items()} == {"step": 35, "logs": 0, "first": 7, "third": 14}
    assert [owned[name][1] for name in ("logs", "first", "third")] == [7, 7, 7]
    assert epoch.call.region.steps == epoch.call.executions == 7
    assert epoch.call.region.durations == [8 * MS] * 7


def test_it_counts_now_and_then(epoch):
    epoch.runs(20)
    assert epoch.call.region.steps == 0
    epoch.runs(20)  # a quarter of a second has passed
    assert epoch.call.region.steps == 32
    epoch.runs(220)
    assert epoch.now_and_then == [epoch.callbacks.on_train_batch_end.watched] * 2


def test_keras_own_functions_are_put_back(epoch):
    watched = epoch.callbacks.on_train_batch_end.watched
    epoch.runs(3)
    epoch.call.stepping.leave()
    assert vars(epoch.callbacks) == {"callbacks": watched, "begun": []}
    assert epoch.callbacks.callbacks is watched


def test_nothing_is_counted_once_nobody_records(epoch, recording):
    epoch.runs(3)
    recording.fail(ValueError("ours"))
    epoch.runs(2)
    assert vars(epoch.callbacks).keys() == {"callbacks", "begun"}
    assert type(epoch.callbacks.callbacks) is Watched
    assert epoch.call.region.steps == 0


def test_a_step_whose_callback_raises_is_not_counted(epoch, clock, monkeypatch):
    watched = epoch.callbacks.on_train_batch_end.watched
    epoch.runs(3)
    monkeypatch.setattr(clock, "passes", {}.__getitem__)
    with pytest.raises(KeyError):
        epoch.callbacks.on_train_batch_end(3)
    epoch.call.stepping.leave()
    assert epoch.call.region.steps == 3
    assert epoch.callbacks.callbacks is watched


def test_callbacks_without_a_hook_are_not_asked(epoch):
    asked = []
    epoch.call.stepping.leave()
    epoch.callbacks.callbacks[1] = asked.append
    epoch.begins_again(epoch.callbacks.callbacks[0], alone=False)
    epoch.runs(3)
    assert asked == epoch.callbacks.begun == []
    assert list(map(asked.append, epoch.callbacks.callbacks)) == [None] * 3  # it is still a list of all of them


def test_the_only_callback_with_a_hook_has_its_time(epoch, clock):
    epoch.begins_again(lambda batch: clock.passes(0.001), alone=True)
    epoch.runs(7)
    epoch.call.stepping.leave(over=True)
    spent = {name: owned for name, (owned, _) in epoch.owned().items()}
    assert spent == {"step": 35, "logs": 0, "first": 7, "third": 0}


@pytest.mark.parametrize("alone", [True, False])
def test_a_callback_that_a_hook_adds_is_told_of_that_step_and_the_next(epoch, alone):
    seen = []

    def brings(batch):
        if batch == 1:
            epoch.callbacks.callbacks.append(seen.append)

    epoch.begins_again(brings, alone=alone)
    epoch.runs(4)
    assert seen == [1, 2, 3]
    assert epoch.callbacks.begun == [2, 3]
    assert type(epoch.callbacks.callbacks) is Watched
    assert len(epoch.callbacks.callbacks) == 4


def test_a_callback_that_is_added_between_two_steps_is_told_of_the_next(epoch):
    seen = []
    epoch.runs(2)
    epoch.callbacks.callbacks.append(seen.append)
    epoch.runs(3)
    assert seen == [0, 1, 2]
    assert len(epoch.callbacks.callbacks) == 4


def test_a_list_of_callbacks_that_the_script_puts_there_stays(epoch):
    seen = []
    epoch.runs(2)
    epoch.callbacks.callbacks = [seen.append]
    epoch.runs(3)
    assert seen == [0, 1, 2]
    assert list(epoch.callbacks.callbacks) == [seen.append]


@pytest.mark.parametrize("alone", [True, False])
def test_a_callback_that_a_hook_puts_in_the_place_of_another_is_told_of_the_next_steps(epoch, alone):
    seen = []

    def swaps(batch):
        if batch == 1:
            epoch.callbacks.callbacks[2] = seen.append

    epoch.begins_again(swaps, alone=alone)
    epoch.runs(4)
    assert seen == [1, 2, 3]
    assert epoch.call.stepping is None
