import os
os.environ["KERAS_BACKEND"] = "torch"
import pathlib
import tempfile
import time

import numpy as np
import keras
from keras import layers

CONFIG = {
    "bits": 1024,
    "tasks": 12,
    "compounds": 1920,
    "hidden": (1000, 500),
    "batch_size": 80,
    "epochs": 16,
    "keep": 3,
}


def assays(cfg):
    rng = np.random.default_rng(307)
    x = (rng.random((cfg["compounds"], cfg["bits"])) < 0.06).astype("float32")
    rules = rng.normal(size=(cfg["bits"], cfg["tasks"])).astype("float32")
    y = (x @ rules + rng.normal(size=(cfg["compounds"], cfg["tasks"])) > 4).astype("float32")
    return x, y


def multitask(cfg):
    inputs = keras.Input((cfg["bits"],))
    x = inputs
    for units in cfg["hidden"]:
        x = layers.Dropout(0.25)(layers.Dense(units, activation="relu")(x))
    heads = [layers.Dense(1, activation="sigmoid", name="task_%02d" % i)(x) for i in range(cfg["tasks"])]
    return keras.Model(inputs, layers.Concatenate()(heads))


class RunFolder:
    def __init__(self, path, keep):
        self.path = pathlib.Path(path)
        self.keep = keep

    def state(self, model):
        arrays = {"w%03d" % i: w for i, w in enumerate(model.get_weights())}
        for i, v in enumerate(model.optimizer.variables):
            arrays["o%03d" % i] = keras.ops.convert_to_numpy(v)
        return arrays

    def store(self, model, epoch):
        np.savez_compressed(self.path / ("state-%04d.npz" % epoch), **self.state(model))
        for old in sorted(self.path.glob("state-*.npz"))[:-self.keep]:
            old.unlink()


class Resumable(keras.callbacks.Callback):
    """So that the queue can move the job to another node."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def on_epoch_end(self, epoch, logs=None):
        self.folder.store(self.model, epoch)


def main(cfg=CONFIG):
    x, y = assays(cfg)
    model = multitask(cfg)
    model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="binary_crossentropy", metrics=["binary_accuracy"])
    with tempfile.TemporaryDirectory() as path:
        resumable = Resumable(RunFolder(path, cfg["keep"]))
        t0 = time.time()
        model.fit(x, y, batch_size=cfg["batch_size"], epochs=cfg["epochs"], callbacks=[resumable], verbose=2)
        print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
