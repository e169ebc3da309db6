"""Message passing on small molecules (made-up), property regression.
Batches are disjoint unions of graphs, as in the usual sparse GNN code."""
import time
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf


class Batch(NamedTuple):
    nodes: np.ndarray      # (N, F)
    senders: np.ndarray    # (E,)
    receivers: np.ndarray  # (E,)
    graph_of: np.ndarray   # (N,)
    target: np.ndarray     # (G, 1)


GRAPHS_PER_BATCH = 96
FEATURES = 24


def random_molecule(rng):
    n = int(rng.integers(9, 38))
    feats = rng.normal(size=(n, FEATURES)).astype("float32")
    parent = np.array([rng.integers(0, i) for i in range(1, n)])
    child = np.arange(1, n)
    extra = rng.integers(0, n, size=(2, max(1, n // 4)))
    s = np.concatenate([parent, child, extra[0], extra[1]])
    r = np.concatenate([child, parent, extra[1], extra[0]])
    agg = np.zeros_like(feats)
    np.add.at(agg, r, feats[s])
    target = np.tanh(feats * agg).mean()
    return feats, s, r, target


def collate(mols):
    offset, nodes, snd, rcv, gid, tgt = 0, [], [], [], [], []
    for i, (f, s, r, t) in enumerate(mols):
        nodes.append(f)
        snd.append(s + offset)
        rcv.append(r + offset)
        gid.append(np.full(len(f), i))
        tgt.append(t)
        offset += len(f)
    return Batch(np.concatenate(nodes), np.concatenate(snd).astype("int32"), np.concatenate(rcv).astype("int32"),
                 np.concatenate(gid).astype("int32"), np.array(tgt, "float32")[:, None] * 10)


class MessageLayer(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.message = keras.Sequential([keras.layers.Dense(units, activation="relu"), keras.layers.Dense(units)])
        self.update = keras.layers.Dense(units, activation="relu")
        self.norm = keras.layers.LayerNormalization()

    def call(self, h, senders, receivers):
        m = self.message(tf.concat([tf.gather(h, senders), tf.gather(h, receivers)], axis=-1))
        m = tf.math.unsorted_segment_sum(m, receivers, tf.shape(h)[0])
        return self.norm(h + self.update(tf.concat([h, m], axis=-1)))


class MolNet(keras.Model):
    def __init__(self, units=96, depth=4):
        super().__init__()
        self.embed = keras.layers.Dense(units)
        self.blocks = [MessageLayer(units) for _ in range(depth)]
        self.readout = keras.Sequential([keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])

    def call(self, nodes, senders, receivers, graph_of):
        h = self.embed(nodes)
        for block in self.blocks:
            h = block(h, senders, receivers)
        return self.readout(tf.math.unsorted_segment_mean(h, graph_of, GRAPHS_PER_BATCH))


class Experiment:
    def __init__(self, batches, lr=5e-4):
        self.batches = batches
        self.model = MolNet()
        self.model(*batches[0][:4])
        self.opt = keras.optimizers.AdamW(lr, weight_decay=1e-4, clipnorm=1.0)
        self.opt.build(self.model.trainable_variables)
        self.rng = np.random.default_rng(0)

    @tf.function
    def step(self, nodes, senders, receivers, graph_of, target):
        with tf.GradientTape() as tape:
            pred = self.model(nodes, senders, receivers, graph_of)
            loss = tf.reduce_mean(tf.square(pred - target))
        variables = self.model.trainable_variables
        self.opt.apply(tape.gradient(loss, variables), variables)
        return loss

    def run(self, epochs):
        for epoch in range(epochs):
            losses = [self.step(*map(tf.constant, self.batches[i])) for i in self.rng.permutation(len(self.batches))]
            print(f"epoch {epoch + 1}: mse {np.mean(losses):.4f}")


def main():
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(3)
    mols = [random_molecule(rng) for _ in range(GRAPHS_PER_BATCH * 10)]
    batches = [collate(mols[i:i + GRAPHS_PER_BATCH]) for i in range(0, len(mols), GRAPHS_PER_BATCH)]
    exp = Experiment(batches)
    tic = time.perf_counter()
    exp.run(epochs=14)
    print(f"train time: {time.perf_counter() - tic:.2f} s")


if __name__ == "__main__":
    main()
