import os
os.environ["KERAS_BACKEND"] = "torch"
import argparse
import time

import numpy as np
import keras
from keras import layers, ops


def random_graphs(n, nodes, feats, rng):
    upper = np.triu(rng.random((n, nodes, nodes)) < 0.25, 1)
    adj = (upper | upper.transpose(0, 2, 1)) + np.eye(nodes)
    degree = adj.sum(-1)
    adj = adj / np.sqrt(degree[:, :, None] * degree[:, None, :])
    kind = rng.integers(0, feats, (n, nodes))
    return adj.astype("float32"), np.eye(feats, dtype="float32")[kind]


def make_pairs(n, nodes=24, feats=10, seed=306):
    rng = np.random.default_rng(seed)
    a, fa = random_graphs(n, nodes, feats, rng)
    b, fb = random_graphs(n, nodes, feats, rng)
    same = rng.random(n) < 0.5
    b[same], fb[same] = a[same], fa[same]
    distance = np.abs(fa.sum(1) - fb.sum(1)).sum(-1) / nodes
    return [a, fa, b, fb], np.exp(-distance).astype("float32")


class GraphEncoder(layers.Layer):
    def __init__(self, widths, **kwargs):
        super().__init__(**kwargs)
        self.steps = [layers.Dense(w, activation="relu") for w in widths]
        self.context = layers.Dense(widths[-1], use_bias=False)

    def call(self, adj, x):
        for step in self.steps:
            x = step(ops.matmul(adj, x))
        centre = ops.tanh(self.context(ops.mean(x, axis=-2, keepdims=True)))
        weight = ops.sigmoid(ops.sum(x * centre, axis=-1, keepdims=True))
        return ops.sum(weight * x, axis=-2)


class PairSimilarity(keras.Model):
    def __init__(self, widths=(128, 64, 32)):
        super().__init__()
        self.encoder = GraphEncoder(widths)
        self.compare = layers.Dense(16, activation="tanh")
        self.score = layers.Dense(1, activation="sigmoid")

    def similarity(self, adj_a, x_a, adj_b, x_b):
        h_a = self.encoder(adj_a, x_a)
        h_b = self.encoder(adj_b, x_b)
        return self.score(self.compare(ops.concatenate([h_a, h_b, ops.abs(h_a - h_b)], axis=-1)))

    def call(self, inputs):
        return self.similarity(*inputs)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--pairs", type=int, default=1600)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=6)
    args = p.parse_args()
    x, y = make_pairs(args.pairs)
    model = PairSimilarity()
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
    t0 = time.time()
    model.fit(x, y, batch_size=args.batch_size, epochs=args.epochs, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
