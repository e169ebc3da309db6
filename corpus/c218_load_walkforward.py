"""Hourly electric load, weekly refit on everything seen so far (expanding window)."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import numpy as np
import keras
from keras import layers

HOURS = 24
BATCH = 64


class LoadHistory:
    def __init__(self, n=1600, seed=12):
        r = np.random.default_rng(seed)
        t = np.arange(n + HOURS + 1)
        load = 1.0 + 0.3 * np.sin(2 * np.pi * t / 24) + 0.1 * np.sin(2 * np.pi * t / 168)
        load = load + 0.05 * r.normal(size=t.size).cumsum() / 6 + 0.03 * r.normal(size=t.size)
        temp = 15 + 8 * np.sin(2 * np.pi * (t - 3) / 24) + r.normal(size=t.size)
        table = np.stack([load, temp / 20.0, np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24),
                          (t // 24 % 7 >= 5).astype(float)], axis=1).astype("float32")
        self.x = np.stack([table[i:i + HOURS] for i in range(n)])
        self.y = table[HOURS:HOURS + n, 0]


def forecaster():
    inp = keras.Input((HOURS, 5))
    h = layers.GRU(48, return_sequences=True)(inp)
    h = layers.GRU(32)(h)
    h = layers.Dense(16, activation="relu")(h)
    model = keras.Model(inp, layers.Dense(1)(h))
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse")
    return model


def backtest(hist, first=600, stride=50, rounds=12, epochs=2):
    model = forecaster()
    errors = []
    for k in range(rounds):
        end = first + k * stride
        model.fit(hist.x[:end], hist.y[:end], batch_size=BATCH, epochs=epochs, verbose=0)
        ahead = model.predict(hist.x[end:end + stride], batch_size=BATCH, verbose=0)[:, 0]
        mae = float(np.abs(ahead - hist.y[end:end + stride]).mean())
        errors.append(mae)
        print("round %2d  n=%4d  mae=%.4f" % (k, end, mae))
    return float(np.mean(errors))


if __name__ == "__main__":
    keras.utils.set_random_seed(2)
    hist = LoadHistory()
    t0 = time.time()
    score = backtest(hist)
    print("mean mae %.4f" % score)
    print("train time: %.2f s" % (time.time() - t0))
