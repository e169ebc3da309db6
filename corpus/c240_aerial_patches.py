"""Land cover from aerial tiles: one random 96x96 patch per tile and epoch."""
import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf
from keras import layers

AUTO = tf.data.AUTOTUNE
TILE = 1536
PATCH = 96
CLASSES = 5


def write_tiles(folder, n_tiles, seed):
    rng = np.random.default_rng(seed)
    paths = []
    for shard in range(4):
        path = os.path.join(folder, "tiles-%02d.tfrecord" % shard)
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(n_tiles // 4):
                label = int(rng.integers(CLASSES))
                tile = rng.integers(0, 200, (TILE, TILE, 3), dtype=np.uint8)
                tile[..., label % 3] += 10 * label
                writer.write(tf.train.Example(features=tf.train.Features(feature={
                    "tile": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tile.tobytes()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                })).SerializeToString())
        paths.append(path)
    return paths


def parse(record):
    ex = tf.io.parse_single_example(record, {
        "tile": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    tile = tf.reshape(tf.io.decode_raw(ex["tile"], tf.uint8), (TILE, TILE, 3))
    patch = tf.image.random_crop(tile, (PATCH, PATCH, 3))
    return tf.cast(patch, tf.float32) / 255.0, ex["label"]


def make_dataset(paths, batch_size):
    files = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths))
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=AUTO)
    ds = ds.shuffle(16)
    ds = ds.map(parse, num_parallel_calls=AUTO)
    return ds.batch(batch_size).prefetch(AUTO)


def make_model():
    return keras.Sequential([
        keras.Input((PATCH, PATCH, 3)),
        layers.Conv2D(24, 3, strides=2, activation="relu"),
        layers.Conv2D(48, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(CLASSES, activation="softmax"),
    ])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tiles", type=int, default=96)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=40)
    args = ap.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        paths = write_tiles(folder, args.tiles, seed=240)
        model = make_model()
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        start = time.perf_counter()
        model.fit(make_dataset(paths, args.batch_size), epochs=args.epochs, verbose=2)
        print("train time: %.2f s" % (time.perf_counter() - start))


if __name__ == "__main__":
    main()
