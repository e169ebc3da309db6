import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import numpy as np
import tensorflow as tf
from keras import layers

rng = np.random.default_rng(62)


class SpeechData:
    def __init__(self, n):
        self.lengths = rng.integers(40, 400, n)

    def __iter__(self):
        for n in self.lengths:
            yield rng.random((4, int(n), 13)).astype("float32"), rng.random((4, 1)).astype("float32")


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = keras.optimizers.Adam(lr)
        self.loss_fn = keras.losses.MeanSquaredError()
        self.mean = keras.metrics.Mean()
        self.opt.build(model.trainable_variables)

    @tf.function(input_signature=[tf.TensorSpec((None, None, 13)), tf.TensorSpec((None, 1))])
    def train_step(self, wave, target):
        with tf.GradientTape() as tape:
            out = self.model(wave, training=True)
            loss = self.loss_fn(target, out)
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.mean.update_state(loss)

    def run(self, data, epochs):
        for epoch in range(epochs):
            self.mean.reset_state()
            for wave, target in data:
                self.train_step(tf.convert_to_tensor(wave), tf.convert_to_tensor(target))
            print("epoch %d loss %.4f" % (epoch, float(self.mean.result())))


net = keras.Sequential([keras.Input((None, 13)), layers.Conv1D(24, 5, activation="relu"), layers.Conv1D(24, 5, activation="relu"),
                        layers.GlobalAveragePooling1D(), layers.Dense(1)])
Trainer(net, 1e-3).run(SpeechData(36), epochs=3)
