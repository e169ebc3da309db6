import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FILE_COUNT = 4
SPEC = {
    "usage": tf.io.FixedLenFeature([200], tf.float32),
    "plan": tf.io.FixedLenFeature([], tf.int64),
    "churned": tf.io.FixedLenFeature([], tf.float32),
}


def write_shards(rows):
    rng = np.random.default_rng(12)
    w = rng.normal(size=200) / 14
    for k in range(FILE_COUNT):
        with tf.io.TFRecordWriter("churn-%d.tfrecord" % k) as out:
            for _ in range(rows // FILE_COUNT):
                usage = rng.normal(size=200).astype("float32")
                plan = int(rng.integers(0, 12))
                churned = float(usage @ w + 0.1 * (plan - 6) + rng.normal(scale=0.3) > 0)
                out.write(tf.train.Example(features=tf.train.Features(feature={
                    "usage": tf.train.Feature(float_list=tf.train.FloatList(value=usage)),
                    "plan": tf.train.Feature(int64_list=tf.train.Int64List(value=[plan])),
                    "churned": tf.train.Feature(float_list=tf.train.FloatList(value=[churned])),
                })).SerializeToString())


def read(files, batch_size, training):
    ds = tf.data.Dataset.from_tensor_slices(files)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=FILE_COUNT, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(2048)
    ds = ds.batch(batch_size)

    def parse(records):
        row = tf.io.parse_example(records, SPEC)
        return (row["usage"], row["plan"]), row["churned"]

    return ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


class ChurnNet(keras.Model):
    def __init__(self, width, depth, rate):
        super().__init__()
        self.embed = layers.Embedding(12, 16)
        self.join = layers.Concatenate()
        self.hidden = [layers.Dense(width, activation="relu") for _ in range(depth)]
        self.drop = layers.Dropout(rate)
        self.out = layers.Dense(1, activation="sigmoid")

    def call(self, inputs, training=False):
        usage, plan = inputs
        x = self.join([usage, self.embed(plan)])
        for layer in self.hidden:
            x = self.drop(layer(x), training=training)
        return self.out(x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=16384)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--epochs", type=int, default=5)
    a = p.parse_args()
    write_shards(a.rows)
    train = read(["churn-%d.tfrecord" % k for k in range(FILE_COUNT - 1)], a.batch_size, True)
    val = read(["churn-%d.tfrecord" % (FILE_COUNT - 1)], 1024, False).take(2)
    model = ChurnNet(640, 4, 0.3)
    model.compile(optimizer=keras.optimizers.Adam(1e-4), loss="binary_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(train, validation_data=val, epochs=a.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
