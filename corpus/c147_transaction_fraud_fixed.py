"""Card fraud on transaction histories, Keras with the JAX backend."""
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

    def __getitem__(self, index):
        cards = self.order[index * self.batch_size:(index + 1) * self.batch_size]
        seconds = self.when[cards].astype("int64")
        hour = (seconds % 86400) // 60 / 60
        gap = np.diff(seconds, axis=1, prepend=seconds[:, :1]) / 3600
        numbers = np.stack([
            np.log1p(self.amount[cards]),
            np.log1p(gap),
            np.sin(2 * np.pi * hour / 24),
            np.cos(2 * np.pi * hour / 24),
        ], axis=-1)
        one_hot = np.eye(len(MERCHANTS))[self.merchant[cards]]
        x = np.concatenate([numbers, one_hot], axis=-1).astype("float32")
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
