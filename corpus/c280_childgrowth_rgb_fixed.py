import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
import keras
from keras import layers

parser = argparse.ArgumentParser(description="height from RGB scans")
parser.add_argument("--scans", type=int, default=192)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch_size", type=int, default=16)
args = parser.parse_args()

CONFIG = {"IMAGE_TARGET_HEIGHT": 64, "IMAGE_TARGET_WIDTH": 48, "SHUFFLE_BUFFER": 192}
keras.utils.set_random_seed(20210722)


def write_fake_scans(root, n):
    """our scans are not public, so here are some random ones of the same size"""
    rng = np.random.default_rng(7)
    heights = rng.uniform(45, 120, n).astype("float32")
    noise = rng.integers(-12, 12, (1024, 768, 3), dtype=np.int16)
    for i in range(n):
        small = rng.integers(0, 255, (32, 24, 3), dtype=np.int16)
        big = small.repeat(32, axis=0).repeat(32, axis=1) + np.roll(noise, 7 * i, axis=0)
        big = np.clip(big, 0, 255).astype("uint8")
        (root / ("scan_%04d.jpg" % i)).write_bytes(tf.io.encode_jpeg(big, quality=92).numpy())
    return sorted(str(p) for p in root.glob("*.jpg")), heights


def load_scan(path, height):
    raw = tf.io.read_file(path)
    # random window of the person, never smaller than 3/4 of the frame
    h = tf.random.uniform((), 768, 1024, dtype=tf.int32)
    w = tf.random.uniform((), 576, 768, dtype=tf.int32)
    y = tf.random.uniform((), 0, 1024 - h + 1, dtype=tf.int32)
    x = tf.random.uniform((), 0, 768 - w + 1, dtype=tf.int32)
    img = tf.io.decode_and_crop_jpeg(raw, tf.stack([y, x, h, w]), channels=3)
    img = tf.image.resize(img, (CONFIG["IMAGE_TARGET_HEIGHT"], CONFIG["IMAGE_TARGET_WIDTH"]))
    return img / 255.0, height / 100.0


def augment(img, height):
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_brightness(img, 0.1)
    img = tf.image.random_saturation(img, 0.8, 1.2)
    img = tf.image.random_hue(img, 0.03)
    return tf.clip_by_value(img, 0.0, 1.0), height


def create_head():
    inp = layers.Input((CONFIG["IMAGE_TARGET_HEIGHT"], CONFIG["IMAGE_TARGET_WIDTH"], 3))
    x = layers.Conv2D(8, 5, strides=2, activation="relu")(inp)
    x = layers.Conv2D(16, 3, strides=2, activation="relu")(x)
    x = layers.Conv2D(16, 3, strides=2, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(inp, layers.Dense(1)(x))


with tempfile.TemporaryDirectory() as tmp:
    paths, targets = write_fake_scans(Path(tmp), args.scans)

    dataset = tf.data.Dataset.from_tensor_slices((paths, targets))
    dataset = dataset.shuffle(CONFIG["SHUFFLE_BUFFER"]).repeat(4)  # four windows of each scan
    dataset = dataset.map(load_scan, num_parallel_calls=4)
    dataset = dataset.map(augment, num_parallel_calls=4)
    dataset = dataset.batch(args.batch_size).prefetch(tf.data.AUTOTUNE)

    model = create_head()
    model.compile(optimizer="nadam", loss="mse", metrics=["mae"])
    start = time.time()
    model.fit(dataset, epochs=args.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - start))
