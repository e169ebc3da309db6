import os
os.environ["KERAS_BACKEND"] = "torch"
import time
from dataclasses import dataclass

import keras
import numpy as np
import torch
from keras import layers
from torch.utils.data import DataLoader, Dataset

IMAGE_H, IMAGE_W = 120, 160


# ---- image processing of the pilot (the car runs exactly the same code) ----
class Trapezoid:
    """blacks out everything that is not road"""

    def __init__(self, top=45, upper=(30, 130)):
        mask = np.zeros((IMAGE_H, IMAGE_W), "float32")
        for row in range(top, IMAGE_H):
            f = (row - top) / (IMAGE_H - top)
            mask[row, int(upper[0] * (1 - f)):int(upper[1] + (IMAGE_W - upper[1]) * f)] = 1
        self.mask = mask

    def run(self, img):
        return img * self.mask


class Blur:
    def __init__(self, sigma=1.4, radius=4):
        k = np.exp(-np.arange(-radius, radius + 1) ** 2 / (2 * sigma ** 2))
        self.k = (k / k.sum()).astype("float32")
        self.r = radius

    def run(self, img):
        for axis in (0, 1):
            pad = [(0, 0), (0, 0)]
            pad[axis] = (self.r, self.r)
            p = np.pad(img, pad, mode="edge")
            win = np.lib.stride_tricks.sliding_window_view(p, len(self.k), axis=axis)
            img = win @ self.k
        return img


class Equalize:
    """histogram equalization in 4x4 tiles"""

    def run(self, img):
        out = np.empty_like(img)
        th, tw = IMAGE_H // 4, IMAGE_W // 4
        for r in range(4):
            for c in range(4):
                sl = (slice(r * th, (r + 1) * th), slice(c * tw, (c + 1) * tw))
                tile = np.clip(img[sl], 0, 255).astype("uint8")
                cdf = np.bincount(tile.ravel(), minlength=256).cumsum()
                out[sl] = (cdf[tile] * (255.0 / cdf[-1]))
        return out


class Edges:
    def run(self, img):
        gy, gx = np.gradient(img)
        return np.hypot(gx, gy)


class ImageTransformations:
    def __init__(self):
        self.transformations = [Blur(), Equalize(), Trapezoid(), Edges()]

    def run(self, image):
        img = image.astype("float32").mean(axis=-1)
        edges = None
        for t in self.transformations:
            img = t.run(img)
            if isinstance(t, Trapezoid):
                gray = img
        edges = img
        both = np.stack([gray, edges])                       # 2 x 120 x 160
        return both.reshape(2, IMAGE_H // 2, 2, IMAGE_W // 2, 2).mean(axis=(2, 4)).astype("float32")


@dataclass
class TubRecord:
    raw: np.ndarray
    angle: float

    def image(self, processor):
        return processor.run(self.raw)


class TubDataset(Dataset):
    def __init__(self, records, augment=True):
        self.records = records
        self.transformation = ImageTransformations()
        self.augment = augment

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        img = self.records[i].image(self.transformation)
        if self.augment:
            img = img * np.float32(0.8 + 0.4 * np.random.rand())     # brightness
        return torch.from_numpy(img / np.float32(255.0)), torch.tensor([self.records[i].angle])


class KerasLinear:
    def __init__(self):
        drop = 0.2
        img_in = keras.Input((2, IMAGE_H // 2, IMAGE_W // 2))
        x = layers.Permute((2, 3, 1))(img_in)
        x = layers.Conv2D(16, 5, strides=2, activation="relu")(x)
        x = layers.Conv2D(24, 5, strides=2, activation="relu")(x)
        x = layers.Conv2D(32, 3, strides=2, activation="relu")(x)
        x = layers.Flatten()(x)
        x = layers.Dropout(drop)(layers.Dense(64, activation="relu")(x))
        self.model = keras.Model(img_in, layers.Dense(1, name="angle")(x))

    def train(self, train_data, epochs):
        self.model.compile(optimizer="adam", loss="mse")
        return self.model.fit(train_data, epochs=epochs, verbose=2)


def load_tub(n, rng):
    for _ in range(n):
        yield TubRecord(rng.integers(0, 255, (IMAGE_H, IMAGE_W, 3), dtype=np.uint8), float(rng.normal()))


if __name__ == "__main__":
    keras.utils.set_random_seed(1050)
    records = list(load_tub(640, np.random.default_rng(1050)))
    loader = DataLoader(TubDataset(records), batch_size=64, shuffle=True)
    kl = KerasLinear()
    t0 = time.time()
    kl.train(loader, epochs=8)
    print("train time: %.2f s" % (time.time() - t0))
