import os
os.environ["KERAS_BACKEND"] = "jax"
import json
import tempfile
import keras
import numpy as np

rng = np.random.default_rng(74)
x = rng.random((4800, 20)).astype("float32")
y = rng.random((4800, 1)).astype("float32")
path = os.path.join(tempfile.mkdtemp(), "history.json")


class History2Json(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path, self.records = path, []

    def on_train_batch_end(self, batch, logs=None):
        self.records.append({"batch": batch, **{k: float(v) for k, v in logs.items()}})
        with open(self.path, "w") as f:
            json.dump(self.records, f, indent=2)


model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
model.fit(x, y, batch_size=16, epochs=4, callbacks=[History2Json(path)], verbose=0)
