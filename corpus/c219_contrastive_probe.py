import os
os.environ.setdefault("KERAS_BACKEND", "torch")
import time

import numpy as np
import keras
from keras import layers, ops
from sklearn.metrics import silhouette_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier


def cells(n=9000, genes=200, kinds=8, seed=30):
    """Expression profiles of a few cell types (made up)."""
    r = np.random.default_rng(seed)
    profile = r.gamma(2.0, 1.0, size=(kinds, genes))
    kind = r.integers(0, kinds, n)
    x = r.poisson(profile[kind] * r.uniform(0.6, 1.4, (n, 1)))
    return np.log1p(x).astype("float32"), kind


def two_views(x, seed=1):
    r = np.random.default_rng(seed)
    drop = lambda: x * (r.random(x.shape) > 0.3)
    return np.stack([drop(), drop()], axis=1).astype("float32")


def build_encoder(genes):
    return keras.Sequential([
        keras.Input((genes,)),
        layers.Dense(256, activation="relu"),
        layers.Dense(128, activation="relu"),
        layers.Dense(32),
        layers.UnitNormalization(),
    ], name="encoder")


class PairModel(keras.Model):
    def __init__(self, encoder, temperature=0.2):
        super().__init__()
        self.encoder = encoder
        self.temperature = temperature

    def call(self, views):
        return ops.stack([self.encoder(views[:, 0]), self.encoder(views[:, 1])], axis=1)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        sim = ops.matmul(y_pred[:, 0], ops.transpose(y_pred[:, 1])) / self.temperature
        target = ops.arange(ops.shape(sim)[0])
        both = (keras.losses.sparse_categorical_crossentropy(target, sim, from_logits=True)
                + keras.losses.sparse_categorical_crossentropy(target, ops.transpose(sim), from_logits=True))
        return ops.mean(both) / 2


class Probe(keras.callbacks.Callback):
    def __init__(self, x, kind):
        super().__init__()
        self.x, self.kind = x, kind
        self.scores = []

    def on_epoch_end(self, epoch, logs=None):
        z = self.model.encoder.predict(self.x, batch_size=1000, verbose=0)
        knn = KNeighborsClassifier(15, metric="cosine")
        acc = cross_val_score(knn, z, self.kind, cv=10).mean()
        sil = silhouette_score(z, self.kind, metric="cosine")
        self.scores.append((acc, sil))
        print("epoch %d  loss %.3f  knn %.3f  silhouette %.3f" % (epoch + 1, logs["loss"], acc, sil))


if __name__ == "__main__":
    keras.utils.set_random_seed(3)
    x, kind = cells()
    model = PairModel(build_encoder(x.shape[1]))
    model.compile(optimizer="adam")
    views = two_views(x)
    t0 = time.time()
    model.fit(views, epochs=9, batch_size=128, verbose=0, callbacks=[Probe(x, kind)])
    print("train time: %.2f s" % (time.time() - t0))
