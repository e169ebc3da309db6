import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import numpy as np
import keras
from keras import layers, ops

WORDS, LENGTH = 3000, 64


def listings(n, seed=97):
    rng = np.random.default_rng(seed)
    value = np.random.default_rng(0).normal(size=WORDS)
    tok = rng.integers(1, WORDS, (n, LENGTH)).astype("int32")
    facts = rng.normal(size=(n, 10)).astype("float32")
    price = value[tok].mean(1) * 6 + facts[:, 0] - 0.5 * facts[:, 1] * facts[:, 2] + 0.1 * rng.normal(size=n)
    return tok, facts, price.astype("float32")[:, None]


class LossTrace(keras.callbacks.Callback):
    """Keeps the running loss for a plot."""

    def __init__(self):
        super().__init__()
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(logs["loss"])


def within_half(y_true, y_pred):
    return ops.mean(ops.cast(ops.abs(y_true - y_pred) < 0.5, "float32"), axis=-1)


class Tower(layers.Layer):
    def __init__(self, width, **kw):
        super().__init__(**kw)
        self.a = layers.Conv1D(width, 5, padding="same", activation="relu")
        self.b = layers.Conv1D(width, 5, padding="same")
        self.norm = layers.LayerNormalization()

    def call(self, x):
        return ops.relu(self.norm(x + self.b(self.a(x))))


def build(width=96):
    tok = keras.Input((LENGTH,), dtype="int32")
    facts = keras.Input((10,))
    h = layers.Embedding(WORDS, width)(tok)
    for _ in range(2):
        h = Tower(width)(h)
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Concatenate()([h, layers.Dense(32, activation="relu")(facts)])
    h = layers.Dense(64, activation="relu")(h)
    return keras.Model([tok, facts], layers.Dense(1)(h))


tok, facts, price = listings(6400)
model = build()
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="mse", metrics=["mae", within_half])
trace = LossTrace()
t0 = time.time()
model.fit(
    [tok, facts], price,
    batch_size=64, epochs=4, validation_split=0.08, verbose=2,
    callbacks=[trace, keras.callbacks.ReduceLROnPlateau(patience=3), keras.callbacks.TerminateOnNaN()],
)
print("train time: %.2f s" % (time.time() - t0))
