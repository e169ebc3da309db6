import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers, ops

STEPS, SENSORS, DIM = 64, 10, 128


def buoys(n, seed=121):
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 6.28, (n, 1, SENSORS))
    speed = rng.uniform(0.05, 0.4, (n, 1, 1))
    t = np.arange(STEPS)[None, :, None]
    x = np.sin(speed * t + phase) + rng.normal(0, 0.2, (n, STEPS, SENSORS))
    return x.astype("float32"), speed[:, 0].astype("float32") * 5


def stream(x, y, batch_size, seed):
    """endless batches; some sensors of some buoys fall silent"""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(x))
        for lo in range(0, len(x) - batch_size + 1, batch_size):
            rows = order[lo:lo + batch_size]
            alive = rng.random((batch_size, 1, SENSORS)) > 0.1
            yield x[rows] * alive.astype("float32"), y[rows]


class Position(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(shape[1], shape[2]), initializer="random_normal")

    def call(self, x):
        return x + self.table


class LossTrail(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.trail = []

    def on_train_batch_end(self, batch, logs=None):
        self.trail.append(float(logs["loss"]))


def encoder(blocks=2):
    inputs = keras.Input((STEPS, SENSORS))
    h = Position()(layers.Dense(DIM)(inputs))
    for _ in range(blocks):
        a = layers.MultiHeadAttention(4, DIM // 4)(h, h)
        h = layers.LayerNormalization()(h + a)
        m = layers.Dense(DIM)(layers.Dense(4 * DIM, activation="relu")(h))
        h = layers.LayerNormalization()(h + m)
    return keras.Model(inputs, layers.Dense(1)(ops.mean(h, axis=1)))


keras.utils.set_random_seed(121)
x, y = buoys(2048)
model = encoder()
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse")
trail = LossTrail()
started = time.time()
model.fit(stream(x, y, 64, seed=3), steps_per_epoch=32, epochs=4, callbacks=[trail], verbose=2)
print("mean of the last ten losses: %.4f" % np.mean(trail.trail[-10:]))
print("train time: %.2f s" % (time.time() - started))
