import os
os.environ["KERAS_BACKEND"] = "jax"
import math
import tempfile
import time
import numpy as np
import keras
from keras import layers


def store(rows, features, seed):
    rng = np.random.default_rng(seed)
    folder = tempfile.mkdtemp()
    x = rng.normal(size=(rows, features)).astype("float32")
    y = (x[:, :16].sum(axis=1) > 0).astype("float32")[:, None]
    for name, array in (("x", x), ("y", y)):
        np.save(os.path.join(folder, name + ".npy"), array)
    return folder


class Slices(keras.utils.PyDataset):
    def __init__(self, folder, start, stop, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.x = np.load(os.path.join(folder, "x.npy"), mmap_mode="r")[start:stop]
        self.y = np.load(os.path.join(folder, "y.npy"), mmap_mode="r")[start:stop]
        self.batch_size = batch_size

    def __len__(self):
        return math.ceil(len(self.x) / self.batch_size)

    def __getitem__(self, idx):
        rows = slice(idx * self.batch_size, (idx + 1) * self.batch_size)
        return np.array(self.x[rows]), np.array(self.y[rows])


class Smooth(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.value = None
        self.curve = []

    def on_train_batch_end(self, batch, logs=None):
        loss = logs["loss"]
        self.value = loss if self.value is None else 0.98 * self.value + 0.02 * loss
        self.curve.append(self.value)


def build(features):
    inputs = keras.Input((features,))
    x = layers.Dense(1024, activation="relu")(inputs)
    x = layers.Dropout(0.1)(x)
    x = layers.Dense(1024, activation="relu")(x)
    x = layers.Dense(1024, activation="relu")(x)
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
    model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="binary_crossentropy", metrics=["accuracy"])
    return model


folder = store(17920, 512, seed=613)
train = Slices(folder, 0, 16384, 256)
valid = Slices(folder, 16384, 17920, 256)
model = build(512)
t0 = time.time()
model.fit(train, validation_data=valid, epochs=4, callbacks=[Smooth()], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
