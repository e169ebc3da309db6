"""Day-ahead electricity load forecast: patch transformer over two weeks of hourly history."""
import argparse
import time

import numpy as np
import keras
from keras import layers, ops


def load_curves(n_series, hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    day = np.sin(2 * np.pi * t / 24 + rng.uniform(0, 6, (n_series, 1)))
    week = 0.5 * np.sin(2 * np.pi * t / 168 + rng.uniform(0, 6, (n_series, 1)))
    drift = np.cumsum(0.02 * rng.standard_normal((n_series, hours)), 1)
    return (day + week + drift + 0.1 * rng.standard_normal((n_series, hours))).astype("float32")


def windows(curves, history, horizon, stride):
    view = np.lib.stride_tricks.sliding_window_view(curves, history + horizon, axis=1)[:, ::stride]
    view = view.reshape(-1, history + horizon)
    mean = view[:, :history].mean(1, keepdims=True)
    view = view - mean
    return np.ascontiguousarray(view[:, :history]), np.ascontiguousarray(view[:, history:])


@keras.saving.register_keras_serializable()
class Patches(layers.Layer):
    def __init__(self, size, dim, **kw):
        super().__init__(**kw)
        self.size, self.dim = size, dim
        self.proj = layers.Dense(dim)

    def build(self, shape):
        self.count = shape[1] // self.size
        self.proj.build((None, self.count, self.size))
        self.pos = self.add_weight(shape=(self.count, self.dim), initializer="random_normal", name="pos")
        self.built = True

    def call(self, x):
        return self.proj(ops.reshape(x, (-1, self.count, self.size))) + self.pos


def forecaster(history, horizon, dim, heads, depth):
    inp = keras.Input((history,))
    x = Patches(8, dim)(inp)
    for _ in range(depth):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + layers.MultiHeadAttention(heads, dim // heads)(y, y)
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = x + layers.Dense(dim)(layers.Dense(2 * dim, activation="gelu")(y))
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(inp, layers.Dense(horizon)(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--depth", type=int, default=3)
    a = ap.parse_args()
    keras.utils.set_random_seed(2)

    x, y = windows(load_curves(24, 2400, 2), history=336, horizon=24, stride=12)
    model = forecaster(336, 24, a.dim, 4, a.depth)
    steps = len(x) // a.batch_size
    x, y = x[:steps * a.batch_size], y[:steps * a.batch_size]
    schedule = keras.optimizers.schedules.CosineDecay(1e-4, steps * a.epochs, warmup_target=1e-3, warmup_steps=steps // 2)
    model.compile(keras.optimizers.AdamW(schedule, weight_decay=1e-3, clipnorm=1.0), loss="mse", metrics=["mae"])
    t0 = time.time()
    model.fit(x, y, batch_size=a.batch_size, epochs=a.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
