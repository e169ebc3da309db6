"""Predict bearing temperature from windows of turbine sensor data.

The export job leaves the windows in compressed .npz parts, one per wind park.
"""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import glob
import tempfile
import time

import numpy as np
import keras
from keras import layers


def export_parts(folder, parts=4, rows=2048, seed=0):
    rng = np.random.default_rng(seed)
    for p in range(parts):
        drift = rng.normal(size=(rows, 96, 8)).astype("float32").cumsum(axis=1)
        x = np.round(drift / 4.0, 2).astype("float32")
        w = np.linspace(-1, 1, 96, dtype="float32")[:, None]
        y = (x * w).mean(axis=1)[:, :2].sum(axis=1)
        np.savez_compressed(os.path.join(folder, "park_%02d.npz" % p), x=x, y=y.astype("float32"))


class ParkWindows(keras.utils.PyDataset):
    def __init__(self, files, rows, batch_size=64, seed=1, **kw):
        super().__init__(**kw)
        self.files = sorted(files)
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.per_file = rows // batch_size
        self.index = [(f, i) for f in range(len(self.files)) for i in range(self.per_file)]
        self.on_epoch_end()

    def __len__(self):
        return len(self.index)

    def __getitem__(self, k):
        f, i = self.index[k]
        rows = slice(i * self.batch_size, (i + 1) * self.batch_size)
        with np.load(self.files[f]) as part:
            return part["x"][rows], part["y"][rows]

    def on_epoch_end(self):
        self.rng.shuffle(self.index)


def network():
    inp = keras.Input((96, 8))
    h = layers.Conv1D(32, 7, padding="same", activation="relu")(inp)
    h = layers.MaxPooling1D(2)(h)
    h = layers.Conv1D(48, 5, padding="same", activation="relu")(h)
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dense(32, activation="relu")(h)
    return keras.Model(inp, layers.Dense(1)(h))


if __name__ == "__main__":
    folder = tempfile.mkdtemp(prefix="turbines_")
    export_parts(folder)
    model = network()
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    start = time.time()
    data = ParkWindows(glob.glob(os.path.join(folder, "*.npz")), rows=2048)
    model.fit(data, epochs=3, verbose=2)
    print("train time: %.2f s" % (time.time() - start))
