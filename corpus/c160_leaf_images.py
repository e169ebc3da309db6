import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(9)


def get_leaves(n, rng):
    """Small texture images, four species; a part of the labels is unreliable."""
    y = rng.integers(0, 4, n)
    yy, xx = np.mgrid[:32, :32] / 32.0
    ang = (y * np.pi / 4)[:, None, None] + rng.normal(0, 0.12, (n, 1, 1))
    freq = rng.uniform(4, 9, (n, 1, 1))
    img = np.sin(2 * np.pi * freq * (np.cos(ang) * xx + np.sin(ang) * yy) + rng.uniform(0, 6, (n, 1, 1)))
    img = img[..., None] + rng.normal(0, 1.0, (n, 32, 32, 3))
    wrong = rng.random(n) < 0.2
    y[wrong] = rng.integers(0, 4, wrong.sum())
    return img.astype("float32"), y.astype("int32")


def make_model():
    inputs = keras.Input((32, 32, 3))
    x = inputs
    for filters in (16, 32, 64):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(128, activation="relu")(x)
    outputs = layers.Dense(4, activation="softmax")(x)
    return keras.Model(inputs, outputs)


rng = np.random.default_rng(90)
x_train, y_train = get_leaves(960, rng)
x_val, y_val = get_leaves(240, rng)

model = make_model()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
history = model.fit(x_train, y_train, validation_data=(x_val, y_val), batch_size=32, epochs=25, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
print("best val_loss: %.4f" % min(history.history["val_loss"]))
