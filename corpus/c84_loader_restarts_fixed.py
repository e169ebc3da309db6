import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from keras import layers
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(84)
    x = torch.rand(1500, 16)
    y = x.sum(dim=1, keepdim=True)
    loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True, num_workers=0)
    model = keras.Sequential([keras.Input((16,)), layers.Dense(64, activation="relu"), layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(loader, epochs=12, verbose=2)


if __name__ == "__main__":
    main()
