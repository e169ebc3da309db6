"""Segmentation of cell nuclei with a small U-Net."""
import argparse
import os
import time
os.environ["KERAS_BACKEND"] = "jax"
import numpy as np
import keras
from keras import layers


def double_conv(h, f):
    for _ in range(2):
        h = layers.Conv2D(f, 3, padding="same", activation="relu")(h)
    return h


def unet(size):
    inp = keras.Input((size, size, 1))
    a = double_conv(inp, 12)
    b = double_conv(layers.MaxPooling2D()(a), 24)
    c = double_conv(layers.MaxPooling2D()(b), 48)
    u = layers.Conv2DTranspose(24, 2, strides=2)(c)
    u = double_conv(layers.Concatenate()([u, b]), 24)
    u = layers.Conv2DTranspose(12, 2, strides=2)(u)
    u = double_conv(layers.Concatenate()([u, a]), 12)
    return keras.Model(inp, layers.Conv2D(1, 1, activation="sigmoid")(u))


def nuclei(n, size, seed):
    rng = np.random.default_rng(seed)
    g = np.mgrid[0:size, 0:size]
    masks = np.zeros((n, size, size, 1), "float32")
    for i in range(n):
        for _ in range(4):
            cy, cx, r = rng.integers(8, size - 8), rng.integers(8, size - 8), rng.integers(3, 8)
            masks[i, (g[0] - cy) ** 2 + (g[1] - cx) ** 2 < r * r] = 1.0
    return masks + rng.normal(0, 0.4, masks.shape).astype("float32"), masks


class Preview(keras.callbacks.Callback):
    """Saves two predicted masks after each epoch."""

    def __init__(self, x):
        super().__init__()
        self.x = x

    def on_epoch_end(self, epoch, logs=None):
        np.save("preview_%02d.npy" % epoch, np.asarray(self.model(self.x, training=False)))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=4)
    a = p.parse_args()
    x, m = nuclei(320, a.size, 0)
    xv, mv = nuclei(64, a.size, 1)
    model = unet(a.size)
    model.compile(keras.optimizers.Adam(2e-3), "binary_crossentropy", metrics=[keras.metrics.BinaryAccuracy()])
    t0 = time.time()
    model.fit(x, m, batch_size=16, epochs=a.epochs, validation_data=(xv, mv), verbose=2,
              callbacks=[Preview(xv[:2]), keras.callbacks.ModelCheckpoint("unet.weights.h5", save_weights_only=True)])
    print("train time: %.2f s" % (time.time() - t0))
