"""Few-class leaf patch classifier. Keras model, torch optimiser, torch DataLoader."""
import argparse
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
import keras
from keras import layers


class LeafPatches(Dataset):
    def __init__(self, n, size=32, classes=6, seed=0):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, classes, n)
        yy, xx = np.mgrid[:size, :size].astype("float32") / size
        waves = np.stack([np.sin((2 + c) * np.pi * (xx + (c % 3) * yy)) for c in range(classes)])
        imgs = waves[labels][:, None] * rng.uniform(0.3, 1, (n, 3, 1, 1))
        imgs = imgs + 1.5 * rng.standard_normal((n, 3, size, size))
        self.images = torch.tensor(imgs.transpose(0, 2, 3, 1), dtype=torch.float32)
        self.labels = torch.tensor(labels)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


def make_model(size=32, classes=6):
    return keras.Sequential([
        keras.Input((size, size, 3)),
        layers.Conv2D(24, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(48, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(classes),
    ])


@torch.no_grad()
def accuracy(model, loader):
    hits = total = 0
    for x, y in loader:
        hits += (model(x, training=False).argmax(-1) == y).sum().item()
        total += len(y)
    return hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--workers", type=int, default=4)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    keras.utils.set_random_seed(1)
    train = DataLoader(LeafPatches(640, seed=1), batch_size=args.batch, shuffle=True,
                       num_workers=args.workers, drop_last=True)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    loss_fn = torch.nn.CrossEntropyLoss(label_smoothing=0.05)

    start = time.time()
    for epoch in range(args.epochs):
        model.train()
        running = 0.0
        for x, y in train:
            optimizer.zero_grad()
            loss = loss_fn(model(x, training=True), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
        scheduler.step()
        if epoch % 5 == 4:
            print(f"[{epoch + 1}/{args.epochs}] loss {running / len(train):.4f}")
    elapsed = time.time() - start

    test = DataLoader(LeafPatches(256, seed=2), batch_size=128)
    print("test accuracy", round(accuracy(model, test), 3))
    print(f"train time: {elapsed:.2f} s")


if __name__ == "__main__":
    main()
