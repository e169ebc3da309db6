import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import torch
import keras
from keras import layers

SIDE, CLASSES = 32, 8


def textures(n, seed):
    base = np.random.default_rng(74)
    freq = base.uniform(0.2, 1.2, (CLASSES, 3, 2))
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, n)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    f = freq[label]
    phase = rng.uniform(0, 6.28, (n, 3, 1, 1))
    wave = np.sin(f[..., 0, None, None] * yy + f[..., 1, None, None] * xx + phase)
    img = 0.5 * wave + rng.normal(size=(n, 3, SIDE, SIDE))
    return img.transpose(0, 2, 3, 1).astype("float32"), np.eye(CLASSES, dtype="float32")[label]


class MixupModel(keras.Model):
    mixup_rng = np.random.default_rng(0)

    def train_step(self, data):
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        lam = float(self.mixup_rng.beta(0.3, 0.3))
        perm = torch.randperm(x.shape[0])
        x_mix = lam * x + (1.0 - lam) * x[perm]
        y_mix = lam * y + (1.0 - lam) * y[perm]

        self.zero_grad()
        y_pred = self(x_mix, training=True)
        loss = self.compute_loss(x=x_mix, y=y_mix, y_pred=y_pred)
        loss.backward()
        weights = list(self.trainable_weights)
        grads = [w.value.grad for w in weights]
        with torch.no_grad():
            self.optimizer.apply(grads, weights)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss.detach())
        return self.compute_metrics(x, y, y_pred.detach())


def build():
    inp = keras.Input((SIDE, SIDE, 3))
    x = inp
    for pool in (True, True, False):
        x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
        if pool:
            x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(256, activation="relu")(x)
    x = layers.Dropout(0.3)(x)
    return MixupModel(inp, layers.Dense(CLASSES, activation="softmax")(x))


keras.utils.set_random_seed(74)
x, y = textures(3840, 1)
valid = textures(384, 2)
model = build()
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=5, validation_data=valid, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
