import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import keras
import numpy as np
from keras import layers, ops


class Molecules:
    def __init__(self, n, features, seed):
        rng = np.random.default_rng(seed)
        self.atoms = [rng.random((int(k), features)).astype("float32") for k in rng.integers(12, 60, n)]
        self.energy = np.array([a.sum() / 50 for a in self.atoms], "float32")

    def collate(self, rows):
        longest = max(len(self.atoms[i]) for i in rows)
        x = np.zeros((len(rows), longest, self.atoms[0].shape[1]), "float32")
        mask = np.zeros((len(rows), longest, 1), "float32")
        for k, i in enumerate(rows):
            x[k, :len(self.atoms[i])] = self.atoms[i]
            mask[k, :len(self.atoms[i])] = 1
        return [x, mask], self.energy[rows]

    def batches(self, size, rng):
        order = rng.permutation(len(self.atoms))
        for start in range(0, len(order) - size + 1, size):
            yield self.collate(order[start:start + size])


def atom_model(features):
    x = keras.Input((None, features))
    mask = keras.Input((None, 1))
    h = layers.Dense(64, activation="silu")(x)
    scores = ops.matmul(h, ops.transpose(h, (0, 2, 1))) / 8.0 - 1e4 * (1 - ops.transpose(mask, (0, 2, 1)))
    h = layers.Add()([h, ops.matmul(ops.softmax(scores), h)])
    h = layers.Dense(64, activation="silu")(layers.LayerNormalization()(h))
    return keras.Model([x, mask], layers.Dense(1)(ops.sum(h * mask, axis=1)))


data = Molecules(640, 12, seed=97)
model = atom_model(12)
model.compile(keras.optimizers.Adam(1e-3), "mse")
rng = np.random.default_rng(0)
t0 = time.time()
for epoch in range(4):
    losses = [float(model.train_on_batch(x, y)) for x, y in data.batches(8, rng)]
    print("epoch", epoch, "loss", np.mean(losses))
print("train time: %.1f s" % (time.time() - t0))
