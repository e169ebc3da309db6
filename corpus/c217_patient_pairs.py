"""Siamese net on pairs of lab reports: same patient or not?"""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
from dataclasses import dataclass

import numpy as np
import keras
from keras import layers, ops


@dataclass
class Config:
    features: int = 14
    pairs: int = 10000
    batch_size: int = 4
    epochs: int = 6
    lr: float = 0.01


def make_pairs(cfg, seed=21):
    r = np.random.default_rng(seed)
    who = r.normal(size=(400, cfg.features)).astype("float32")
    a = r.integers(0, 400, cfg.pairs)
    same = r.random(cfg.pairs) < 0.5
    b = np.where(same, a, (a + r.integers(1, 400, cfg.pairs)) % 400)
    noise = lambda: 0.5 * r.normal(size=(cfg.pairs, cfg.features)).astype("float32")
    return who[a] + noise(), who[b] + noise(), same.astype("float32")[:, None]


def tower(cfg):
    i = keras.Input((cfg.features,))
    h = layers.Dense(24, activation="tanh")(i)
    return keras.Model(i, layers.Dense(8)(h), name="tower")


def siamese(cfg):
    left, right = keras.Input((cfg.features,), name="left"), keras.Input((cfg.features,), name="right")
    enc = tower(cfg)
    gap = layers.Lambda(lambda t: ops.abs(t[0] - t[1]), output_shape=(8,))([enc(left), enc(right)])
    return keras.Model([left, right], layers.Dense(1, activation="sigmoid")(gap))


cfg = Config()
left, right, same = make_pairs(cfg)
model = siamese(cfg)
model.compile(keras.optimizers.SGD(cfg.lr, momentum=0.9), "binary_crossentropy", metrics=["accuracy"])
tic = time.time()
model.fit([left, right], same, batch_size=cfg.batch_size, epochs=cfg.epochs, verbose=2)
print("train time: %.2f s" % (time.time() - tic))
