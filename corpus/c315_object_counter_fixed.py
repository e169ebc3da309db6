"""Counting seedlings in drone patches: density-map regression (Keras on PyTorch)."""
import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import time

import numpy as np
import torch
import keras
from keras import layers, ops
from torch.utils.data import DataLoader, TensorDataset

PER_PLANT = 50.0    # density units


class CountError(keras.metrics.Metric):
    """Mean absolute difference between the counted and the true number of plants."""

    def __init__(self, name="count_error", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        error = ops.abs(ops.sum(y_true, axis=(1, 2, 3)) - ops.sum(y_pred, axis=(1, 2, 3))) / PER_PLANT
        self.total.assign_add(ops.sum(error))
        self.count.assign_add(ops.cast(ops.shape(y_true)[0], "float32"))

    def result(self):
        return self.total / self.count

    def reset_state(self):
        self.total.assign(0.0)
        self.count.assign(0.0)


class KeepBest(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.best, self.weights = np.inf, None

    def on_epoch_end(self, epoch, logs=None):
        if logs["val_count_error"] < self.best:
            self.best = logs["val_count_error"]
            self.weights = self.model.get_weights()

    def on_train_end(self, logs=None):
        self.model.set_weights(self.weights)
        print("best val_count_error %.3f" % self.best)


def make_patches(n, size, seed):
    rng = np.random.default_rng(seed)
    images = rng.normal(0.4, 0.05, (n, size, size, 3)).astype("float32")
    density = np.zeros((n, size // 2, size // 2, 1), "float32")
    for i in range(n):
        for y, x in rng.integers(2, size - 2, (int(rng.integers(1, 9)), 2)):
            images[i, y - 1:y + 2, x - 1:x + 2, 1] += 0.5
            density[i, y // 2, x // 2, 0] += PER_PLANT
    return torch.from_numpy(images), torch.from_numpy(density)


def make_loader(args, split):
    sizes = {"train": (args.train_patches, 1), "val": (args.val_patches, 2)}
    n, seed = sizes[split]
    dataset = TensorDataset(*make_patches(n, args.size, seed))
    if split == "train":
        return DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
    return DataLoader(dataset, batch_size=args.eval_batch_size)


def make_model(size):
    inputs = keras.Input((size, size, 3))
    x = layers.Conv2D(12, 3, padding="same", activation="relu")(inputs)
    x = layers.MaxPooling2D()(x)
    for _ in range(3):
        skip = layers.Conv2D(16, 1)(x)
        x = layers.Conv2D(16, 3, padding="same")(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.Add()([x, skip])
    return keras.Model(inputs, layers.Conv2D(1, 1)(x))


def run(args):
    train, val = make_loader(args, "train"), make_loader(args, "val")
    model = make_model(args.size)
    model.compile(optimizer=keras.optimizers.Adam(args.lr), loss="mse", metrics=[CountError()])
    model.fit(train, validation_data=val, epochs=args.epochs, callbacks=[KeepBest()], verbose=2)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--train-patches", type=int, default=640)
    p.add_argument("--val-patches", type=int, default=320)
    p.add_argument("--size", type=int, default=40)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--eval-batch-size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--lr", type=float, default=4e-3)
    args = p.parse_args()
    t0 = time.time()
    run(args)
    print("train time: %.2f s" % (time.time() - t0))
