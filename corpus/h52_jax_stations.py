"""Temperature at weather stations, windows cut on the fly by a PyDataset."""
import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers


class Windows(keras.utils.PyDataset):
    def __init__(self, series, starts, width=96, ahead=12, batch_size=64, **kw):
        super().__init__(**kw)
        self.series, self.starts, self.width, self.ahead, self.batch_size = series, starts, width, ahead, batch_size

    def __len__(self):
        return len(self.starts) // self.batch_size

    def __getitem__(self, i):
        s = self.starts[i * self.batch_size:(i + 1) * self.batch_size]
        idx = s[:, None] + np.arange(self.width)
        return self.series[idx], self.series[s + self.width + self.ahead, 0]

    def on_epoch_end(self):
        np.random.default_rng(0).shuffle(self.starts)


def build(width, channels):
    inp = keras.Input((width, channels))
    h = layers.Dense(64)(inp)
    for _ in range(2):
        a = layers.MultiHeadAttention(4, 16)(h, h)
        h = layers.LayerNormalization()(h + a)
        f = layers.Dense(128, activation="gelu")(h)
        h = layers.LayerNormalization()(h + layers.Dense(64)(f))
    return keras.Model(inp, layers.Dense(1)(layers.GlobalAveragePooling1D()(h)))


rng = np.random.default_rng(40)
series = np.cumsum(rng.normal(size=(20000, 10)), axis=0).astype("float32")
series = (series - series.mean(0)) / series.std(0)
train = Windows(series, rng.integers(0, 17000, 3200))
val = Windows(series, rng.integers(17000, 19800, 640))
model = build(96, 10)
model.compile("adam", "mse", metrics=["mae"])
losses = []
note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: losses.append(b))
t0 = time.time()
model.fit(train, validation_data=val, epochs=2, verbose=2, callbacks=[note, keras.callbacks.EarlyStopping(patience=5)])
print("train time: %.2f s" % (time.time() - t0))
