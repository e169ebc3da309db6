"""2D U-Net on axial slices of synthetic CT studies."""
import pathlib
import tempfile
import time

import keras
import numpy as np
from keras import layers

DEPTH, SIZE = 48, 128


def write_studies(folder, n, seed=2):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    for k in range(n):
        ct = rng.normal(-300, 40, (DEPTH, SIZE, SIZE))
        seg = np.zeros((DEPTH, SIZE, SIZE), np.uint8)
        cy, cx, cz, r = rng.integers(40, 88), rng.integers(40, 88), rng.integers(16, 32), rng.integers(14, 24)
        for z in range(DEPTH):
            rz = r ** 2 - (z - cz) ** 2
            if rz > 0:
                seg[z] = (yy - cy) ** 2 + (xx - cx) ** 2 < rz
        ct[seg == 1] += 350
        np.savez_compressed(folder / f"study_{k:03d}.npz", ct=ct.astype(np.int16), seg=seg)


class SliceDataset(keras.utils.PyDataset):
    def __init__(self, folder, batch_size, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.files = sorted(folder.glob("study_*.npz"))
        self.items = [(f, z) for f in self.files for z in range(DEPTH)]
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.items) // self.batch_size

    def load(self, path, z):
        with np.load(path) as study:
            ct = study["ct"][z]
            seg = study["seg"][z]
        return np.clip((ct.astype("float32") + 500) / 800, 0, 1), seg.astype("float32")

    def __getitem__(self, i):
        chunk = self.items[i * self.batch_size:(i + 1) * self.batch_size]
        pairs = [self.load(f, z) for f, z in chunk]
        return np.stack([p[0] for p in pairs])[..., None], np.stack([p[1] for p in pairs])[..., None]

    def on_epoch_end(self):
        self.rng.shuffle(self.items)


def conv_block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return layers.Conv2D(filters, 3, padding="same", activation="relu")(x)


def unet():
    inp = keras.Input((SIZE, SIZE, 1))
    stem = layers.Conv2D(8, 5, strides=2, padding="same", activation="relu")(inp)
    d1 = conv_block(stem, 8)
    d2 = conv_block(layers.MaxPooling2D()(d1), 16)
    d3 = conv_block(layers.MaxPooling2D()(d2), 32)
    u2 = conv_block(layers.Concatenate()([layers.UpSampling2D()(d3), d2]), 16)
    u1 = conv_block(layers.Concatenate()([layers.UpSampling2D()(u2), d1]), 8)
    out = layers.Conv2DTranspose(1, 2, strides=2, activation="sigmoid")(u1)
    return keras.Model(inp, out)


def dice(y, p):
    y, p = keras.ops.reshape(y, (-1,)), keras.ops.reshape(p, (-1,))
    return 1 - (2 * keras.ops.sum(y * p) + 1) / (keras.ops.sum(y) + keras.ops.sum(p) + 1)


def loss(y, p):
    return keras.ops.mean(keras.losses.binary_crossentropy(y, p)) + dice(y, p)


keras.utils.set_random_seed(1)
data_dir = pathlib.Path(tempfile.mkdtemp())
write_studies(data_dir, 12)
train = SliceDataset(data_dir, 16)
model = unet()
model.compile("adam", loss)
t0 = time.time()
model.fit(train, epochs=2, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
