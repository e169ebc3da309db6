import os
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf


class SecondOrderPooling(keras.layers.Layer):
    """The covariance of the channels of each picture."""

    def covariance(self, features):
        features = features - tf.reduce_mean(features, axis=1, keepdims=True)
        return tf.matmul(features, features, transpose_a=True) / 64.0

    def call(self, inputs):
        shape = tf.shape(inputs)
        flat = tf.reshape(inputs, (shape[0], shape[1] * shape[2], inputs.shape[-1]))
        pooled = self.covariance(flat)
        return tf.reshape(pooled, (shape[0], inputs.shape[-1] ** 2))

    def compute_output_shape(self, shape):
        return (shape[0], shape[-1] ** 2)


class Net(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.conv = keras.layers.Conv2D(12, 3, strides=2, activation="relu")
        self.pool = SecondOrderPooling()
        self.head = keras.layers.Dense(classes)

    def call(self, x):
        return self.head(self.pool(self.conv(x)))


def main():
    rng = np.random.default_rng(94)
    x = rng.random((2560, 17, 17, 3)).astype("float32")
    y = rng.integers(0, 5, 2560)
    net = Net(5)
    net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    start = time.time()
    net.fit(x, y, batch_size=64, epochs=24, verbose=2)
    print("train time: %.1f s" % (time.time() - start))


main()
