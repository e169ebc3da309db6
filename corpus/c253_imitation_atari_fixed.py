"""Behaviour cloning from recorded 42x42 frames, Nature-style body."""
import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time

import numpy as np
import keras
from keras import layers

from lib_deeprl import Logger, random_seed


class NatureBody(layers.Layer):
    def __init__(self, feature_dim=256, **kwargs):
        super().__init__(**kwargs)
        self.conv1 = layers.Conv2D(48, 5, padding="same", activation="relu")
        self.conv2 = layers.Conv2D(64, 4, strides=2, activation="relu")
        self.conv3 = layers.Conv2D(64, 3, activation="relu")
        self.flat = layers.Flatten()
        self.fc = layers.Dense(feature_dim, activation="relu")

    def call(self, x):
        x = self.conv3(self.conv2(self.conv1(x)))
        return self.fc(self.flat(x))


class CategoricalPolicy(keras.Model):
    def __init__(self, action_dim, body):
        super().__init__()
        self.body = body
        self.fc_action = layers.Dense(action_dim)

    def call(self, obs):
        return self.fc_action(self.body(obs))


class Demonstrations:
    """An expert that always steps towards the brightest quarter of the screen."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.obs = rng.random((n, 42, 42, 4), dtype="float32") * 0.5
        self.actions = rng.integers(0, 4, n)
        for frame, a in zip(self.obs, self.actions):
            r, c = divmod(int(a), 2)
            frame[r * 21:r * 21 + 21, c * 21:c * 21 + 21] += 0.15


def run(tag, seed=253, epochs=4):
    random_seed(seed)
    log = Logger(tag)
    demos = Demonstrations(768, seed)
    agent = CategoricalPolicy(4, NatureBody())
    agent.compile(
        optimizer=keras.optimizers.RMSprop(2.5e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    t0 = time.time()
    hist = agent.fit(demos.obs, demos.actions, batch_size=32, epochs=epochs, verbose=2)
    elapsed = time.time() - t0
    log.info("accuracy %.3f", hist.history["accuracy"][-1])
    return elapsed


if __name__ == "__main__":
    print("train time: %.2f s" % run("bc-quarter"))
