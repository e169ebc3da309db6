import os
os.environ["KERAS_BACKEND"] = "torch"
import time
import numpy as np
import keras
from keras import layers


def make_people(count, dim, identities, seed):
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(0).normal(size=(identities, dim))
    ids = rng.integers(0, identities, count)
    return (centers[ids] + 1.5 * rng.normal(size=(count, dim))).astype("float32"), ids


def average_precision(hits):
    found, total = 0, 0.0
    for rank, hit in enumerate(hits, 1):
        if hit:
            found += 1
            total += found / rank
    return total / found if found else 0.0


class RetrievalMAP(keras.callbacks.Callback):
    def __init__(self, encoder, queries, gallery, k=50):
        super().__init__()
        self.encoder = encoder
        self.queries, self.query_ids = queries
        self.gallery, self.gallery_ids = gallery
        self.k = k
        self.history = []

    def rank(self, q, g):
        ranked = []
        for i in range(len(q)):
            distances = [np.linalg.norm(q[i] - g[j]) for j in range(len(g))]
            ranked.append(sorted(range(len(g)), key=lambda j: distances[j])[:self.k])
        return np.array(ranked)

    def on_epoch_end(self, epoch, logs=None):
        both = self.encoder.predict(np.concatenate([self.queries, self.gallery]), batch_size=512, verbose=0)
        ranked = self.rank(both[:len(self.queries)], both[len(self.queries):])
        hits = self.gallery_ids[ranked] == self.query_ids[:, None]
        self.history.append(float(np.mean([average_precision(row) for row in hits])))
        print(" - mAP@%d: %.4f" % (self.k, self.history[-1]))


def build(dim, identities):
    inputs = keras.Input((dim,))
    x = layers.Dense(1024, activation="relu")(inputs)
    x = layers.Dense(1024, activation="relu")(x)
    embedding = layers.UnitNormalization()(layers.Dense(64)(x))
    logits = layers.Dense(identities)(embedding)
    return keras.Model(inputs, embedding), keras.Model(inputs, logits)


IDENTITIES, DIM = 60, 256
encoder, model = build(DIM, IDENTITIES)
model.compile(optimizer=keras.optimizers.Adam(1e-3),
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
x, ids = make_people(4608, DIM, IDENTITIES, seed=608)
monitor = RetrievalMAP(encoder, make_people(300, DIM, IDENTITIES, seed=1), make_people(1100, DIM, IDENTITIES, seed=2))
t0 = time.time()
model.fit(x, ids, batch_size=128, epochs=10, callbacks=[monitor], verbose=2)
print("train time: %.2f s" % (time.time() - t0))
