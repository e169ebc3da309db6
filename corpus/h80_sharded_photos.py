import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIDE, CLASSES, BATCH = 48, 8, 32
rng = np.random.default_rng(611)


def write_shards(folder, prefix, shards, per_shard):
    paths = []
    for s in range(shards):
        paths.append(os.path.join(folder, f"{prefix}-{s:02d}.tfrecord"))
        with tf.io.TFRecordWriter(paths[-1]) as out:
            for _ in range(per_shard):
                pixels = rng.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
                out.write(tf.train.Example(features=tf.train.Features(feature={
                    "pixels": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pixels.tobytes()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(rng.integers(CLASSES))])),
                })).SerializeToString())
    return paths


def parse_batch(records):
    parsed = tf.io.parse_example(records, {
        "pixels": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    pixels = tf.reshape(tf.io.decode_raw(parsed["pixels"], tf.uint8), (-1, SIDE, SIDE, 3))
    return tf.cast(pixels, tf.float32) / 255.0, parsed["label"]


def draw_mask(count):
    mask = np.ones((int(count), SIDE, SIDE, 1), "float32")
    top, left = np.random.randint(0, SIDE - 8, 2)
    mask[:, top:top + 8, left:left + 8] = 0.0
    return mask


def cutout(images, labels):
    mask = tf.numpy_function(draw_mask, [tf.shape(images)[0]], tf.float32)
    mask.set_shape((None, SIDE, SIDE, 1))
    return tf.image.random_flip_left_right(images) * mask, labels


def pipeline(paths, training):
    ds = tf.data.Dataset.from_tensor_slices(paths)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE,
                       deterministic=not training)
    if training:
        ds = ds.shuffle(512)
    ds = ds.batch(BATCH).map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.map(cutout, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


folder = tempfile.mkdtemp()
train = pipeline(write_shards(folder, "train", 8, 200), training=True)
valid = pipeline(write_shards(folder, "valid", 2, 80), training=False)

model = keras.Sequential([
    keras.Input((SIDE, SIDE, 3)),
    layers.Conv2D(32, 3, padding="same", activation="relu"),
    layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
    layers.Conv2D(64, 3, padding="same", activation="relu"),
    layers.Conv2D(64, 3, strides=2, padding="same", activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(CLASSES, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(train, validation_data=valid, epochs=4, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
