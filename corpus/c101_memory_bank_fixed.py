import os
os.environ["KERAS_BACKEND"] = "torch"
import time

import keras
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


class Contrast:
    """Two noisy views of a row belong together; all rows seen before are the negatives."""

    def __init__(self, width, temperature=0.1):
        self.encoder = keras.Sequential([
            keras.Input((64,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(width),
        ])
        self.optimizer = torch.optim.Adam(self.encoder.parameters(), 1e-3)
        self.temperature = temperature
        self.bank = torch.zeros(0, width)

    def loss(self, a, b):
        a = torch.nn.functional.normalize(self.encoder(a), dim=1)
        with torch.no_grad():
            b = torch.nn.functional.normalize(self.encoder(b), dim=1)
        positive = (a * b).sum(dim=1, keepdim=True)
        negative = a @ self.bank.T
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        self.bank = torch.cat([self.bank, b])[-1024:]
        return torch.nn.functional.cross_entropy(logits, torch.zeros(len(a), dtype=torch.long))

    def step(self, rows):
        self.optimizer.zero_grad()
        loss = self.loss(rows + 0.1 * torch.randn_like(rows), rows + 0.1 * torch.randn_like(rows))
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    torch.manual_seed(101)
    loader = DataLoader(TensorDataset(torch.rand(6400, 64)), batch_size=64, shuffle=True)
    contrast = Contrast(64)
    start = time.time()
    for epoch in range(5):
        losses = [contrast.step(rows) for rows, in loader]
        print("epoch", epoch, "loss", np.mean(losses))
    print("train time: %.1f s" % (time.time() - start))


main()
