"""Predict an unordered set of five particle momenta from a calorimeter image."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import itertools
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SLOTS, DIM = 5, 3
ORDERS = list(itertools.permutations(range(SLOTS)))


def events(n=2560, side=24, seed=327):
    rng = np.random.default_rng(seed)
    sets = rng.uniform(0, 1, (n, SLOTS, DIM)).astype("float32")
    img = np.zeros((n, side, side, 1), "float32")
    for k in range(SLOTS):
        r = (sets[:, k, 0] * (side - 1)).astype(int)
        c = (sets[:, k, 1] * (side - 1)).astype(int)
        img[np.arange(n), r, c, 0] += sets[:, k, 2]
    return img, sets


def assign(cost):
    flat = [[r * SLOTS + c for r, c in enumerate(order)] for order in ORDERS]
    totals = tf.reduce_sum(tf.gather(tf.reshape(cost, (-1, SLOTS * SLOTS)), flat, axis=1), -1)
    return tf.gather(tf.constant(ORDERS), tf.argmin(totals, axis=1))


class SetLoss(keras.losses.Loss):
    def call(self, y_true, y_pred):
        cost = tf.reduce_sum(tf.square(y_pred[:, :, None] - y_true[:, None]), -1)
        match = assign(tf.stop_gradient(cost))
        picked = tf.gather(y_true, match, batch_dims=1)
        return tf.reduce_mean(tf.square(y_pred - picked), axis=(1, 2))


def build():
    inp = keras.Input((24, 24, 1))
    x = layers.Conv2D(16, 3, activation="relu")(inp)
    x = layers.Conv2D(32, 3, strides=2, activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(96, activation="relu")(x)
    x = layers.Dense(SLOTS * DIM, activation="sigmoid")(x)
    return keras.Model(inp, layers.Reshape((SLOTS, DIM))(x))


def main():
    img, sets = events()
    model = build()
    model.compile(optimizer="adam", loss=SetLoss())
    t0 = time.time()
    model.fit(img, sets, batch_size=64, epochs=5, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


main()
