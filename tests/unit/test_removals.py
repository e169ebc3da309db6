"""Causes taken away and put back, on objects that look like Keras' own."""

import pytest

from fitscope.observe.removals.hooks import Hooks
from fitscope.observe.removals.replay import Replay
from fitscope.observe.removals.settings import Settings
from fitscope.observe.removals.stretches import Stretches
from fitscope.observe.removals.training import Target

PLAN = {
    "arguments": {},
    **{"by": "epochs", "seconds": 1.0, "warm": 0.0, "cut": None, "whole_first": True, "settles": False},
}


def stretches():
    return Stretches(PLAN, lambda line: None)


def default(function):
    function._is_default = True
    return function


class Callback:
    @default
    def on_train_batch_end(self, batch, logs=None):
        self.on_batch_end(batch, logs)

    @default
    def on_batch_end(self, batch, logs=None):
        pass


class Callbacks:
    def __init__(self, *callbacks):
        self.callbacks = list(callbacks)
        self._executor, self._async_train, self.flushed = None, False, 0

    def _flush_futures(self):
        self.flushed += 1


def called():
    """A class of callbacks that note their calls, made anew: hooks are held on the class."""

    class Slow(Callback):
        calls = ()

        def on_train_batch_end(self, batch, logs=None):
            type(self).calls += (batch,)

    return Slow


def hooks_off(*callbacks, **arguments):
    turns = stretches()
    removal = Hooks({**PLAN, "arguments": arguments}, turns)
    removal.begin(None, Callbacks(*callbacks))
    return turns, removal


def test_a_hook_is_not_called_while_it_is_removed():
    slow = called()()
    turns, _ = hooks_off(slow, hooks=[["Slow", "on_train_batch_end"]])
    for batch, removed in enumerate((False, True, True, False)):
        turns.removed = removed
        slow.on_train_batch_end(batch)
    assert slow.calls == (0, 3)


def test_a_hook_by_its_old_name_and_one_that_an_object_has_of_its_own_are_found():
    class Slow(Callback):
        calls = ()

        def on_batch_end(self, batch, logs=None):
            self.calls += (batch,)

    old, own = Slow(), called()()
    noted = []
    own.on_train_batch_end = lambda batch, logs=None: noted.append(batch)
    turns, _ = hooks_off(old, own, hooks=[["Slow", "on_train_batch_end"]])
    for turns.removed in (False, True):
        old.on_train_batch_end(7)
        own.on_train_batch_end(7)
    assert old.calls == (7,)
    assert noted == [7]


def test_a_callback_that_is_not_there_is_told():
    with pytest.raises(RuntimeError, match="the training has no callback Fast"):
        hooks_off(called()(), hooks=[["Fast", "on_train_batch_end"]])


def test_with_the_hooks_goes_the_wait_that_they_force():
    _, removal = hooks_off(called()(), hooks=[["Slow", "on_train_batch_end"]], asynchronous=True)
    callbacks = removal.callbacks
    removal.flip(True)
    assert callbacks._async_train
    assert callbacks._executor is not None
    removal.flip(False)
    assert (callbacks._async_train, callbacks.flushed) == (False, 2)
    callbacks._executor.shutdown()


class Epochs:
    """An epoch iterator of Keras, with a pipeline that notes when it is opened."""

    def __init__(self, batches=4, steps_per_epoch=None):
        self.num_batches, self.steps_per_epoch, self.steps_per_execution = batches, steps_per_epoch, 1
        self._current_iterator = None
        self.opened = self.begun = self.ended = 0
        self.data_adapter = self

    def on_epoch_begin(self):
        self.begun += 1

    def on_epoch_end(self):
        self.ended += 1

    def _get_iterator(self):
        self.opened += 1
        return (f"batch {number}" for number in range(4))

    def _enumerate_iterator(self):
        self.on_epoch_begin()
        iterator = iter(self._get_iterator())
        for step in range(4):
            yield step, step, iterator
        self.on_epoch_end()


def read(removal, epochs):
    return [next(item[2]) for item in removal.items(epochs, Epochs._enumerate_iterator)]


def test_one_batch_is_replayed_and_the_pipeline_stays_closed():
    turns = stretches()
    removal, epochs = Replay(PLAN, turns), Epochs()
    assert read(removal, epochs) == ["batch 0", "batch 1", "batch 2", "batch 3"]
    turns.removed = True
    assert read(removal, epochs) == ["batch 0"] * 4
    assert epochs.opened == 2  # once more, for the batch that is kept
    assert read(removal, epochs) == ["batch 0"] * 4
    assert (epochs.opened, epochs.begun, epochs.ended) == (2, 2, 2)
    turns.removed = False
    assert len(read(removal, epochs)) == 4
    assert epochs.opened == 3


def test_a_replay_is_as_long_as_an_epoch_of_unknown_length_was():
    turns = stretches()
    removal, epochs = Replay(PLAN, turns), Epochs(batches=None)
    read(removal, epochs)
    turns.removed = True
    assert len(read(removal, epochs)) == 4


class Model:
    run_eagerly, jit_compile, steps_per_execution = True, False, 1
    train_function, test_function = "eager step", "eager test"
    made = 0

    def make_train_function(self, force=False):
        self.made += 1
        self.train_function = f"step {self.run_eagerly} {self.jit_compile} {self.steps_per_execution}"

    def _resolve_auto_jit_compile(self):
        return True


def test_settings_change_with_the_compiled_steps_that_belong_to_them():
    model = Model()
    removal = Settings({**PLAN, "arguments": {"settings": {"run_eagerly": False}}}, stretches())
    removal.begin(model, None)
    removal.flip(True)
    assert (model.run_eagerly, model.jit_compile, model.train_function) == (False, True, "step False True 1")
    model.test_function = "compiled test"
    removal.flip(False)
    assert (model.run_eagerly, model.train_function, model.test_function) == (True, "eager step", "eager test")
    removal.flip(True)
    assert (model.train_function, model.test_function, model.made) == ("step False True 1", "compiled test", 1)


def test_more_steps_per_execution_leave_the_validation_as_it_is():
    model = Model()
    removal = Settings({**PLAN, "arguments": {"settings": {"steps_per_execution": 32}}}, stretches())
    epochs = Epochs()
    read(removal, epochs)  # before the training, to build the model
    removal.begin(model, None)
    removal.flip(True)
    read(removal, epochs)
    assert epochs.steps_per_execution == 32
    assert model.test_function == "eager test"


def test_callbacks_are_told_of_the_epochs_that_the_user_asked_for():
    target = Target({"where": ["train.py", 9], "top": "/project"})
    target.first, target.wanted = 2, 5
    assert [target.told(epoch) for epoch in range(2, 9)] == [2, 3, 4, 2, 3, 4, 2]
