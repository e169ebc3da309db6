"""Training on preemptible machines: keep a backup so that a restart goes on where it stopped."""
import argparse
import os
import time

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
import keras
from keras import layers


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--backup-dir", default="backup")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=32)
    return p.parse_args()


def load_expression(n=4800, genes=1000, types=20):
    rng = np.random.default_rng(61)
    x = np.log1p(rng.gamma(0.6, 2.0, (n, genes))).astype("float32")
    return x, rng.integers(0, types, n)


def build(genes, types):
    model = keras.Sequential(name="cell_types")
    model.add(keras.Input((genes,)))
    model.add(layers.Dense(1024, activation="relu"))
    model.add(layers.BatchNormalization())
    model.add(layers.Dense(512, activation="relu"))
    model.add(layers.Dropout(0.4))
    model.add(layers.Dense(types, activation="softmax"))
    return model


def main():
    args = get_args()
    x, y = load_expression()
    model = build(x.shape[1], 20)
    model.compile(keras.optimizers.SGD(0.02, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [
        keras.callbacks.BackupAndRestore(args.backup_dir, save_freq="epoch"),
        keras.callbacks.CSVLogger("history.csv"),
    ]
    t0 = time.time()
    model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs, callbacks=callbacks, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
