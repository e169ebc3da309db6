import os
os.environ["KERAS_BACKEND"] = "jax"
import math
import time
import numpy as np
import keras
from keras import layers

BATCH, FEATURES, STEPS, EPOCHS = 256, 512, 60, 4


class Archive:
    """Shards of sensor readings on a mounted share."""

    def __init__(self, shards, latency, seed):
        rng = np.random.default_rng(seed)
        self.latency = latency
        self.x = rng.normal(size=(shards, BATCH, FEATURES)).astype("float32")
        w = rng.normal(size=(FEATURES, 1)).astype("float32") / np.sqrt(FEATURES)
        self.y = self.x @ w

    def fetch(self, shard):
        time.sleep(self.latency)
        return self.x[shard], self.y[shard]


def stream(archive, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        for shard in rng.permutation(len(archive.x)):
            yield archive.fetch(shard)


class Regressor(keras.Model):
    def __init__(self, width, depth, **kwargs):
        super().__init__(**kwargs)
        self.hidden = [layers.Dense(width, activation="relu") for _ in range(depth)]
        self.head = layers.Dense(1)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.head(x)


class Guard(keras.callbacks.Callback):
    def check(self, logs):
        if not math.isfinite((logs or {}).get("loss", 0.0)):
            self.model.stop_training = True

    def on_train_batch_end(self, batch, logs=None):
        self.check(logs)


model = Regressor(width=896, depth=3)
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="mse")
archive = Archive(shards=60, latency=0.028, seed=605)
t0 = time.time()
model.fit(stream(archive), steps_per_epoch=STEPS, epochs=EPOCHS, callbacks=[Guard()], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
