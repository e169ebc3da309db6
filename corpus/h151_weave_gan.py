import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

NOISE, SIDE = 32, 32
out_dir = tempfile.mkdtemp()


def fabrics(n=768):
    rng = np.random.default_rng(151)
    u = np.arange(SIDE)
    fx, fy, p = rng.uniform(0.2, 1.2, (3, n, 1, 1))
    img = np.sin(fx * u[None, None, :] + p) * np.cos(fy * u[None, :, None])
    return (img[..., None] + 0.05 * rng.normal(size=(n, SIDE, SIDE, 1))).astype("float32")


class GAN(keras.Model):
    def __init__(self, gen, disc):
        super().__init__()
        self.gen, self.disc = gen, disc
        self.d_loss = keras.metrics.Mean(name="d_loss")
        self.g_loss = keras.metrics.Mean(name="g_loss")

    def compile(self, g_opt, d_opt):
        super().compile()
        self.g_opt, self.d_opt = g_opt, d_opt
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def call(self, z):
        return self.gen(z)

    def train_step(self, real):
        z = tf.random.normal((tf.shape(real)[0], NOISE))
        with tf.GradientTape(persistent=True) as tape:
            fake = self.gen(z, training=True)
            s_real, s_fake = self.disc(real, training=True), self.disc(fake, training=True)
            d = self.bce(tf.ones_like(s_real) * 0.9, s_real) + self.bce(tf.zeros_like(s_fake), s_fake)
            g = self.bce(tf.ones_like(s_fake), s_fake)
        self.d_opt.apply_gradients(zip(tape.gradient(d, self.disc.trainable_weights), self.disc.trainable_weights))
        self.g_opt.apply_gradients(zip(tape.gradient(g, self.gen.trainable_weights), self.gen.trainable_weights))
        self.d_loss.update_state(d)
        self.g_loss.update_state(g)
        return {m.name: m.result() for m in self.metrics}


class Samples(keras.callbacks.Callback):
    """Sixteen swatches from a fixed seed, saved after every epoch."""

    z = np.random.default_rng(0).normal(size=(16, NOISE)).astype("float32")

    def on_epoch_end(self, epoch, logs=None):
        np.save(os.path.join(out_dir, "epoch_%02d.npy" % epoch), self.model.gen.predict_on_batch(self.z))


gen = keras.Sequential([
    keras.Input((NOISE,)),
    layers.Dense(8 * 8 * 64, activation="relu"),
    layers.Reshape((8, 8, 64)),
    layers.UpSampling2D(),
    layers.Conv2D(48, 3, padding="same", activation="relu"),
    layers.UpSampling2D(),
    layers.Conv2D(32, 3, padding="same", activation="relu"),
    layers.Conv2D(1, 3, padding="same", activation="tanh"),
])
disc = keras.Sequential([
    keras.Input((SIDE, SIDE, 1)),
    layers.Conv2D(32, 3, padding="same", activation="leaky_relu"),
    layers.AveragePooling2D(2),
    layers.Conv2D(64, 3, padding="same", activation="leaky_relu"),
    layers.AveragePooling2D(2),
    layers.Conv2D(64, 3, padding="same", activation="leaky_relu"),
    layers.Flatten(),
    layers.Dense(1),
])
gan = GAN(gen, disc)
gan.compile(keras.optimizers.Adam(2e-4, beta_1=0.5), keras.optimizers.Adam(2e-4, beta_1=0.5))
ds = tf.data.Dataset.from_tensor_slices(fabrics()).shuffle(768).batch(64, drop_remainder=True).prefetch(2)
t0 = time.time()
gan.fit(ds, epochs=5, callbacks=[Samples()], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
