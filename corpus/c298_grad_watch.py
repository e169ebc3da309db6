import os
os.environ["KERAS_BACKEND"] = "torch"
import time
from collections import defaultdict

import numpy as np
import torch
import keras
from keras import layers

keras.utils.set_random_seed(191)
rng = np.random.default_rng(191)

# sine waves with drift -> next value
N, T = 4000, 32
phase = rng.uniform(0, 6.28, (N, 1))
freq = rng.uniform(0.1, 0.5, (N, 1))
series = np.sin(phase + freq * np.arange(T + 1)) + 0.05 * rng.normal(size=(N, T + 1))
x_train = series[:, :T].astype("float32")
y_train = series[:, T:].astype("float32")


class GradientWatcher(keras.callbacks.Callback):
    """Collect the gradient norm of every weight, to see where they vanish."""

    def __init__(self):
        super().__init__()
        self.norms = defaultdict(list)

    def _make_hook(self, name):
        def hook(grad):
            self.norms[name].append(grad.norm().item())
        return hook

    def on_train_batch_begin(self, batch, logs=None):
        for v in self.model.trainable_variables:
            v.value.register_hook(self._make_hook(v.path))

    def on_epoch_end(self, epoch, logs=None):
        smallest = min(self.norms, key=lambda k: self.norms[k][-1])
        print("   smallest gradient: %s %.2e" % (smallest, self.norms[smallest][-1]))


def build_model():
    inp = keras.Input((T,))
    x = layers.Dense(128, activation="tanh")(inp)
    x = layers.Dense(128, activation="tanh")(x)
    x = layers.Dense(64, activation="tanh")(x)
    return keras.Model(inp, layers.Dense(1)(x))


model = build_model()
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
watcher = GradientWatcher()
t0 = time.time()
model.fit(x_train, y_train, batch_size=80, epochs=17, callbacks=[watcher], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
