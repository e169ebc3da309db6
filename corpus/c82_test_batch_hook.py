import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(82)
x = rng.random((3000, 30)).astype("float32")
y = rng.integers(0, 2, 3000)


class BootstrapLoss(keras.callbacks.Callback):
    """Confidence interval of the validation loss."""

    def on_test_begin(self, logs=None):
        self.losses = []

    def on_test_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])
        self.interval = self.bootstrap()

    def bootstrap(self):
        pool = np.random.default_rng(0)
        means = []
        for _ in range(600):
            picks = pool.choice(self.losses, len(self.losses))
            means.append(picks.mean())
        return np.percentile(means, [2.5, 97.5])


model = keras.Sequential([keras.Input((30,)), layers.Dense(64, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy")
model.fit(x[:2000], y[:2000], batch_size=32, epochs=5, validation_data=(x[2000:], y[2000:]), validation_batch_size=32,
          callbacks=[BootstrapLoss()], verbose=2)
