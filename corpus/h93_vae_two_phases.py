"""Small VAE: a first phase without the KL term, then the full objective."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops


def faces(n, seed=6):
    r = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:24, 0:24]
    img = np.zeros((n, 24, 24, 1), "float32")
    for cy, cx in ((9, 7), (9, 16), (17, 12)):
        dy, dx = r.normal(size=(2, n, 1, 1))
        w = r.uniform(1.5, 3.5, (n, 1, 1))
        img[..., 0] += np.exp(-((yy - cy - dy) ** 2 + (xx - cx - dx) ** 2) / (2 * w * w))
    return np.clip(img, 0, 1)


class Mirrored(keras.utils.PyDataset):
    def __init__(self, images, batch=64, **kw):
        super().__init__(**kw)
        self.images, self.batch = images, batch
        self.rng = np.random.default_rng(0)
        self.order = self.rng.permutation(len(images))

    def __len__(self):
        return len(self.images) // self.batch

    def __getitem__(self, i):
        x = self.images[self.order[i * self.batch:(i + 1) * self.batch]]
        if self.rng.random() < 0.5:
            x = x[:, :, ::-1]
        return (np.ascontiguousarray(x),)

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


class VAE(keras.Model):
    def __init__(self, latent=16):
        super().__init__()
        self.enc = keras.Sequential([
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
            layers.Flatten(), layers.Dense(2 * latent)])
        self.dec = keras.Sequential([
            layers.Dense(6 * 6 * 48, activation="relu"), layers.Reshape((6, 6, 48)),
            layers.Conv2DTranspose(48, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(32, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(1, 3, padding="same", activation="sigmoid")])
        self.noise = keras.random.SeedGenerator(3)
        self.beta = keras.Variable(0.0, trainable=False, name="beta")
        self.total = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.total]

    def call(self, x):
        return self.dec(ops.split(self.enc(x), 2, axis=-1)[0])

    def train_step(self, data):
        (x,) = data if isinstance(data, tuple) else (data,)
        with tf.GradientTape() as tape:
            mean, logvar = ops.split(self.enc(x, training=True), 2, axis=-1)
            z = mean + ops.exp(0.5 * logvar) * keras.random.normal(ops.shape(mean), seed=self.noise)
            rec = ops.mean(ops.sum(keras.losses.binary_crossentropy(x, self.dec(z, training=True)), axis=(1, 2)))
            kl = -0.5 * ops.mean(ops.sum(1 + logvar - ops.square(mean) - ops.exp(logvar), axis=1))
            loss = rec + self.beta * kl
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.total.update_state(loss)
        return {"loss": self.total.result()}


keras.utils.set_random_seed(8)
data = Mirrored(faces(3200))
vae = VAE()
vae(np.zeros((1, 24, 24, 1), "float32"))
vae.compile(optimizer=keras.optimizers.Adam(1e-3))
t0 = time.time()
vae.fit(data, epochs=4, verbose=2)
vae.beta.assign(1.0)
vae.optimizer.learning_rate = 5e-4
vae.fit(data, initial_epoch=4, epochs=8, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
