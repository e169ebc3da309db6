import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers, ops


class LeakyCell(layers.Layer):
    """Leaky integrator unit with a learned time constant per neuron."""

    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.units = self.state_size = self.output_size = units

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], 2 * self.units), initializer="glorot_uniform")
        self.u = self.add_weight(shape=(self.units, 2 * self.units), initializer="orthogonal")
        self.b = self.add_weight(shape=(2 * self.units,), initializer="zeros")

    def call(self, x, states):
        h = states[0]
        z = ops.matmul(x, self.w) + ops.matmul(h, self.u) + self.b
        gate, cand = ops.split(z, 2, axis=-1)
        tau = ops.sigmoid(gate)
        h = (1 - tau) * h + tau * ops.tanh(cand)
        return h, [h]


class EcgNet(keras.Model):
    def __init__(self, units=48, classes=5):
        super().__init__()
        self.stem = layers.Conv1D(24, 5, strides=4, padding="same", activation="relu")
        self.cell = LeakyCell(units)
        self.head = layers.Dense(classes, activation="softmax")
        self.units = units

    def call(self, x):
        x = self.stem(x)
        h = ops.zeros((ops.shape(x)[0], self.units))
        outs = []
        for t in range(x.shape[1]):
            h, _ = self.cell(x[:, t], [h])
            outs.append(h)
        return self.head(ops.mean(ops.stack(outs, axis=1), axis=1))


def beats(n, length=240, seed=21):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 5, n)
    t = np.linspace(0, 1, length)
    centre = rng.uniform(0.3, 0.7, (n, 1))
    width = 0.02 + 0.015 * label[:, None]
    sig = np.exp(-((t - centre) ** 2) / (2 * width**2)) + rng.normal(0, 0.1, (n, length))
    return sig[..., None].astype("float32"), label.astype("int32")


x, y = beats(2048)
model = EcgNet()
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=4, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
