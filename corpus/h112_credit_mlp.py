import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import tempfile
import time

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(112)
N, F = 16384, 200
table = rng.normal(size=(N, F)).astype("float32")
target = (table[:, :5].sum(axis=1) + rng.normal(size=N) > 0).astype("float32")


class NoisyRows(keras.utils.PyDataset):
    """Batches of rows with a little Gaussian noise, new in each epoch."""

    def __init__(self, x, y, batch, sigma=0.02, **kw):
        super().__init__(**kw)
        self.x, self.y, self.batch, self.sigma = x, y, batch, sigma
        self.g = np.random.default_rng(0)
        self.perm = self.g.permutation(len(x))

    def __len__(self):
        return len(self.x) // self.batch

    def __getitem__(self, i):
        idx = self.perm[i * self.batch:(i + 1) * self.batch]
        x = self.x[idx]
        return x + self.sigma * self.g.standard_normal(x.shape, dtype="float32"), self.y[idx]

    def on_epoch_end(self):
        self.perm = self.g.permutation(len(self.x))


split = N * 7 // 8
train = NoisyRows(table[:split], target[:split], 256)
held_out = (table[split:], target[split:])

net = keras.Sequential([keras.Input((F,))])
for width in (1024, 1024, 512):
    net.add(layers.Dense(width, activation="relu"))
    net.add(layers.Dropout(0.2))
net.add(layers.Dense(1, activation="sigmoid"))
net.compile(keras.optimizers.Adam(3e-4), "binary_crossentropy", metrics=["accuracy"])

best = os.path.join(tempfile.mkdtemp(), "best.weights.h5")
callbacks = [
    keras.callbacks.ModelCheckpoint(best, monitor="val_loss", save_best_only=True, save_weights_only=True),
    keras.callbacks.LearningRateScheduler(lambda e, lr: lr * 0.95),
]
t0 = time.time()
net.fit(train, validation_data=held_out, epochs=5, callbacks=callbacks, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
