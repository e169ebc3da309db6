import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
import keras
from keras import layers


class GasReadings(Dataset):
    """Drift-corrected readings of a 64 channel sensor array; six gases."""

    def __init__(self, n, seed):
        g = np.random.default_rng(seed)
        centers = np.random.default_rng(99).normal(size=(6, 64))
        self.gas = g.integers(0, 6, size=n)
        conc = g.uniform(0.3, 1.5, size=(n, 1))
        x = centers[self.gas] * conc + 0.8 * g.normal(size=(n, 64))
        self.readings = torch.tensor(x, dtype=torch.float32)
        self.target = torch.tensor(self.gas, dtype=torch.int64)

    def __len__(self):
        return len(self.readings)

    def __getitem__(self, i):
        return self.readings[i], self.target[i]


def loader(ds, batch_size, shuffle):
    return DataLoader(ds, batch_size=batch_size, shuffle=shuffle, num_workers=0, drop_last=shuffle)


def classifier():
    return keras.Sequential([
        keras.Input((64,)),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.2),
        layers.Dense(64, activation="relu"),
        layers.Dense(6, activation="softmax"),
    ], name="enose")


def main(epochs=30):
    keras.utils.set_random_seed(11)
    train = loader(GasReadings(2048, 1), 64, True)
    model = classifier()
    model.compile(optimizer=keras.optimizers.Adam(1e-3),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.perf_counter()
    hist = model.fit(train, epochs=epochs, verbose=0)
    dt = time.perf_counter() - t0
    print("loss %.3f -> %.3f" % (hist.history["loss"][0], hist.history["loss"][-1]))
    print("train time: %.2f s" % dt)


if __name__ == "__main__":
    main()
