# WGAN-GP that makes up vibration windows of a pump (3 axes, 64 samples)
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers as L

WINDOW, AXES, NOISE = 64, 3, 32
BATCH = 128
N_CRITIC = 2


def pump_windows(n=4096, seed=8):
    rng = np.random.default_rng(seed)
    t = np.arange(WINDOW)[None, :, None]
    f = rng.uniform(0.03, 0.18, size=(n, 1, AXES))
    ph = rng.uniform(0, 2 * np.pi, size=(n, 1, AXES))
    amp = rng.uniform(0.3, 1.0, size=(n, 1, AXES))
    w = amp * np.sin(2 * np.pi * f * t + ph) + 0.05 * rng.normal(size=(n, WINDOW, AXES))
    return np.clip(w, -1, 1).astype("float32")


def make_generator():
    z = keras.Input((NOISE,))
    h = L.Dense(16 * 48)(z)
    h = L.LeakyReLU(0.2)(h)
    h = L.Reshape((16, 48))(h)
    h = L.UpSampling1D(2)(h)
    h = L.Conv1D(48, 5, padding="same")(h)
    h = L.LayerNormalization()(h)
    h = L.LeakyReLU(0.2)(h)
    h = L.UpSampling1D(2)(h)
    h = L.Conv1D(32, 5, padding="same")(h)
    h = L.LayerNormalization()(h)
    h = L.LeakyReLU(0.2)(h)
    return keras.Model(z, L.Conv1D(AXES, 5, padding="same", activation="tanh")(h), name="generator")


def make_critic():
    x = keras.Input((WINDOW, AXES))
    h = x
    for ch in (32, 48, 64):
        h = L.Conv1D(ch, 5, strides=2, padding="same")(h)
        h = L.LeakyReLU(0.2)(h)
    h = L.Flatten()(h)
    h = L.Dense(64)(h)
    h = L.LeakyReLU(0.2)(h)
    return keras.Model(x, L.Dense(1)(h), name="critic")


class WGANGP:
    def __init__(self, gp_weight=10.0):
        self.gen, self.critic = make_generator(), make_critic()
        self.g_opt = keras.optimizers.Adam(1e-4, beta_1=0.5, beta_2=0.9)
        self.c_opt = keras.optimizers.Adam(1e-4, beta_1=0.5, beta_2=0.9)
        self.g_opt.build(self.gen.trainable_variables)
        self.c_opt.build(self.critic.trainable_variables)
        self.gp_weight = gp_weight

    def penalty(self, real, fake):
        eps = tf.random.uniform((tf.shape(real)[0], 1, 1))
        mixed = eps * real + (1 - eps) * fake
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            score = self.critic(mixed, training=True)
        g = tape.gradient(score, mixed)
        norm = tf.sqrt(tf.reduce_sum(tf.square(g), axis=[1, 2]) + 1e-12)
        return tf.reduce_mean(tf.square(norm - 1.0))

    @tf.function
    def critic_step(self, real):
        z = tf.random.normal((tf.shape(real)[0], NOISE))
        with tf.GradientTape() as tape:
            fake = self.gen(z, training=True)
            loss = tf.reduce_mean(self.critic(fake, training=True)) - tf.reduce_mean(self.critic(real, training=True))
            loss += self.gp_weight * self.penalty(real, fake)
        grads = tape.gradient(loss, self.critic.trainable_variables)
        self.c_opt.apply_gradients(zip(grads, self.critic.trainable_variables))
        return loss

    @tf.function
    def generator_step(self):
        z = tf.random.normal((BATCH, NOISE))
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.critic(self.gen(z, training=True), training=True))
        grads = tape.gradient(loss, self.gen.trainable_variables)
        self.g_opt.apply_gradients(zip(grads, self.gen.trainable_variables))
        return loss

    def fit(self, data, epochs):
        for e in range(epochs):
            c_hist, g_hist = [], []
            for i, real in enumerate(data):
                c_hist.append(self.critic_step(real))
                if (i + 1) % N_CRITIC == 0:
                    g_hist.append(self.generator_step())
            print("epoch %d  critic %.3f  generator %.3f" % (e + 1, np.mean(c_hist), np.mean(g_hist)))


if __name__ == "__main__":
    keras.utils.set_random_seed(2)
    ds = (tf.data.Dataset.from_tensor_slices(pump_windows())
          .shuffle(4096, seed=1).batch(BATCH, drop_remainder=True).prefetch(4))
    gan = WGANGP()
    begin = time.time()
    gan.fit(ds, epochs=4)
    print("train time: %.2f s" % (time.time() - begin))
