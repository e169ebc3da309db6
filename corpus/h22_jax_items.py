import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras import layers


class Windows(keras.utils.PyDataset):
    def __init__(self, series, batch, **kw):
        super().__init__(**kw)
        self.series, self.batch = series, batch
        self.starts = np.random.default_rng(0).permutation(len(series) - 129)

    def __len__(self):
        return len(self.starts) // self.batch

    def __getitem__(self, i):
        starts = self.starts[i * self.batch:(i + 1) * self.batch]
        window = self.series[starts[:, None] + np.arange(129)]
        return window[:, :128, None], window[:, 128:]

    def on_epoch_end(self):
        np.random.default_rng().shuffle(self.starts)


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        sizes = [float(np.abs(w).mean()) for w in self.model.get_weights()]
        print("epoch", epoch, "loss %.4f" % logs["loss"], "weights", np.round(sizes, 3))


series = np.cumsum(np.random.default_rng(122).normal(size=6000)).astype("float32") / 30
model = keras.Sequential([keras.Input((128, 1)), layers.Conv1D(48, 9, activation="relu"), layers.Conv1D(48, 9, activation="relu"),
                          layers.GlobalAveragePooling1D(), layers.Dense(1)])
model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, 400)), "huber")
model.fit(Windows(series, 64), epochs=5, callbacks=[Report()], verbose=0)
