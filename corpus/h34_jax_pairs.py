import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import keras
import numpy as np
from keras import layers, ops


def encoder():
    return keras.Sequential([
        keras.Input((32, 32, 1)),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(32),
    ])


def contrastive(y_true, distance):
    return ops.mean(y_true * ops.square(distance) + (1 - y_true) * ops.square(ops.maximum(1.0 - distance, 0.0)))


def pairs(pictures, labels, batch, seed):
    rng = np.random.default_rng(seed)
    while True:
        left, right = rng.integers(0, len(pictures), (2, batch))
        same = (labels[left] == labels[right]).astype("float32")[:, None]
        yield (pictures[left], pictures[right]), same


rng = np.random.default_rng(134)
pictures = rng.random((2000, 32, 32, 1)).astype("float32")
labels = rng.integers(0, 10, 2000)
a, b = keras.Input((32, 32, 1)), keras.Input((32, 32, 1))
net = encoder()
distance = ops.sqrt(ops.sum(ops.square(net(a) - net(b)), axis=1, keepdims=True) + 1e-6)
model = keras.Model((a, b), distance)
model.compile("adam", contrastive)
t0 = time.time()
model.fit(pairs(pictures, labels, 64, 0), steps_per_epoch=40, epochs=3, validation_data=pairs(pictures, labels, 64, 1),
          validation_steps=4, verbose=2)
print("train time: %.1f s" % (time.time() - t0))
