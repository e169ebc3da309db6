import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time

import keras
import numpy as np
import torch
from keras import layers


class Denoiser(keras.Model):
    """Learns to remove noise that is drawn anew in every step."""

    def __init__(self, sigma=0.3, **kw):
        super().__init__(**kw)
        self.sigma = sigma
        self.body = keras.Sequential([
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(48, 3, padding="same", activation="relu", strides=2),
            layers.Conv2D(48, 3, padding="same", activation="relu"),
            layers.UpSampling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(1, 3, padding="same"),
        ])

    def call(self, x, training=None):
        return x - self.body(x)

    def train_step(self, data):
        clean, _ = data
        noisy = clean + self.sigma * torch.randn_like(clean)
        self.zero_grad()
        loss = self.compute_loss(noisy, clean, self(noisy, training=True))
        loss.backward()
        grads = [v.value.grad for v in self.trainable_weights]
        with torch.no_grad():
            self.optimizer.apply(grads, self.trainable_weights)
        self._loss_tracker.update_state(loss)
        return {"loss": self._loss_tracker.result()}


def shapes(n, size=48, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    img = np.zeros((n, size, size, 1), "float32")
    for i in range(n):
        for _ in range(3):
            cy, cx = rng.integers(6, size - 6, 2)
            img[i, (abs(yy - cy) < rng.integers(3, 9)) & (abs(xx - cx) < rng.integers(3, 9)), 0] = rng.random()
    return img


x = shapes(1024)
model = Denoiser()
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="mse")
model.build((None, 48, 48, 1))
start = time.time()
model.fit(x, x, batch_size=64, epochs=4,
          callbacks=[keras.callbacks.ModelCheckpoint("denoiser.weights.h5", save_weights_only=True),
                     keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: print(f" epoch {e} -> {logs['loss']:.4f}"))],
          verbose=2)
print("train time: %.2f s" % (time.time() - start))
