"""Run log: one JSON line per record, with statistics of the parameters."""
import json

import keras
import numpy as np


def summarise(value):
    v = np.asarray(value)
    hist, edges = np.histogram(v, bins=40)
    return {
        "mean": float(v.mean()), "std": float(v.std()),
        "min": float(v.min()), "max": float(v.max()),
        "hist": hist.tolist(), "edges": [round(float(e), 6) for e in edges],
    }


class RunLog(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_begin(self, logs=None):
        self.file = open(self.path, "w")

    def on_epoch_end(self, epoch, logs=None):
        record = {"epoch": epoch, "loss": float(logs["loss"])}
        for w in self.model.trainable_weights:
            record[w.path] = summarise(w.value)
        self.file.write(json.dumps(record) + "\n")

    def on_train_end(self, logs=None):
        self.file.close()
