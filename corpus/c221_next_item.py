import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import numpy as np
import keras
from keras import layers, ops

CATALOG = 6000
HISTORY = 24
K = 20


def sessions(n, seed):
    rng = np.random.default_rng(seed)
    theme = rng.integers(0, 60, n)
    span = CATALOG // 60
    hist = theme[:, None] * span + rng.integers(0, span, (n, HISTORY))
    noise = rng.random((n, HISTORY)) < 0.2
    hist[noise] = rng.integers(0, CATALOG, noise.sum())
    nxt = theme * span + (hist.sum(1) % span)
    return hist.astype("int32"), nxt.astype("int32")


def positions(y_true, scores):
    y_true = ops.reshape(ops.cast(y_true, "int32"), (-1, 1))
    ranked = ops.argsort(-scores, axis=-1)
    hit = ops.cast(ops.equal(ops.cast(ranked, "int32"), y_true), "float32")
    return ops.sum(hit * ops.arange(1, CATALOG + 1, dtype="float32"), axis=-1)


class RankingScore(keras.metrics.Mean):
    """Base of the top-K ranking scores (mrr, ndcg, recall)."""

    def __init__(self, name, k=K):
        super().__init__(name=name)
        self.k = k

    def gain(self, pos):
        raise NotImplementedError

    def update_state(self, y_true, y_pred, sample_weight=None):
        pos = positions(y_true, y_pred)
        inside = ops.cast(pos <= self.k, "float32")
        return super().update_state(inside * self.gain(pos))


class MRR(RankingScore):
    def gain(self, pos):
        return 1.0 / pos


class NDCG(RankingScore):
    def gain(self, pos):
        return np.log(2.0) / ops.log(pos + 1.0)


class Recall(RankingScore):
    def gain(self, pos):
        return ops.ones_like(pos)


def make_model():
    hist = keras.Input((HISTORY,), dtype="int32", name="history")
    e = layers.Embedding(CATALOG, 64)(hist)
    a = layers.MultiHeadAttention(2, 32)(e, e)
    h = layers.LayerNormalization()(layers.Add()([e, a]))
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dense(256, activation="relu")(h)
    h = layers.Dense(128, activation="relu")(h)
    return keras.Model(hist, layers.Dense(CATALOG, name="scores")(h), name="next_item")


x, y = sessions(6400, 221)
model = make_model()
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[MRR("mrr_20"), NDCG("ndcg_20"), Recall("recall_20")],
)
t0 = time.time()
model.fit(x, y, batch_size=128, epochs=3, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
