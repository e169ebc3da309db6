import os
os.environ["KERAS_BACKEND"] = "jax"
import json
import sqlite3
import time

import keras
import numpy as np
from keras import layers


class Journal(keras.callbacks.Callback):
    """Writes everything about the run into a database so that the dashboard can follow it."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_begin(self, logs=None):
        self.db = sqlite3.connect(self.path)
        self.db.execute("create table if not exists batches (step integer, ts real, logs text)")
        self.db.execute("create table if not exists layers (step integer, layer text, hist text, norm real)")
        self.db.commit()
        self.step = 0

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self.db.execute("insert into batches values (?,?,?)",
                        (self.step, time.time(), json.dumps({k: float(v) for k, v in logs.items()})))
        for layer in self.model.layers:
            for w in layer.get_weights():
                hist, edges = np.histogram(w, bins=50)
                self.db.execute("insert into layers values (?,?,?,?)",
                                (self.step, layer.name, json.dumps([hist.tolist(), edges.tolist()]),
                                 float(np.linalg.norm(w))))
        self.db.commit()

    def on_train_end(self, logs=None):
        self.db.close()


def main():
    rng = np.random.default_rng(77)
    users, items = 3000, 2000
    n = 40000
    u, i = rng.integers(0, users, n), rng.integers(0, items, n)
    stars = rng.integers(1, 6, n).astype("float32")

    iu, ii = keras.Input((), dtype="int32"), keras.Input((), dtype="int32")
    eu = layers.Embedding(users, 32)(iu)
    ei = layers.Embedding(items, 32)(ii)
    h = layers.Concatenate()([eu, ei])
    h = layers.Dense(128, activation="relu")(h)
    h = layers.Dense(64, activation="relu")(h)
    model = keras.Model([iu, ii], layers.Dense(1)(h))
    model.compile("adam", "mse", metrics=["mae"])

    t0 = time.time()
    model.fit([u, i], stars, batch_size=256, epochs=6, verbose=2, callbacks=[Journal("run.db")])
    print("train time: %.2f s" % (time.time() - t0))


main()
