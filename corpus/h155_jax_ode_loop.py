import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import jax
import jax.numpy as jnp
import numpy as np
import keras
from keras import layers


def make_fields(n=1024, side=32, seed=155):
    rng = np.random.default_rng(seed)
    k = np.fft.fftfreq(side)[:, None] ** 2 + np.fft.rfftfreq(side)[None] ** 2
    noise = np.fft.rfft2(rng.normal(size=(n, side, side))) / (1 + 80 * k)
    now = np.fft.irfft2(noise, s=(side, side))
    later = np.fft.irfft2(noise * np.exp(-12 * k), s=(side, side))
    return now[..., None].astype("float32"), later[..., None].astype("float32")


def surrogate():
    inp = keras.Input((32, 32, 1))
    h = inp
    for width in (32, 48, 48, 32):
        h = layers.Conv2D(width, 3, padding="same", activation="gelu")(h)
    return keras.Model(inp, layers.Conv2D(1, 3, padding="same")(h))


class Run:
    def __init__(self, epochs=4, batch=32, log_every=16):
        self.epochs, self.batch, self.log_every = epochs, batch, log_every
        self.model = surrogate()
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.model.trainable_variables)
        self.step = jax.jit(self._step, donate_argnums=(0, 1))

    def _loss(self, params, x, y):
        out, _ = self.model.stateless_call(params, [], x)
        return jnp.mean((out - y) ** 2)

    def _step(self, params, state, x, y):
        loss, grads = jax.value_and_grad(self._loss)(params, x, y)
        params, state = self.opt.stateless_apply(state, grads, params)
        return loss, params, state

    def go(self):
        x, y = make_fields()
        params = [jnp.copy(v.value) for v in self.model.trainable_variables]
        state = [jnp.copy(v.value) for v in self.opt.variables]
        rng = np.random.default_rng(0)
        done = 0
        for epoch in range(self.epochs):
            order = rng.permutation(len(x))
            for i in range(0, len(x), self.batch):
                rows = order[i:i + self.batch]
                loss, params, state = self.step(params, state, x[rows], y[rows])
                done += 1
                if done % self.log_every == 0:
                    print("step %4d  loss %.6f" % (done, float(loss)))
        jax.block_until_ready(params)


t0 = time.time()
Run().go()
print("train time: %.2f s" % (time.time() - t0))
