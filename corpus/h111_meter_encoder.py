"""Encoder over smart-meter weeks, with validation after each epoch."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import argparse
import time

import keras
import numpy as np
from keras import layers


def weeks(n, steps=56, channels=8, seed=111):
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, steps, channels)).astype("float32")
    y = x[:, -8:].mean(axis=(1, 2), keepdims=False)[:, None]
    return x, y


def encoder_block(x, dim, heads):
    a = layers.MultiHeadAttention(heads, dim // heads)(x, x)
    x = layers.LayerNormalization()(x + a)
    f = layers.Dense(2 * dim, activation="relu")(x)
    return layers.LayerNormalization()(x + layers.Dense(dim)(f))


def build(dim=96):
    inp = keras.Input((56, 8))
    x = layers.Dense(dim)(inp)
    for _ in range(2):
        x = encoder_block(x, dim, 4)
    return keras.Model(inp, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))


class Gap(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print("  gap %.4f" % (logs["val_loss"] - logs["loss"]))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    a = ap.parse_args()
    x, y = weeks(2560)
    xv, yv = weeks(256, seed=112)
    model = build()
    model.compile(keras.optimizers.Adam(1e-3), loss="mse")
    t0 = time.time()
    model.fit(x, y, batch_size=64, epochs=a.epochs, validation_data=(xv, yv), callbacks=[Gap()], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
