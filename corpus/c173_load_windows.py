"""Day-ahead load forecast with quantiles. One week of history in, 24 hours out."""
import time
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf


@dataclass
class Settings:
    meters: int = 12
    hours: int = 2400
    history: int = 168
    horizon: int = 24
    batch_size: int = 64
    steps: int = 40
    epochs: int = 8
    quantiles: list = field(default_factory=lambda: [0.1, 0.5, 0.9])


class QuantileNet(keras.Model):
    def __init__(self, s):
        super().__init__()
        self.q = tf.constant(s.quantiles)
        self.conv1 = keras.layers.Conv1D(64, 7, strides=1, activation="relu")
        self.conv2 = keras.layers.Conv1D(64, 5, strides=2, activation="relu")
        self.flat = keras.layers.Flatten()
        self.hidden = keras.layers.Dense(96, activation="relu")
        self.out = keras.layers.Dense(s.horizon * len(s.quantiles))
        self.shape_ = keras.layers.Reshape((s.horizon, len(s.quantiles)))
        self.tracker = keras.metrics.Mean(name="pinball")

    def call(self, x):
        return self.shape_(self.out(self.hidden(self.flat(self.conv2(self.conv1(x))))))

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            e = y[..., None] - self(x, training=True)
            loss = tf.reduce_mean(tf.maximum(self.q * e, (self.q - 1.0) * e))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.tracker.update_state(loss)
        return {"pinball": self.tracker.result()}


class WindowSource:
    def __init__(self, s, seed=8):
        rng = np.random.default_rng(seed)
        t = np.arange(s.hours)
        base = 2 + np.sin(2 * np.pi * t / 24) + 0.5 * np.sin(2 * np.pi * t / 168)
        scale = rng.uniform(0.5, 3, (s.meters, 1))
        self.s = s
        self.load = tf.constant((scale * base + rng.normal(0, 0.2, (s.meters, s.hours))).astype("float32"))
        self.temp = tf.constant((10 + 8 * np.sin(2 * np.pi * t / 8760) + rng.normal(0, 1, s.hours)).astype("float32"))
        self.per_meter = s.hours - s.history - s.horizon
        self.count = s.meters * self.per_meter

    def window(self, i):
        s = self.s
        m, t = i // self.per_meter, i % self.per_meter
        row = self.load[m, t:t + s.history + s.horizon]
        past = row[:s.history]
        mu, sd = tf.reduce_mean(past), tf.math.reduce_std(past) + 1e-3
        hour = tf.cast(tf.range(t, t + s.history), tf.float32)
        temp = (self.temp[t:t + s.history] - 10.0) / 8.0
        x = tf.stack([(past - mu) / sd, temp,
                      tf.sin(hour * (2 * np.pi / 24)), tf.cos(hour * (2 * np.pi / 24)),
                      tf.sin(hour * (2 * np.pi / 168)), tf.cos(hour * (2 * np.pi / 168))], axis=-1)
        return tf.ensure_shape(x, (s.history, 6)), tf.ensure_shape((row[s.history:] - mu) / sd, (s.horizon,))

    def dataset(self):
        ds = tf.data.Dataset.range(self.count)
        ds = ds.map(self.window, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.shuffle(self.count)
        return ds.batch(self.s.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    s = Settings()
    keras.utils.set_random_seed(4)
    source = WindowSource(s)
    print("windows:", source.count)
    train = source.dataset().take(s.steps)
    net = QuantileNet(s)
    net.compile(optimizer=keras.optimizers.Adam(1e-3))
    t0 = time.time()
    net.fit(train, epochs=s.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


main()
