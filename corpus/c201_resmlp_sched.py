import os
os.environ["KERAS_BACKEND"] = "jax"
import functools
import math
import time
from typing import NamedTuple
import numpy as np
import jax
import jax.numpy as jnp
import keras
from keras import layers


class HParams(NamedTuple):
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    smoothing: float = 0.05


EPOCHS, WARMUP, BATCH, CLASSES = 12, 2, 128, 8


def make_data(n, seed):
    rng = np.random.default_rng(64)
    proto = rng.normal(size=(CLASSES, 64))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    x = proto[y] + 2.5 * rng.normal(size=(n, 64))
    return x.astype("float32"), y.astype("int32")


def residual_mlp(depth=6, width=256, hidden=512):
    inp = keras.Input((64,))
    x = layers.Dense(width)(inp)
    for _ in range(depth):
        h = layers.LayerNormalization()(x)
        h = layers.Dense(hidden, activation="gelu")(h)
        h = layers.Dense(width)(h)
        x = layers.Add()([x, h])
    return keras.Model(inp, layers.Dense(CLASSES)(layers.LayerNormalization()(x)))


keras.utils.set_random_seed(64)
model = residual_mlp()


def loss_fn(tv, ntv, x, y, smoothing):
    logits, ntv = model.stateless_call(tv, ntv, x, training=True)
    target = jax.nn.one_hot(y, CLASSES) * (1 - smoothing) + smoothing / CLASSES
    return -jnp.mean(jnp.sum(target * jax.nn.log_softmax(logits), axis=-1)), ntv


@functools.partial(jax.jit, static_argnames=("hp",))
def train_step(state, x, y, hp):
    tv, ntv, vel = state
    (loss, ntv), grads = jax.value_and_grad(loss_fn, has_aux=True)(tv, ntv, x, y, hp.smoothing)
    grads = [g + hp.weight_decay * w for g, w in zip(grads, tv)]
    vel = [hp.momentum * v + g for v, g in zip(vel, grads)]
    tv = [w - hp.lr * v for w, v in zip(tv, vel)]
    return loss, (tv, ntv, vel)


@jax.jit
def n_correct(tv, ntv, x, y):
    logits, _ = model.stateless_call(tv, ntv, x, training=False)
    return jnp.sum(jnp.argmax(logits, axis=-1) == y)


def schedule(epoch, peak):
    if epoch < WARMUP:
        return peak * (epoch + 1) / (WARMUP + 1)
    t = (epoch - WARMUP) / (EPOCHS - WARMUP)
    return peak * 0.5 * (1 + math.cos(math.pi * t))


x, y = make_data(3584, 1)
xv, yv = make_data(512, 2)
rng = np.random.default_rng(0)
base = HParams()
tv = [v.value for v in model.trainable_variables]
state = (tv, [v.value for v in model.non_trainable_variables], [jnp.zeros_like(w) for w in tv])

t0 = time.time()
for epoch in range(EPOCHS):
    hp = base._replace(lr=schedule(epoch, base.lr))
    order = rng.permutation(len(x))
    losses = []
    for i in range(0, len(x), BATCH):
        idx = order[i:i + BATCH]
        loss, state = train_step(state, x[idx], y[idx], hp=hp)
        losses.append(loss)
    acc = int(n_correct(state[0], state[1], xv, yv)) / len(yv)
    print("epoch %d  lr %.4f  loss %.4f  val_acc %.3f" % (epoch, hp.lr, float(np.mean(jax.device_get(losses))), acc))
for var, value in zip(model.trainable_variables, state[0]):
    var.assign(value)
print("train time: %.2f s" % (time.time() - t0))
