import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
import argparse
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

VOCAB, LENGTH, QUEUES = 4000, 120, 8


def tickets(n, seed):
    rng = np.random.default_rng(seed)
    q = rng.integers(0, QUEUES, n)
    words = rng.zipf(1.3, (n, LENGTH)) % (VOCAB - 200)
    own = rng.random((n, LENGTH)) < 0.06
    words = np.where(own, VOCAB - 200 + q[:, None] * 25 + rng.integers(0, 25, (n, LENGTH)), words)
    return words.astype("int32"), q.astype("int32")


class Router(keras.Model):
    def __init__(self, filters=96):
        super().__init__()
        self.emb = layers.Embedding(VOCAB, 48)
        self.convs = [layers.Conv1D(filters, k, activation="relu") for k in (3, 4, 5)]
        self.pool = layers.GlobalMaxPooling1D()
        self.drop = layers.Dropout(0.3)
        self.head = layers.Dense(QUEUES)

    def call(self, x, training=False):
        e = self.emb(x)
        h = tf.concat([self.pool(c(e)) for c in self.convs], axis=-1)
        return self.head(self.drop(h, training=training))


class Session:
    def __init__(self, model, cfg):
        self.model = model
        self.cfg = cfg
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.xent = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.loss_avg = keras.metrics.Mean()
        self.acc = keras.metrics.SparseCategoricalAccuracy()
        self.best = 0.0

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.xent(y, self.model(x, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.loss_avg.update_state(loss)

    @tf.function
    def score(self, x, y):
        self.acc.update_state(y, self.model(x, training=False))

    def held_out(self, ds):
        self.acc.reset_state()
        for x, y in ds:
            self.score(x, y)
        return float(self.acc.result())

    def run(self, train_ds, dev_ds):
        for it, (x, y) in enumerate(train_ds.repeat().take(self.cfg.iters), 1):
            self.step(x, y)
            if it % self.cfg.log_every == 0:
                dev = self.held_out(dev_ds)
                self.best = max(self.best, dev)
                print("iter %4d  loss %.4f  dev acc %.4f" % (it, float(self.loss_avg.result()), dev))
                self.loss_avg.reset_state()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=250)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--log-every", type=int, default=125)
    cfg = p.parse_args()
    xt, yt = tickets(cfg.batch * 600, 228)
    xd, yd = tickets(9600, 229)
    train_ds = tf.data.Dataset.from_tensor_slices((xt, yt)).shuffle(len(xt)).batch(cfg.batch).prefetch(2)
    dev_ds = tf.data.Dataset.from_tensor_slices((xd, yd)).batch(cfg.batch).prefetch(2)
    session = Session(Router(), cfg)
    t0 = time.time()
    session.run(train_ds, dev_ds)
    print("best dev acc %.4f" % session.best)
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
