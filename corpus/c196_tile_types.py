import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
import keras
from keras import layers

LOADER = {"batch_size": 64, "shuffle": True, "drop_last": True, "num_workers": 6}


class Tiles(Dataset):
    def __init__(self, count, side, classes, seed):
        rng = np.random.default_rng(seed)
        self.labels = torch.from_numpy(rng.integers(0, classes, count))
        self.tiles = torch.from_numpy(rng.integers(0, 255, (count, side, side, 3), dtype=np.uint8))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.tiles[i].float() / 255.0, self.labels[i]


class TileNet(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.body = [
            layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
        ]
        self.head = layers.Dense(classes, activation="softmax")

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return self.head(x)


def main():
    loader = DataLoader(Tiles(896, 48, 6, seed=607), **LOADER)
    model = TileNet(6)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(loader, epochs=20, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
