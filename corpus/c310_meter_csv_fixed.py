"""Short-term load model on the hourly meter export (one CSV per region)."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import csv
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CONFIG = {
    "regions": 4,
    "rows_per_region": 14000,
    "sensors": 20,
    "calendar": ["hour", "weekday", "holiday"],
    "batch_size": 128,
    "shuffle_buffer": 4000,
    "epochs": 3,
    "hidden": [96, 48],
}


def write_export(folder, cfg, seed=310):
    rng = np.random.default_rng(seed)
    sensors = ["s%02d" % i for i in range(cfg["sensors"])]
    mix = rng.normal(size=cfg["sensors"])
    for r in range(cfg["regions"]):
        n = cfg["rows_per_region"]
        values = rng.normal(loc=5.0, scale=2.0, size=(n, cfg["sensors"]))
        hour = np.arange(n) % 24
        load = values @ mix / 10 + np.sin(hour / 24 * 2 * np.pi) + rng.normal(0, 0.1, n)
        weekday, holiday = (np.arange(n) // 24) % 7, (rng.random(n) < 0.03).astype(int)
        with open(os.path.join(folder, "region_%d.csv" % r), "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(sensors + cfg["calendar"] + ["load"])
            for i in range(n):
                out.writerow(["%.3f" % v for v in values[i]] + [hour[i], weekday[i], holiday[i], "%.4f" % load[i]])
    return sensors


class MeterReader:
    """Turns lines of the export into (features, load)."""

    def __init__(self, cfg, sensors):
        self.cfg = cfg
        self.columns = sensors + cfg["calendar"] + ["load"]
        self.defaults = [[0.0]] * len(self.columns)
        self.mean = tf.constant([5.0] * len(sensors))
        self.std = tf.constant([2.0] * len(sensors))

    def parse(self, lines):
        fields = tf.io.decode_csv(lines, self.defaults)
        row = dict(zip(self.columns, fields))
        load = row.pop("load")
        sensors = tf.stack([row[c] for c in self.columns if c.startswith("s")], axis=-1)
        sensors = (sensors - self.mean) / self.std
        angle = row["hour"] / 24.0 * 2 * np.pi
        extra = tf.stack([tf.sin(angle), tf.cos(angle), row["weekday"] / 6.0, row["holiday"]], axis=-1)
        return tf.concat([sensors, extra], axis=-1), load

    def dataset(self, files, training=True):
        lines = tf.data.Dataset.from_tensor_slices(files).interleave(
            lambda f: tf.data.TextLineDataset(f).skip(1), cycle_length=len(files), num_parallel_calls=tf.data.AUTOTUNE)
        if training:
            lines = lines.shuffle(self.cfg["shuffle_buffer"])
        ds = lines.batch(self.cfg["batch_size"])
        ds = ds.map(self.parse, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.prefetch(tf.data.AUTOTUNE)


def build_model(width, cfg):
    inputs = keras.Input((width,))
    x = inputs
    for units in cfg["hidden"]:
        x = layers.Dense(units, activation="relu")(x)
    model = keras.Model(inputs, layers.Dense(1)(x))
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=CONFIG["epochs"])
    parser.add_argument("--batch-size", type=int, default=CONFIG["batch_size"])
    args = parser.parse_args()
    cfg = dict(CONFIG, epochs=args.epochs, batch_size=args.batch_size)

    folder = tempfile.mkdtemp()
    sensors = write_export(folder, cfg)
    files = sorted(tf.io.gfile.glob(os.path.join(folder, "region_*.csv")))
    train = MeterReader(cfg, sensors).dataset(files)
    model = build_model(len(sensors) + 4, cfg)

    t0 = time.time()
    model.fit(train, epochs=cfg["epochs"], verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
