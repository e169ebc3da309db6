import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf

WINDOW, BATCH = 48, 64


def windowed_dataset(series, window_size, batch_size):
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(window_size + 1, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(window_size + 1))
    ds = ds.map(lambda w: (w[:-1], w[-1:, 0]))
    return ds.batch(batch_size).prefetch(1)


def get_model():
    inputs = keras.Input((WINDOW, 3))
    h = keras.layers.Conv1D(32, 5, activation="relu", padding="causal")(inputs)
    h = keras.layers.Conv1D(32, 5, activation="relu", strides=2)(h)
    h = keras.layers.Flatten()(h)
    outputs = keras.layers.Dense(1)(keras.layers.Dense(32, activation="relu")(h))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(1e-3), "huber", metrics=["mae"])
    return model


t = np.arange(14000)
rng = np.random.default_rng(93)
series = np.stack([np.sin(t / 24), np.cos(t / 168), rng.normal(size=t.size).cumsum() / 50], axis=1).astype("float32")
train = windowed_dataset(series, WINDOW, BATCH)
model = get_model()
start = time.time()
model.fit(train, epochs=4, verbose=2)
print("train time: %.1f s" % (time.time() - start))
