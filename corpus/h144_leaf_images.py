"""Leaf disease classifier: augmented tf.data input, small residual CNN."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import argparse
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CLASSES = 6


def paint_leaves(n, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size] / size
    labels = rng.integers(0, CLASSES, n)
    images = np.empty((n, size, size, 3), "uint8")
    for i, label in enumerate(labels):
        phase = rng.uniform(0, 6)
        stripes = np.sin((4 + 3 * label) * (xx * np.cos(phase) + yy * np.sin(phase)) * np.pi)
        leaf = np.stack([0.3 + 0.15 * stripes, 0.5 - 0.1 * stripes, 0.25 + 0.05 * stripes], axis=-1)
        images[i] = np.clip(leaf + rng.normal(0, 0.1, leaf.shape), 0, 1) * 255
    return images, labels


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_flip_up_down(image)
    image = tf.image.random_brightness(tf.cast(image, tf.float32) / 255.0, 0.1)
    return image, label


def scale(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


def pipeline(images, labels, batch_size, training):
    ds = tf.data.Dataset.from_tensor_slices((images, labels))
    if training:
        ds = ds.shuffle(len(labels))
    ds = ds.map(augment if training else scale, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def residual_block(x, filters, stride):
    skip = layers.Conv2D(filters, 1, strides=stride)(x)
    y = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.GroupNormalization(8)(y)
    y = layers.Activation("relu")(y)
    y = layers.Conv2D(filters, 3, padding="same")(y)
    return layers.Activation("relu")(layers.Add()([skip, y]))


def build(size):
    inputs = keras.Input((size, size, 3))
    x = layers.Conv2D(24, 3, padding="same", activation="relu")(inputs)
    for filters, stride in [(24, 2), (48, 1), (96, 2)]:
        x = residual_block(x, filters, stride)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(x))


class GradualLog(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    out = tempfile.mkdtemp()
    train = pipeline(*paint_leaves(1600, args.size, 1), args.batch_size, True)
    val = pipeline(*paint_leaves(160, args.size, 2), args.batch_size, False)
    model = build(args.size)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [
        GradualLog(),
        keras.callbacks.ModelCheckpoint(os.path.join(out, "leaf_{epoch}.keras")),
        keras.callbacks.CSVLogger(os.path.join(out, "history.csv")),
    ]
    t0 = time.time()
    model.fit(train, validation_data=val, epochs=args.epochs, callbacks=callbacks, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
