import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
import keras
from keras import layers


class ValveBlocks(Dataset):
    """One item is a ready batch of windows over the plant's history, which is held in memory."""

    def __init__(self, series, fault, starts, window, per_batch):
        self.series = series
        self.fault = fault
        self.starts = starts
        self.window = window
        self.per_batch = per_batch

    def __len__(self):
        return len(self.starts) // self.per_batch

    def __getitem__(self, i):
        s = self.starts[i * self.per_batch:(i + 1) * self.per_batch]
        rows = s[:, None] + np.arange(self.window)
        return torch.from_numpy(self.series[rows]), torch.from_numpy(self.fault[s + self.window])


def plant(n=60000, channels=12, seed=225):
    rng = np.random.default_rng(seed)
    drift = np.cumsum(rng.normal(0, 0.01, (n, channels)), axis=0)
    wave = np.sin(np.arange(n)[:, None] * rng.uniform(0.01, 0.2, channels))
    x = (wave + drift + 0.1 * rng.normal(size=(n, channels))).astype("float32")
    energy = np.convolve((x ** 2).mean(1), np.ones(50) / 50, mode="same")
    return x, (energy > np.median(energy)).astype("float32")[:, None]


def get_loader(ds, shuffle, opt):
    return DataLoader(ds, batch_size=None, shuffle=shuffle, num_workers=opt.workers)


def net(window, channels):
    return keras.Sequential([
        keras.Input((window, channels)),
        layers.Conv1D(24, 7, strides=2, activation="relu"),
        layers.Conv1D(32, 5, strides=2, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(32, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--workers", type=int, default=0)
    ap.add_argument("--epochs", type=int, default=22)
    ap.add_argument("--window", type=int, default=120)
    ap.add_argument("--batch", type=int, default=128)
    opt = ap.parse_args()

    x, y = plant()
    rng = np.random.default_rng(0)
    starts = rng.permutation(len(x) - opt.window - 1)[:4352]
    train = ValveBlocks(x, y, starts[:3840], opt.window, opt.batch)
    test = ValveBlocks(x, y, starts[3840:], opt.window, opt.batch)
    model = net(opt.window, x.shape[1])
    model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="binary_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(
        get_loader(train, True, opt),
        validation_data=get_loader(test, False, opt),
        epochs=opt.epochs,
        verbose=2,
    )
    print("train time: %.2f s" % (time.time() - t0))
