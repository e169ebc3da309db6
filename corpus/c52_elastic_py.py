import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import math
import keras
import numpy as np
import tensorflow as tf
from keras import layers

rng = np.random.default_rng(52)
cells = rng.random((240, 28, 28)).astype("float32")
kinds = rng.integers(0, 3, 240)


def elastic(img):
    """Wave distortion, pixel by pixel."""
    img = img.numpy()
    h, w = img.shape
    phase = rng.random() * 6.28
    out = np.zeros_like(img)
    for r in range(h):
        shift = int(round(2 * math.sin(r / 4 + phase)))
        for c in range(w):
            out[r, c] = img[r, min(max(c + shift, 0), w - 1)]
    return out


def augment(img, y):
    img = tf.py_function(elastic, [img], tf.float32)
    img.set_shape((28, 28))
    return img[..., None], y


train = (tf.data.Dataset.from_tensor_slices((cells, kinds))
         .shuffle(240)
         .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
         .batch(16)
         .prefetch(tf.data.AUTOTUNE))


class CellNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([layers.Conv2D(16, 3, activation="relu"), layers.Conv2D(16, 3, activation="relu"),
                                      layers.Flatten()])
        self.head = layers.Dense(3, activation="softmax")

    def call(self, x):
        return self.head(self.body(x))


net = CellNet()
net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(train, epochs=12, verbose=2)
