#!/usr/bin/env python
"""Keyword spotting on log-mel patches."""
import logging
import time

import keras
import numpy as np
from keras import layers

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("kws")

CONFIG = {
    "mels": 40,
    "frames": 50,
    "keywords": 12,
    "train_clips": 4096,
    "heldout_clips": 12288,
    "batch_size": 64,
    "epochs": 5,
    "lr": 1e-3,
}


class Corpus:
    """Clips of made-up formant tracks: (frames, mels, 1) and a keyword id."""

    def __init__(self, cfg, seed=77):
        self.cfg = cfg
        self.rng = np.random.default_rng(seed)
        k, f = cfg["keywords"], cfg["frames"]
        t = np.linspace(0, 1, f)
        base = self.rng.uniform(8, cfg["mels"] - 8, size=(k, 3, 1))
        slope = self.rng.uniform(-8, 8, size=(k, 3, 1))
        self.tracks = base + slope * t                       # (k, 3, frames)

    def clips(self, n):
        c = self.cfg
        y = self.rng.integers(0, c["keywords"], n)
        tr = self.tracks[y] + self.rng.normal(0, 1.5, size=(n, 3, 1))
        mel = np.arange(c["mels"])
        x = self.rng.normal(0, 0.8, size=(n, c["frames"], c["mels"])).astype("float32")
        for j in range(3):
            x += np.exp(-0.5 * (mel - tr[:, j, :, None]) ** 2 / 2.0).astype("float32")
        return x[..., None], y


def ds_block(x, filters, stride):
    x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    x = layers.ReLU()(x)
    x = layers.Conv2D(filters, 1, use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)
    return layers.ReLU()(x)


def build(cfg):
    inp = keras.Input((cfg["frames"], cfg["mels"], 1))
    x = layers.Conv2D(32, (10, 4), strides=2, padding="same", activation="relu")(inp)
    for filters, stride in ((48, 1), (64, 2), (64, 1)):
        x = ds_block(x, filters, stride)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    out = layers.Dense(cfg["keywords"], activation="softmax")(x)
    m = keras.Model(inp, out, name="ds_cnn")
    m.compile(keras.optimizers.Adam(cfg["lr"]), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        log.info("epoch %d  loss %.3f  acc %.3f | heldout loss %.3f  acc %.3f", epoch + 1, logs["loss"], logs["accuracy"],
                 logs["val_loss"], logs["val_accuracy"])


def main():
    keras.utils.set_random_seed(4)
    corpus = Corpus(CONFIG)
    train = corpus.clips(CONFIG["train_clips"])
    heldout = corpus.clips(CONFIG["heldout_clips"])
    watched = heldout[0][:128], heldout[1][:128]
    model = build(CONFIG)
    log.info("%d parameters", model.count_params())
    t0 = time.monotonic()
    model.fit(*train, batch_size=CONFIG["batch_size"], epochs=CONFIG["epochs"], verbose=0, validation_data=watched,
              callbacks=[Report()])
    took = time.monotonic() - t0
    log.info("final heldout: %s", model.evaluate(*heldout, batch_size=256, verbose=0, return_dict=True))
    print(f"train time: {took:.2f} s")


if __name__ == "__main__":
    main()
