import os
os.environ["KERAS_BACKEND"] = "jax"
import math
import tempfile
import time

import numpy as np
import keras
from keras import layers
from sklearn.metrics import balanced_accuracy_score

SPECIES = 6


def leaves(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, SPECIES, n)
    yy, xx = np.mgrid[:52, :52] / 52.0
    img = np.empty((n, 52, 52, 3), "float32")
    for i in range(n):
        veins = np.sin((3 + 2 * y[i]) * np.pi * (xx + rng.uniform(-.3, .3) * yy) + rng.uniform(0, 6))
        img[i] = veins[..., None] * rng.uniform(0.5, 1.0, 3) + 1.3 * rng.normal(size=(52, 52, 3))
    return img, y


class RandomCrops(keras.utils.PyDataset):
    def __init__(self, x, y, bs, size=48):
        super().__init__()
        self.x, self.y, self.bs, self.size = x, y, bs, size
        self.rng = np.random.default_rng(0)
        self.order = self.rng.permutation(len(x))

    def __len__(self):
        return math.ceil(len(self.x) / self.bs)

    def on_epoch_end(self):
        self.order = self.rng.permutation(len(self.x))

    def __getitem__(self, i):
        pick = self.order[i * self.bs:(i + 1) * self.bs]
        dy, dx = self.rng.integers(0, 52 - self.size, 2)
        xb = self.x[pick, dy:dy + self.size, dx:dx + self.size]
        if self.rng.random() < 0.5:
            xb = xb[:, :, ::-1]
        return xb, self.y[pick]


class BalancedAccuracy(keras.callbacks.Callback):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def on_epoch_end(self, epoch, logs=None):
        p = self.model.predict(self.x, batch_size=48, verbose=0).argmax(1)
        print("    balanced accuracy %.3f" % balanced_accuracy_score(self.y, p))


def convnet():
    inp = keras.Input((48, 48, 3))
    h = inp
    for f in (24, 32, 48):
        h = layers.Conv2D(f, 3, padding="same", use_bias=False)(h)
        h = layers.BatchNormalization(momentum=0.9)(h)
        h = layers.ReLU()(h)
        h = layers.Conv2D(f, 3, padding="same", activation="relu")(h)
        h = layers.MaxPooling2D()(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(SPECIES, activation="softmax")(h))


x, y = leaves(624, 94)
xv, yv = leaves(96, 95)
xv = xv[:, 2:50, 2:50]
out = tempfile.mkdtemp()
model = convnet()
model.compile(optimizer=keras.optimizers.Adam(3e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
t0 = time.time()
model.fit(
    RandomCrops(x, y, 48),
    epochs=6,
    verbose=2,
    callbacks=[
        BalancedAccuracy(xv, yv),
        keras.callbacks.CSVLogger(os.path.join(out, "log.csv")),
        keras.callbacks.LearningRateScheduler(lambda e, lr: lr * 0.9),
    ],
)
print("train time: %.2f s" % (time.time() - t0))
