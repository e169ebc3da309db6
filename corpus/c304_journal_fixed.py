import os
os.environ["KERAS_BACKEND"] = "jax"
import json
import tempfile
import time

import numpy as np
import keras
from keras import layers


class Journal(keras.callbacks.Callback):
    """Keeps journal.json up to date for the page that shows the running jobs."""

    def __init__(self, folder, run, every=100):
        super().__init__()
        self.every = every
        self.path = os.path.join(folder, "journal.json")
        self.run = run
        self.curves = {}
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % self.every:
            return
        for name, value in (logs or {}).items():
            self.curves.setdefault(name, []).append(round(float(value), 6))
        self.publish(batch)

    def summary(self):
        return {
            name: {"last": curve[-1], "mean": float(np.mean(curve)), "worst": max(curve), "best": min(curve)}
            for name, curve in self.curves.items()
        }

    def publish(self, batch):
        state = {"run": self.run, "epoch": self.epoch, "batch": batch, "now": self.summary(), "curves": self.curves}
        with open(self.path + ".part", "w") as f:
            json.dump(state, f, indent=1)
        os.replace(self.path + ".part", self.path)


def energy_data(n=100000, seed=304):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 16)).astype("float32")
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=n)
    return x, y.astype("float32")


def regressor(widths):
    model = keras.Sequential([keras.Input((16,))])
    for w in widths:
        model.add(layers.Dense(w, activation="gelu"))
    model.add(layers.Dense(1))
    return model


def train(folder, config):
    x, y = energy_data()
    model = regressor(config["widths"])
    model.compile(optimizer=keras.optimizers.AdamW(config["rate"]), loss="mse", metrics=["mae"])
    journal = Journal(folder, run="energy-%d" % config["widths"][0])
    t0 = time.time()
    model.fit(x, y, batch_size=config["batch_size"], epochs=config["epochs"], callbacks=[journal], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        train(folder, {"widths": (128, 128), "rate": 1e-3, "batch_size": 100, "epochs": 4})
