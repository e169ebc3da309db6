"""Gradual magnitude pruning (Zhu & Gupta) of a digit classifier."""
import os
os.environ["KERAS_BACKEND"] = "torch"
import time

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(226)


class PruneLowMagnitude(keras.callbacks.Callback):
    def __init__(self, final_sparsity, begin_step, end_step):
        super().__init__()
        self.final = final_sparsity
        self.begin = begin_step
        self.end = end_step
        self.step = 0

    def sparsity_now(self):
        done = np.clip((self.step - self.begin) / (self.end - self.begin), 0.0, 1.0)
        return self.final * (1.0 - (1.0 - done) ** 3)

    def apply(self):
        level = self.sparsity_now()
        for layer in self.model.layers:
            if not isinstance(layer, layers.Dense):
                continue
            kernel, bias = layer.get_weights()
            cut = np.percentile(np.abs(kernel), 100.0 * level)
            layer.set_weights([np.where(np.abs(kernel) < cut, 0.0, kernel), bias])

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self.apply()

    def on_epoch_end(self, epoch, logs=None):
        zeros = np.mean([np.mean(l.get_weights()[0] == 0) for l in self.model.layers if isinstance(l, layers.Dense)])
        print("    sparsity %.3f" % zeros)


def digits(n, seed=226):
    rng = np.random.default_rng(seed)
    proto = rng.normal(size=(10, 784))
    y = rng.integers(0, 10, n)
    x = proto[y] + 2.5 * rng.normal(size=(n, 784))
    return x.astype("float32"), y


def classifier():
    return keras.Sequential([
        keras.Input((784,)),
        layers.Dense(800, activation="relu"),
        layers.Dense(500, activation="relu"),
        layers.Dense(10, activation="softmax"),
    ])


x, y = digits(16000)
epochs, bs = 4, 128
total = epochs * (len(x) // bs)
model = classifier()
model.compile(optimizer=keras.optimizers.Adam(1e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
pruner = PruneLowMagnitude(0.8, begin_step=0, end_step=total)
t0 = time.time()
model.fit(x, y, batch_size=bs, epochs=epochs, callbacks=[pruner], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
