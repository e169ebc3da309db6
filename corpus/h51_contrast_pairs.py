"""SimCLR-like pretraining on small patches, custom train_step."""
import os
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers


class Contrastive(keras.Model):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature
        self.augment = keras.Sequential([layers.RandomFlip("horizontal"), layers.GaussianNoise(0.05)])
        self.encoder = keras.Sequential([
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(96, 3, strides=2, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
        ])
        self.project = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(32)])
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.hit_tracker = keras.metrics.SparseCategoricalAccuracy(name="match")

    @property
    def metrics(self):
        return [self.loss_tracker, self.hit_tracker]

    def call(self, x, training=False):
        return self.project(self.encoder(x, training=training), training=training)

    def train_step(self, x):
        n = tf.shape(x)[0]
        with tf.GradientTape() as tape:
            a = tf.math.l2_normalize(self(self.augment(x, training=True), training=True), axis=1)
            b = tf.math.l2_normalize(self(self.augment(x, training=True), training=True), axis=1)
            sim = tf.matmul(a, b, transpose_b=True) / self.temperature
            labels = tf.range(n)
            loss = tf.reduce_mean(
                keras.losses.sparse_categorical_crossentropy(labels, sim, from_logits=True)
                + keras.losses.sparse_categorical_crossentropy(labels, tf.transpose(sim), from_logits=True)) / 2
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        self.hit_tracker.update_state(labels, sim)
        return {m.name: m.result() for m in self.metrics}


def main():
    rng = np.random.default_rng(6)
    patches = rng.random((1536, 40, 40, 3)).astype("float32")
    ds = tf.data.Dataset.from_tensor_slices(patches).shuffle(1536).batch(64, drop_remainder=True).prefetch(2)
    model = Contrastive()
    model(patches[:2])
    model.compile(optimizer=keras.optimizers.Adam(1e-3))
    t0 = time.time()
    model.fit(ds, epochs=3, verbose=2, callbacks=[keras.callbacks.TerminateOnNaN()])
    print("train time: %.2f s" % (time.time() - t0))


main()
