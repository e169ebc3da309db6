"""Leaf diseases: augmented images, small residual CNN."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import collections
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE, CLASSES, BATCH = 64, 8, 32
rng = np.random.default_rng(110)
images = rng.integers(0, 255, (1280, SIZE, SIZE, 3), dtype=np.uint8)
labels = rng.integers(0, CLASSES, 1280)


class LossWindow(keras.callbacks.Callback):
    """Mean loss of the last 20 batches, printed once per epoch."""

    def __init__(self):
        super().__init__()
        self.window = collections.deque(maxlen=20)

    def on_train_batch_end(self, batch, logs=None):
        self.window.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        print("  last 20 batches: %.4f" % (sum(self.window) / len(self.window)))


def augment(x, y):
    x = tf.cast(x, tf.float32) / 255.0
    x = tf.image.random_flip_left_right(x)
    x = tf.image.random_brightness(x, 0.2)
    x = tf.image.random_contrast(x, 0.8, 1.2)
    return x, y


train = (tf.data.Dataset.from_tensor_slices((images, labels))
         .shuffle(len(images))
         .batch(BATCH, drop_remainder=True)
         .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
         .prefetch(tf.data.AUTOTUNE))


def residual(x, filters, stride):
    short = layers.Conv2D(filters, 1, strides=stride)(x)
    x = layers.Conv2D(filters, 3, strides=stride, padding="same", activation="relu")(x)
    x = layers.Conv2D(filters, 3, padding="same")(x)
    return layers.ReLU()(layers.Add()([x, short]))


inputs = keras.Input((SIZE, SIZE, 3))
h = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(inputs)
for f, s in ((32, 1), (48, 2), (64, 2)):
    h = residual(h, f, s)
h = layers.GlobalAveragePooling2D()(h)
model = keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(h))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(train, epochs=5, callbacks=[LossWindow()], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
