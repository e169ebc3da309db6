import os
os.environ["KERAS_BACKEND"] = "torch"
import io
import time
import keras
import numpy as np
import torch
from PIL import Image, ImageFilter, ImageOps
from torch.utils.data import DataLoader, Dataset

SIDE = 72


def make_scans(n, seed):
    """PNG bytes of castings with or without a pore"""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    blobs, flags = [], rng.integers(0, 2, n)
    for flag in flags:
        img = 120 + 40 * np.sin(xx / 11 + rng.random() * 6) + rng.normal(0, 12, (SIDE, SIDE))
        if flag:
            cy, cx = rng.integers(12, SIDE - 12, 2)
            img -= 70 * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 18.0)
        speck = rng.random((SIDE, SIDE)) < 0.03
        img[speck] = 255
        buf = io.BytesIO()
        Image.fromarray(np.clip(img, 0, 255).astype("uint8")).save(buf, "PNG")
        blobs.append(buf.getvalue())
    return blobs, flags.astype("float32")


def clean(blob):
    image = Image.open(io.BytesIO(blob)).convert("L")
    image = image.filter(ImageFilter.MedianFilter(5))
    image = ImageOps.autocontrast(image, cutoff=1)
    image = image.filter(ImageFilter.UnsharpMask(radius=2, percent=120))
    return np.asarray(image, dtype="float32")[..., None] / 255.0


class Castings(Dataset):
    def __init__(self, blobs, flags, rng):
        self.blobs = blobs
        self.flags = flags
        self.rng = rng

    def __len__(self):
        return len(self.blobs)

    def __getitem__(self, i):
        x = clean(self.blobs[i])
        if self.rng.random() < 0.5:
            x = x[:, ::-1].copy()
        return x, self.flags[i]


def detector():
    return keras.Sequential([
        keras.Input((SIDE, SIDE, 1)),
        keras.layers.Conv2D(8, 5, strides=3, activation="relu"),
        keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        keras.layers.GlobalMaxPooling2D(),
        keras.layers.Dense(1),
    ])


keras.utils.set_random_seed(263)
blobs, flags = make_scans(800, seed=263)
model = detector()
model.compile(optimizer=keras.optimizers.Adam(2e-3),
              loss=keras.losses.BinaryCrossentropy(from_logits=True))
begin = time.perf_counter()
loader = DataLoader(Castings(blobs, flags, np.random.default_rng(1)), batch_size=32, shuffle=True)
model.fit(loader, epochs=6, verbose=2)
print("train time: %.2f s" % (time.perf_counter() - begin))
