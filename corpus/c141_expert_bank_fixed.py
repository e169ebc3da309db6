import os
os.environ["KERAS_BACKEND"] = "torch"
import time

import numpy as np
import keras
from keras import layers, ops


class ExpertBank(layers.Layer):
    """Mixture of experts; every expert sees the batch, the gate blends them."""

    def __init__(self, n_experts, units, **kwargs):
        super().__init__(**kwargs)
        self.n_experts, self.units = n_experts, units

    def build(self, shape):
        self.w = self.add_weight(shape=(self.n_experts, shape[-1], self.units), name="w")
        self.b = self.add_weight(shape=(self.n_experts, self.units), initializer="zeros", name="b")
        self.gate = self.add_weight(shape=(shape[-1], self.n_experts), name="gate")

    def call(self, x):
        g = ops.softmax(ops.matmul(x, self.gate), axis=-1)
        h = ops.relu(ops.einsum("bi,kiu->bku", x, self.w) + self.b)
        return ops.sum(g[:, :, None] * h, axis=1)


class Forecaster(keras.Model):
    def __init__(self, horizon=12, n_experts=64):
        super().__init__()
        self.first = ExpertBank(n_experts, 32)
        self.second = ExpertBank(n_experts, 32)
        self.norm = layers.LayerNormalization()
        self.head = layers.Dense(horizon)

    def call(self, x):
        h = self.norm(self.first(x))
        return self.head(h + self.second(h))


def demand(n=6400, window=48, horizon=12):
    rng = np.random.default_rng(31)
    t = rng.uniform(0, 100, (n, 1)) + np.arange(window + horizon)
    s = np.sin(t / 3.8) + 0.5 * np.sin(t / 26.7) + 0.1 * rng.normal(size=t.shape)
    return s[:, :window].astype("float32"), s[:, window:].astype("float32")


x, y = demand()
model = Forecaster()
model.compile(keras.optimizers.Adam(2e-3), "mse")
t0 = time.time()
model.fit(x, y, batch_size=32, epochs=2, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
