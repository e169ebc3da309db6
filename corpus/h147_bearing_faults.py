"""Bearing fault diagnosis from vibration windows (Keras on PyTorch, DataLoader)."""
import os
os.environ["KERAS_BACKEND"] = "torch"
import tempfile
import time

import numpy as np
import torch
import keras
from keras import layers
from torch.utils.data import DataLoader, TensorDataset

SETTINGS = {"window": 512, "channels": 3, "faults": 6, "batch_size": 64, "epochs": 3}


def vibrations(n, s, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(s["window"]) / s["window"]
    fault = rng.integers(0, s["faults"], n)
    tone = np.sin(2 * np.pi * (12 + 9 * fault)[:, None] * t + rng.uniform(0, 6, (n, 1)))
    gain = rng.uniform(0.2, 1.0, (n, 1, s["channels"]))
    signal = tone[..., None] * gain + rng.normal(0, 1.5, (n, s["window"], s["channels"]))
    return torch.from_numpy(signal.astype("float32")), torch.from_numpy(fault)


def separable_stage(x, filters, dilation):
    y = layers.Conv1D(filters, 9, dilation_rate=dilation, padding="same", activation="relu")(x)
    y = layers.BatchNormalization()(y)
    y = layers.Conv1D(filters, 5, padding="same", activation="relu")(y)
    return layers.MaxPooling1D(2)(y)


def diagnose(s):
    inputs = keras.Input((s["window"], s["channels"]))
    x = inputs
    for filters, dilation in [(32, 1), (48, 2), (64, 1)]:
        x = separable_stage(x, filters, dilation)
    x = layers.GlobalMaxPooling1D()(x)
    return keras.Model(inputs, layers.Dense(s["faults"], activation="softmax")(x))


class Timekeeper(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.started = time.time()

    def on_epoch_end(self, epoch, logs=None):
        print("  epoch %d took %.1f s" % (epoch + 1, time.time() - self.started))


def main(s):
    train = DataLoader(TensorDataset(*vibrations(4608, s, 1)), batch_size=s["batch_size"], shuffle=True, drop_last=True)
    val = DataLoader(TensorDataset(*vibrations(256, s, 2)), batch_size=128)
    model = diagnose(s)
    model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [
        Timekeeper(),
        keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint(os.path.join(tempfile.mkdtemp(), "bearing.keras"), save_best_only=True),
    ]
    t0 = time.time()
    model.fit(train, validation_data=val, epochs=s["epochs"], callbacks=callbacks, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main(SETTINGS)
