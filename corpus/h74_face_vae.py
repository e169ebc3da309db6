import os
import tempfile
import time

import numpy as np
import torch
import keras
from keras import layers, ops


class Sampling(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_var = inputs
        eps = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * eps


class VAE(keras.Model):
    def __init__(self, encoder, decoder, beta=0.2, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder, self.beta = encoder, decoder, beta
        self.trackers = [keras.metrics.Mean(name=n) for n in ("loss", "rec", "kl")]

    @property
    def metrics(self):
        return self.trackers

    def call(self, x):
        return self.decoder(self.encoder(x)[2])

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        self.zero_grad()
        mean, log_var, z = self.encoder(x, training=True)
        out = self.decoder(z, training=True)
        rec = ops.mean(ops.sum(ops.square(x - out), axis=(1, 2, 3)))
        kl = ops.mean(ops.sum(-0.5 * (1 + log_var - ops.square(mean) - ops.exp(log_var)), axis=1))
        loss = rec + self.beta * kl
        loss.backward()
        weights = self.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([w.value.grad for w in weights], weights)
        for m, v in zip(self.trackers, (loss, rec, kl)):
            m.update_state(v.detach())
        return {m.name: m.result() for m in self.trackers}


def faces(n, size=48, seed=0):
    rng = np.random.default_rng(seed)
    g = np.linspace(-1, 1, size, dtype="float32")
    yy, xx = g[:, None], g[None, :]
    cx, cy, w, e = (rng.uniform(lo, hi, (n, 1, 1)).astype("float32")
                    for lo, hi in ((-.2, .2), (-.2, .2), (.4, .7), (.15, .3)))
    head = np.exp(-(((xx - cx) / w) ** 2 + ((yy - cy) / 0.8) ** 2) ** 3)
    eyes = sum(np.exp(-(((xx - cx - s * e) ** 2 + (yy - cy + .2) ** 2) / 0.006)) for s in (-1, 1))
    img = np.stack([head * 0.9, head * 0.7 - 0.4 * eyes, head * 0.5 - 0.4 * eyes], -1)
    return np.clip(img, 0, 1).astype("float32")


def make_vae(size=48, latent=16):
    x = inp = keras.Input((size, size, 3))
    for f in (32, 64, 96):
        x = layers.Conv2D(f, 4, strides=2, padding="same", activation="relu")(x)
    x = layers.Dense(128, activation="relu")(layers.Flatten()(x))
    mean, log_var = layers.Dense(latent)(x), layers.Dense(latent)(x)
    encoder = keras.Model(inp, [mean, log_var, Sampling()([mean, log_var])], name="encoder")

    z = keras.Input((latent,))
    s = size // 8
    x = layers.Reshape((s, s, 96))(layers.Dense(s * s * 96, activation="relu")(z))
    for f in (64, 32, 32):
        x = layers.Conv2DTranspose(f, 4, strides=2, padding="same", activation="relu")(x)
    decoder = keras.Model(z, layers.Conv2D(3, 3, padding="same", activation="sigmoid")(x), name="decoder")
    return VAE(encoder, decoder)


if __name__ == "__main__":
    keras.utils.set_random_seed(10)
    images = faces(2048)
    vae = make_vae()
    vae.compile(optimizer=keras.optimizers.Adam(1e-3))
    with tempfile.TemporaryDirectory() as run_dir:
        callbacks = [
            keras.callbacks.ModelCheckpoint(os.path.join(run_dir, "vae.weights.h5"), monitor="loss",
                                            save_best_only=True, save_weights_only=True),
            keras.callbacks.CSVLogger(os.path.join(run_dir, "log.csv")),
            keras.callbacks.TerminateOnNaN(),
        ]
        tic = time.time()
        vae.fit(images, batch_size=64, epochs=5, verbose=2, callbacks=callbacks)
        toc = time.time()
    print("train time: %.2f s" % (toc - tic))
