import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import time

import numpy as np
import keras
from keras import layers, ops


def spectra(n, bins=1024, seed=17):
    r = np.random.default_rng(seed)
    axis = np.linspace(0.0, 1.0, bins)
    clean = np.zeros((n, bins), "float32")
    for _ in range(6):
        mu = r.uniform(0.05, 0.95, (n, 1))
        sd = r.uniform(0.005, 0.03, (n, 1))
        clean += (r.uniform(0.2, 1.0, (n, 1)) * np.exp(-0.5 * ((axis - mu) / sd) ** 2)).astype("float32")
    noisy = clean + 0.15 * r.normal(size=clean.shape).astype("float32")
    return noisy, clean


@keras.saving.register_keras_serializable()
class SpectrumDenoiser(keras.Model):
    def __init__(self, bins=1024, **kw):
        super().__init__(**kw)
        self.enc1 = layers.Dense(1024, activation="gelu")
        self.enc2 = layers.Dense(512, activation="gelu")
        self.dec1 = layers.Dense(1024, activation="gelu")
        self.out = layers.Dense(bins)

    def call(self, x):
        h = self.enc2(self.enc1(x))
        return ops.maximum(self.out(self.dec1(h)), 0.0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch", type=int, default=16)
    opt = ap.parse_args()
    keras.utils.set_random_seed(5)
    x, y = spectra(3840)
    net = SpectrumDenoiser()
    sgd = keras.optimizers.SGD(0.02, momentum=0.9, use_ema=True, ema_momentum=0.995)
    net.compile(optimizer=sgd, loss="mse")
    t0 = time.time()
    net.fit(x, y, batch_size=opt.batch, epochs=opt.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
    print("final mse %.5f" % net.evaluate(x[:512], y[:512], verbose=0))


if __name__ == "__main__":
    main()
