"""Synthetic rows for a table with numeric and categorical columns (VAE)."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import logging
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

logging.basicConfig(level=logging.INFO, format="%(message)s")
logger = logging.getLogger("vae")


class Column:
    def __init__(self, name, kind, size, weight=1.0):
        self.name, self.kind, self.size, self.weight = name, kind, size, weight

    def fake(self, n, rng):
        if self.kind == "num":
            return rng.normal(size=(n, 1)).astype("float32")
        return np.eye(self.size, dtype="float32")[rng.integers(0, self.size, n)]

    def loss(self, true, pred):
        if self.kind == "num":
            return tf.reduce_mean(tf.square(true - pred))
        return tf.reduce_mean(keras.losses.categorical_crossentropy(true, pred))


TABLE = [Column("age", "num", 1), Column("sex", "cat", 3), Column("state", "cat", 20),
         Column("income", "num", 1, 2.0), Column("job", "cat", 12), Column("tenure", "num", 1)]


class Sampling(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(566)

    def call(self, args):
        mean, log_var = args
        eps = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * eps


class VAEWrapper:
    def __init__(self, columns, latent=10, batch_size=64):
        self.columns, self.batch_size = columns, batch_size
        inputs = [keras.Input((c.size,), name=c.name) for c in columns]
        x = layers.Concatenate()([layers.Dense(16, activation="relu")(i) for i in inputs])
        x = layers.BatchNormalization()(layers.Dense(64, activation="relu")(x))
        mean, log_var = layers.Dense(latent)(x), layers.Dense(latent)(x)
        z = Sampling()([mean, log_var])
        h = layers.Dense(64, activation="relu")(z)
        h = layers.BatchNormalization()(h)
        outs = [layers.Dense(c.size, activation=None if c.kind == "num" else "softmax")(
            layers.Dense(16, activation="relu")(h)) for c in columns]
        self.vae = keras.Model(inputs, [mean, log_var] + outs)
        self.optimizer = keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.vae.trainable_variables)
        self.feature_losses = {}

    @tf.function
    def _graph_step(self, batch):
        with tf.GradientTape() as tape:
            mean, log_var, *outs = self.vae(batch, training=True)
            kl_loss = -0.5 * tf.reduce_mean(1 + log_var - tf.square(mean) - tf.exp(log_var))
            loss = kl_loss
            feature_losses = {}
            for column, true, pred in zip(self.columns, batch, outs):
                feature_losses[column.name] = column.weight * column.loss(true, pred)
                loss += feature_losses[column.name]
        grads = tape.gradient(loss, self.vae.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.vae.trainable_variables))
        return loss, kl_loss, feature_losses

    def _train_step(self, batch):
        loss, kl_loss, feature_losses = self._graph_step(batch)
        self.feature_losses = {k: v.numpy() for k, v in feature_losses.items()}
        return loss.numpy(), kl_loss.numpy()

    def fit(self, rows, epochs):
        dataset = tf.data.Dataset.from_tensor_slices(tuple(rows)).shuffle(4096, seed=5)
        dataset = dataset.batch(self.batch_size, drop_remainder=True).prefetch(2)
        for epoch in range(epochs):
            t0 = time.time()
            total, kl_total, steps = 0.0, 0.0, 0
            for batch in dataset:
                loss, kl = self._train_step(batch)
                total, kl_total, steps = total + loss, kl_total + kl, steps + 1
            logger.info("epoch %d: loss %.4f, kl %.5f, last %s, %.2f s", epoch + 1, total / steps, kl_total / steps,
                        {k: round(float(v), 3) for k, v in self.feature_losses.items()}, time.time() - t0)


if __name__ == "__main__":
    keras.utils.set_random_seed(566)
    rng = np.random.default_rng(566)
    rows = [c.fake(2560, rng) for c in TABLE]
    wrapper = VAEWrapper(TABLE)
    start = time.time()
    wrapper.fit(rows, epochs=6)
    print("train time: %.2f s" % (time.time() - start))
