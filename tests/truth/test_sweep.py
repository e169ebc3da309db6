"""A script's own settings are replaced inside it, and the training says so itself."""

import time
from contextlib import ExitStack

import pytest

from fitscope.sweep import sweep
from fitscope.sweep.ran import MEASURED

MODEL = """
import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, numpy as np
x = np.random.default_rng(0).random((640, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
"""
TFDATA = (
    MODEL
    + """
import tensorflow as tf
windows = tf.data.Dataset.from_tensor_slices(x).window(8, drop_remainder=True).flat_map(lambda w: w.batch(8))
data = windows.unbatch().map(lambda row: (row, row[:1])).batch(8).prefetch(2)
model.fit(data, epochs=1, verbose=0)
"""
)
LOADER = (
    MODEL
    + """
import torch
rows = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(x[:, :1]))
model.fit(torch.utils.data.DataLoader(rows, batch_size=8), epochs=1, verbose=0)
"""
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """One run of a script with other settings."""
    monkeypatch.setattr(sweep, "ENOUGH", 0.5)

    def run(text, settings, line):
        (tmp_path / "train.py").write_text(text)
        with ExitStack() as stack:
            bench = sweep._Bench(stack, tmp_path, (tmp_path / "train.py").relative_to(tmp_path), (), print)
            told = {"own_batch_size": 8, "prolong": ["train.py", line]}
            return bench.run(settings, told, time.monotonic() + 120)

    return run


def test_a_tf_data_pipeline_and_what_compile_is_given_are_changed(run):
    settings = {"batch_size": 16, "jit_compile": True, "steps_per_execution": 4, "precision": "mixed_bfloat16"}
    found = run(TFDATA, settings, TFDATA.rstrip().count("\n") + 1)
    assert (found.state, found.says) == (MEASURED, "")
    assert {name: found.trained_with[name] for name in settings} == settings
    assert found.measured.rows == 16
    assert found.measured.memory_bytes > 1 << 26
    assert not found.whole  # it had one epoch, and went on until enough was seen
    assert found.files == ("train.py",)


def test_the_backend_and_a_data_loader_are_changed(run):
    found = run(LOADER, {"batch_size": 32, "backend": "torch"}, LOADER.rstrip().count("\n") + 1)
    assert (found.state, found.says) == (MEASURED, "")
    assert found.trained_with["backend"] == "torch"
    assert (found.trained_with["source"], found.measured.rows) == ("DataLoader", 32)
