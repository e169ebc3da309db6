"""Contrastive pre-training of an encoder for wearable-sensor windows (accelerometer + gyroscope).

NT-Xent loss, two jittered views per window, Keras model driven from plain JAX.
"""
import argparse
import math
import time

import jax
import jax.numpy as jnp
import numpy as np
import keras
from keras import layers


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--batch-size", type=int, default=96)
    p.add_argument("--windows", type=int, default=2400)
    p.add_argument("--t-start", type=float, default=0.5)
    p.add_argument("--t-end", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


def synth_windows(n, length=80, channels=6, seed=0):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, length, dtype="float32")
    freq = rng.uniform(1, 12, (n, 1, channels)).astype("float32")
    phase = rng.uniform(0, 2 * np.pi, (n, 1, channels)).astype("float32")
    base = np.sin(2 * np.pi * freq * t[None, :, None] + phase)
    return (base + 0.1 * rng.standard_normal(base.shape)).astype("float32")


def build_encoder(length=80, channels=6, dim=64):
    inp = keras.Input((length, channels))
    x = inp
    for filters in (32, 64, 64):
        skip = layers.Conv1D(filters, 1, strides=2, padding="same")(x)
        x = layers.Conv1D(filters, 5, strides=2, padding="same")(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("gelu")(x)
        x = layers.Conv1D(filters, 5, padding="same")(x)
        x = layers.Activation("gelu")(layers.Add()([x, skip]))
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(128, activation="gelu")(x)
    return keras.Model(inp, layers.Dense(dim)(x), name="encoder")


def cosine(start, end, epoch, total):
    return end + 0.5 * (start - end) * (1 + math.cos(math.pi * epoch / max(1, total - 1)))


class ContrastiveTrainer:
    def __init__(self, encoder, lr):
        self.encoder = encoder
        self.optimizer = keras.optimizers.Adam(lr)
        self.optimizer.build(encoder.trainable_variables)
        self.state = (
            [v.value for v in encoder.trainable_variables],
            [v.value for v in encoder.non_trainable_variables],
            [v.value for v in self.optimizer.variables],
        )

    def nt_xent(self, z, temperature):
        z = z / (jnp.linalg.norm(z, axis=-1, keepdims=True) + 1e-6)
        n = z.shape[0] // 2
        sim = z @ z.T / temperature
        sim = sim - 1e9 * jnp.eye(2 * n)
        target = jnp.concatenate([jnp.arange(n, 2 * n), jnp.arange(0, n)])
        logp = jax.nn.log_softmax(sim, axis=-1)
        return -jnp.mean(logp[jnp.arange(2 * n), target])

    def make_step(self, temperature):
        def loss_fn(tv, ntv, views):
            z, ntv = self.encoder.stateless_call(tv, ntv, views, training=True)
            return self.nt_xent(z, temperature), ntv

        grad_fn = jax.value_and_grad(loss_fn, has_aux=True)

        @jax.jit
        def step(state, batch, key):
            tv, ntv, ov = state
            k1, k2 = jax.random.split(key)
            a = batch + 0.05 * jax.random.normal(k1, batch.shape)
            b = batch * (1 + 0.1 * jax.random.normal(k2, (batch.shape[0], 1, batch.shape[2])))
            (loss, ntv), grads = grad_fn(tv, ntv, jnp.concatenate([a, b]))
            tv, ov = self.optimizer.stateless_apply(ov, grads, tv)
            return (tv, ntv, ov), loss

        return step

    def fit(self, windows, args):
        rng = np.random.default_rng(args.seed)
        key = jax.random.PRNGKey(args.seed)
        steps = len(windows) // args.batch_size
        for epoch in range(args.epochs):
            temperature = cosine(args.t_start, args.t_end, epoch, args.epochs)
            step = self.make_step(temperature)
            order = rng.permutation(len(windows))
            losses = []
            for i in range(steps):
                idx = order[i * args.batch_size:(i + 1) * args.batch_size]
                key, sub = jax.random.split(key)
                self.state, loss = step(self.state, windows[idx], sub)
                losses.append(loss)
            print(f"epoch {epoch + 1:2d}  T={temperature:.3f}  loss={np.mean(jax.device_get(losses)):.4f}")
        for v, value in zip(self.encoder.trainable_variables, self.state[0]):
            v.assign(value)


def main():
    args = parse_args()
    keras.utils.set_random_seed(args.seed)
    windows = synth_windows(args.windows, seed=args.seed)
    trainer = ContrastiveTrainer(build_encoder(), args.lr)
    t0 = time.time()
    trainer.fit(windows, args)
    print(f"train time: {time.time() - t0:.2f} s")


if __name__ == "__main__":
    main()
