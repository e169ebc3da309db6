import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import keras
import numpy as np
from keras import layers


class Recommender:
    def __init__(self, items, workdir):
        self.items, self.workdir = items, workdir
        os.makedirs(workdir, exist_ok=True)
        self.model = keras.Sequential([
            keras.Input((items,)),
            layers.Dense(1200, activation="relu", name="encode"),
            layers.Dropout(0.3),
            layers.Dense(items, name="decode"),
        ])
        self.model.compile(keras.optimizers.Adam(1e-3), keras.losses.BinaryCrossentropy(from_logits=True))

    def callbacks(self):
        return [
            keras.callbacks.ModelCheckpoint(os.path.join(self.workdir, "weights.{epoch:03d}.keras")),
            keras.callbacks.TerminateOnNaN(),
        ]

    def train(self, clicks, epochs):
        t0 = time.time()
        self.model.fit(clicks, clicks, batch_size=64, epochs=epochs, callbacks=self.callbacks(), verbose=2)
        print("train time: %.1f s" % (time.time() - t0))


rng = np.random.default_rng(95)
clicks = (rng.random((384, 3000)) < 0.02).astype("float32")
Recommender(3000, "checkpoints").train(clicks, epochs=10)
