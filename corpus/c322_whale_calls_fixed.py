import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    clips: int = 256
    samples: int = 48000
    rate: int = 8000
    mels: int = 32
    batch: int = 32
    epochs: int = 7


cfg = Config()


def hydrophone(cfg):
    rng = np.random.default_rng(322)
    t = np.arange(cfg.samples) / cfg.rate
    y = rng.integers(0, 2, cfg.clips)
    x = rng.normal(scale=0.5, size=(cfg.clips, cfg.samples)).astype("float32")
    for i in np.flatnonzero(y):
        f0 = rng.uniform(100, 300)
        x[i] += np.sin(2 * np.pi * (f0 + 30 * t) * t)
    return x, y


class Features:
    """Log-mel at three resolutions, stacked as channels."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.sizes = (256, 512, 1024)
        self.banks = [tf.signal.linear_to_mel_weight_matrix(cfg.mels, s // 2 + 1, cfg.rate, 40.0, 3800.0)
                      for s in self.sizes]

    def __call__(self, wave, label):
        planes = []
        for size, bank in zip(self.sizes, self.banks):
            mag = tf.abs(tf.signal.stft(wave, size, 64, pad_end=True))
            planes.append(tf.math.log(tf.matmul(mag, bank) + 1e-4))
        feat = tf.stack(planes, -1)
        feat -= tf.reduce_mean(feat, axis=0, keepdims=True)
        return feat[::4], label


def pipeline(cfg):
    x, y = hydrophone(cfg)
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    ds = ds.map(Features(cfg), num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache().repeat()
    return ds.shuffle(cfg.clips).batch(cfg.batch).prefetch(tf.data.AUTOTUNE)


ds = pipeline(cfg)
model = keras.Sequential([
    keras.Input((188, cfg.mels, 3)),
    layers.Conv2D(8, 5, strides=2, activation="relu"),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(ds, steps_per_epoch=cfg.clips // cfg.batch, epochs=cfg.epochs, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
