"""Denoising autoencoder; a Keras model in a plain PyTorch loop."""
import os
os.environ["KERAS_BACKEND"] = "torch"
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
import keras
from keras import layers

keras.utils.set_random_seed(95)


def textures(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:40, :40] / 40.0
    fx, fy, ph = rng.uniform(1, 6, (3, n, 1, 1))
    clean = 0.5 + 0.5 * np.sin(2 * np.pi * (fx * xx + fy * yy) + ph)
    noisy = clean + 0.3 * rng.normal(size=clean.shape)
    to = lambda a: torch.tensor(a[..., None], dtype=torch.float32)
    return TensorDataset(to(noisy), to(clean))


def autoencoder():
    inp = keras.Input((40, 40, 1))
    h = layers.Conv2D(32, 3, padding="same", activation="relu")(inp)
    h = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(h)
    h = layers.Conv2D(64, 3, padding="same", activation="relu")(h)
    h = layers.Conv2DTranspose(32, 3, strides=2, padding="same", activation="relu")(h)
    return keras.Model(inp, layers.Conv2D(1, 3, padding="same")(h))


def run_epoch(net, loader, loss_fn, opt=None):
    total, n = 0.0, 0
    net.train(opt is not None)
    with torch.set_grad_enabled(opt is not None):
        for noisy, clean in loader:
            pred = net(noisy, training=opt is not None)
            loss = loss_fn(pred, clean)
            if opt is not None:
                opt.zero_grad()
                loss.backward()
                opt.step()
            total += loss.item() * len(noisy)
            n += len(noisy)
    return total / n


def main(epochs=6):
    train = DataLoader(textures(1280, 95), batch_size=32, shuffle=True, num_workers=0)
    held = DataLoader(textures(96, 96), batch_size=32, num_workers=0)
    net = autoencoder()
    opt = torch.optim.Adam(net.parameters(), lr=5e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs)
    loss_fn = torch.nn.MSELoss()
    path = os.path.join(tempfile.mkdtemp(), "best.pt")
    best = float("inf")
    t0 = time.time()
    for ep in range(epochs):
        tr = run_epoch(net, train, loss_fn, opt)
        va = run_epoch(net, held, loss_fn)
        sched.step()
        if va < best:
            best = va
            torch.save(net.state_dict(), path)
        print("epoch %d  train %.4f  held-out %.4f" % (ep + 1, tr, va))
    print("train time: %.2f s" % (time.time() - t0))


main()
