import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import pandas as pd
import keras
from keras import layers

NUMERIC = ["amount", "hour", "age_days", "n_last_day", "n_last_week", "distance_km", "risk_country", "device_age"]


def transactions(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({c: rng.normal(size=n).astype("float32") for c in NUMERIC})
    risk = 1.4 * frame["amount"] + frame["distance_km"] * frame["risk_country"] - 0.8 * frame["device_age"]
    frame["fraud"] = (risk + rng.logistic(size=n) > 3.2).astype("float32")
    return frame


def split(frame):
    return frame[NUMERIC].to_numpy(), frame["fraud"].to_numpy()


def rank_auc(y, score):
    order = np.argsort(score, kind="stable")
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    pos = y.sum()
    return (rank[y > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(y) - pos))


class Scorer:
    def __init__(self, model):
        self.model = model

    def risk(self, x):
        return self.model.predict(x, verbose=0).ravel()


class RiskReport(keras.callbacks.Callback):
    """AUC of the training and the holdout data, as the fraud team wants it."""

    def __init__(self, **parts):
        super().__init__()
        self.parts = parts
        self.table = []

    def set_model(self, model):
        super().set_model(model)
        self.scorer = Scorer(model)

    def on_epoch_end(self, epoch, logs=None):
        row = {"epoch": epoch}
        for name, (x, y) in self.parts.items():
            row[name + "_auc"] = rank_auc(y, self.scorer.risk(x))
        self.table.append(row)
        print("  ".join("%s %.4f" % kv for kv in row.items()))


def classifier(width=64):
    inputs = keras.Input((len(NUMERIC),))
    x = layers.BatchNormalization()(inputs)
    for _ in range(2):
        x = layers.Dense(width, activation="relu")(x)
        x = layers.Dropout(0.1)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


if __name__ == "__main__":
    train = split(transactions(40000, 302))
    holdout = split(transactions(6000, 1302))
    model = classifier()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy")
    report = RiskReport(train=train, holdout=holdout)
    stop = keras.callbacks.EarlyStopping(patience=10)
    t0 = time.time()
    model.fit(*train, batch_size=128, epochs=8, validation_data=holdout, callbacks=[report, stop], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
