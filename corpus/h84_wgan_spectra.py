import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

BANDS, LATENT, BATCH = 128, 64, 128


def spectra(n, seed=71):
    rng = np.random.default_rng(seed)
    grid = np.arange(BANDS)[None, None]
    center = rng.uniform(10, 118, (n, 3, 1))
    width = rng.uniform(2, 8, (n, 3, 1))
    height = rng.uniform(0.3, 1.0, (n, 3, 1))
    return (height * np.exp(-0.5 * ((grid - center) / width) ** 2)).sum(axis=1).astype("float32")


def mlp(n_in, n_out, name):
    return keras.Sequential([
        keras.Input((n_in,)),
        layers.Dense(512), layers.LeakyReLU(negative_slope=0.2),
        layers.Dense(512), layers.LeakyReLU(negative_slope=0.2),
        layers.Dense(n_out),
    ], name=name)


class WGANGP(keras.Model):
    def __init__(self, generator, critic, critic_steps=2, gp_weight=10.0):
        super().__init__()
        self.generator = generator
        self.critic = critic
        self.critic_steps = critic_steps
        self.gp_weight = gp_weight
        self.critic_loss = keras.metrics.Mean(name="critic_loss")
        self.gen_loss = keras.metrics.Mean(name="gen_loss")
        self.built = True

    def compile(self, critic_optimizer, gen_optimizer):
        super().compile()
        self.critic_optimizer = critic_optimizer
        self.gen_optimizer = gen_optimizer

    @property
    def metrics(self):
        return [self.critic_loss, self.gen_loss]

    def sample(self, n):
        return self.generator(tf.random.normal((n, LATENT)), training=True)

    def penalty(self, real, fake):
        mix = real + tf.random.uniform((tf.shape(real)[0], 1)) * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(mix)
            score = self.critic(mix, training=True)
        slope = tape.gradient(score, mix)
        norm = tf.sqrt(tf.reduce_sum(tf.square(slope), axis=1) + 1e-12)
        return tf.reduce_mean(tf.square(norm - 1.0))

    def train_step(self, real):
        n = tf.shape(real)[0]
        for _ in range(self.critic_steps):
            fake = self.sample(n)
            with tf.GradientTape() as tape:
                gap = tf.reduce_mean(self.critic(fake, training=True)) - tf.reduce_mean(self.critic(real, training=True))
                loss = gap + self.gp_weight * self.penalty(real, fake)
            grads = tape.gradient(loss, self.critic.trainable_variables)
            self.critic_optimizer.apply_gradients(zip(grads, self.critic.trainable_variables))
            self.critic_loss.update_state(loss)
        with tf.GradientTape() as tape:
            gen_loss = -tf.reduce_mean(self.critic(self.sample(n), training=True))
        grads = tape.gradient(gen_loss, self.generator.trainable_variables)
        self.gen_optimizer.apply_gradients(zip(grads, self.generator.trainable_variables))
        self.gen_loss.update_state(gen_loss)
        return {m.name: m.result() for m in self.metrics}


keras.utils.set_random_seed(71)
data = spectra(6400)
ds = tf.data.Dataset.from_tensor_slices(data).shuffle(6400, seed=1).batch(BATCH, drop_remainder=True).prefetch(2)
gan = WGANGP(mlp(LATENT, BANDS, "generator"), mlp(BANDS, 1, "critic"))
gan.compile(keras.optimizers.Adam(1e-4, beta_1=0.0, beta_2=0.9), keras.optimizers.Adam(1e-4, beta_1=0.0, beta_2=0.9))
t0 = time.time()
gan.fit(ds, epochs=6, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
