"""Pool-based active learning: train on what is labelled, ask for the most uncertain molecules, repeat."""
import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time

import keras
import numpy as np
from keras import layers

BITS = 256


def fingerprints(n, rng):
    x = (rng.random((n, BITS)) < 0.15).astype("float32")
    rule = x[:, :20].sum(1) + 2 * x[:, 20] * x[:, 21] - x[:, 30:45].sum(1)
    return x, (rule > 0.5).astype("float32")


def net():
    m = keras.Sequential([
        keras.Input((BITS,)),
        layers.Dense(256, activation="relu"),
        layers.Dropout(0.2),
        layers.Dense(128, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])
    m.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
    return m


def uncertainty(model, pool):
    p = model.predict(pool, batch_size=256, verbose=0)[:, 0]
    return np.abs(p - 0.5)


rng = np.random.default_rng(12)
x, y = fingerprints(3600, rng)
x_test, y_test = fingerprints(1000, rng)
labelled = np.arange(2000)
pool = np.arange(2000, 3600)

model = net()
t0 = time.time()
for rnd in range(4):
    model.fit(x[labelled], y[labelled], batch_size=32, epochs=4, verbose=0)
    _, acc = model.evaluate(x_test, y_test, batch_size=500, verbose=0)
    print(f"round {rnd}: {len(labelled)} labelled, test accuracy {acc:.3f}")
    ask = pool[np.argsort(uncertainty(model, x[pool]))[:50]]
    labelled = np.concatenate([labelled, ask])
    pool = np.setdiff1d(pool, ask)
print("train time: %.2f s" % (time.time() - t0))
