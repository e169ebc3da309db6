import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import numpy as np
import keras
from keras import layers


def logs_of_machines(n, seed):
    r = np.random.default_rng(seed)
    code = np.random.default_rng(77).normal(size=(5, 16))
    state = r.integers(0, 5, n)
    x = r.normal(size=(n, 48, 16)).astype("float32")
    at = r.integers(0, 40, n)
    for i in range(n):
        x[i, at[i]:at[i] + 8] += 0.7 * code[state[i]]
    return x, state.astype("int32")


def block(h, dim, heads):
    a = layers.MultiHeadAttention(heads, dim // heads)(h, h)
    h = layers.LayerNormalization()(layers.Add()([h, a]))
    m = layers.Dense(2 * dim, activation="gelu")(h)
    return layers.LayerNormalization()(layers.Add()([h, layers.Dense(dim)(m)]))


def model_fn(dim=64):
    inp = keras.Input((48, 16))
    h = layers.Dense(dim)(inp)
    for _ in range(2):
        h = block(h, dim, 4)
    h = layers.GlobalAveragePooling1D()(h)
    return keras.Model(inp, layers.Dense(5, activation="softmax")(h))


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    x, y = logs_of_machines(6400, 3)
    xv, yv = logs_of_machines(640, 4)
    model = model_fn()
    model.compile(optimizer=keras.optimizers.AdamW(5e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    start = time.time()
    model.fit(x, y, batch_size=64, epochs=3, validation_data=(xv, yv), validation_batch_size=64, verbose=2, callbacks=[
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.LearningRateScheduler(lambda e, lr: lr * 0.8 if e else lr),
    ])
    print("train time: %.2f s" % (time.time() - start))
