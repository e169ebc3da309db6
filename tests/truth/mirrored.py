"""Two logical CPUs under MirroredStrategy, with slow input and a slow callback: prints what was planted."""

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

import keras
import numpy as np

import fitscope

STEPS = 60
x = np.random.default_rng(0).random((STEPS * 16, 16)).astype("float32")


def data(pause):
    def slow(batch):
        time.sleep(pause)
        return batch

    dataset = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(16)
    return dataset.map(lambda a, b: (tf.ensure_shape(tf.numpy_function(slow, [a], tf.float32), (None, 16)), b))


class Pauses(keras.callbacks.Callback):
    spent = 0.0

    def __init__(self, pause=0.005):
        super().__init__()
        self.pause = pause

    def on_train_batch_end(self, batch, logs=None):
        began = time.perf_counter()
        time.sleep(self.pause)
        self.spent += time.perf_counter() - began


def record(pause, callback):
    with fitscope.profile("mirrored.run") as run:
        model.fit(data(pause), epochs=2, verbose=0, callbacks=[callback])
    return json.loads(run.to_json())["regions"][0]


with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
record(0, Pauses())
planted = Pauses()
found = {"fast": record(0, Pauses()), "slow": record(0.05, planted), "callback": planted.spent}
found["paused"] = record(0, Pauses(0.055))
Path(sys.argv[1]).write_text(json.dumps(found))
