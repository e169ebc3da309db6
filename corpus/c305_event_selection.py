import os
os.environ["KERAS_BACKEND"] = "jax"
import time
from dataclasses import dataclass

import numpy as np
import keras
from keras import layers


@dataclass
class Settings:
    events: int = 16000
    block: int = 200
    epochs: int = 5
    features: int = 14
    max_chi2: float = 4.0
    min_hits: int = 4


class EventStore:
    def __init__(self, s, seed=305):
        rng = np.random.default_rng(seed)
        self.s = s
        self.x = rng.normal(size=(s.events, s.features)).astype("float32")
        self.y = (self.x[:, 0] * self.x[:, 1] + self.x[:, 2] > 0).astype("float32")[:, None]
        self.chi2 = rng.exponential(1.4, s.events)
        self.hits = rng.poisson(8, s.events)
        self.rng = rng

    def blocks(self):
        order = self.rng.permutation(self.s.events)
        for start in range(0, self.s.events, self.s.block):
            yield np.sort(order[start:start + self.s.block])

    def good(self, rows):
        return (self.chi2[rows] < self.s.max_chi2) & (self.hits[rows] >= self.s.min_hits)

    def read(self, rows):
        rows = rows[self.good(rows)]
        weight = (1.0 / (1.0 + self.chi2[rows])).astype("float32")
        return self.x[rows], self.y[rows], weight


def tagger(s):
    inputs = keras.Input((s.features,))
    x = layers.LayerNormalization()(inputs)
    for units in (128, 128, 64):
        x = layers.Dense(units, activation="swish")(x)
        x = layers.Dropout(0.05)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def run_epoch(model, store):
    values = None
    for rows in store.blocks():
        x, y, weight = store.read(rows)
        values = model.train_on_batch(x, y, sample_weight=weight, return_dict=True)
    return {k: float(v) for k, v in values.items()}


def main():
    s = Settings()
    store = EventStore(s)
    model = tagger(s)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.BinaryCrossentropy(reduction="mean_with_sample_weight"),
    )
    t0 = time.time()
    for epoch in range(s.epochs):
        print(epoch, run_epoch(model, store))
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
