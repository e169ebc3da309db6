import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import keras
import numpy as np


class Forecaster:
    def __init__(self, inputs):
        self.model = keras.Sequential([
            keras.Input((inputs,)),
            keras.layers.Dense(96, activation="tanh"),
            keras.layers.Dense(96, activation="tanh"),
            keras.layers.Dense(1),
        ])
        self.model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse")
        self.errors = []

    def learn(self, day_x, day_y):
        for _ in range(2):
            losses = [self.model.train_on_batch(day_x[i:i + 24], day_y[i:i + 24]) for i in range(0, len(day_x), 24)]
        self.errors.append(np.mean(losses))


def days(count, seed=99):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.normal(size=(96, 20)).astype("float32")
        yield x, np.tanh(x[:, :1] - x[:, 1:2])


t0 = time.time()
forecaster = Forecaster(20)
for x, y in days(300):
    forecaster.learn(x, y)
print("mean error of the last days", np.mean(forecaster.errors[-20:]))
print("train time: %.1f s" % (time.time() - t0))
