import os
os.environ.setdefault("KERAS_BACKEND", "torch")

import shutil
import tempfile
import time

import keras
import numpy as np
from keras import layers


class FingerprintData:
    """Circular fingerprints (sparse bits) and twelve assay outcomes."""

    def __init__(self, n_molecules, n_bits=1024, n_tasks=12, seed=247):
        rng = np.random.default_rng(seed)
        self.X = (rng.random((n_molecules, n_bits)) < 0.04).astype("float32")
        w = rng.normal(size=(n_bits, n_tasks)) / 6
        self.y = (self.X @ w + rng.normal(size=(n_molecules, n_tasks)) > 0).astype("float32")


class MultitaskClassifier:
    def __init__(self, n_features, n_tasks, layer_sizes=(1500, 1000), dropout=0.25, model_dir=None):
        self.model_dir = model_dir or tempfile.mkdtemp(prefix="tox_")
        inputs = keras.Input((n_features,))
        h = inputs
        for size in layer_sizes:
            h = layers.Dense(size, activation="relu")(h)
            h = layers.Dropout(dropout)(h)
        self.model = keras.Model(inputs, layers.Dense(n_tasks, activation="sigmoid")(h))
        self.model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="binary_crossentropy")

    def fit(self, data, nb_epoch=10, batch_size=64, max_checkpoints_to_keep=5):
        steps = -(-len(data.X) // batch_size)
        saver = keras.callbacks.ModelCheckpoint(
            os.path.join(self.model_dir, "ckpt-{epoch:03d}.keras"), save_freq=4 * steps)
        prune = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: self._prune(max_checkpoints_to_keep))
        return self.model.fit(data.X, data.y, epochs=nb_epoch, batch_size=batch_size,
                              callbacks=[saver, prune], verbose=2)

    def _prune(self, keep):
        for name in sorted(os.listdir(self.model_dir))[:-keep]:
            os.remove(os.path.join(self.model_dir, name))


def main():
    keras.utils.set_random_seed(247)
    data = FingerprintData(3200)
    clf = MultitaskClassifier(data.X.shape[1], data.y.shape[1])
    start = time.time()
    clf.fit(data, nb_epoch=8)
    print("train time: %.2f s" % (time.time() - start))
    shutil.rmtree(clf.model_dir)


if __name__ == "__main__":
    main()
