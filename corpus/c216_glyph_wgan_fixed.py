import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

LATENT = 32


def glyphs(n, seed=8):
    """16x16 strokes: a bar, a ring or a cross, jittered."""
    r = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:16, 0:16]
    out = np.zeros((n, 16, 16, 1), "float32")
    for i in range(n):
        cy, cx = r.uniform(6, 9, 2)
        kind = r.integers(0, 3)
        if kind == 0:
            img = np.exp(-((xx - cx) ** 2) / 2.0)
        elif kind == 1:
            img = np.exp(-((np.hypot(xx - cx, yy - cy) - 4.5) ** 2) / 1.5)
        else:
            img = np.maximum(np.exp(-((xx - cx) ** 2) / 2.0), np.exp(-((yy - cy) ** 2) / 2.0))
        out[i, ..., 0] = 2 * img - 1
    return out


def make_generator():
    return keras.Sequential([
        keras.Input((LATENT,)),
        layers.Dense(4 * 4 * 48),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Reshape((4, 4, 48)),
        layers.Conv2DTranspose(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="tanh"),
    ], name="generator")


def make_critic():
    return keras.Sequential([
        keras.Input((16, 16, 1)),
        layers.Conv2D(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(48, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(),
        layers.Dense(1),
    ], name="critic")


class GlyphWGAN:
    def __init__(self, critic_steps=3):
        self.g, self.c = make_generator(), make_critic()
        self.g_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.c_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
        self.g_opt.build(self.g.trainable_variables)
        self.c_opt.build(self.c.trainable_variables)
        self.critic_steps = critic_steps
        self.c_loss = keras.metrics.Mean()
        self.g_loss = keras.metrics.Mean()

    def penalty(self, real, fake):
        eps = tf.random.uniform((tf.shape(real)[0], 1, 1, 1))
        mix = eps * real + (1.0 - eps) * fake
        with tf.GradientTape() as tape:
            tape.watch(mix)
            score = self.c(mix, training=True)
        grad = tape.gradient(score, mix)
        return tf.reduce_mean((tf.sqrt(tf.reduce_sum(grad ** 2, axis=[1, 2, 3]) + 1e-8) - 1.0) ** 2)

    @tf.function
    def step(self, real, gp_weight):
        n = tf.shape(real)[0]
        for _ in range(self.critic_steps):
            fake = self.g(tf.random.normal((n, LATENT)), training=True)
            with tf.GradientTape() as tape:
                gap = tf.reduce_mean(self.c(fake, training=True)) - tf.reduce_mean(self.c(real, training=True))
                loss = gap + gp_weight * self.penalty(real, fake)
            grads = tape.gradient(loss, self.c.trainable_variables)
            self.c_opt.apply_gradients(zip(grads, self.c.trainable_variables))
            self.c_loss.update_state(loss)
        with tf.GradientTape() as tape:
            fake = self.g(tf.random.normal((n, LATENT)), training=True)
            loss = -tf.reduce_mean(self.c(fake, training=True))
        grads = tape.gradient(loss, self.g.trainable_variables)
        self.g_opt.apply_gradients(zip(grads, self.g.trainable_variables))
        self.g_loss.update_state(loss)

    def run_epoch(self, images, gp_weight):
        self.c_loss.reset_state()
        self.g_loss.reset_state()
        weight = tf.constant(gp_weight, tf.float32)
        for real in images:
            self.step(real, weight)
        return float(self.c_loss.result()), float(self.g_loss.result())


def main():
    keras.utils.set_random_seed(0)
    images = tf.data.Dataset.from_tensor_slices(glyphs(512)).cache().shuffle(512).batch(64, drop_remainder=True)
    gan = GlyphWGAN()
    t0 = time.time()
    for epoch in range(10):
        gp_weight = 10.0 * min(1.0, (epoch + 1) / 5)
        c, g = gan.run_epoch(images, gp_weight)
        print("epoch %2d  critic %.3f  generator %.3f" % (epoch + 1, c, g))
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
