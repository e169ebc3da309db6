"""Leaf disease classifier: random crops and flips in tf.data, step bound by the convolutions."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import csv
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

AUTO = tf.data.AUTOTUNE
SIDE, CROP, CLASSES = 56, 48, 5


def leaves(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    x = rng.integers(0, 100, (n, SIDE, SIDE, 3), dtype="uint8")
    for img, c in zip(x, y):
        for _ in range(rng.poisson(3 + 5 * c)):
            r, k = rng.integers(6, SIDE - 10, 2)
            img[r:r + 5, k:k + 5, 0] = 210
    return x, y


def augment(img, label):
    img = tf.image.random_crop(img, (CROP, CROP, 3))
    img = tf.image.random_flip_left_right(img)
    return tf.cast(img, tf.float32) / 255.0, label


def centre(img, label):
    off = (SIDE - CROP) // 2
    return tf.cast(img[off:off + CROP, off:off + CROP], tf.float32) / 255.0, label


class EpochTable(keras.callbacks.Callback):
    """one row per epoch: epoch, learning rate, losses"""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch, logs=None):
        lr = float(self.model.optimizer.learning_rate)
        with open(self.path, "a", newline="") as f:
            csv.writer(f).writerow([epoch, lr, logs["loss"], logs["val_loss"]])


keras.utils.set_random_seed(113)
x, y = leaves(1600, 1)
vx, vy = leaves(160, 2)
train = (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1600, seed=1)
         .map(augment, num_parallel_calls=AUTO).batch(32).prefetch(AUTO))
val = tf.data.Dataset.from_tensor_slices((vx, vy)).map(centre, num_parallel_calls=AUTO).batch(80).prefetch(AUTO)

model = keras.Sequential([
    keras.Input((CROP, CROP, 3)),
    layers.Conv2D(24, 3, padding="same", activation="relu"),
    layers.Conv2D(24, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(48, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.GlobalAveragePooling2D(),
    layers.Dense(CLASSES, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
out = tempfile.mkdtemp()
t0 = time.time()
model.fit(train, validation_data=val, epochs=5, verbose=2,
          callbacks=[EpochTable(os.path.join(out, "epochs.csv")),
                     keras.callbacks.ModelCheckpoint(os.path.join(out, "best.keras"), save_best_only=True)])
print("train time: %.2f s" % (time.time() - t0))
