"""Patch scorer for tissue slides, trained on the preemptible queue."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import time

import numpy as np
import keras
from keras import layers


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--state-dir", default="slide_state")
    return p.parse_args()


def load_features(n=4096, dim=768, classes=9, seed=320):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, dim))
    y = rng.integers(0, classes, n)
    x = centers[y] * 0.2 + rng.normal(size=(n, dim))
    return x.astype("float32"), y


def build(dim, classes):
    inp = keras.Input((dim,))
    h = inp
    for width in (1024, 1024, 512):
        h = layers.Dense(width, activation="gelu")(h)
        h = layers.LayerNormalization()(h)
    model = keras.Model(inp, layers.Dense(classes, activation="softmax")(h))
    model.compile(keras.optimizers.AdamW(3e-4), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    args = parse_args()
    x, y = load_features()
    model = build(x.shape[1], 9)
    guard = keras.callbacks.BackupAndRestore(args.state_dir, save_freq="epoch")
    t0 = time.time()
    model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs, callbacks=[guard], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
