"""Remaining-useful-life regression on turbofan style sensor rows, residual MLP, own training loop."""
import os
os.environ["KERAS_BACKEND"] = "jax"
import argparse
import time

import jax
import numpy as np
import keras
from keras import layers


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=9600)
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--bs", type=int, default=192)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--depth", type=int, default=8)
    return p.parse_args()


def sensor_table(n, seed=220):
    rng = np.random.default_rng(seed)
    cycles = rng.uniform(0, 1, n)
    load = rng.normal(size=(n, 3))
    mix = rng.normal(size=(6, 42))
    base = np.stack([cycles, cycles ** 2, np.sqrt(cycles), *load.T], axis=1)
    x = np.tanh(base @ mix) + 0.05 * rng.normal(size=(n, 42))
    rul = 125.0 * (1 - cycles) + 6 * load[:, 0]
    return x.astype("float32"), (rul[:, None] / 125.0).astype("float32")


def build(width, depth, n_in):
    inp = keras.Input((n_in,))
    h = layers.Dense(width)(inp)
    for _ in range(depth):
        r = layers.LayerNormalization()(h)
        r = layers.Dense(width, activation="gelu")(r)
        r = layers.Dropout(0.05)(r)
        r = layers.Dense(width)(r)
        h = layers.Add()([h, r])
    h = layers.LayerNormalization()(h)
    return keras.Model(inp, layers.Dense(1)(h))


class Learner:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.opt = keras.optimizers.AdamW(lr, weight_decay=1e-4)
        self.opt.build(model.trainable_variables)
        self.huber = keras.losses.Huber()
        self.state = (
            [v.value for v in model.trainable_variables],
            [v.value for v in model.non_trainable_variables],
            [v.value for v in self.opt.variables],
        )
        self.grad_fn = jax.value_and_grad(self.objective, has_aux=True)
        self.step = jax.jit(self.pure_step)

    def objective(self, tv, ntv, xb, yb):
        pred, ntv = self.model.stateless_call(tv, ntv, xb, training=True)
        return self.huber(yb, pred), ntv

    def pure_step(self, state, xb, yb):
        tv, ntv, ov = state
        (loss, ntv), grads = self.grad_fn(tv, ntv, xb, yb)
        tv, ov = self.opt.stateless_apply(ov, grads, tv)
        return loss, (tv, ntv, ov)

    def update(self, xb, yb):
        loss, self.state = self.step(self.state, xb, yb)
        return loss

    def store(self):
        for group, values in zip(
            (self.model.trainable_variables, self.model.non_trainable_variables, self.opt.variables), self.state
        ):
            for v, val in zip(group, values):
                v.assign(val)


def main():
    args = parse()
    x, y = sensor_table(args.rows)
    net = build(args.width, args.depth, x.shape[1])
    learner = Learner(net)
    rng = np.random.default_rng(1)
    t0 = time.time()
    for ep in range(args.epochs):
        order = rng.permutation(len(x))
        losses = []
        for s in range(0, len(x) - args.bs + 1, args.bs):
            pick = order[s:s + args.bs]
            losses.append(learner.update(x[pick], y[pick]))
        print("epoch %d  huber %.5f" % (ep + 1, float(np.mean([float(l) for l in losses]))))
    learner.store()
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
