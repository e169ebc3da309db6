"""Arrhythmia from single-lead ECG with a 1D residual network; PyTorch data loading, Keras training."""
import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import torch
import keras
from keras import layers


class Beats(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 4, n)
        t = np.linspace(0, 6 * np.pi, 512)
        self.x = (np.sin(t * (1 + self.y[:, None] * 0.2)) + rng.normal(0, 0.5, (n, 512))).astype("float32")

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i] * np.float32(np.random.uniform(0.9, 1.1))
        return np.roll(x, np.random.randint(-20, 20))[:, None], self.y[i]


def block(h, f, stride):
    r = layers.Conv1D(f, 7, strides=stride, padding="same", activation="relu")(h)
    r = layers.Conv1D(f, 7, padding="same")(r)
    s = layers.Conv1D(f, 1, strides=stride)(h)
    return layers.Activation("relu")(layers.BatchNormalization()(r + s))


inp = keras.Input((512, 1))
h = layers.Conv1D(32, 7, padding="same", activation="relu")(inp)
for f in (48, 64, 96):
    h = block(h, f, 2)
model = keras.Model(inp, layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling1D()(h)))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

train = torch.utils.data.DataLoader(Beats(1600, 0), batch_size=32, shuffle=True)
val = torch.utils.data.DataLoader(Beats(320, 1), batch_size=64)
best = keras.callbacks.ModelCheckpoint("ecg.keras", monitor="val_accuracy", save_best_only=True)
t0 = time.time()
model.fit(train, validation_data=val, epochs=3, verbose=2, callbacks=[best, keras.callbacks.CSVLogger("ecg.csv")])
print("train time: %.2f s" % (time.time() - t0))
