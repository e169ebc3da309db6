import argparse
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers


def houses(n, seed=4):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 60)).astype("float32")
    w = np.random.default_rng(0).normal(size=(60, 8))
    y = np.tanh(x @ w / 4).sum(1) + np.sin(x[:, 0] * 2) * x[:, 1]
    return x, (y + rng.normal(0, 0.1, n)).astype("float32")


def model(width):
    m = keras.Sequential([keras.Input((60,))])
    for _ in range(3):
        m.add(layers.Dense(width, activation="silu"))
        m.add(layers.Dropout(0.05))
    m.add(layers.Dense(1))
    m.compile(optimizer=keras.optimizers.Adam(3e-4), loss="mse", metrics=["mae"])
    return m


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=768)
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args(argv)
    x, y = houses(24_000)
    xv, yv = houses(2_400, seed=5)
    m = model(args.width)
    callbacks = [
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=4, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint("price_best.keras", monitor="val_loss", save_best_only=True),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=2, factor=0.5),
        keras.callbacks.CSVLogger("price_log.csv"),
    ]
    t0 = time.time()
    m.fit(x, y, validation_data=(xv, yv), batch_size=256, epochs=args.epochs, callbacks=callbacks)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
