import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import keras
import numpy as np


def sample_pairs(users, items, ratings, batch, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.integers(0, len(ratings), batch)
        yield (users[rows], items[rows]), ratings[rows]


def two_towers():
    user = keras.Input((32,))
    item = keras.Input((32,))
    u = keras.layers.Dense(128, activation="relu")(user)
    v = keras.layers.Dense(128, activation="relu")(item)
    h = keras.layers.Concatenate()([u, v])
    h = keras.layers.Dense(128, activation="relu")(h)
    return keras.Model((user, item), keras.layers.Dense(1)(h))


rng = np.random.default_rng(98)
n = 36000
users, items = rng.random((n, 32)).astype("float32"), rng.random((n, 32)).astype("float32")
ratings = (users * items).sum(axis=1, keepdims=True)
held_out = slice(0, 24000)
rest = slice(24000, n)
model = two_towers()
model.compile("adam", "mse", metrics=["mae"])
stop = keras.callbacks.ReduceLROnPlateau(patience=6)
start = time.time()
model.fit(sample_pairs(users[rest], items[rest], ratings[rest], 256), steps_per_epoch=30, epochs=12,
          validation_data=((users[held_out], items[held_out]), ratings[held_out]), callbacks=[stop], verbose=2)
print("train time: %.1f s" % (time.time() - start))
