"""Keyword spotting on precomputed features. Little labelled data, and a large recorded hold-out set."""
import os
os.environ["KERAS_BACKEND"] = "jax"
import time
from dataclasses import dataclass

import numpy as np
import keras
from keras import layers


@dataclass
class Config:
    frames: int = 60
    coeffs: int = 24
    words: int = 10
    n_train: int = 1024
    n_holdout: int = 14000
    batch_size: int = 64
    epochs: int = 6
    seed: int = 12


def features(cfg, n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, cfg.words, n)
    x = rng.normal(size=(n, cfg.frames, cfg.coeffs)).astype("float32")
    x[np.arange(n), y * 3] += 1.5
    return x, y


def tcn(cfg):
    inp = keras.Input((cfg.frames, cfg.coeffs))
    h = layers.Conv1D(48, 1)(inp)
    for d in (1, 2, 4, 8):
        r = layers.Conv1D(48, 3, dilation_rate=d, padding="causal", activation="relu")(h)
        r = layers.SpatialDropout1D(0.1)(r)
        h = layers.LayerNormalization()(layers.Add()([h, r]))
    h = layers.GlobalMaxPooling1D()(h)
    return keras.Model(inp, layers.Dense(cfg.words, activation="softmax")(h))


def train(cfg):
    x, y = features(cfg, cfg.n_train, cfg.seed)
    xv, yv = features(cfg, cfg.n_holdout, cfg.seed + 1)
    model = tcn(cfg)
    model.compile(keras.optimizers.AdamW(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping("val_loss", patience=10)
    t0 = time.time()
    model.fit(x, y, batch_size=cfg.batch_size, epochs=cfg.epochs, validation_data=(xv[:512], yv[:512]), callbacks=[stop], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
    print("hold-out:", model.evaluate(xv, yv, batch_size=256, verbose=0))
    return model


if __name__ == "__main__":
    train(Config())
