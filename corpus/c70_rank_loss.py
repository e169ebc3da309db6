import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf
from keras import layers

rng = np.random.default_rng(70)
docs = rng.random((3000, 20)).astype("float32")
rel = rng.integers(0, 5, (3000, 1)).astype("float32")


def rank_weights(y_true):
    """How many of the batch each document should stand before."""
    values = y_true.numpy().ravel().tolist()
    out = []
    for a in values:
        out.append(sum(1.0 for b in values if a > b))
    return np.array(out, "float32").reshape(-1, 1)


class RankWeighted(keras.losses.Loss):
    def call(self, y_true, y_pred):
        w = tf.py_function(rank_weights, [y_true], tf.float32)
        w = tf.reshape(w, tf.shape(y_true))
        return tf.reduce_mean((1.0 + w) * tf.square(y_true - y_pred), axis=-1)


inp = keras.Input((20,))
x = layers.Dense(64, activation="relu")(inp)
x = layers.Dense(32, activation="relu")(x)
ranker = keras.Model(inp, layers.Dense(1)(x))
ranker.compile("adam", RankWeighted())
ranker.fit(docs, rel, batch_size=200, epochs=40, verbose=0)
