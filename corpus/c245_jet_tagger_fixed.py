import os
os.environ.setdefault("KERAS_BACKEND", "jax")

import argparse
import tempfile
import time

import keras
import numpy as np

from lib_runlog_fixed import RunLog


def toy_jets(n, constituents=24, features=6, seed=245):
    gen = np.random.default_rng(seed)
    jets = gen.normal(size=(n, constituents, features)).astype(np.float32)
    signal = gen.random(n) < 0.5
    jets[signal, :6] *= 1.3
    return jets, signal.astype(np.float32)


class DeepSet(keras.Model):
    def __init__(self, phi=(64, 64), rho=(512, 256)):
        super().__init__()
        self.phi = [keras.layers.Dense(u, activation="gelu") for u in phi]
        self.rho = [keras.layers.Dense(u, activation="gelu") for u in rho]
        self.head = keras.layers.Dense(1, activation="sigmoid")

    def call(self, x):
        for layer in self.phi:
            x = layer(x)
        x = keras.ops.mean(x, axis=1)
        for layer in self.rho:
            x = layer(x)
        return self.head(x)


def parse_args():
    p = argparse.ArgumentParser(description="jet tagging with a deep set")
    p.add_argument("--jets", type=int, default=25600)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--lr", type=float, default=5e-4)
    return p.parse_args()


def main():
    cfg = parse_args()
    keras.utils.set_random_seed(245)
    x, y = toy_jets(cfg.jets)
    net = DeepSet()
    net.compile(optimizer=keras.optimizers.AdamW(cfg.lr), loss="binary_crossentropy", metrics=["accuracy"])
    log = os.path.join(tempfile.mkdtemp(prefix="jets_"), "run.jsonl")
    t0 = time.monotonic()
    net.fit(x, y, batch_size=cfg.batch, epochs=cfg.epochs, verbose=2, callbacks=[RunLog(log)])
    dt = time.monotonic() - t0
    print("log:", os.path.getsize(log) // 1024, "kB")
    print("train time: %.2f s" % dt)


if __name__ == "__main__":
    main()
