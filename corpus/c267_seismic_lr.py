import os
os.environ["KERAS_BACKEND"] = "jax"
import math
import time
import numpy as np
import keras
from keras import layers

EPOCHS = 8
TRACE = 256


def cosine(epoch, high=0.08, low=0.002):
    return low + 0.5 * (high - low) * (1 + math.cos(math.pi * epoch / EPOCHS))


def residual(x, filters):
    skip = x
    h = layers.Conv1D(filters, 5, padding="same")(x)
    h = layers.LayerNormalization()(h)
    h = layers.Activation("relu")(h)
    h = layers.Conv1D(filters, 5, padding="same")(h)
    if skip.shape[-1] != filters:
        skip = layers.Conv1D(filters, 1)(skip)
    return layers.Activation("relu")(layers.Add()([h, skip]))


def picker():
    inputs = keras.Input((TRACE, 3))
    h = layers.Conv1D(12, 7, strides=4, padding="same", activation="relu")(inputs)
    for filters in (12, 16, 16, 24, 24):
        h = residual(h, filters)
    h = layers.GlobalMaxPooling1D()(h)
    return keras.Model(inputs, layers.Dense(3, activation="softmax")(h))


def traces(n, seed=267):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    t = np.arange(TRACE)
    onset = rng.integers(40, 180, n)
    envelope = np.exp(-np.maximum(t[None] - onset[:, None], 0) / 30.0) * (t[None] >= onset[:, None])
    tone = np.sin(t[None] * (0.3 + 0.35 * kind[:, None]))
    x = envelope[..., None] * tone[..., None] * rng.uniform(0.6, 1.4, (n, 1, 3)) + rng.normal(0, 0.2, (n, TRACE, 3))
    return x.astype("float32"), kind


keras.utils.set_random_seed(267)
x, kind = traces(640)
model = picker()
model.compile(optimizer=keras.optimizers.SGD(cosine(0)), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

start = time.time()
for epoch in range(EPOCHS):
    rate = cosine(epoch)
    if epoch > 0:
        model.compile(optimizer=keras.optimizers.SGD(rate), loss="sparse_categorical_crossentropy",
                      metrics=["accuracy"])
    history = model.fit(x, kind, batch_size=32, initial_epoch=epoch, epochs=epoch + 1, verbose=0)
    print("epoch %d  lr %.4f  loss %.4f" % (epoch + 1, rate, history.history["loss"][-1]))
print("train time: %.2f s" % (time.time() - start))
