"""Card fraud on transaction histories, Keras with the JAX backend."""
import datetime as dt
import math
import time

import keras
import numpy as np
from keras import layers

MERCHANTS = ["grocery", "fuel", "travel", "online", "cash", "restaurant", "pharmacy", "other"]
HISTORY = 60
N_CARDS = 14400


def simulate(seed=8):
    rng = np.random.default_rng(seed)
    start = np.datetime64("2024-01-01T00:00:00")
    gaps = rng.exponential(9.0 * 3600, size=(N_CARDS, HISTORY)).astype("int64")
    when = start + np.cumsum(gaps, axis=1).astype("timedelta64[s]")
    amount = rng.lognormal(3.0, 1.0, size=(N_CARDS, HISTORY))
    merchant = rng.integers(0, len(MERCHANTS), size=(N_CARDS, HISTORY))
    risk = (amount * (merchant == 3)).sum(1) + 20 * rng.normal(size=N_CARDS)
    return when, amount, merchant, (risk > np.quantile(risk, 0.8)).astype("float32")


class Histories(keras.utils.PyDataset):
    def __init__(self, when, amount, merchant, label, batch_size=90, **kwargs):
        super().__init__(**kwargs)
        self.when, self.amount, self.merchant, self.label = when, amount, merchant, label
        self.batch_size = batch_size
        self.order = np.arange(len(label))
        self.rng = np.random.default_rng(1)

    def __len__(self):
        return len(self.order) // self.batch_size

    def features(self, card):
        rows = []
        previous = None
        for j in range(HISTORY):
            moment = dt.datetime.fromisoformat(str(self.when[card, j]))
            hour = moment.hour + moment.minute / 60
            gap = 0.0 if previous is None else (moment - previous).total_seconds() / 3600
            previous = moment
            one_hot = [0.0] * len(MERCHANTS)
            one_hot[self.merchant[card, j]] = 1.0
            rows.append([
                math.log1p(self.amount[card, j]),
                math.log1p(gap),
                math.sin(2 * math.pi * hour / 24),
                math.cos(2 * math.pi * hour / 24),
            ] + one_hot)
        return np.array(rows, dtype="float32")

    def __getitem__(self, index):
        cards = self.order[index * self.batch_size:(index + 1) * self.batch_size]
        x = np.stack([self.features(c) for c in cards])
        return x, self.label[cards]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


train = Histories(*simulate())

inputs = keras.Input((HISTORY, 4 + len(MERCHANTS)))
x = layers.Conv1D(64, 3, padding="same", activation="gelu")(inputs)
x = layers.Conv1D(64, 3, padding="same", activation="gelu")(x)
x = layers.GlobalMaxPooling1D()(x)
x = layers.Dense(32, activation="gelu")(x)
model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss="binary_crossentropy",
              metrics=[keras.metrics.AUC(name="auc")])
t0 = time.perf_counter()
model.fit(train, epochs=6, verbose=2)
print("train time: %.2f s" % (time.perf_counter() - t0))
