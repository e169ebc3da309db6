import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
import keras
from keras import layers


class ArchiveVolumes(Dataset):
    """CT blocks behind the hospital's hierarchical storage; each block is fetched on demand."""

    def __init__(self, patients=320):
        self.ids = np.arange(patients)
        self.fetch_seconds = 0.006

    def __len__(self):
        return len(self.ids)

    def fetch(self, pid):
        time.sleep(self.fetch_seconds)
        rng = np.random.default_rng(int(pid))
        block = rng.standard_normal((24, 24, 24, 1), dtype="float32")
        if pid % 2:
            block[8:14, 8:14, 8:14] += 1.5
        return block

    def __getitem__(self, i):
        pid = self.ids[i]
        return torch.from_numpy(self.fetch(pid)), torch.tensor(float(pid % 2))


def get_loader(ds, batch_size=16):
    return DataLoader(ds, batch_size=batch_size, shuffle=True)


def get_model():
    model = keras.Sequential([
        keras.Input((24, 24, 24, 1)),
        layers.Conv3D(8, 3, strides=2, activation="relu"),
        layers.Conv3D(16, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling3D(),
        layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    loader = get_loader(ArchiveVolumes())
    model = get_model()
    t0 = time.time()
    model.fit(loader, epochs=4, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
