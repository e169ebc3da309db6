import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import functools
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

CFG = {
    "seed": 601,
    "images": 512,
    "side": 512,
    "size": (96, 96),
    "batch": 16,
    "epochs": 8,
    "classes": 5,
    "pipeline": ["records", "cache", "shuffle", "decode", "flip", "batch", "prefetch"],
}
STAGES = {}


def stage(fn):
    STAGES[fn.__name__] = fn
    return fn


def write_records(cfg):
    rng = np.random.default_rng(cfg["seed"])
    path = os.path.join(tempfile.mkdtemp(), "leaves.tfrecord")
    cells = cfg["side"] // 16
    bases = [np.repeat(np.repeat(rng.integers(20, 220, (cells, cells, 3), dtype=np.uint8), 16, 0), 16, 1)
             for _ in range(cfg["classes"])]
    grain = rng.integers(0, 16, (cfg["side"], cfg["side"], 3), dtype=np.uint8)
    with tf.io.TFRecordWriter(path) as out:
        for i in range(cfg["images"]):
            label = i % cfg["classes"]
            shift = tuple(int(s) for s in rng.integers(0, cfg["side"], 2))
            picture = np.roll(bases[label], shift, (0, 1)) + grain
            features = {
                "jpeg": tf.train.Feature(bytes_list=tf.train.BytesList(
                    value=[tf.io.encode_jpeg(picture, quality=90).numpy()])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            out.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return path


def to_example(record, size):
    parsed = tf.io.parse_single_example(record, {
        "jpeg": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    })
    picture = tf.io.decode_jpeg(parsed["jpeg"], channels=3)
    picture = tf.image.resize(tf.cast(picture, tf.float32) / 255.0, size, antialias=True)
    return picture, parsed["label"]


def mirrored(picture, label):
    return tf.image.random_flip_left_right(picture), label


@stage
def records(ds, cfg):
    return tf.data.TFRecordDataset(cfg["path"])


@stage
def cache(ds, cfg):
    return ds.cache()


@stage
def shuffle(ds, cfg):
    return ds.shuffle(cfg["images"], seed=cfg["seed"])


@stage
def decode(ds, cfg):
    return ds.map(functools.partial(to_example, size=cfg["size"]), num_parallel_calls=tf.data.AUTOTUNE)


@stage
def flip(ds, cfg):
    return ds.map(mirrored, num_parallel_calls=tf.data.AUTOTUNE)


@stage
def batch(ds, cfg):
    return ds.batch(cfg["batch"])


@stage
def prefetch(ds, cfg):
    return ds.prefetch(tf.data.AUTOTUNE)


def build_pipeline(cfg):
    return functools.reduce(lambda ds, name: STAGES[name](ds, cfg), cfg["pipeline"], None)


def build_model(cfg):
    inputs = keras.Input((*cfg["size"], 3))
    x = inputs
    for filters in (24, 48, 96):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(cfg["classes"], activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


CFG["path"] = write_records(CFG)
train = build_pipeline(CFG)
model = build_model(CFG)
t0 = time.time()
model.fit(train, epochs=CFG["epochs"], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
