# Leaf disease classifier, images in folders by class
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import glob
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from PIL import Image

CFG = {
    "root": "leaves",
    "classes": ["healthy", "rust", "scab"],
    "per_class": 180,
    "photo_size": 768,
    "image_size": 96,
    "batch_size": 16,
    "epochs": 3,
    "lr": 5e-4,
}


def make_photos(cfg):
    rng = np.random.default_rng(3)
    for k, name in enumerate(cfg["classes"]):
        folder = os.path.join(cfg["root"], name)
        os.makedirs(folder, exist_ok=True)
        for i in range(cfg["per_class"]):
            path = os.path.join(folder, "%04d.png" % i)
            if os.path.exists(path):
                continue
            small = rng.integers(0, 90, (40, 40, 3))
            small[..., k] += 80
            img = Image.fromarray(small.astype("uint8")).resize((cfg["photo_size"],) * 2, Image.BICUBIC)
            img.save(path, compress_level=1)


def load_example(path, label):
    img = tf.io.decode_png(tf.io.read_file(path), channels=3)
    img = tf.image.random_flip_left_right(tf.image.resize(img, (112, 112)))
    img = tf.image.random_crop(img, (CFG["image_size"], CFG["image_size"], 3)) / 255.0
    img = tf.image.random_brightness(img, 0.1)
    return img, label


def build_dataset(cfg):
    paths, labels = [], []
    for k, name in enumerate(cfg["classes"]):
        found = sorted(glob.glob(os.path.join(cfg["root"], name, "*.png")))
        paths += found
        labels += [k] * len(found)
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.shuffle(len(paths))
    ds = ds.map(load_example, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(cfg["batch_size"])
    ds = ds.prefetch(tf.data.AUTOTUNE)
    return ds


def build_model(cfg):
    inputs = keras.Input((cfg["image_size"], cfg["image_size"], 3))
    x = inputs
    for width in (16, 24, 32):
        x = layers.SeparableConv2D(width, 3, strides=2, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(len(cfg["classes"]), activation="softmax")(x)
    return keras.Model(inputs, outputs)


make_photos(CFG)
train = build_dataset(CFG)
model = build_model(CFG)
model.compile(keras.optimizers.Adam(CFG["lr"]), "sparse_categorical_crossentropy", metrics=["accuracy"])
tic = time.time()
history = model.fit(train, epochs=CFG["epochs"], verbose=2)
print("train time: %.2f s" % (time.time() - tic))
