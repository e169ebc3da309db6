import time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import keras
from keras import layers


def cells(n, size=64, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    mask = np.zeros((n, size, size), bool)
    for _ in range(5):
        cy, cx = rng.integers(6, size - 6, (2, n, 1, 1))
        r = rng.integers(3, 8, (n, 1, 1))
        mask |= (yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2
    image = 0.7 * mask + 0.35 * rng.standard_normal(mask.shape)
    return image[..., None].astype("float32"), mask[..., None].astype("float32")


def conv_block(x, f):
    for _ in range(2):
        x = layers.Conv2D(f, 3, padding="same")(x)
        x = layers.Activation("relu")(x)
    return x


def unet(size=64, widths=(24, 48, 96)):
    inp = keras.Input((size, size, 1))
    x, skips = inp, []
    for w in widths[:-1]:
        x = conv_block(x, w)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = conv_block(x, widths[-1])
    for w, s in zip(reversed(widths[:-1]), reversed(skips)):
        x = layers.Conv2DTranspose(w, 2, strides=2)(x)
        x = conv_block(layers.Concatenate()([x, s]), w)
    return keras.Model(inp, layers.Conv2D(1, 1)(x))


class SegmentationTrainer:
    def __init__(self, model, lr=2e-3):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.bce = nn.BCEWithLogitsLoss()

    def criterion(self, logits, y):
        p = torch.sigmoid(logits)
        dice = 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
        return self.bce(logits, y) + dice

    def train_epoch(self, loader):
        self.model.train()
        total = torch.zeros(())
        for x, y in loader:
            loss = self.criterion(self.model(x, training=True), y)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return (total / len(loader)).item()


def main(epochs=3):
    keras.utils.set_random_seed(9)
    x, y = cells(384)
    loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), batch_size=32, shuffle=True)
    trainer = SegmentationTrainer(unet())
    start = time.time()
    for e in range(epochs):
        print("epoch", e, "loss %.4f" % trainer.train_epoch(loader))
    print("train time: %.2f s" % (time.time() - start))


main()
