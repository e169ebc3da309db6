"""Causes of known size, taken away by turns in real trainings: the ratio is what was planted.

Few and short: the statistics are tested without a backend. That other programs are busy is no matter here.
"""

import math
import os
from pathlib import Path

import pytest

from fitscope import alternate as module
from fitscope.alternate import Pace, alternate
from fitscope.experiment import script_version
from fitscope.locate import locate
from fitscope.model import Removal, Where

START = """
import os, time
os.environ["KERAS_BACKEND"] = "CHOSEN"
import keras, numpy as np

x = np.random.default_rng(0).random((1600, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
"""
HOOK = """

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        with open("log.txt", "a") as file:
            file.write(f"{batch}\\n")

    def on_epoch_end(self, epoch, logs=None):
        learned = [0.1, 0.2][epoch]  # there is no third epoch, and no experiment may need one


model.fit(x, x[:, :1], epochs=2, verbose=0, callbacks=[Slow()])
"""
SLOW_STEPS = HOOK.replace("callbacks=[Slow()]", "callbacks=[Pause(), Slow()]").replace(
    "class Slow",
    """class Pause(keras.callbacks.Callback):
    async_safe = True

    def on_train_batch_begin(self, batch, logs=None):
        time.sleep(0.01)


class Slow""",
)
INPUT = """

class Remote(keras.utils.PyDataset):
    def __len__(self):
        return 30

    def __getitem__(self, index):
        time.sleep(0.01)
        return x[:32], x[:32, :1]


model.fit(Remote(), epochs=2, verbose=0, validation_data=(x[:64], x[:64, :1]))
"""
PIPELINE = """
import tensorflow as tf


def wait(rows):
    time.sleep(0.02)
    return rows


data = tf.data.Dataset.from_tensor_slices(x).shuffle(1000)
data = data.map(lambda row: row * 2)
data = data.batch(32)
data = data.map(lambda rows: tf.ensure_shape(tf.numpy_function(wait, [rows], tf.float32), (None, 8)))
data = data.map(lambda rows: (rows, rows[:, :1]))
model.fit(data, epochs=2, verbose=0)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setattr(module, "FOREIGN_CORES", math.inf)
    return tmp_path


def written(folder, text, backend):
    """The script in its folder, and the line of its last statement."""
    text = START.replace("CHOSEN", backend) + text
    (folder / "train.py").write_text(text)
    return script_version("the script", Path("train.py"), [], {}), Where("train.py", text.count("\n"))


def test_a_hook_is_what_it_costs_and_leaves_no_trace(folder):
    version, where = written(folder, HOOK, "jax")
    removal = Removal("hooks", "", where, "steps", {"hooks": [["Slow", "on_train_batch_end"]]})
    shown = alternate(folder, version, removal, Pace(0.011, 0.6, 50, 18.0), 25.0)
    assert shown.ratio is not None, shown.doubt
    assert shown.ratio.low > 2
    assert os.listdir(folder) == ["train.py"]  # noqa: PTH208


@pytest.mark.parametrize(
    ("backend", "remedy", "options"), [("jax", "Background", {}), ("tensorflow", "Every", {"batches": 10})]
)
def test_a_callback_is_seen_with_the_remedy_around_it(folder, backend, remedy, options):
    version, where = written(folder, SLOW_STEPS, backend)
    around = {"callback": "Slow", "remedy": remedy, "options": options}
    removal = Removal("wrapped", "", where, "steps", around)
    shown = alternate(folder, version, removal, Pace(0.022, 1.2, 50, 18.0), 25.0)
    assert shown.ratio is not None, shown.doubt
    # Ten of some twenty milliseconds: in the background they are free, and so are nine of ten.
    assert shown.ratio.low > 1.25
    assert shown.ratio.high < 2.3


def test_a_free_input_is_faster_by_what_the_loading_takes(folder):
    version, where = written(folder, INPUT, "tensorflow")
    shown = alternate(folder, version, Removal("replay", "", where), Pace(0.012, 0.4, 30, 18.0), 25.0)
    assert shown.ratio is not None, shown.doubt
    assert shown.ratio.low > 1.3


def test_an_experiment_that_changes_nothing_finds_nothing(folder):
    version, where = written(folder, INPUT, "jax")
    shown = alternate(folder, version, Removal("nothing", "", where), Pace(0.012, 0.4, 30, 13.0), 18.0)
    assert shown.ratio is not None, shown.doubt
    assert shown.ratio.low < 1.1
    assert shown.ratio.high > 0.9


def test_the_slow_stage_of_a_pipeline_is_named(folder):
    version, where = written(folder, PIPELINE, "tensorflow")
    found = locate(folder, version, where, 60.0)
    assert found.slow is not None, found
    lines = (folder / "train.py").read_text().splitlines()
    assert "numpy_function(wait" in lines[found.slow.where.line - 1]
