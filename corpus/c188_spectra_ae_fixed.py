import collections
import os
import tempfile
import time

import numpy as np
import keras
from keras import layers

# --- raman spectra with random peaks, noisy -> clean ------------------------------------------------
rng = np.random.default_rng(21)
N, BINS = 12288, 512
grid = np.linspace(0, 1, BINS, dtype="float32")
library = np.stack([np.exp(-0.5 * ((grid - c) / w) ** 2)
                    for c, w in zip(rng.uniform(0, 1, 60), rng.uniform(0.004, 0.03, 60))])
weights = rng.gamma(0.3, 1.0, size=(N, 60)).astype("float32")
clean = weights @ library
clean = (clean / (clean.max(axis=1, keepdims=True) + 1e-6)).astype("float32")
noisy = clean + rng.normal(0, 0.15, size=clean.shape).astype("float32")


class Snapshots(keras.callbacks.Callback):
    """Keeps the last `keep` states of a run, in case the node goes away."""

    def __init__(self, folder, every=8, keep=3):
        super().__init__()
        self.folder, self.every = folder, every
        self.files = collections.deque()
        self.keep = keep
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % self.every:
            return
        path = os.path.join(self.folder, f"step{self.seen:06d}.keras")
        self.model.save(path)
        self.files.append(path)
        while len(self.files) > self.keep:
            os.remove(self.files.popleft())


class Denoiser(keras.Model):
    def __init__(self, width=768, code=96, **kw):
        super().__init__(**kw)
        self.down = [layers.Dense(width, activation="gelu"), layers.Dense(width, activation="gelu")]
        self.code = layers.Dense(code)
        self.up = [layers.Dense(width, activation="gelu"), layers.Dense(width, activation="gelu")]
        self.out = layers.Dense(BINS)

    def call(self, x):
        for d in self.down:
            x = d(x)
        x = self.code(x)
        for u in self.up:
            x = u(x)
        return self.out(x)


keras.utils.set_random_seed(0)
net = Denoiser()
net.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse")
folder = tempfile.mkdtemp(prefix="spectra_")

t = time.time()
net.fit(noisy, clean, batch_size=256, epochs=8, verbose=2, callbacks=[Snapshots(folder, every=192)])
t = time.time() - t
print(sorted(os.listdir(folder)))
print("train time: %.2f s" % t)
