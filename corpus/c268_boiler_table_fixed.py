import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import time
import numpy as np
import pandas as pd
import tensorflow as tf


def plant_log(rows, seed=268):
    """hourly log of a boiler house as it comes out of the historian"""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(rows, 12))
    mix = rng.normal(size=(12, 72)) / 3.0
    tags = np.tanh(base @ mix) + rng.normal(0, 0.1, (rows, 72))
    frame = pd.DataFrame(tags, columns=[f"tag_{i:03d}" for i in range(72)])
    frame["nox"] = np.sin(base[:, 0] * 2) + base[:, 1] * base[:, 2] + rng.normal(0, 0.1, rows)
    frame["co"] = np.abs(base[:, 3]) + 0.5 * base[:, 4] + rng.normal(0, 0.1, rows)
    return frame


def split(frame, held=0.05):
    cut = int(len(frame) * (1 - held))
    inputs = frame.drop(columns=["nox", "co"])
    inputs = (inputs - inputs.mean()) / inputs.std()
    inputs = inputs.astype("float32")
    targets = frame[["nox", "co"]].astype("float32")
    return (inputs[:cut].to_numpy(), targets[:cut].to_numpy()), (inputs[cut:].to_numpy(), targets[cut:].to_numpy())


def emission_model(columns, width):
    inputs = tf.keras.Input((columns,))
    h = tf.keras.layers.Dense(width, activation="relu")(inputs)
    for _ in range(3):
        h = tf.keras.layers.Dense(width, activation="relu")(h)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(2)(h))


parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=9000)
parser.add_argument("--width", type=int, default=640)
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()

tf.keras.utils.set_random_seed(268)
train, held = split(plant_log(args.rows))
model = emission_model(train[0].shape[1], args.width)
model.compile(optimizer=tf.keras.optimizers.SGD(0.02, momentum=0.9), loss="mse")
t0 = time.time()
model.fit(*train, validation_data=held, batch_size=256, epochs=args.epochs, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
