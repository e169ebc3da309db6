"""Leaf disease classifier: tf.data, augmentation on two threads, the usual callbacks."""
import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIZE, CLASSES, BATCH = 64, 7, 32


def photos(n, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 255, (n, SIZE, SIZE, 3), dtype=np.uint8), rng.integers(0, CLASSES, n)


def augment(img, label):
    img = tf.cast(img, tf.float32) / 255.0
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_brightness(img, 0.1)
    return img, label


def scale(img, label):
    return tf.cast(img, tf.float32) / 255.0, label


def pipeline(x, y, train):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if train:
        ds = ds.shuffle(len(x)).map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        ds = ds.map(scale, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


class LrPrinter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += BATCH

    def on_epoch_end(self, epoch, logs=None):
        print("  seen %d pictures, lr %.5f" % (self.seen, float(self.model.optimizer.learning_rate)))


inp = keras.Input((SIZE, SIZE, 3))
h = layers.Conv2D(24, 3, padding="same", activation="relu")(inp)
for f in (32, 48, 64):
    h = layers.Conv2D(f, 3, padding="same", activation="relu")(h)
    h = layers.BatchNormalization()(h)
    h = layers.MaxPooling2D()(h)
h = layers.GlobalAveragePooling2D()(h)
model = keras.Model(inp, layers.Dense(CLASSES, activation="softmax")(h))
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])

train, val = pipeline(*photos(800, 1), True), pipeline(*photos(160, 2), False)
t0 = time.time()
model.fit(train, validation_data=val, epochs=3, verbose=2, callbacks=[
    keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True),
    keras.callbacks.ReduceLROnPlateau(patience=2),
    keras.callbacks.CSVLogger("log.csv"),
    LrPrinter(),
])
print("train time: %.2f s" % (time.time() - t0))
