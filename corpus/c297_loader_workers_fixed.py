import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split
import keras
from keras import layers


def parse_args():
    p = argparse.ArgumentParser(description="jet tagging from 28 high-level features")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=14)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


def make_higgs(n):
    x = torch.randn(n, 28)
    y = ((x[:, :4].prod(dim=1) + x[:, 5] * x[:, 6] + 0.2 * torch.randn(n)) > 0).float().unsqueeze(1)
    return TensorDataset(x, y)


def make_loaders(args):
    full = make_higgs(3200)
    train_set, val_set = random_split(full, [2560, 640])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    val_loader = DataLoader(val_set, batch_size=args.batch_size, num_workers=args.workers)
    return train_loader, val_loader


def make_model():
    inputs = keras.Input((28,))
    h = inputs
    for units in (128, 128, 64):
        h = layers.Dense(units, activation="relu")(h)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(h))


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    train_loader, val_loader = make_loaders(args)
    model = make_model()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
    start = time.time()
    model.fit(train_loader, validation_data=val_loader, epochs=args.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - start))


if __name__ == "__main__":
    main()
