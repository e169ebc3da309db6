import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import keras
from keras import layers

FOLDS, EPOCHS, BATCH = 4, 6, 128


def assay(n=8192, features=100, seed=73):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)).astype("float32")
    w = rng.normal(size=(features, 3)) / np.sqrt(features)
    z = x @ w
    y = z[:, 0] + np.tanh(2 * z[:, 1]) + 0.5 * z[:, 2] + 0.1 * rng.normal(size=n)
    return x, y.astype("float32")[:, None]


def build(features):
    model = keras.Sequential([
        keras.Input((features,)),
        layers.Dense(768, activation="relu"),
        layers.Dense(768, activation="relu"),
        layers.Dense(256, activation="relu"),
        layers.Dense(1),
    ])
    model.compile(optimizer=keras.optimizers.Adam(1e-4), loss="mse", metrics=["mae"])
    model.optimizer.build(model.trainable_variables)
    return model


class Snapshot:
    def __init__(self, model):
        self.model = model
        self.weights = model.get_weights()
        self.slots = [v.numpy() for v in model.optimizer.variables]

    def restore(self):
        self.model.set_weights([w.copy() for w in self.weights])
        for var, value in zip(self.model.optimizer.variables, self.slots):
            var.assign(value.copy())


def folds(n, k, seed=0):
    parts = np.array_split(np.random.default_rng(seed).permutation(n), k)
    for i in range(k):
        yield np.concatenate(parts[:i] + parts[i + 1:]), parts[i]


keras.utils.set_random_seed(73)
x, y = assay()
model = build(x.shape[1])
start = Snapshot(model)
scores = []
t0 = time.time()
for k, (tr, va) in enumerate(folds(len(x), FOLDS)):
    start.restore()
    h = model.fit(x[tr], y[tr], batch_size=BATCH, epochs=EPOCHS, validation_data=(x[va], y[va]), verbose=0)
    scores.append(h.history["val_mae"][-1])
    print("fold %d  val_mae %.4f" % (k, scores[-1]))
print("cv mae %.4f +- %.4f" % (np.mean(scores), np.std(scores)))
print("train time: %.2f s" % (time.time() - t0))
