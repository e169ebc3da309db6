import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import pandas as pd
import keras
from keras import layers

NUMERIC = [f"f{i:02d}" for i in range(60)]
LEVELS = {
    "vendor": ["acme", "bolt", "city", "dash"],
    "weekday": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
    "payment": ["card", "cash", "app"],
    "zone": [f"z{i:02d}" for i in range(20)],
}


def load_trips(rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, len(NUMERIC))), columns=NUMERIC)
    for name, values in LEVELS.items():
        frame[name] = np.array(values)[rng.integers(0, len(values), rows)]
    frame["fare"] = 3.0 + frame["f00"] - 0.5 * frame["f01"] + 0.1 * rng.normal(size=rows)
    return frame


class Trips(keras.utils.PyDataset):
    def __init__(self, frame, batch_size, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.frame = frame
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.order = self.rng.permutation(len(frame))

    def __len__(self):
        return len(self.order) // self.batch_size

    def encode(self, row):
        codes = [values.index(row[name]) / len(values) for name, values in LEVELS.items()]
        return np.concatenate([row[NUMERIC].to_numpy(dtype="float32"), np.array(codes, dtype="float32")])

    def __getitem__(self, idx):
        picked = self.order[idx * self.batch_size:(idx + 1) * self.batch_size]
        rows = [self.frame.iloc[i] for i in picked]
        x = np.stack([self.encode(row) for row in rows])
        y = np.array([row["fare"] for row in rows], dtype="float32")[:, None]
        return x, y

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.order))


def build(width=1024, depth=3):
    inputs = keras.Input((len(NUMERIC) + len(LEVELS),))
    x = inputs
    for _ in range(depth):
        x = layers.Dense(width, activation="gelu")(x)
    model = keras.Model(inputs, layers.Dense(1)(x))
    model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="huber", metrics=["mae"])
    return model


trips = Trips(load_trips(11520, seed=606), batch_size=192)
model = build()
t0 = time.time()
model.fit(trips, epochs=4, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
