"""Callbacks that run beside the training."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import keras
import numpy as np
import pytest

import fitscope
from fitscope.remedy.callbacks.snapshot import ModelError, Twin

X = np.linspace(0, 1, 96 * 3).reshape(96, 3).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def made(**arguments):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("sgd", "mse", **arguments)
    return model


class Notes(keras.callbacks.Callback):
    """Notes every hook, slowly."""

    def __init__(self, delay=0.0):
        super().__init__()
        self.delay = delay
        self.seen = []
        self.threads = set()

    def note(self, *what):
        time.sleep(self.delay)
        self.threads.add(threading.current_thread().name)
        self.seen.append(what)

    def on_train_begin(self, logs=None):
        self.note("train begins")

    def on_train_end(self, logs=None):
        self.note("train ends")

    def on_epoch_begin(self, epoch, logs=None):
        self.note("epoch begins", epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.note("epoch ends", epoch, logs)

    def on_train_batch_begin(self, batch, logs=None):
        self.note("batch begins", batch)

    def on_train_batch_end(self, batch, logs=None):
        self.note("batch ends", batch, logs)

    def on_test_begin(self, logs=None):
        self.note("test begins")

    def on_test_batch_end(self, batch, logs=None):
        self.note("test batch ends", batch, logs)

    def on_test_end(self, logs=None):
        self.note("test ends", logs)


def fitted(callbacks, model=None, **arguments):
    model = model or made()
    arguments = {"batch_size": 8, "epochs": 2, "verbose": 0, "validation_data": (X[:32], Y[:32]), **arguments}
    history = model.fit(X, Y, callbacks=callbacks, **arguments)
    return model, history.history


def unknown_size():
    """Batches from a generator whose end is not known before it comes."""
    for start in range(0, 40, 8):
        yield X[start : start + 8], Y[start : start + 8]


def test_the_callback_sees_what_it_would_have_seen_in_the_training_thread():
    plain, behind = Notes(), Notes(delay=0.001)
    fitted([plain])
    fitted([fitscope.Background(behind)])
    assert behind.seen == plain.seen
    assert behind.threads == {"fitscope-background"}


def test_the_order_holds_beside_a_callback_that_makes_keras_synchronous():
    plain, behind = Notes(), Notes(delay=0.001)
    fitted([plain, fitscope.Background(behind)])
    assert behind.seen == plain.seen


def test_the_order_holds_when_the_end_of_the_data_is_not_known():
    plain, behind = Notes(), Notes()
    fit = {"epochs": 1, "steps_per_epoch": 9, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    for callback in (plain, fitscope.Background(behind)):
        model = made()
        with pytest.warns(UserWarning, match="ran out of data"):
            model.fit(unknown_size(), callbacks=[callback], **fit)
    assert behind.seen == plain.seen


@pytest.mark.skipif(keras.config.backend() == "torch", reason="PyTorch has no steps_per_execution")
def test_the_order_holds_with_several_steps_per_execution():
    plain, behind = Notes(), Notes()
    fitted([plain], made(steps_per_execution=5))
    fitted([fitscope.Background(behind)], made(steps_per_execution=5))
    assert behind.seen == plain.seen


def test_the_training_computes_the_same_numbers():
    bare, bare_history = fitted([])
    model, history = fitted([fitscope.Background(Notes(delay=0.002))])
    assert history == bare_history
    assert all(np.array_equal(one, other) for one, other in zip(bare.get_weights(), model.get_weights(), strict=True))


def test_evaluate_and_predict_deliver_too():
    model = made()
    notes = Notes()
    model.evaluate(X, Y, batch_size=32, verbose=0, callbacks=[fitscope.Background(notes)])
    assert [what[0] for what in notes.seen] == ["test begins", *["test batch ends"] * 3, "test ends"]


def test_one_background_serves_several_trainings():
    notes = Notes()
    background = fitscope.Background(notes)
    model, _ = fitted([background], epochs=1)
    fitted([background], model, epochs=1)
    assert [what for what in notes.seen if what[0] == "train begins"] == [("train begins",)] * 2
    assert notes.seen[-1] == ("train ends",)


def test_waiting_batches_come_together_to_a_callback_that_takes_them():
    class Together(keras.callbacks.Callback):
        calls = []

        def on_train_batches_end(self, batches, logs):
            time.sleep(0.05)
            assert all("loss" in each for each in logs)
            self.calls.append(batches)

    fitted([fitscope.Background(Together())], epochs=1)
    assert [batch for call in Together.calls for batch in call] == list(range(12))
    assert len(Together.calls) < 12


def test_what_the_callback_raises_is_raised_in_fit():
    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 3:
                raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
        fitted([fitscope.Background(Fails())])
    assert any("on_train_batch_end for batch 3" in note for note in caught.value.__notes__)
    _close(caught)


def test_what_it_raises_at_the_very_end_is_raised_as_well():
    class Fails(keras.callbacks.Callback):
        def on_train_end(self, logs=None):
            raise ZeroDivisionError("at last")

    with pytest.raises(ZeroDivisionError, match="at last"):
        fitted([fitscope.Background(Fails())])


def test_what_is_queued_when_fit_fails_is_delivered():
    class Stops(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise KeyError("elsewhere")

    notes = Notes(delay=0.002)
    background = fitscope.Background(notes)
    with pytest.raises(KeyError):
        fitted([background, Stops()])
    background.close()
    assert [what[1] for what in notes.seen if what[0] == "batch ends"] == list(range(12))


def test_a_full_queue_leaves_batches_out_and_counts_them():
    notes = Notes(delay=0.02)
    background = fitscope.Background(notes, when_full="drop", capacity=2)
    with pytest.warns(UserWarning, match="left out"):
        fitted([background], epochs=1, validation_data=None)
    ends = [what for what in notes.seen if what[0] == "batch ends"]
    assert background.dropped > 0
    assert len(ends) + background.dropped == 12
    assert notes.seen[-1] == ("train ends",)


def test_a_full_queue_makes_training_wait_otherwise():
    notes = Notes(delay=0.005)
    fitted([fitscope.Background(notes, capacity=1)], epochs=1)
    assert [what[1] for what in notes.seen if what[0] == "batch ends"] == list(range(12))


class Predicts(keras.callbacks.Callback):
    """Needs the model."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(self.model.predict(X[:4], verbose=0).tolist())


def test_a_snapshot_has_the_weights_of_that_very_step():
    plain, behind = Predicts(), Predicts()
    bare, _ = fitted([plain], epochs=1)
    model, _ = fitted([fitscope.Background(behind, snapshot=True)], epochs=1)
    assert behind.seen == plain.seen
    assert all(np.array_equal(one, other) for one, other in zip(bare.get_weights(), model.get_weights(), strict=True))
    assert behind.model is model


def test_only_the_batches_that_are_seen_copy_the_weights(monkeypatch):
    copies = []
    copied = Twin.weights_of
    monkeypatch.setattr(Twin, "weights_of", staticmethod(lambda model: copies.append(1) or copied(model)))
    plain, behind = Predicts(), Predicts()
    fitted([fitscope.Every(plain, batches=5)], epochs=1, validation_data=None)
    fitted([fitscope.Background(fitscope.Every(behind, batches=5), snapshot=True)], epochs=1, validation_data=None)
    assert behind.seen == plain.seen
    assert len(behind.seen) == 3
    assert len(copies) == 3 + 4  # and for the hooks of epoch and training, which `Every` passes on


def test_a_snapshot_of_batches_chosen_by_the_clock_is_asked_for_the_other_way_round():
    with pytest.raises(ValueError, match=r"write Every\(Background\(Predicts\(...\), snapshot=True\), seconds=5\)"):
        fitscope.Background(fitscope.Every(Predicts(), seconds=5), snapshot=True)


def test_a_callback_that_needs_the_model_is_refused_without_a_snapshot():
    class Predicts(keras.callbacks.Callback):
        def score(self):
            return self.model.predict(X, verbose=0)

        def on_epoch_end(self, epoch, logs=None):
            self.score()

    with pytest.raises(ValueError, match=r"Predicts needs the model \(self.model.predict in score\)"):
        fitscope.Background(Predicts())


@pytest.mark.parametrize(
    "callback",
    [
        keras.callbacks.EarlyStopping(),
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.ReduceLROnPlateau(),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate),
        keras.callbacks.ModelCheckpoint("x.keras"),
    ],
    ids=lambda callback: type(callback).__name__,
)
@pytest.mark.parametrize("snapshot", [False, True])
def test_keras_callbacks_that_need_the_training_are_refused(callback, snapshot):
    with pytest.raises(ValueError, match=type(callback).__name__):
        fitscope.Background(callback, snapshot=snapshot)


def test_a_callback_that_got_the_model_elsewhere_is_refused():
    class Holds(keras.callbacks.Callback):
        def __init__(self, model):
            super().__init__()
            self.network = model

        def on_epoch_end(self, epoch, logs=None):
            self.network.predict(X, verbose=0)

    model = made()
    with pytest.raises(ModelError, match=r"self\.network"):
        fitted([fitscope.Background(Holds(model))], model)
    encoder = keras.Sequential([keras.Input(X.shape[1:]), model.layers[0]])
    with pytest.raises(ModelError, match=r"self\.network"):
        fitted([fitscope.Background(Holds(encoder))], model)
    closure = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: model.predict(X, verbose=0))
    with pytest.raises(ModelError, match="has the model from model in <lambda>"):
        fitted([fitscope.Background(closure)], model)


def test_a_model_that_is_reached_by_stealth_is_out_of_reach():
    class Stealthy(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            getattr(self, "mod" + "el").stop_training = True

    with pytest.raises(ModelError, match="steers the training") as caught:
        fitted([fitscope.Background(Stealthy())])
    _close(caught)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"when_full": "wait"}, "when_full"),
        ({"capacity": 0}, "capacity"),
        ({"snapshot": True, "process": True}, "stays in this process"),
    ],
)
def test_wrong_arguments_are_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        fitscope.Background(Notes(), **arguments)


def test_only_callbacks_are_taken():
    with pytest.raises(TypeError, match="make an object of it"):
        fitscope.Background(Notes)
    with pytest.raises(TypeError, match="takes a Keras callback"):
        fitscope.Background("tensorboard")


@pytest.mark.shared
def test_a_process_of_its_own_brings_its_attributes_back():
    notes = Notes()
    fitted([fitscope.Background(notes, process=True)], epochs=1, validation_data=None)
    plain = Notes()
    fitted([plain], epochs=1, validation_data=None)
    assert notes.seen == plain.seen
    assert notes.threads == {"MainThread"}


@pytest.mark.shared
def test_what_a_process_raises_is_raised_in_fit_with_its_own_traceback():
    class Fails(keras.callbacks.Callback):
        def on_train_end(self, logs=None):
            raise ZeroDivisionError("over there")

    with pytest.raises(ZeroDivisionError, match="over there") as caught:
        fitted([fitscope.Background(Fails(), process=True)], epochs=1)
    assert any('raise ZeroDivisionError("over there")' in note for note in caught.value.__notes__)


@pytest.mark.shared
def test_a_process_that_dies_is_told():
    class Dies(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            os._exit(7)

    with pytest.raises(RuntimeError, match="exit code 7"):
        fitted([fitscope.Background(Dies(), process=True)], epochs=1)


def test_what_cannot_be_sent_to_a_process_is_told():
    notes = Notes()
    notes.lock = threading.Lock()
    with pytest.raises(ValueError, match="cannot be sent to another process"):
        fitted([fitscope.Background(notes, process=True)])


SCRIPT = """
    import os, random, sys, time
    import keras, numpy
    import fitscope

    class Writes(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.file = open("records.txt", "w")

        def on_train_batch_end(self, batch, logs=None):
            time.sleep(random.random() * 0.002)
            print(batch, file=self.file, flush=True)

    class Ends(keras.callbacks.Callback):
        async_safe = True

        def on_train_batch_begin(self, batch, logs=None):
            if batch == 300:
                open("begun.txt", "w").write(str(batch))
                {end}

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = numpy.ones((10_000, 2))
    model.fit(x, x[:, :1], batch_size=1, verbose=0, callbacks=[fitscope.Background(Writes()), Ends()])
"""
ENDS = {
    "exception": ("raise KeyError('on purpose')", 1),
    "interrupt": ("import signal; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", -signal.SIGINT),
    "terminate": ("import signal; os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)", -signal.SIGTERM),
}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_lost_when_the_program_is_ended(tmp_path, end):
    text, code = ENDS[end]
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT).replace("{end}", text))
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr[-2000:]
    assert [int(line) for line in (tmp_path / "records.txt").read_text().split()] == list(range(300))


@pytest.mark.shared
def test_nothing_is_lost_of_ten_thousand_records(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT).replace("{end}", "pass").replace("0.002", "0.0005"))
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [int(line) for line in (tmp_path / "records.txt").read_text().split()] == list(range(10_000))


def _close(caught):
    """Ends the threads of trainings that failed: pytest keeps their frames."""
    frame = caught.tb
    while frame is not None:
        for value in list(frame.tb_frame.f_locals.values()):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, fitscope.Background):
                    each.close()
        frame = frame.tb_next
