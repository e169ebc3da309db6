import time

import keras
import numpy as np
import torch
from keras import layers
from torch.utils.data import DataLoader, Dataset


class Spectra(Dataset):
    """Infrared spectra held in memory; a random baseline drift is added on the fly."""

    def __init__(self, n, seed, drift):
        rng = np.random.default_rng(seed)
        self.axis = np.linspace(-1, 1, 256, dtype="float32")
        self.target = rng.uniform(0, 1, n).astype("float32")
        peak = np.exp(-((self.axis - 0.2) ** 2) / 0.01)
        other = np.exp(-((self.axis + 0.4) ** 2) / 0.02)
        self.x = (self.target[:, None] * peak + rng.uniform(0, 1, (n, 1)) * other
                  + rng.normal(scale=0.05, size=(n, 256))).astype("float32")
        self.drift = drift

    def __len__(self):
        return len(self.target)

    def __getitem__(self, i):
        x = self.x[i]
        if self.drift:
            x = x + np.float32(np.random.normal(scale=0.1)) * self.axis
        return x[:, None], self.target[i]


def residual(x, width):
    y = layers.Conv1D(width, 7, padding="same", activation="relu")(x)
    y = layers.Conv1D(width, 7, padding="same")(y)
    return layers.Activation("relu")(layers.Add()([x, y]))


def build():
    inputs = keras.Input((256, 1))
    x = layers.Conv1D(48, 7, padding="same", activation="relu")(inputs)
    x = residual(x, 48)
    x = layers.MaxPooling1D(2)(x)
    x = residual(x, 48)
    x = residual(x, 48)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(1)(x))


if __name__ == "__main__":
    train = DataLoader(Spectra(1600, 0, True), batch_size=64, shuffle=True)
    val = DataLoader(Spectra(256, 1, False), batch_size=128)
    model = build()
    model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse", metrics=["mae"])
    t0 = time.time()
    model.fit(train, validation_data=val, epochs=5, verbose=2,
              callbacks=[keras.callbacks.ReduceLROnPlateau(patience=3)])
    print("train time: %.2f s" % (time.time() - t0))
