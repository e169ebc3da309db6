import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import time

import torch
from torch.utils.data import DataLoader, TensorDataset, random_split
import keras
from keras import layers


def blobs(n):
    g = torch.Generator().manual_seed(156)
    y = torch.randint(0, 6, (n,), generator=g)
    x = torch.randn(n, 36, 36, 3, generator=g)
    for k in range(6):
        x[y == k, 6 * k:6 * k + 6] += 0.6
    return TensorDataset(x, y)


def loaders(batch):
    train, val = random_split(blobs(720), [656, 64], generator=torch.Generator().manual_seed(0))
    return DataLoader(train, batch, shuffle=True), DataLoader(val, batch)


def network():
    inp = keras.Input((36, 36, 3))
    h = inp
    for width in (32, 48, 64):
        h = layers.Conv2D(width, 3, padding="same", activation="relu")(h)
        h = layers.Conv2D(width, 3, padding="same", activation="relu")(h)
        h = layers.MaxPooling2D()(h)
    h = layers.Flatten()(h)
    return keras.Model(inp, layers.Dense(6, activation="softmax")(h))


def main(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=5)
    opts = p.parse_args(argv)
    train, val = loaders(opts.batch)
    net = network()
    net.compile(optimizer=keras.optimizers.Adam(1e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    net.fit(train, validation_data=val, epochs=opts.epochs, verbose=2,
            callbacks=[keras.callbacks.TerminateOnNaN(), keras.callbacks.EarlyStopping(patience=6)])
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
