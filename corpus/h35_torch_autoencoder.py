import os
os.environ["KERAS_BACKEND"] = "torch"
import time

import keras
import numpy as np
import torch
from keras import layers
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __init__(self, picture, size, n):
        self.picture, self.size = picture, size
        self.corners = np.random.default_rng(1).integers(0, len(picture) - size, (n, 2))

    def __len__(self):
        return len(self.corners)

    def __getitem__(self, i):
        r, c = self.corners[i]
        patch = self.picture[r:r + self.size, c:c + self.size, None]
        return patch, patch


if __name__ == "__main__":
    picture = torch.rand(512, 512)
    model = keras.Sequential([
        keras.Input((32, 32, 1)),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.Conv2D(48, 3, padding="same", strides=2, activation="relu"),
        layers.Conv2DTranspose(32, 3, padding="same", strides=2, activation="relu"),
        layers.Conv2D(1, 3, padding="same"),
    ])
    model.compile("adam", "mse")
    start = time.time()
    model.fit(DataLoader(Patches(picture, 32, 1600), batch_size=32, shuffle=True), epochs=4, verbose=2)
    print("train time: %.1f s" % (time.time() - start))
