# Flat price estimate from a floor-plan thumbnail and a row of facts about the flat.
import json
import os
import sqlite3
import tempfile
import time

import numpy as np
import keras
from keras import layers


class RunStore(keras.callbacks.Callback):
    """Keeps the story of a run (loss, distribution of the weights) in a sqlite file for the dashboard."""

    def __init__(self, path, bins=64):
        super().__init__()
        self.db = sqlite3.connect(path)
        self.db.execute("create table if not exists scalars (step integer, name text, value real)")
        self.db.execute("create table if not exists hist (step integer, name text, edges text, counts text, quantiles text)")
        self.bins = bins
        self.step = 0

    def snapshot(self, logs):
        for name, value in (logs or {}).items():
            self.db.execute("insert into scalars values (?, ?, ?)", (self.step, name, float(value)))
        for layer in self.model.layers:
            for w in layer.trainable_weights:
                values = keras.ops.convert_to_numpy(w).ravel()
                counts, edges = np.histogram(values, bins=self.bins)
                marks = np.percentile(values, [1, 25, 50, 75, 99])
                self.db.execute("insert into hist values (?, ?, ?, ?, ?)",
                                (self.step, w.path, json.dumps(edges.tolist()), json.dumps(counts.tolist()),
                                 json.dumps(marks.tolist())))
        self.db.commit()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1

    def on_epoch_end(self, epoch, logs=None):
        self.snapshot(logs)

    def on_train_end(self, logs=None):
        self.db.close()


def flats(n, seed):
    rng = np.random.default_rng(seed)
    facts = rng.standard_normal((n, 40)).astype("float32")
    plans = rng.random((n, 32, 32, 1)).astype("float32")
    plans[:, 8:24, 8:24] += facts[:, :1, None, None]
    price = facts[:, 0] * 2 + facts[:, 1:9].sum(1) * 0.3 + plans.mean((1, 2, 3))
    return plans, facts, price.astype("float32")[:, None]


def build():
    plan = keras.Input((32, 32, 1), name="plan")
    a = layers.Conv2D(16, 3, strides=2, activation="relu")(plan)
    a = layers.Conv2D(32, 3, strides=2, activation="relu")(a)
    a = layers.Flatten()(a)
    a = layers.Dense(192, activation="relu")(a)
    facts = keras.Input((40,), name="facts")
    b = layers.Dense(256, activation="relu")(facts)
    b = layers.Dense(256, activation="relu")(b)
    x = layers.Concatenate()([a, b])
    x = layers.Dense(256, activation="relu")(x)
    x = layers.Dropout(0.1)(x)
    return keras.Model([plan, facts], layers.Dense(1)(x))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    plans, facts, price = flats(6400, 0)
    model = build()
    model.compile(keras.optimizers.Adam(5e-4), loss="huber", metrics=["mae"])
    with tempfile.TemporaryDirectory() as tmp:
        store = RunStore(os.path.join(tmp, "run.sqlite"))
        t = time.time()
        model.fit([plans, facts], price, batch_size=64, epochs=5, verbose=2, callbacks=[store])
        t = time.time() - t
    print("train time: %.2f s" % t)
