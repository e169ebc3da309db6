"""A small training that is slow for three reasons: its loader, a callback, and validating too much."""

import importlib.util
import os
import time

if "KERAS_BACKEND" not in os.environ:
    for backend in ("tensorflow", "jax", "torch"):
        if importlib.util.find_spec(backend):
            os.environ["KERAS_BACKEND"] = backend
            break
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np


class Images(keras.utils.PyDataset):
    """Loads one batch at a time, as if from a slow disk."""

    def __init__(self, batches, seed):
        super().__init__()
        self.batches = batches
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        time.sleep(0.025)
        images = self.rng.random((32, 28, 28, 1), dtype="float32")
        return images, (images.mean(axis=(1, 2, 3)) > 0.5).astype("float32")


class LogToServer(keras.callbacks.Callback):
    """Sends every loss over the network; here the network is a pause."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.008)


model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy")
model.fit(Images(80, 1), validation_data=Images(30, 2), epochs=3, verbose=2, callbacks=[LogToServer()])
