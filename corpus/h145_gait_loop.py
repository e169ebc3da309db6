"""Gait phase estimation: convolution + attention, own training loop with averaged weights."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CFG = {"steps": 80, "width": 96, "heads": 4, "batch": 64, "epochs": 4, "lr": 1e-3, "decay": 0.99, "log_every": 40}


def walk(n, steps, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(steps) / 40.0
    speed = rng.uniform(0.7, 1.6, (n, 1))
    phase = 2 * np.pi * (speed * t + rng.uniform(0, 1, (n, 1)))
    amplitude = rng.uniform(0.6, 1.4, (n, 1, 9))
    signal = np.sin(phase[..., None] + np.linspace(0, 2, 9)) * amplitude + rng.normal(0, 0.4, (n, steps, 9))
    target = np.stack([np.sin(phase), np.cos(phase)], axis=-1)
    return signal.astype("float32"), target.astype("float32")


def network(cfg):
    inputs = keras.Input((cfg["steps"], 9))
    x = layers.Conv1D(cfg["width"], 7, padding="same", activation="gelu")(inputs)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(cfg["heads"], cfg["width"] // cfg["heads"])(y, y)
        y = layers.LayerNormalization()(x)
        x = x + layers.Dense(cfg["width"])(layers.Dense(2 * cfg["width"], activation="gelu")(y))
    return keras.Model(inputs, layers.Dense(2)(x))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = network(cfg)
        self.optimizer = keras.optimizers.AdamW(cfg["lr"])
        self.optimizer.build(self.model.trainable_variables)
        self.average = [tf.Variable(v.value) for v in self.model.trainable_variables]
        self.mean_loss = keras.metrics.Mean()

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(x, training=True) - y))
        variables = self.model.trainable_variables
        grads, norm = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
        self.optimizer.apply_gradients(zip(grads, variables))
        for a, v in zip(self.average, variables):
            a.assign(self.cfg["decay"] * a + (1 - self.cfg["decay"]) * v.value)
        self.mean_loss.update_state(loss)
        return norm

    @tf.function
    def error(self, x, y):
        return tf.reduce_mean(tf.abs(self.model(x, training=False) - y))

    def run(self, train, val):
        ds = tf.data.Dataset.from_tensor_slices(train).shuffle(len(train[0]))
        ds = ds.batch(self.cfg["batch"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)
        count = 0
        for epoch in range(self.cfg["epochs"]):
            self.mean_loss.reset_state()
            for x, y in ds:
                norm = self.step(x, y)
                count += 1
                if count % self.cfg["log_every"] == 0:
                    print("step %d  loss %.4f  gradient %.3f" % (count, float(self.mean_loss.result()), float(norm)))
            print("epoch %d  error %.4f" % (epoch + 1, float(self.error(*val))))


if __name__ == "__main__":
    trainer = Trainer(CFG)
    train, val = walk(2048, CFG["steps"], 1), walk(128, CFG["steps"], 2)
    t0 = time.time()
    trainer.run(train, tuple(map(tf.constant, val)))
    print("train time: %.2f s" % (time.time() - t0))
