"""Callbacks that see some of the batches."""

import threading

import keras
import numpy as np
import pytest

import fitscope

X = np.linspace(0, 1, 100).reshape(50, 2).astype("float32")
Y = X.sum(axis=1, keepdims=True)


class Notes(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def note(self, *what):
        assert threading.current_thread() is threading.main_thread()
        self.seen.append(what)

    def on_epoch_end(self, epoch, logs=None):
        self.note("epoch", epoch, logs)

    def on_train_batch_begin(self, batch, logs=None):
        self.note("begin", batch)

    def on_train_batch_end(self, batch, logs=None):
        self.note("end", batch, logs)

    def on_test_batch_end(self, batch, logs=None):
        self.note("test", batch, logs)


def fitted(*callbacks, compiled=None, **arguments):
    keras.utils.set_random_seed(5)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", **(compiled or {}))
    arguments = {"batch_size": 2, "epochs": 2, "verbose": 0, "shuffle": False, **arguments}
    history = model.fit(arguments.pop("x", X), arguments.pop("y", Y), callbacks=list(callbacks), **arguments)
    return model, history.history


def of(notes, *kinds):
    return [what for what in notes.seen if what[0] in kinds]


@pytest.mark.parametrize("beside_a_plain_one", [False, True])
def test_every_tenth_batch_and_the_last_are_seen_with_their_own_logs(beside_a_plain_one):
    every, plain = Notes(), Notes()
    if beside_a_plain_one:
        fitted(fitscope.Every(every, batches=10), plain)
    else:
        fitted(fitscope.Every(every, batches=10))
        fitted(plain)
    assert [what[1] for what in of(every, "end")] == [9, 19, 24] * 2
    assert [what[1] for what in of(every, "begin")] == [9, 19, 24] * 2
    wanted = [what for what in of(plain, "begin", "end") if what[1] in (9, 19, 24)]
    assert of(every, "begin", "end") == wanted
    assert of(every, "epoch") == of(plain, "epoch")


def test_validation_is_thinned_out_too():
    every = Notes()
    fitted(fitscope.Every(every, batches=10), validation_data=(X, Y), validation_batch_size=4, epochs=1)
    assert [what[1] for what in of(every, "test")] == [9, 12]
    assert [what[0] for what in every.seen][-4:] == ["end", "test", "test", "epoch"]


def test_the_last_batch_is_seen_when_the_end_of_the_data_is_not_known():
    def batches():
        for start in range(0, 26, 2):
            yield X[start : start + 2], Y[start : start + 2]

    every = Notes()
    with pytest.warns(UserWarning, match="ran out of data"):
        fitted(fitscope.Every(every, batches=10), x=batches(), y=None, batch_size=None, steps_per_epoch=40, epochs=1,
               validation_data=(X, Y))  # fmt: skip
    assert [what[1] for what in of(every, "end")] == [9, 12]
    every = Notes()
    with pytest.warns(UserWarning, match="ran out of data"):
        fitted(fitscope.Every(every, batches=13), x=batches(), y=None, batch_size=None, epochs=1)
    assert [what[1] for what in of(every, "end")] == [12]


@pytest.mark.skipif(keras.config.backend() == "torch", reason="PyTorch has no steps_per_execution")
def test_several_steps_per_execution_are_one_call():
    every = Notes()
    fitted(fitscope.Every(every, batches=10), compiled={"steps_per_execution": 4}, epochs=1)
    assert [what[1] for what in of(every, "end")] == [11, 19, 27]


def test_seconds_pass_between_two_calls(monkeypatch):
    clock = iter(range(10_000))
    monkeypatch.setattr("fitscope.remedy.callbacks.every.time.perf_counter", lambda: next(clock))
    every = Notes()
    fitted(fitscope.Every(every, seconds=5), epochs=1)
    seen = [what[1] for what in of(every, "end")]
    assert seen[-1] == 24
    assert 4 <= len(seen) <= 6


def test_the_training_computes_the_same_numbers():
    bare, bare_history = fitted()
    model, history = fitted(fitscope.Every(Notes(), batches=3))
    assert history == bare_history
    assert all(np.array_equal(one, other) for one, other in zip(bare.get_weights(), model.get_weights(), strict=True))


def test_a_callback_that_is_called_may_use_the_model_and_stop_the_training():
    class Stops(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            assert np.isfinite(self.model.predict_on_batch(X)).all()
            self.model.stop_training = True

    keras.utils.set_random_seed(5)
    seen = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    fitted(fitscope.Every(Stops(), batches=10), note)
    assert seen == [0]


def test_skipped_batches_leave_keras_asynchronous():
    from keras.src.callbacks.callback_list import CallbackList

    skipping = CallbackList([fitscope.Every(Notes(), batches=10)])
    assert skipping._async_train == CallbackList([])._async_train


def test_every_and_background_go_together():
    class Notes(keras.callbacks.Callback):
        seen = []

        def on_train_batch_end(self, batch, logs=None):
            self.seen.append((batch, threading.current_thread().name))

    for both in (
        lambda: fitscope.Background(fitscope.Every(Notes(), batches=10)),
        lambda: fitscope.Every(fitscope.Background(Notes()), batches=10),
    ):
        Notes.seen.clear()
        fitted(both(), epochs=1)
        assert Notes.seen == [(batch, "fitscope-background") for batch in (9, 19, 24)]


@pytest.mark.parametrize(
    "arguments", [{}, {"batches": 3, "seconds": 1}, {"batches": 0}, {"batches": 1.5}, {"seconds": 0}]
)
def test_wrong_arguments_are_told(arguments):
    with pytest.raises(ValueError, match="Every"):
        fitscope.Every(Notes(), **arguments)
