"""Probabilistic demand forecast for a set of shops: dilated conv net, quantile loss."""
import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
import keras
from keras import layers

QUANTILES = np.array([0.1, 0.5, 0.9], dtype="float32")


def make_series(n, length, horizon, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(length + horizon)
    phase = rng.uniform(0, 7, (n, 1))
    level = rng.gamma(3.0, 1.0, (n, 1))
    s = level * (1 + 0.4 * np.sin(2 * np.pi * (t + phase) / 7)) + rng.normal(0, 0.2, (n, length + horizon))
    s = s.astype("float32")
    return s[:, :length, None], s[:, length:]


def residual_block(x, filters, dilation):
    skip = layers.Conv1D(filters, 1)(x)
    h = layers.Conv1D(filters, 3, padding="causal", dilation_rate=dilation)(x)
    h = layers.LayerNormalization()(h)
    h = layers.Activation("relu")(h)
    return layers.Add()([skip, h])


def build(length, horizon):
    inp = keras.Input((length, 1))
    x = inp
    for d in (1, 2, 4, 8):
        x = residual_block(x, 16, d)
    x = layers.Lambda(lambda z: z[:, -1])(x)
    x = layers.Dense(horizon * len(QUANTILES))(x)
    return keras.Model(inp, layers.Reshape((horizon, len(QUANTILES)))(x))


def pinball(y, q):
    e = y[..., None] - q
    return tf.reduce_mean(tf.maximum(QUANTILES * e, (QUANTILES - 1) * e))


class Forecaster:
    def __init__(self, args):
        self.args = args
        self.model = build(args.length, args.horizon)
        self.optimizer = keras.optimizers.Adam(2e-3)
        self.optimizer.build(self.model.trainable_variables)
        self.loss = keras.metrics.Mean()

    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = pinball(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss.update_state(loss)

    def train(self, ds):
        for epoch in range(self.args.epochs):
            self.loss.reset_state()
            for x, y in ds:
                self.step(x, y)
            print(f"epoch {epoch + 1}: pinball {float(self.loss.result()):.4f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--length", type=int, default=28)
    p.add_argument("--horizon", type=int, default=7)
    p.add_argument("--batch", type=int, default=64)
    args = p.parse_args()
    x, y = make_series(2560, args.length, args.horizon)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(2560).batch(args.batch).prefetch(2)
    f = Forecaster(args)
    start = time.time()
    f.train(ds)
    print("train time: %.2f s" % (time.time() - start))


if __name__ == "__main__":
    main()
