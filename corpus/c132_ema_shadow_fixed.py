import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
from keras import layers


class ExponentialMovingAverage(keras.callbacks.Callback):
    """Keeps a smoothed copy of the weights and swaps it in when training ends."""

    def __init__(self, decay=0.995, every=20):
        super().__init__()
        self.decay = decay ** every
        self.every = every
        self.shadow = None

    def on_train_begin(self, logs=None):
        self.shadow = {v.path: v.numpy().astype("float64") for v in self.model.weights}

    def on_train_batch_end(self, batch, logs=None):
        if batch % self.every:
            return
        for v in self.model.weights:
            self.shadow[v.path] = self.decay * self.shadow[v.path] + (1.0 - self.decay) * v.numpy()

    def on_train_end(self, logs=None):
        for v in self.model.weights:
            v.assign(self.shadow[v.path].astype("float32"))


def residual_mlp(n_in, width, depth, n_out):
    inp = keras.Input((n_in,))
    h = layers.Dense(width, activation="relu")(inp)
    for _ in range(depth):
        r = layers.Dense(width, activation="relu")(h)
        h = layers.LayerNormalization()(layers.Add()([h, r]))
    return keras.Model(inp, layers.Dense(n_out, activation="softmax")(h))


def load_wearable(n=6000, n_in=120, n_out=12):
    rng = np.random.default_rng(8)
    centers = rng.normal(size=(n_out, n_in))
    y = rng.integers(0, n_out, n)
    return (centers[y] + rng.normal(0, 3, (n, n_in))).astype("float32"), y


if __name__ == "__main__":
    x, y = load_wearable()
    model = residual_mlp(120, 768, 4, 12)
    model.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(x, y, batch_size=32, epochs=2, callbacks=[ExponentialMovingAverage(0.995)], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
    print("averaged model:", model.evaluate(x[:2000], y[:2000], verbose=0))
