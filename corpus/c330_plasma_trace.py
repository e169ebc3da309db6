import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers

SHOTS, LENGTH, CHANNELS, BATCH = 1280, 512, 12, 32


class ShotArchive(keras.utils.PyDataset):
    """Plasma shots as the archive gives them out: one request returns one batch."""

    def __init__(self, **kw):
        super().__init__(**kw)
        rng = np.random.default_rng(330)
        self.signals = rng.normal(size=(SHOTS, LENGTH, CHANNELS)).astype("float32")
        self.disrupts = (self.signals[:, :, 0].mean(1) > 0).astype("float32")

    def __len__(self):
        return SHOTS // BATCH

    def __getitem__(self, i):
        time.sleep(0.038)  # round trip to the archive
        rows = slice(i * BATCH, (i + 1) * BATCH)
        return self.signals[rows], self.disrupts[rows]


class LossTrace(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(logs["loss"])

    def on_train_end(self, logs=None):
        np.save("loss_trace.npy", np.array(self.values))


def residual(x, filters):
    h = layers.Conv1D(filters, 5, padding="same", activation="relu")(x)
    h = layers.Conv1D(filters, 5, padding="same")(h)
    return layers.Activation("relu")(layers.Add()([x, h]))


inp = keras.Input((LENGTH, CHANNELS))
x = layers.Conv1D(80, 5, padding="same", activation="relu")(inp)
for _ in range(2):
    x = residual(x, 80)
x = layers.GlobalAveragePooling1D()(x)
model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(x))
model.compile(optimizer="adam", loss="binary_crossentropy")

archive = ShotArchive()
t0 = time.time()
model.fit(archive, epochs=2, callbacks=[LossTrace()], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
