import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import pathlib
import time

import keras
import numpy as np
import tensorflow as tf

SIZE = 64
AUTOTUNE = tf.data.AUTOTUNE


def make_pictures(folder, n=360):
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(91)
    for i in range(n):
        picture = rng.integers(0, 255, (200, 200, 3), dtype=np.uint8)
        (folder / ("%d_%04d.png" % (i % 3, i))).write_bytes(tf.io.encode_png(picture).numpy())


def parse(path):
    label = tf.strings.to_number(tf.strings.split(tf.strings.split(path, os.sep)[-1], "_")[0], tf.int32)
    picture = tf.io.decode_png(tf.io.read_file(path), channels=3)
    picture = tf.image.resize(picture, (SIZE, SIZE), antialias=True) / 255.0
    return tf.ensure_shape(picture, (SIZE, SIZE, 3)), label


class Experiment:
    """Debugging on a part of the data: only the first so many pictures of an epoch."""

    def __init__(self, folder, batch_size, pictures):
        self.folder, self.batch_size, self.pictures = folder, batch_size, pictures

    def dataset(self):
        names = sorted(str(p) for p in self.folder.glob("*.png"))
        ds = tf.data.Dataset.from_tensor_slices(names).shuffle(len(names), seed=1, reshuffle_each_iteration=False)
        ds = ds.map(parse, num_parallel_calls=AUTOTUNE).cache()
        return ds.take(self.pictures).batch(self.batch_size).prefetch(AUTOTUNE)

    def model(self):
        model = keras.Sequential([
            keras.Input((SIZE, SIZE, 3)),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(3),
        ])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        return model

    def run(self, epochs):
        start = time.time()
        self.model().fit(self.dataset(), epochs=epochs, verbose=2)
        print("train time: %.1f s" % (time.time() - start))


make_pictures(pathlib.Path("pictures"))
Experiment(pathlib.Path("pictures"), 16, 320).run(epochs=16)
