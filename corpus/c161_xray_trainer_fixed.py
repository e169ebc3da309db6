import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time
from dataclasses import dataclass

import keras
import numpy as np
from keras import layers


@dataclass
class Config:
    image: int = 32
    n_train: int = 2560
    n_val: int = 256
    batch: int = 64
    epochs: int = 5
    lr: float = 1e-2
    out: str = "xray_runs"


class Trainer:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        os.makedirs(cfg.out, exist_ok=True)
        self.model = self._model()

    def _model(self):
        c = self.cfg
        m = keras.Sequential([
            keras.Input((c.image, c.image, 1)),
            layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.4),
            layers.Dense(256, activation="relu"),
            layers.Dense(3, activation="softmax"),
        ])
        m.compile(keras.optimizers.SGD(c.lr, momentum=0.9), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        return m

    def data(self, n, seed):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3, n)
        x = rng.normal(0.5, 0.25, (n, self.cfg.image, self.cfg.image, 1))
        x[:, 8:24, 8:24] += 0.12 * y[:, None, None, None]
        return x.astype("float32"), y

    def callbacks(self):
        return [
            keras.callbacks.ModelCheckpoint(os.path.join(self.cfg.out, "last.keras"), save_freq="epoch"),
            keras.callbacks.CSVLogger(os.path.join(self.cfg.out, "log.csv")),
        ]

    def run(self):
        x, y = self.data(self.cfg.n_train, 1)
        val = self.data(self.cfg.n_val, 2)
        t0 = time.time()
        self.model.fit(x, y, validation_data=val, batch_size=self.cfg.batch, epochs=self.cfg.epochs,
                       callbacks=self.callbacks(), verbose=2)
        return time.time() - t0


if __name__ == "__main__":
    elapsed = Trainer(Config()).run()
    print("train time: %.2f s" % elapsed)
