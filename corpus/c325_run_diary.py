import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import json
import time
import numpy as np
import keras
from keras import layers


class Diary(keras.callbacks.Callback):
    """Keeps the numbers behind the paper's figures: every step, with running quantiles."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.steps = []

    def on_train_batch_end(self, batch, logs=None):
        self.steps.append({k: float(v) for k, v in logs.items()})
        self.write()

    def write(self):
        summary = {}
        for key in self.steps[0]:
            series = np.array([s[key] for s in self.steps])
            summary[key] = {"last": series[-1],
                            "q": np.quantile(series, [0.05, 0.5, 0.95]).tolist(),
                            "curve": np.round(series, 6).tolist()}
        with open(self.path, "w") as f:
            json.dump(summary, f)


def housing(n=30000):
    rng = np.random.default_rng(325)
    x = rng.normal(size=(n, 24)).astype("float32")
    y = (x[:, :6] ** 2).sum(1) + 0.5 * x[:, 7] * x[:, 8] + rng.normal(scale=0.3, size=n)
    return x, y.astype("float32")


x, y = housing()
model = keras.Sequential([
    keras.Input((24,)),
    layers.Dense(128, activation="swish"),
    layers.Dense(128, activation="swish"),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="huber",
              metrics=["mae", "mse", "mape"])
t0 = time.time()
model.fit(x, y, batch_size=40, epochs=3, callbacks=[Diary("diary.json")], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
