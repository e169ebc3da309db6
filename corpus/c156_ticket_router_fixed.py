import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import keras
from keras import layers

CFG = {
    "vocab": 4000,
    "length": 48,
    "queues": 12,
    "tickets": 16_000,
    "batch_size": 32,
    "epochs": 3,
    "lr": 1e-3,
    "journal": "journal.json",
}


def load_tickets(cfg):
    rng = np.random.default_rng(5)
    queue = rng.integers(0, cfg["queues"], cfg["tickets"])
    base = rng.integers(1, cfg["vocab"], (cfg["tickets"], cfg["length"]))
    hint = (queue[:, None] * 37 + rng.integers(0, 30, base.shape)) % cfg["vocab"]
    words = np.where(rng.random(base.shape) < 0.06, hint, base)
    return words.astype("int32"), queue.astype("int32")


class RunJournal(keras.callbacks.Callback):
    """Keeps a journal of the run that our dashboard page picks up."""

    def __init__(self, path):
        super().__init__()
        self.path = pathlib.Path(path)
        self.entries = []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.entries.append({
            "epoch": self.epoch,
            "batch": batch,
            "when": time.time(),
            **{k: float(v) for k, v in logs.items()},
        })

    def on_epoch_end(self, epoch, logs=None):
        self.path.write_text(json.dumps(self.entries, indent=1))


def build(cfg):
    model = keras.Sequential([
        keras.Input((cfg["length"],), dtype="int32"),
        layers.Embedding(cfg["vocab"], 32),
        layers.Conv1D(64, 5, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(64, activation="relu"),
        layers.Dense(cfg["queues"], activation="softmax"),
    ])
    model.compile(
        optimizer=keras.optimizers.Adam(cfg["lr"]),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def main(cfg):
    x, y = load_tickets(cfg)
    model = build(cfg)
    t0 = time.time()
    model.fit(x, y, batch_size=cfg["batch_size"], epochs=cfg["epochs"],
              callbacks=[RunJournal(cfg["journal"])], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main(CFG)
