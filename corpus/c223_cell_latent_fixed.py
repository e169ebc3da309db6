# Autoencoder for single-cell counts, with the bio-conservation scores of the latent space in the log.
import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import numpy as np
import keras
from keras import layers
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, silhouette_score


def simulate(cells=7000, genes=900, types=14, seed=223):
    rng = np.random.default_rng(seed)
    profile = rng.gamma(0.6, 1.0, genes) * rng.lognormal(0.0, 0.25, (types, genes))
    kind = rng.integers(0, types, cells)
    depth = rng.lognormal(0.0, 0.4, cells)
    counts = rng.poisson(profile[kind] * depth[:, None])
    return np.log1p(counts).astype("float32"), counts.astype("float32"), kind


class CountAE(keras.Model):
    def __init__(self, genes, latent=16, hidden=320, **kw):
        super().__init__(**kw)
        self.encoder = keras.Sequential([
            keras.Input((genes,)),
            layers.Dense(hidden, activation="relu"),
            layers.Dense(hidden, activation="relu"),
            layers.Dense(latent),
        ], name="encoder")
        self.decoder = keras.Sequential([
            keras.Input((latent,)),
            layers.Dense(hidden, activation="relu"),
            layers.Dense(genes, activation="softplus"),
        ], name="decoder")

    def call(self, x):
        return self.decoder(self.encoder(x))


class BioConservation(keras.callbacks.Callback):
    def __init__(self, cells, kind):
        super().__init__()
        self.cells = cells
        self.kind = kind
        self.history = []

    def scores(self, z):
        km = KMeans(n_clusters=len(np.unique(self.kind)), n_init=10, random_state=0).fit(z)
        return {
            "nmi": normalized_mutual_info_score(self.kind, km.labels_),
            "ari": adjusted_rand_score(self.kind, km.labels_),
            "asw": silhouette_score(z, self.kind),
        }

    def on_train_end(self, logs=None):
        z = self.model.encoder.predict(self.cells, batch_size=512, verbose=0)
        row = self.scores(z)
        self.history.append(row)
        print("   ", "  ".join("%s %.3f" % kv for kv in row.items()))


def main():
    x, counts, kind = simulate()
    model = CountAE(x.shape[1])
    model.build((None, x.shape[1]))
    model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="poisson")
    t0 = time.time()
    model.fit(x, counts, batch_size=64, epochs=10, verbose=2, callbacks=[BioConservation(x, kind)])
    print("train time: %.2f s" % (time.time() - t0))


main()
