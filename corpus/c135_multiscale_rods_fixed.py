"""Counts rods in microscope pictures; multi-scale training as in the detector papers: each batch at its own size."""
import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers


class MultiScale(keras.utils.PyDataset):
    def __init__(self, images, counts, batch_size, lo, hi, step=1, **kw):
        super().__init__(**kw)
        self.images, self.counts, self.batch_size = images, counts, batch_size
        self.sizes = np.arange(lo, hi + 1, step)
        self.rng = np.random.default_rng(5)

    def __len__(self):
        return len(self.images) // self.batch_size

    def __getitem__(self, i):
        sl = slice(i * self.batch_size, (i + 1) * self.batch_size)
        size = int(self.rng.choice(self.sizes))
        pick = np.linspace(0, self.images.shape[1] - 1, size).astype(int)
        return self.images[sl][:, pick][:, :, pick], self.counts[sl]


def conv_block(h, filters):
    r = layers.Conv2D(filters, 3, padding="same", use_bias=False)(h)
    r = layers.BatchNormalization()(r)
    r = layers.Activation("relu")(r)
    r = layers.Conv2D(filters, 3, padding="same", use_bias=False)(r)
    r = layers.BatchNormalization()(r)
    h = layers.Conv2D(filters, 1)(h)
    return layers.MaxPooling2D()(layers.Activation("relu")(layers.Add()([h, r])))


def make_model():
    inp = keras.Input((None, None, 1))
    h = inp
    for f in (8, 16):
        h = conv_block(h, f)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(1, activation="softplus")(h))


rng = np.random.default_rng(1)
images = rng.random((112, 72, 72, 1)).astype("float32")
counts = rng.poisson(4, (112, 1)).astype("float32")
data = MultiScale(images, counts, 16, 24, 56, step=16)
model = make_model()
model.compile(optimizer="adam", loss="poisson")
t0 = time.time()
model.fit(data, epochs=2, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
