import os
os.environ["KERAS_BACKEND"] = "torch"
import time

import keras
import numpy as np
from keras import layers


def smooth(signals, width=9):
    pad = np.pad(signals, ((0, 0), (width // 2, width // 2), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(pad, width, axis=1)
    return np.median(windows, axis=-1).astype("float32")


class HeartNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = [layers.Conv1D(16, 7, strides=2, activation="relu"), layers.Conv1D(32, 7, strides=2, activation="relu")]
        self.pool = layers.GlobalAveragePooling1D()
        self.out = layers.Dense(2)

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return self.out(self.pool(x))


rng = np.random.default_rng(103)
signals = rng.normal(size=(1280, 256, 2)).astype("float32").cumsum(axis=1)
labels = rng.integers(0, 2, 1280)
model = HeartNet()
model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
t0 = time.time()
model.fit(smooth(signals), labels, batch_size=32, epochs=16, verbose=2)
print("train time: %.1f s" % (time.time() - t0))
