import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf
from keras import layers

tf.config.run_functions_eagerly(True)  # breakpoints in train_step

rng = np.random.default_rng(65)
x = rng.random((1600, 16)).astype("float32")


class Autoencoder(keras.Model):
    def __init__(self, width):
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(width)])
        self.decoder = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(16)])
        self.tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.tracker]

    def call(self, inputs):
        return self.decoder(self.encoder(inputs))

    def train_step(self, data):
        with tf.GradientTape() as tape:
            code = self.encoder(data, training=True)
            out = self.decoder(code, training=True)
            loss = tf.reduce_mean(tf.square(out - data)) + 1e-3 * tf.reduce_mean(tf.abs(code))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


ae = Autoencoder(4)
ae.compile(optimizer="adam")
ae.fit(tf.data.Dataset.from_tensor_slices(x).batch(32), epochs=4, verbose=2)
