import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
from dataclasses import dataclass
import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    columns: int = 32
    noise_dim: int = 64
    batch: int = 256
    rows: int = 20480
    epochs: int = 6
    lr: float = 2e-4


def make_table(cfg, seed=61):
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=2.0, size=(12, cfg.columns))
    rows = centers[rng.integers(0, 12, cfg.rows)] + 0.3 * rng.normal(size=(cfg.rows, cfg.columns))
    return np.tanh(0.4 * rows).astype("float32")


def block(units, *, norm):
    stack = [layers.Dense(units), layers.LeakyReLU(negative_slope=0.2)]
    return stack + ([layers.BatchNormalization(momentum=0.9)] if norm else [layers.Dropout(0.2)])


class TabularGAN:
    def __init__(self, cfg):
        self.cfg = cfg
        self.generator = keras.Sequential(
            [keras.Input((cfg.noise_dim,)), *block(512, norm=True), *block(512, norm=True),
             layers.Dense(cfg.columns, activation="tanh")], name="generator")
        self.discriminator = keras.Sequential(
            [keras.Input((cfg.columns,)), *block(512, norm=False), *block(256, norm=False),
             layers.Dense(1)], name="discriminator")
        self.g_opt = keras.optimizers.Adam(cfg.lr, beta_1=0.5)
        self.d_opt = keras.optimizers.Adam(cfg.lr, beta_1=0.5)
        self.g_opt.build(self.generator.trainable_variables)
        self.d_opt.build(self.discriminator.trainable_variables)
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)
        self.g_loss = keras.metrics.Mean(name="g_loss")
        self.d_loss = keras.metrics.Mean(name="d_loss")

    def _noise(self):
        return tf.random.normal((self.cfg.batch, self.cfg.noise_dim))

    def _update(self, tape, loss, net, opt):
        grads = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(grads, net.trainable_variables))

    def train_step(self, real):
        ones = tf.ones((self.cfg.batch, 1))
        zeros = tf.zeros((self.cfg.batch, 1))
        fake = self.generator(self._noise(), training=True)
        with tf.GradientTape() as tape:
            on_real = self.discriminator(real, training=True)
            on_fake = self.discriminator(fake, training=True)
            d_loss = 0.5 * (self.bce(0.9 * ones, on_real) + self.bce(zeros, on_fake))
        self._update(tape, d_loss, self.discriminator, self.d_opt)

        with tf.GradientTape() as tape:
            on_fake = self.discriminator(self.generator(self._noise(), training=True), training=True)
            g_loss = self.bce(ones, on_fake)
        self._update(tape, g_loss, self.generator, self.g_opt)
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)

    def train(self, table):
        ds = (tf.data.Dataset.from_tensor_slices(table)
              .shuffle(len(table), seed=1)
              .batch(self.cfg.batch, drop_remainder=True)
              .prefetch(tf.data.AUTOTUNE))
        for epoch in range(self.cfg.epochs):
            self.d_loss.reset_state()
            self.g_loss.reset_state()
            for real in ds:
                self.train_step(real)
            print("epoch %d  d_loss %.4f  g_loss %.4f" % (
                epoch, float(self.d_loss.result()), float(self.g_loss.result())))


if __name__ == "__main__":
    keras.utils.set_random_seed(61)
    cfg = Config()
    table = make_table(cfg)
    gan = TabularGAN(cfg)
    t0 = time.time()
    gan.train(table)
    print("train time: %.2f s" % (time.time() - t0))
