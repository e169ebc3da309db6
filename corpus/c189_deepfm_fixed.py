"""DeepFM on a made-up ad log."""
import argparse
import time

import keras
import numpy as np
from keras import layers, ops


class FieldEmbedding(layers.Layer):
    def __init__(self, cardinalities, dim):
        super().__init__()
        self.offsets = np.concatenate([[0], np.cumsum(cardinalities)[:-1]]).astype("int32")
        self.first = layers.Embedding(int(sum(cardinalities)), 1)
        self.second = layers.Embedding(int(sum(cardinalities)), dim)

    def call(self, ids):
        ids = ids + ops.convert_to_tensor(self.offsets)
        return self.first(ids), self.second(ids)


class PairInteraction(layers.Layer):
    """Sum of the inner products of all pairs of fields."""

    def call(self, v):
        square_of_sum = ops.square(ops.sum(v, axis=1))
        sum_of_squares = ops.sum(ops.square(v), axis=1)
        return 0.5 * ops.sum(square_of_sum - sum_of_squares, axis=-1, keepdims=True)


class DeepFM(keras.Model):
    def __init__(self, cardinalities, dim=24, hidden=(512, 384, 256)):
        super().__init__()
        self.embed = FieldEmbedding(cardinalities, dim)
        self.pairs = PairInteraction()
        self.flat = layers.Flatten()
        self.deep = keras.Sequential([layers.Dense(h, activation="relu") for h in hidden] + [layers.Dense(1)])

    def call(self, ids):
        w, v = self.embed(ids)
        linear = ops.sum(w, axis=1)
        return ops.sigmoid(linear + self.pairs(v) + self.deep(self.flat(v)))


def ad_log(n, cardinalities, seed):
    rng = np.random.default_rng(seed)
    ids = np.stack([np.minimum(rng.geometric(4 / c, n) - 1, c - 1) for c in cardinalities], axis=1).astype("int32")
    teacher = [rng.normal(0, 0.4, c) for c in cardinalities]
    logit = sum(t[ids[:, k]] for k, t in enumerate(teacher)) + 1.5 * np.sin(ids[:, 0] * ids[:, 1]) - 1
    return ids, (rng.random(n) < 1 / (1 + np.exp(-logit))).astype("float32")[:, None]


def run(args):
    keras.utils.set_random_seed(args.seed)
    cards = np.random.default_rng(9).integers(8, 120, size=args.fields).tolist()
    ids, clicks = ad_log(args.rows, cards, seed=10)
    model = DeepFM(cards)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
    t0 = time.time()
    model.fit(ids, clicks, batch_size=args.batch, epochs=args.epochs, verbose=2)
    return time.time() - t0


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--rows", type=int, default=65536)
    ap.add_argument("--fields", type=int, default=24)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--seed", type=int, default=0)
    print("train time: %.2f s" % run(ap.parse_args()))
