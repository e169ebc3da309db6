import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SHARDS, PER_SHARD, SIDE = 4, 160, 40
folder = tempfile.mkdtemp()
rng = np.random.default_rng(150)


def write_shards():
    for s in range(SHARDS):
        with tf.io.TFRecordWriter(os.path.join(folder, "part-%02d.tfrecord" % s)) as out:
            for _ in range(PER_SHARD):
                label = int(rng.integers(5))
                img = rng.integers(0, 120, (SIDE, SIDE, 3))
                img[8 * label:8 * label + 8] += 100
                out.write(tf.train.Example(features=tf.train.Features(feature={
                    "png": tf.train.Feature(bytes_list=tf.train.BytesList(
                        value=[tf.io.encode_png(img.astype("uint8")).numpy()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                })).SerializeToString())


def parse(record):
    f = tf.io.parse_single_example(record, {"png": tf.io.FixedLenFeature([], tf.string),
                                            "label": tf.io.FixedLenFeature([], tf.int64)})
    img = tf.io.decode_png(f["png"], channels=3)
    return tf.ensure_shape(img, (SIDE, SIDE, 3)), f["label"]


def jitter(img, label):
    img = tf.image.random_flip_left_right(tf.cast(img, tf.float32) / 255.0)
    return tf.image.random_brightness(img, 0.1), label


def dataset():
    files = tf.data.Dataset.list_files(os.path.join(folder, "*.tfrecord"))
    ds = files.interleave(tf.data.TFRecordDataset, cycle_length=SHARDS, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE).cache()
    ds = ds.shuffle(SHARDS * PER_SHARD).map(jitter, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(64).prefetch(tf.data.AUTOTUNE)


write_shards()
model = keras.Sequential([keras.Input((SIDE, SIDE, 3))])
for width in (32, 48, 64):
    model.add(layers.Conv2D(width, 3, padding="same", activation="relu"))
    model.add(layers.Conv2D(width, 3, padding="same", activation="relu"))
    model.add(layers.MaxPooling2D())
model.add(layers.Flatten())
model.add(layers.Dense(5, activation="softmax"))
model.compile(optimizer=keras.optimizers.Adam(1e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(dataset(), epochs=5, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
