import os
os.environ["KERAS_BACKEND"] = "torch"
import json
import tempfile
import time

import numpy as np
import keras
from keras import layers, regularizers


def make_data(n=12800, d=40, seed=16700):
    r = np.random.default_rng(seed)
    X = r.normal(size=(n, d)).astype("float32")
    w = r.normal(size=(d,))
    y = (X @ w + 0.5 * r.normal(size=n) > 0).astype("float32")
    return X, y


class WeightWatcher(keras.callbacks.Callback):
    """Keeps an eye on how the weights of every layer develop.

    A little script next to this one plots the json file while the training is running.
    """

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.step = 0
        self.records = []

    def on_epoch_end(self, epoch, logs=None):
        self.step += self.params["steps"]
        entry = {"step": self.step, "loss": float(logs["loss"]), "layers": {}}
        for layer in self.model.layers:
            for k, w in enumerate(layer.get_weights()):
                q = np.percentile(w, [1, 25, 50, 75, 99])
                hist, edges = np.histogram(w, bins=40)
                entry["layers"]["%s/%d" % (layer.name, k)] = {
                    "mean": float(w.mean()), "std": float(w.std()),
                    "quantiles": q.tolist(), "hist": hist.tolist(),
                }
        self.records.append(entry)
        with open(self.path, "a") as f:
            f.write(json.dumps(entry) + "\n")


def build(d, hidden=(384, 384, 384)):
    inputs = keras.Input(shape=(d,))
    x = inputs
    for i, h in enumerate(hidden):
        x = layers.Dense(h, activation="relu", kernel_regularizer=regularizers.l2(1e-5), name="h%d" % i)(x)
        x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def main():
    keras.utils.set_random_seed(1)
    X, y = make_data()
    X_val, y_val = X[-1280:], y[-1280:]
    model = build(X.shape[1])
    model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="binary_crossentropy", metrics=["accuracy"])
    watcher = WeightWatcher(os.path.join(tempfile.mkdtemp(), "weights.json"))
    tic = time.time()
    model.fit(X[:-1280], y[:-1280], batch_size=128, epochs=4, validation_data=(X_val, y_val),
              callbacks=[watcher], verbose=2)
    print("train time: %.2f s" % (time.time() - tic))


if __name__ == "__main__":
    main()
