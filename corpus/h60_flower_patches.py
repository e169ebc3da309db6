import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

AUTOTUNE = tf.data.AUTOTUNE
SIZE, CLASSES, BATCH = 48, 5, 32


def make_data(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    x = rng.integers(0, 200, (n, SIZE, SIZE, 3)).astype("uint8")
    for k in range(CLASSES):
        x[y == k, 8 * k:8 * k + 8, :, k % 3] += 25
    return x, y.astype("int32")


def augment(images, labels):
    images = tf.cast(images, tf.float32) / 255.0
    images = tf.image.random_flip_left_right(images)
    images = tf.image.random_brightness(images, 0.1)
    return images, labels


def scale(images, labels):
    return tf.cast(images, tf.float32) / 255.0, labels


train = (tf.data.Dataset.from_tensor_slices(make_data(960, 1))
         .shuffle(960)
         .batch(BATCH)
         .map(augment, num_parallel_calls=AUTOTUNE)
         .prefetch(AUTOTUNE))
val = (tf.data.Dataset.from_tensor_slices(make_data(128, 2))
       .batch(64)
       .map(scale, num_parallel_calls=AUTOTUNE)
       .cache()
       .prefetch(AUTOTUNE))

inputs = keras.Input((SIZE, SIZE, 3))
x = layers.Conv2D(24, 3, padding="same", activation="relu")(inputs)
x = layers.Conv2D(24, 3, padding="same", activation="relu")(x)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(48, 3, padding="same", activation="relu")(x)
x = layers.Conv2D(48, 3, padding="same", activation="relu")(x)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(96, 3, padding="same", activation="relu")(x)
x = layers.Flatten()(x)
x = layers.Dropout(0.3)(x)
model = keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(x))
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

t0 = time.time()
model.fit(train, validation_data=val, epochs=5, verbose=2,
          callbacks=[keras.callbacks.ModelCheckpoint("flowers.keras", save_best_only=True)])
print("train time: %.2f s" % (time.time() - t0))
