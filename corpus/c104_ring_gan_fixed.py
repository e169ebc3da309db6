import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf


def mlp(inputs, outputs, name):
    return keras.Sequential([
        keras.Input((inputs,)),
        keras.layers.Dense(64), keras.layers.LeakyReLU(),
        keras.layers.Dense(64), keras.layers.LeakyReLU(),
        keras.layers.Dense(outputs),
    ], name=name)


class GAN:
    def __init__(self):
        self.generator, self.critic = mlp(8, 2, "generator"), mlp(2, 1, "critic")
        self.g_opt, self.c_opt = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)
        self.g_opt.build(self.generator.trainable_variables)
        self.c_opt.build(self.critic.trainable_variables)
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def train_step(self, real):
        noise = tf.random.normal((tf.shape(real)[0], 8))
        with tf.GradientTape() as g_tape, tf.GradientTape() as c_tape:
            fake = self.generator(noise, training=True)
            on_real, on_fake = self.critic(real, training=True), self.critic(fake, training=True)
            g_loss = self.bce(tf.ones_like(on_fake), on_fake)
            c_loss = self.bce(tf.ones_like(on_real), on_real) + self.bce(tf.zeros_like(on_fake), on_fake)
        self.g_opt.apply_gradients(zip(g_tape.gradient(g_loss, self.generator.trainable_variables), self.generator.trainable_variables))
        self.c_opt.apply_gradients(zip(c_tape.gradient(c_loss, self.critic.trainable_variables), self.critic.trainable_variables))
        return g_loss, c_loss

    def train(self, points, epochs, batch):
        for epoch in range(epochs):
            np.random.shuffle(points)
            for start in range(0, len(points), batch):
                losses = self.train_step(tf.convert_to_tensor(points[start:start + batch]))
            print("epoch", epoch, [round(float(each), 3) for each in losses])


np.random.seed(104)
angle = np.random.uniform(0, 2 * np.pi, 3200)
points = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype("float32")
start = time.time()
GAN().train(points, epochs=5, batch=64)
print("train time: %.1f s" % (time.time() - start))
