import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(56)
x = rng.normal(size=(4096, 64)).astype("float32")
y = (x[:, :1] > 0).astype("float32")


class WeightWatcher(keras.callbacks.Callback):
    """Keeps quantiles of every kernel, for a paper figure."""

    def on_train_begin(self, logs=None):
        self.quantiles = []

    def on_epoch_end(self, epoch, logs=None):
        row = []
        for layer in self.model.layers:
            for w in layer.get_weights():
                row.extend(np.percentile(w, [5, 25, 50, 75, 95]))
        self.quantiles.append(row)


def build():
    inp = keras.Input((64,))
    h = layers.Dense(256, activation="relu")(inp)
    h = layers.Dense(256, activation="relu")(h)
    return keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))


model = build()
model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=32, epochs=6, callbacks=[WeightWatcher(), keras.callbacks.TerminateOnNaN()], verbose=2)
