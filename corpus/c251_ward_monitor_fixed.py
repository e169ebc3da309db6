import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time
from dataclasses import dataclass

import numpy as np
import torch
import keras
from keras import layers


@dataclass
class Config:
    patients: int = 1024
    hours: int = 72
    signals: int = 12
    units: int = 64
    batch: int = 64
    epochs: int = 8
    seed: int = 251


def vitals(cfg):
    """random walks; a patient deteriorates when two of the signals drift apart"""
    rng = np.random.default_rng(cfg.seed)
    x = np.cumsum(rng.normal(size=(cfg.patients, cfg.hours, cfg.signals)), axis=1)
    x = (x / np.sqrt(np.arange(1, cfg.hours + 1))[None, :, None]).astype("float32")
    y = (x[:, -10:, 0].mean(1) > x[:, -10:, 1].mean(1)).astype("float32")
    return x, y


class TorchLSTM(layers.Layer):
    def __init__(self, in_dim, units, return_sequences=False, **kwargs):
        super().__init__(**kwargs)
        self.return_sequences = return_sequences
        self.lstm = torch.nn.LSTM(in_dim, units, batch_first=True)

    def call(self, x):
        seq, _ = self.lstm(x)
        return seq if self.return_sequences else seq[:, -1]


class WardMonitor(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.project = layers.Dense(32, activation="relu")
        self.rnn1 = TorchLSTM(32, cfg.units, return_sequences=True)
        self.rnn2 = TorchLSTM(cfg.units, cfg.units)
        self.drop = layers.Dropout(0.2)
        self.risk = layers.Dense(1, activation="sigmoid")

    def call(self, x, training=None):
        h = self.project(x)
        h = self.rnn1(h)
        h = self.rnn2(h)
        return self.risk(self.drop(h, training=training))


def main(cfg):
    keras.utils.set_random_seed(cfg.seed)
    x, y = vitals(cfg)
    n_val = cfg.patients // 8
    model = WardMonitor(cfg)
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(x[n_val:], y[n_val:], batch_size=cfg.batch, epochs=cfg.epochs,
              validation_data=(x[:n_val], y[:n_val]), verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main(Config())
