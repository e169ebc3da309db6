import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers
from PIL import Image

LATENT = 64
BATCH = 64


def blobs(n, seed=96):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:32, :32]
    c = rng.uniform(8, 24, (n, 2, 1, 1))
    r = rng.uniform(4, 9, (n, 1, 1))
    d = np.hypot(yy - c[:, 0], xx - c[:, 1])
    return (255 / (1 + np.exp(d - r)))[..., None].astype("uint8")


def generator():
    return keras.Sequential([
        keras.Input((LATENT,)),
        layers.Dense(8 * 8 * 64),
        layers.LeakyReLU(0.2),
        layers.Reshape((8, 8, 64)),
        layers.Conv2DTranspose(64, 4, strides=2, padding="same"),
        layers.LeakyReLU(0.2),
        layers.Conv2DTranspose(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(0.2),
        layers.Conv2D(1, 3, padding="same", activation="tanh"),
    ])


def critic():
    return keras.Sequential([
        keras.Input((32, 32, 1)),
        layers.Conv2D(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(0.2),
        layers.Conv2D(64, 4, strides=2, padding="same"),
        layers.LeakyReLU(0.2),
        layers.Flatten(),
        layers.Dense(1),
    ])


class Trainer:
    def __init__(self, out):
        self.g, self.d = generator(), critic()
        self.g_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.d_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)
        self.fixed = tf.random.normal((16, LATENT), seed=1)
        self.out = out

    @tf.function
    def step(self, real):
        z = tf.random.normal((BATCH, LATENT))
        with tf.GradientTape() as gt, tf.GradientTape() as dt:
            fake = self.g(z, training=True)
            s_real, s_fake = self.d(real, training=True), self.d(fake, training=True)
            d_loss = self.bce(tf.ones_like(s_real) * 0.9, s_real) + self.bce(tf.zeros_like(s_fake), s_fake)
            g_loss = self.bce(tf.ones_like(s_fake), s_fake)
        self.g_opt.apply_gradients(zip(gt.gradient(g_loss, self.g.trainable_variables), self.g.trainable_variables))
        self.d_opt.apply_gradients(zip(dt.gradient(d_loss, self.d.trainable_variables), self.d.trainable_variables))
        return d_loss, g_loss

    def sample(self, epoch):
        img = self.g(self.fixed, training=False).numpy()
        grid = img.reshape(4, 4, 32, 32).transpose(0, 2, 1, 3).reshape(128, 128)
        Image.fromarray(((grid + 1) * 127.5).astype("uint8")).save(os.path.join(self.out, "e%02d.png" % epoch))


def main(epochs=5):
    data = blobs(2560)
    ds = (
        tf.data.Dataset.from_tensor_slices(data)
        .shuffle(len(data))
        .batch(BATCH, drop_remainder=True)
        .map(lambda b: tf.cast(b, tf.float32) / 127.5 - 1.0)
        .prefetch(tf.data.AUTOTUNE)
    )
    tr = Trainer(tempfile.mkdtemp())
    t0 = time.time()
    for ep in range(epochs):
        for i, real in enumerate(ds):
            d_loss, g_loss = tr.step(real)
            if i % 20 == 0:
                print("epoch %d  step %3d  d %.3f  g %.3f" % (ep + 1, i, float(d_loss), float(g_loss)))
        tr.sample(ep)
    print("train time: %.2f s" % (time.time() - t0))


main()
