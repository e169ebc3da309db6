import os
os.environ["KERAS_BACKEND"] = "torch"
import time

import numpy as np
import torch
import keras
from keras import layers

keras.utils.set_random_seed(224)
print("keras", keras.__version__, "torch", torch.__version__)
LOOKBACK = 96
UNITS = 64


def grid_load(hours=2600):
    t = np.arange(hours)
    rng = np.random.default_rng(224)
    daily = np.sin(2 * np.pi * t / 24)
    weekly = np.cos(2 * np.pi * t / 168)
    temp = 0.5 * np.sin(2 * np.pi * t / 24 - 1) + np.cumsum(rng.normal(0, 0.02, hours))
    load = daily + 0.4 * weekly - 0.3 * temp + 0.1 * rng.normal(size=hours)
    return np.stack([load, temp, daily, weekly], 1).astype("float32")


def windows(series):
    w = np.lib.stride_tricks.sliding_window_view(series, (LOOKBACK, series.shape[1]))[:-1, 0]
    return np.ascontiguousarray(w), series[LOOKBACK:, :1].copy()


class NativeLSTM(layers.Layer):
    def __init__(self, n_in, units, return_sequences=False, **kw):
        super().__init__(**kw)
        self.units = units
        self.return_sequences = return_sequences
        self.core = layers.TorchModuleWrapper(torch.nn.LSTM(n_in, units, batch_first=True))

    def call(self, x):
        seq, _ = self.core(x)
        return seq if self.return_sequences else seq[:, -1]

    def compute_output_shape(self, shape):
        return (shape[0], shape[1], self.units) if self.return_sequences else (shape[0], self.units)


def network(features):
    inp = keras.Input((LOOKBACK, features))
    h = NativeLSTM(features, UNITS, return_sequences=True)(inp)
    h = NativeLSTM(UNITS, UNITS)(h)
    h = layers.Dense(32, activation="relu")(h)
    return keras.Model(inp, layers.Dense(1)(h))


x, y = windows(grid_load())
model = network(x.shape[-1])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=3, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
