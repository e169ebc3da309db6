import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import jax
import jax.numpy as jnp
import numpy as np
import keras
from keras import layers

CODES, LATENTS = 16, 12


def glyphs(n=1536, side=20):
    rng = np.random.default_rng(331)
    img = np.zeros((n, side, side, 1), "float32")
    for k in range(3):
        a = rng.integers(0, side - 6, (n, 2))
        for i in range(n):
            img[i, a[i, 0]:a[i, 0] + 6, a[i, 1] + k] = 1
    return img


encoder = keras.Sequential([
    keras.Input((20, 20, 1)),
    layers.Conv2D(16, 3, strides=2, activation="relu", padding="same"),
    layers.Conv2D(32, 3, strides=2, activation="relu", padding="same"),
    layers.Flatten(),
    layers.Dense(LATENTS * CODES),
])
decoder = keras.Sequential([
    keras.Input((LATENTS * CODES,)),
    layers.Dense(5 * 5 * 32, activation="relu"),
    layers.Reshape((5, 5, 32)),
    layers.Conv2DTranspose(16, 3, strides=2, activation="relu", padding="same"),
    layers.Conv2DTranspose(1, 3, strides=2, padding="same"),
])
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(encoder.trainable_variables + decoder.trainable_variables)
SPLIT = len(encoder.trainable_variables)


def loss_fn(params, images, key, temperature):
    logits, _ = encoder.stateless_call(params[:SPLIT], [], images)
    logits = logits.reshape(-1, LATENTS, CODES)
    noise = jax.random.gumbel(key, logits.shape)
    soft = jax.nn.softmax((logits + noise) / temperature)
    out, _ = decoder.stateless_call(params[SPLIT:], [], soft.reshape(-1, LATENTS * CODES))
    bce = jnp.maximum(out, 0) - out * images + jnp.log1p(jnp.exp(-jnp.abs(out)))
    return bce.sum((1, 2, 3)).mean()


@jax.jit
def train_step(params, opt_state, images, key, temperature):
    loss, grads = jax.value_and_grad(loss_fn)(params, images, key, temperature)
    params, opt_state = optimizer.stateless_apply(opt_state, grads, params)
    return loss, params, opt_state


def main(epochs=5, batch=64):
    data = glyphs()
    params = [v.value for v in encoder.trainable_variables + decoder.trainable_variables]
    opt_state = [v.value for v in optimizer.variables]
    key = jax.random.PRNGKey(0)
    step = 0
    t0 = time.time()
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(data))
        for i in range(0, len(data), batch):
            key, sub = jax.random.split(key)
            temperature = max(0.3, float(np.exp(-0.02 * (step // 8))))
            loss, params, opt_state = train_step(params, opt_state, data[order[i:i + batch]], sub, temperature)
            step += 1
        print("epoch", epoch, "tau %.3f" % temperature, "loss %.2f" % float(loss))
    print("train time: %.2f s" % (time.time() - t0))


if __name__ == "__main__":
    main()
