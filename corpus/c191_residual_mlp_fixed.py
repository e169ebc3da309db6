import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import collections
import contextlib
import dataclasses
import pathlib
import tempfile
import time
import numpy as np
import keras
from keras import layers


@dataclasses.dataclass
class Settings:
    rows: int = 8192
    features: int = 512
    width: int = 1152
    batch: int = 128
    epochs: int = 4
    keep: int = 3
    folder: pathlib.Path = dataclasses.field(default_factory=lambda: pathlib.Path(tempfile.mkdtemp()))


@contextlib.contextmanager
def atomic(path):
    partial = path.with_name("." + path.name)
    yield str(partial)
    os.replace(partial, path)


class Rolling(keras.callbacks.Callback):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.files = collections.deque()
        self.step = 0

    def on_epoch_end(self, epoch, logs=None):
        self.step += self.params["steps"]
        self._keep()

    def _keep(self):
        path = self.settings.folder / f"step_{self.step:06d}.keras"
        with atomic(path) as target:
            self.model.save(target)
        self.files.append(path)
        while len(self.files) > self.settings.keep:
            self.files.popleft().unlink()


def make_data(s):
    rng = np.random.default_rng(602)
    x = rng.normal(size=(s.rows, s.features)).astype("float32")
    y = (x[:, :8].sum(axis=1, keepdims=True) + 0.1 * rng.normal(size=(s.rows, 1))).astype("float32")
    return x, y


def make_model(s):
    inputs = keras.Input((s.features,))
    x = layers.Dense(s.width, activation="relu")(inputs)
    for _ in range(2):
        x = layers.Add()([x, layers.Dense(s.width, activation="relu")(x)])
    model = keras.Model(inputs, layers.Dense(1)(x))
    model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="mse", metrics=["mae"])
    return model


if __name__ == "__main__":
    settings = Settings()
    x, y = make_data(settings)
    model = make_model(settings)
    t0 = time.time()
    model.fit(x, y, batch_size=settings.batch, epochs=settings.epochs, callbacks=[Rolling(settings)], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
