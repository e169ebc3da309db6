"""A script with many causes, edited, trains as it did: losses and weights are equal, on every backend."""

import os
import sys
import time

import pytest

from fitscope.experiment import Version, Workspace, sameness
from fitscope.fix import apply, findings_of, fixes
from fitscope.fixes.kind import Project
from fitscope.model import Finding, Where
from fitscope.rules import find

COMMON = """
import os, time
os.environ["KERAS_BACKEND"] = "CHOSEN"
import keras
import numpy as np

x = np.random.default_rng(0).random((320, 8)).astype("float32")


def build(**settings):
    made = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.3),
                             keras.layers.Dense(1)])
    made.compile("sgd", "mse", **settings)
    return made


class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.001)


class Items(keras.utils.PyDataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        time.sleep(0.001)
        return x[index * 32:index * 32 + 32], x[index * 32:index * 32 + 32, :1]


tiny = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
tiny.compile("adam", "mse")
tiny.fit(x, x[:, :1], batch_size=6, epochs=2, verbose=0)
model = build()
model.fit(x, x[:, :1], epochs=2, verbose=0, callbacks=[
    Watch(),  # sleeps
    keras.callbacks.ModelCheckpoint("model.keras", save_freq=5),
])
model.fit(Items(), epochs=2, verbose=0, shuffle=True)


def read(text):
    return np.array([float(each) for each in text.split(",")], "float32")


class Lines(keras.utils.PyDataset):
    def __init__(self):
        super().__init__()
        self.lines = [",".join(map(str, row)) for row in x]

    def __len__(self):
        return 10

    def __getitem__(self, index):
        rows = np.stack([read(line) for line in self.lines[index * 32:index * 32 + 32]])
        return rows, rows[:, :1]

    def on_epoch_end(self):
        np.random.shuffle(self.lines)


model.fit(Lines(), epochs=3, verbose=0)
answers = []
for row in x:
    answers.append(model.predict(row[None], verbose=0))
    model.fit(row[None], row[None, :1] + answers[-1], verbose=0, shuffle=False)
    if len(answers) == 12:
        break
"""
TENSORFLOW = """
import tensorflow as tf


def fetch(row):
    time.sleep(0.0005)
    return row


def load(row):
    row = tf.ensure_shape(tf.numpy_function(fetch, [row], tf.float32), (8,))
    return row, row[:1]


data = tf.data.Dataset.from_tensor_slices(x).shuffle(320).map(load).batch(32)
model.fit(data, epochs=2, verbose=0)
model.compile("sgd", "mse", run_eagerly=True)
model.fit(x, x[:, :1], verbose=0)
optimizer = keras.optimizers.SGD(0.1)


def train_step(rows, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(rows, training=True) - targets))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for rows, targets in data:
    loss = train_step(rows, targets)
"""
TENSORFLOW += """

def windowed(series):
    windows = tf.data.Dataset.from_tensor_slices(series)
    windows = windows.window(9, shift=1, drop_remainder=True)
    windows = windows.flat_map(lambda w: w.batch(9))
    windows = windows.map(lambda w: (w[:-1], w[-1:]))
    return windows.batch(32)


def decode(row):
    numbers = tf.ensure_shape(tf.io.decode_raw(row, tf.float32), (8,))
    return numbers, numbers[:1]


model.fit(windowed(x[:, 0]), epochs=2, verbose=0)
blobs = tf.data.Dataset.from_tensor_slices([row.tobytes() for row in x])
blobs = blobs.shuffle(99).map(decode).batch(32)
model.fit(blobs, epochs=3, verbose=0)
"""
JAX = """
import jax

optimizer = keras.optimizers.SGD(0.1)
optimizer.build(model.trainable_variables)


def compute(weights, rest, rows, targets):
    predicted, rest = model.stateless_call(weights, rest, rows, training=True)
    return keras.ops.mean((predicted - targets) ** 2), rest


def step(weights, rest, slots, rows, targets):
    (loss, rest), grads = jax.value_and_grad(compute, has_aux=True)(weights, rest, rows, targets)
    weights, slots = optimizer.stateless_apply(slots, grads, weights)
    return loss, weights, rest, slots


weights = [each.value for each in model.trainable_variables]
rest = [each.value for each in model.non_trainable_variables]
slots = [each.value for each in optimizer.variables]
for start in range(0, 320, 32):
    loss, weights, rest, slots = step(weights, rest, slots, x[start:start + 32], x[start:start + 32, :1])
for epoch in range(4):
    @jax.jit
    def score(weights, rest, rows):
        return keras.ops.mean(model.stateless_call(weights, rest, rows)[0])

    print(float(score(weights, rest, x)))
for variable, value in zip(model.trainable_variables, weights):
    variable.assign(value)
model.fit(x, x[:, :1], verbose=0)
"""
TORCH = """
import torch


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(x)

    def __getitem__(self, index):
        time.sleep(0.0005)
        return x[index], x[index, :1]


model.fit(torch.utils.data.DataLoader(Rows(), 32, shuffle=True), epochs=2, verbose=0)
"""
SCRIPTS = {"tensorflow": COMMON + TENSORFLOW, "jax": COMMON + JAX, "torch": COMMON + TORCH}
BOTH = {"blocking-callback", "frequent-checkpoint"}
STEPS = {
    "predict-in-loop",
    "fit-in-loop",
}  # unsafe on torch, where predict and fit draw a random number by themselves
LINTED = {"tensorflow": {*BOTH, *STEPS, "sequential-map", "eager-execution"}, "jax": BOTH | STEPS, "torch": BOTH}


def measured(text, name, line):
    """What is seen in a run only."""
    rule = find(name)
    number = next(number for number, each in enumerate(text.split("\n"), 1) if line in each)
    return Finding(rule.code, rule.name, rule.family, "", Where("train.py", number), (), None, "", fixable=True)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_an_edited_script_trains_as_it_did(tmp_path, backend, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    text = SCRIPTS[backend].lstrip("\n").replace("CHOSEN", backend)
    (tmp_path / "train.py").write_text(text)
    project = Project(tmp_path / "train.py", here=tmp_path)
    seen = [("single-worker-loader", line) for line in ("class Items", "class Rows") if line in text]
    seen += [("step-overhead", "tiny.fit")] if backend != "torch" else []
    seen += [("python-in-pipeline", "return np.array([float(each)")]
    if backend == "tensorflow":
        seen += [("per-example-work", "windows.flat_map"), ("repeated-preprocessing", "blobs.shuffle(99)")]
    if backend == "jax":
        seen += [("eager-execution", "loss, weights, rest, slots = step"), ("recompilation", "float(score(")]
    findings = [*findings_of(project), *(measured(text, name, line) for name, line in seen)]
    edits = [edit for edit in fixes(project, findings).edits if edit.safe]
    applied = apply(project, edits)
    assert {edit.finding.name for edit in applied.edits} == LINTED[backend] | {name for name, _ in seen}
    command = (sys.executable, "train.py")
    files = {each.name: each.encoded() for each in applied.after}
    with Workspace(tmp_path) as workspace:
        before, after = (
            workspace.run(Version(name, command, contents), time.monotonic() + 200)
            for name, contents in (("the script", {}), ("the edited script", files))
        )
    assert len(before.losses) >= len(after.losses) >= 2  # a training of one row is no fit any more
    assert before.weights
    assert sameness([before], [after]) in ("equal", "equal to rounding")
    assert sorted(os.listdir(tmp_path)) == ["train.py"]  # noqa: PTH208
    assert (tmp_path / "train.py").read_text() == text


ROUNDS = """
import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np

x = np.random.default_rng(0).random((4, 64, 8)).astype("float32")


def build():
    made = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.BatchNormalization()])
    made.compile("adam", "mse")
    return made


weights = None
for chunk in x:
    model = build()
    if weights is not None:
        model.set_weights(weights)
    model.fit(chunk, chunk[:, :4], epochs=2, verbose=0)
    weights = model.get_weights()
"""


def test_a_model_that_is_built_once_trains_as_one_that_every_round_builds_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    text = ROUNDS.lstrip("\n")
    (tmp_path / "train.py").write_text(text)
    project = Project(tmp_path / "train.py", here=tmp_path)
    (edit,) = fixes(project, [measured(text, "recompilation", "model.fit")]).edits
    assert edit.safe
    files = {each.name: each.encoded() for each in apply(project, [edit]).after}
    assert b"first_values" in files["train.py"]
    with Workspace(tmp_path) as workspace:
        before, after = (
            workspace.run(Version(name, (sys.executable, "train.py"), contents), time.monotonic() + 100)
            for name, contents in (("the script", {}), ("the edited script", files))
        )
    assert len(before.losses) == len(after.losses) == 4
    assert sameness([before], [after]) == "equal"
