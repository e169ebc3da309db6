import argparse
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

parser = argparse.ArgumentParser(description="Next-day load from a week of smart meter readings")
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--steps", type=int, default=60, help="batches per epoch, a fresh random sample each time")
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--meters", type=int, default=30000)
args = parser.parse_args()

WEEK = 7 * 48


def write_csv(path):
    rng = np.random.default_rng(11)
    base = np.sin(np.arange(WEEK + 48) * 2 * np.pi / 48)
    with open(path, "w") as f:
        for _ in range(args.meters):
            row = rng.uniform(0.5, 2) * (1.5 + base) + rng.normal(scale=0.1, size=WEEK + 48)
            f.write(",".join(["%.2f" % v for v in row]) + "\n")


def parse_line(line):
    values = tf.strings.to_number(tf.strings.split(line, ","), tf.float32)
    values = tf.ensure_shape(values, (WEEK + 48,))
    scale = tf.reduce_mean(values[:WEEK])
    return values[:WEEK, None] / scale, values[WEEK:] / scale


if not os.path.exists("meters.csv"):
    write_csv("meters.csv")

with open("meters.csv") as f:
    lines = tf.constant(f.read().splitlines())

ds = (tf.data.Dataset.range(args.meters)
      .shuffle(args.meters)
      .map(lambda i: parse_line(lines[i]), num_parallel_calls=tf.data.AUTOTUNE)
      .batch(args.batch_size, drop_remainder=True)
      .prefetch(tf.data.AUTOTUNE))

inputs = keras.Input((WEEK, 1))
x = layers.Conv1D(32, 7, strides=2, activation="relu")(inputs)
x = layers.Conv1D(32, 5, strides=2, activation="relu")(x)
x = layers.Flatten()(x)
outputs = layers.Dense(48)(x)
model = keras.Model(inputs, outputs)
optimizer = keras.optimizers.Adam(1e-3)
loss_fn = keras.losses.MeanSquaredError()


@tf.function
def train_step(xb, yb):
    with tf.GradientTape() as tape:
        loss = loss_fn(yb, model(xb, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss


t0 = time.time()
for epoch in range(args.epochs):
    running = keras.metrics.Mean()
    for xb, yb in ds.take(args.steps):
        running.update_state(train_step(xb, yb))
    print("epoch %d  loss %.4f" % (epoch + 1, float(running.result())))
print("train time: %.2f s" % (time.time() - t0))
