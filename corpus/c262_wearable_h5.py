"""Activity classes from minute-level wearable records kept in one HDF5 file."""
import os
os.environ["KERAS_BACKEND"] = "jax"
import tempfile
import time
import h5py
import numpy as np
import keras
from keras import layers

MINUTES, CHANNELS, CLASSES = 360, 9, 5


def export(path, days=1024, rows_per_chunk=128, seed=262):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, days)
    t = np.linspace(0, 1, MINUTES, dtype="float32")
    with h5py.File(path, "w") as f:
        x = f.create_dataset("X", (days, MINUTES, CHANNELS), "float32",
                             chunks=(rows_per_chunk, MINUTES, CHANNELS), compression="gzip", compression_opts=1)
        f.create_dataset("y", data=label)
        for lo in range(0, days, 256):
            part = label[lo:lo + 256]
            wave = np.sin(2 * np.pi * (2 + part)[:, None, None] * t[None, :, None] + rng.random((len(part), 1, CHANNELS)) * 6)
            steps = np.round(wave * 8 + rng.normal(0, 3, (len(part), MINUTES, CHANNELS)))
            x[lo:lo + 256] = steps.astype("float32")


class LazyDays(keras.utils.PyDataset):
    """opens the file once and reads single days in a new order every epoch"""

    def __init__(self, path, batch_size, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.file = h5py.File(path, "r")
        self.labels = self.file["y"][:]
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.on_epoch_end()

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.labels))

    def __len__(self):
        return len(self.labels) // self.batch_size

    def __getitem__(self, i):
        ids = self.order[i * self.batch_size:(i + 1) * self.batch_size]
        x = np.empty((len(ids), MINUTES, CHANNELS), "float32")
        for k, d in enumerate(ids):
            x[k] = self.file["X"][d]
        return x / 8.0, self.labels[ids]


def build():
    inputs = keras.Input((MINUTES, CHANNELS))
    h = layers.Conv1D(24, 7, strides=2, activation="relu")(inputs)
    h = layers.Conv1D(32, 5, strides=2, activation="relu")(h)
    h = layers.GlobalAveragePooling1D()(h)
    return keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(h))


def main():
    keras.utils.set_random_seed(262)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "days.h5")
        export(path)
        model = build()
        model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        start = time.time()
        model.fit(LazyDays(path, 32), epochs=2, verbose=2)
        print("train time: %.2f s" % (time.time() - start))


if __name__ == "__main__":
    main()
