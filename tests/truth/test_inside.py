"""Recording from inside a program: the block, the callback, the notebook cell; and nothing left behind."""

import os
import subprocess
import sys

import pytest
from scripts import TRAIN

BACKENDS = ("tensorflow", "jax", "torch")

LEFT = """
from fitscope.observe.observer import observer
def originals():
    from keras.src.callbacks.callback_list import CallbackList
    from keras.src.layers.layer import Layer
    import gc
    names = ["fit", "evaluate", "predict", "train_on_batch", "save", "make_train_function"]
    held = [getattr(keras.Model, name) for name in names] + [CallbackList.on_train_batch_end, CallbackList.__init__]
    return [id(f) for f in held] + [id(Layer.__call__), len(gc.callbacks)]
"""


def run(folder, script, backend):
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("backend", BACKENDS)
def test_everything_is_put_back_after_a_block(tmp_path, backend):
    script = (
        TRAIN
        + LEFT
        + """
import fitscope
before = originals()
with fitscope.profile() as outer:
    model.fit(x, y, verbose=0)
    with fitscope.profile() as inner:
        model.predict(x, verbose=0)
    assert originals() != before
assert originals() == before
assert [r.call for r in inner.account.regions] == ["predict"]
assert sorted(r.call for r in outer.account.regions) == ["fit", "predict"]
for error in (ValueError, KeyboardInterrupt):
    class Breaks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise error
    try:
        with fitscope.profile() as broken:
            model.fit(x, y, verbose=0, callbacks=[Breaks()])
    except error:
        pass
    assert originals() == before
    assert broken.run.ended == ("interrupted" if error is KeyboardInterrupt else "exception")
import copy, pickle
class Plain(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.seen = batch
plain = Plain()
with fitscope.profile() as again:
    history = model.fit(x, y, verbose=0, callbacks=[plain])
assert "on_train_batch_end" not in vars(plain)
assert again.account.regions[0].steps == 20
print("done")
"""
    )
    assert run(tmp_path, script, backend) == "done\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_callback_records_the_fit_it_is_given_to(tmp_path, backend):
    script = (
        TRAIN
        + LEFT
        + """
import fitscope
before = originals()
profiler = fitscope.Profiler(show=False)
for _ in range(2):
    model.fit(x, y, epochs=2, verbose=0, callbacks=[profiler])
    assert originals() == before
    region = profiler.profile.account.regions[0]
    assert (region.call, region.steps, region.epochs) == ("fit", 40, 2)
    assert abs(sum(part.seconds for part in region.parts) - region.wall_seconds) < 1e-6
print("done")
"""
    )
    assert run(tmp_path, script, backend) == "done\n"


def test_a_notebook_cell_is_recorded(tmp_path):
    script = (
        TRAIN
        + """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.user_ns.update(model=model, x=x, y=y)
shell.run_line_magic("load_ext", "fitscope")
shell.run_cell("%%fitscope\\nhistory = model.fit(x, y, verbose=0)")
assert shell.user_ns["history"].epoch == [0]
assert [r.call for r in shell.user_ns["run"].account.regions] == ["fit"]
"""
    )
    assert "100 %" in run(tmp_path, script, "jax")


def test_an_exception_in_a_notebook_cell_ends_it_and_is_shown_once(tmp_path):
    script = (
        TRAIN
        + """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.user_ns.update(model=model, x=x, y=y)
shell.run_line_magic("load_ext", "fitscope")
for code in ("model.fit(x, y, verbose=0)\\nraise ValueError('on purpose')", "1 +"):
    assert not shell.run_cell("%%fitscope\\n" + code).success
    assert shell.user_ns["run"].run.ended == "exception"
assert "showtraceback" not in vars(shell)
"""
    )
    shown = run(tmp_path, script, "jax")
    assert "100 %" in shown
    assert shown.count("on purpose") == 3, shown  # the call of the magic, the line in the cell, and the error


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mistake_of_ours_does_not_reach_the_training(tmp_path, backend):
    script = (
        TRAIN
        + """
import fitscope
from fitscope.observe import callbacks
def broken(*_):
    raise RuntimeError("our mistake")
callbacks._note_settings = broken
with fitscope.profile() as run:
    history = model.fit(x, y, epochs=2, verbose=0)
assert len(history.history["loss"]) == 2
assert "our mistake" in run.account.notes[0]
print("done")
"""
    )
    assert run(tmp_path, script, backend) == "done\n"


def test_a_fit_that_fails_under_the_callback_leaves_nothing_behind(tmp_path):
    script = (
        TRAIN
        + LEFT
        + """
import fitscope, gc
from fitscope.observe.recorder import recorder
before = originals()
class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise ValueError("on purpose")
try:
    model.fit(x, y, verbose=0, callbacks=[fitscope.Profiler(show=False), Breaks()])
except ValueError:
    pass
gc.collect()
assert originals() == before
assert not recorder.ledgers
print("done")
"""
    )
    assert run(tmp_path, script, "jax") == "done\n"
