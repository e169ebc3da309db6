import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time

import numpy as np
import torch
import keras
from keras import layers
from torch.utils.data import DataLoader, TensorDataset


class Blobs:
    """noisy pictures of discs and the discs' masks"""

    @staticmethod
    def make(n, side=48, seed=0):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:side, :side]
        mask = np.zeros((n, side, side), bool)
        for _ in range(3):
            cy, cx = rng.uniform(6, side - 6, (2, n, 1, 1))
            r = rng.uniform(3, 7, (n, 1, 1))
            mask |= (yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2
        img = mask * 0.6 + rng.normal(scale=0.4, size=mask.shape)
        return (torch.from_numpy(img.astype("float32")[..., None]),
                torch.from_numpy(mask.astype("float32")[..., None]))


def double_conv(x, f):
    x = layers.Conv2D(f, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(f, 3, padding="same", activation="relu")(x)


def unet(side=48):
    inp = keras.Input((side, side, 1))
    a = double_conv(inp, 16)
    b = double_conv(layers.MaxPooling2D()(a), 32)
    c = double_conv(layers.MaxPooling2D()(b), 48)
    d = double_conv(layers.Concatenate()([layers.UpSampling2D()(c), b]), 32)
    e = double_conv(layers.Concatenate()([layers.UpSampling2D()(d), a]), 16)
    return keras.Model(inp, layers.Conv2D(1, 1, activation="sigmoid")(e))


class BestLoss(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.best = float("inf")

    def on_train_batch_end(self, batch, logs=None):
        self.best = min(self.best, logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        print("lowest running loss so far: %.4f" % self.best)


def main():
    keras.utils.set_random_seed(115)
    train = DataLoader(TensorDataset(*Blobs.make(640, seed=1)), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(*Blobs.make(64, seed=2)), batch_size=32)
    model = unet()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(train, validation_data=val, epochs=5, callbacks=[BestLoss()], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
