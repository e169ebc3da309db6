import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras import layers

LATENT = 8


def encoder_decoder(dim):
    enc = keras.Sequential([keras.Input((dim,)), layers.Dense(256, activation="gelu"), layers.LayerNormalization(),
                            layers.Dense(256, activation="gelu"), layers.LayerNormalization(), layers.Dense(2 * LATENT)])
    dec = keras.Sequential([keras.Input((LATENT,)), layers.Dense(256, activation="gelu"), layers.LayerNormalization(),
                            layers.Dense(256, activation="gelu"), layers.LayerNormalization(), layers.Dense(dim)])
    return enc, dec


rng = np.random.default_rng(8)
mix = rng.normal(size=(LATENT, 120))
data = np.tanh(rng.normal(size=(12_800, LATENT)) @ mix).astype("float32")
data += rng.normal(0, 0.05, data.shape).astype("float32")

enc, dec = encoder_decoder(data.shape[1])
opt = keras.optimizers.Adam(1e-3)
opt.build(enc.trainable_variables + dec.trainable_variables)
n_enc = len(enc.trainable_variables)


def elbo(params, x, key, beta):
    stats, _ = enc.stateless_call(params[:n_enc], [], x)
    mu, logvar = jnp.split(stats, 2, axis=-1)
    z = mu + jnp.exp(0.5 * logvar) * jax.random.normal(key, mu.shape)
    recon, _ = dec.stateless_call(params[n_enc:], [], z)
    rec = jnp.mean(jnp.sum((recon - x) ** 2, -1))
    kl = -0.5 * jnp.mean(jnp.sum(1 + logvar - mu**2 - jnp.exp(logvar), -1))
    return rec + beta * kl, (rec, kl)


@jax.jit
def update(params, opt_state, x, key, beta):
    (_, aux), grads = jax.value_and_grad(elbo, has_aux=True)(params, x, key, beta)
    params, opt_state = opt.stateless_apply(opt_state, grads, params)
    return params, opt_state, aux


params = [v.value for v in enc.trainable_variables + dec.trainable_variables]
opt_state = [v.value for v in opt.variables]
key = jax.random.PRNGKey(0)
BATCH, EPOCHS = 128, 8

tic = time.time()
for epoch in range(EPOCHS):
    beta = round(min(1.0, 0.05 + epoch / EPOCHS), 4)
    order = rng.permutation(len(data))
    for i in range(0, len(order), BATCH):
        key, sub = jax.random.split(key)
        params, opt_state, (rec, kl) = update(params, opt_state, data[order[i:i + BATCH]], sub, beta=jnp.float32(beta))
    print(f"{epoch:2d} beta {beta:.2f} rec {float(rec):.3f} kl {float(kl):.3f}")
print("train time: %.2f s" % (time.time() - tic))
