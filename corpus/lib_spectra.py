import numpy as np
import torch
import keras
from torch.utils.data import Dataset


class SpectraDataset(Dataset):
    """Raman spectra of 8 minerals, kept in memory."""

    def __init__(self, n, length=512, classes=8, seed=0):
        rng = np.random.default_rng(seed)
        grid = np.linspace(0, 1, length)
        peaks = np.random.default_rng(99).random((classes, 5))
        self.y = rng.integers(0, classes, n)
        width = rng.uniform(0.008, 0.015, size=(n, 5, 1))
        shift = rng.normal(scale=0.01, size=(n, 5))
        centre = (peaks[self.y] + shift)[:, :, None]
        x = np.exp(-0.5 * ((grid[None, None] - centre) / width) ** 2).sum(1)
        x += rng.normal(scale=0.25, size=x.shape)
        self.x = torch.from_numpy(x.astype("float32"))[:, :, None]
        self.target = torch.from_numpy(keras.utils.to_categorical(self.y, classes))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.target[i]
