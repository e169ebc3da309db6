"""Click model on TFRecord shards, one tf.train.Example per impression."""
import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf
from tensorflow import keras

NUMERIC = [f"num_{i:02d}" for i in range(14)]
BUCKETED = [f"cat_{i:02d}" for i in range(18)]
CARDINALITY = 300


def write_shards(folder, rows, shards, seed=260):
    rng = np.random.default_rng(seed)
    num = rng.normal(size=(rows, len(NUMERIC))).astype("float32")
    cat = rng.integers(0, CARDINALITY, (rows, len(BUCKETED)))
    score = num[:, 0] - 0.7 * num[:, 3] + (cat[:, 2] % 5 == 0) * 1.5
    clicked = (score + rng.normal(size=rows) > 0.6).astype("int64")
    names = []
    for s in range(shards):
        names.append(os.path.join(folder, f"impressions-{s:03d}.tfrecord"))
        with tf.io.TFRecordWriter(names[-1]) as out:
            for r in range(s, rows, shards):
                feature = {n: tf.train.Feature(float_list=tf.train.FloatList(value=[num[r, j]]))
                           for j, n in enumerate(NUMERIC)}
                for j, n in enumerate(BUCKETED):
                    feature[n] = tf.train.Feature(int64_list=tf.train.Int64List(value=[cat[r, j]]))
                feature["clicked"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[clicked[r]]))
                out.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return names


SPEC = {n: tf.io.FixedLenFeature([], tf.float32) for n in NUMERIC}
SPEC.update({n: tf.io.FixedLenFeature([], tf.int64) for n in BUCKETED})
SPEC["clicked"] = tf.io.FixedLenFeature([], tf.int64)


def decode(records):
    rows = tf.io.parse_example(records, SPEC)
    label = tf.cast(rows.pop("clicked"), tf.float32)
    numeric = tf.stack([tf.clip_by_value(rows[n], -4.0, 4.0) for n in NUMERIC], axis=-1)
    buckets = tf.stack([rows[n] for n in BUCKETED], axis=-1)
    return {"numeric": numeric, "buckets": buckets}, label


def input_fn(files, batch_size):
    ds = tf.data.Dataset.from_tensor_slices(files)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(4096, seed=1)
    ds = ds.batch(batch_size).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def wide_and_deep():
    numeric = keras.Input((len(NUMERIC),), name="numeric")
    buckets = keras.Input((len(BUCKETED),), dtype="int64", name="buckets")
    e = keras.layers.Embedding(CARDINALITY, 4)(buckets)
    h = keras.layers.Concatenate()([numeric, keras.layers.Flatten()(e)])
    h = keras.layers.Dense(48, activation="relu")(h)
    h = keras.layers.Dense(24, activation="relu")(h)
    return keras.Model([numeric, buckets], keras.layers.Dense(1, activation="sigmoid")(h))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=20000)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=256)
    args = ap.parse_args()
    keras.utils.set_random_seed(260)
    with tempfile.TemporaryDirectory() as folder:
        shards = write_shards(folder, args.rows, 4)
        model = wide_and_deep()
        model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy", metrics=["accuracy"])
        began = time.time()
        model.fit(input_fn(shards, args.batch_size), epochs=args.epochs, verbose=2)
        print("train time: %.2f s" % (time.time() - began))
