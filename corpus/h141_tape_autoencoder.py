import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CONFIG = {"rows": 40960, "width": 256, "code": 32, "batch_size": 256, "epochs": 6, "report_every": 40}


def spectra(n, width, seed):
    rng = np.random.default_rng(seed)
    basis = np.random.default_rng(7).normal(size=(16, width))
    x = np.tanh(rng.normal(size=(n, 16)) @ basis / 4)
    return (x + 0.05 * rng.normal(size=x.shape)).astype("float32")


def autoencoder(width, code):
    return keras.Sequential([
        keras.Input((width,)),
        layers.Dense(512, activation="relu"),
        layers.Dense(384, activation="relu"),
        layers.Dense(code),
        layers.Dense(384, activation="relu"),
        layers.Dense(512, activation="relu"),
        layers.Dense(width),
    ])


class Trainer:
    def __init__(self, model, rate):
        self.model = model
        self.optimizer = keras.optimizers.Adam(rate)
        self.optimizer.build(model.trainable_variables)
        self.history = []

    @tf.function(reduce_retracing=True)
    def step(self, x):
        noisy = x + 0.1 * tf.random.normal(tf.shape(x))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(noisy, training=True) - x))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    @tf.function(reduce_retracing=True)
    def check(self, x):
        return tf.reduce_mean(tf.square(self.model(x, training=False) - x))

    def epoch(self, data, report_every):
        for i, x in enumerate(data):
            loss = self.step(x)
            if i % report_every == 0:
                self.history.append(float(loss))
                print("   batch %4d  loss %.4f" % (i, self.history[-1]))

    def validate(self, data):
        return float(np.mean([self.check(x) for x in data]))


def batches(x, batch_size, shuffle):
    ds = tf.data.Dataset.from_tensor_slices(x)
    if shuffle:
        ds = ds.shuffle(4096)
    return ds.batch(batch_size, drop_remainder=True).prefetch(2)


def main(cfg=CONFIG):
    train = batches(spectra(cfg["rows"], cfg["width"], 141), cfg["batch_size"], True)
    val = batches(spectra(1024, cfg["width"], 1141), cfg["batch_size"], False)
    trainer = Trainer(autoencoder(cfg["width"], cfg["code"]), 3e-4)
    t0 = time.time()
    for epoch in range(cfg["epochs"]):
        trainer.epoch(train, cfg["report_every"])
        print("epoch %d  val %.4f" % (epoch, trainer.validate(val)))
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
