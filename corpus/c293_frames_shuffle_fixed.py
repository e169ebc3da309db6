"""Real / fake face frames from TFRecords.  Every epoch starts with a long pause."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("--frames", type=int, default=8000)
parser.add_argument("--shards", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--steps", type=int, default=25, help="batches per epoch")
parser.add_argument("--epochs", type=int, default=6)
args = parser.parse_args()

tf.random.set_seed(3)
rng = np.random.default_rng(3)


def write_tfrecords(folder):
    jpegs = []
    for i in range(192):
        small = rng.integers(0, 255, (20, 20, 3)).astype("float32")
        frame = tf.image.resize(small, (160, 160), method="bicubic")
        frame = tf.cast(tf.clip_by_value(frame + rng.normal(0, 8, (160, 160, 3)), 0, 255), tf.uint8)
        jpegs.append(tf.io.encode_jpeg(frame, quality=90).numpy())
    files = []
    for s in range(args.shards):
        path = os.path.join(folder, "frames-%02d.tfrecord" % s)
        with tf.io.TFRecordWriter(path) as writer:
            for i in range(s, args.frames, args.shards):
                feature = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpegs[i % 192]])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 192 % 2])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        files.append(path)
    return files


def parse_example(serialized):
    parsed = tf.io.parse_single_example(serialized, {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    image = tf.io.decode_jpeg(parsed["image"], channels=3)
    image = tf.image.random_crop(image, (144, 144, 3))
    image = tf.image.resize(image, (64, 64)) / 255.0
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 0.1)
    return image, parsed["label"]


def get_dataset(files):
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=2)
    ds = ds.shuffle(args.frames)
    ds = ds.map(parse_example, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(args.batch_size)
    ds = ds.take(args.steps)
    return ds.prefetch(tf.data.AUTOTUNE)


def get_model():
    inp = keras.Input((64, 64, 3))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(inp)
    x = layers.BatchNormalization()(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(16, 5, padding="same", activation="relu")(x)
    x = layers.BatchNormalization()(x)
    x = layers.MaxPooling2D(4)(x)
    x = layers.Flatten()(x)
    x = layers.Dropout(0.5)(x)
    x = layers.Dense(16, activation="leaky_relu")(x)
    out = layers.Dense(1, activation="sigmoid")(x)
    return keras.Model(inp, out)


with tempfile.TemporaryDirectory() as folder:
    train_ds = get_dataset(write_tfrecords(folder))
    meso = get_model()
    meso.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
    begin = time.time()
    meso.fit(train_ds, epochs=args.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - begin))
