import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import jax
import jax.numpy as jnp
import keras
from keras import layers

keras.utils.set_random_seed(124)
LENGTH, PATCH, WIDTH = 512, 16, 128


def gauges(count, seed):
    """Water levels of gauges; the target is the mean of the next hours."""
    rng = np.random.default_rng(seed)
    t = np.arange(LENGTH + 24)
    phase = rng.uniform(0, 2 * np.pi, (count, 2, 1))
    level = np.sin(2 * np.pi * t / 12.4 + phase[:, 0]) + 0.6 * np.sin(2 * np.pi * t / 167.0 + phase[:, 1])
    level = level + rng.normal(0, 0.1, level.shape)
    return level[:, :LENGTH, None].astype("float32"), level[:, LENGTH:LENGTH + 6].mean(axis=1).astype("float32")


def shuffled_batches(x, y, size, rng):
    order = rng.permutation(len(x))
    for start in range(0, len(x) - size + 1, size):
        rows = order[start:start + size]
        yield x[rows] + rng.normal(0, 0.02, (size, 1, 1)).astype("float32"), y[rows]


class Places(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal", name="table")

    def call(self, x):
        return x + self.table


def patch_transformer():
    inputs = keras.Input((LENGTH, 1))
    x = layers.Conv1D(WIDTH, PATCH, strides=PATCH)(inputs)
    x = Places()(x)
    for _ in range(2):
        h = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, WIDTH // 4)(h, h)
        h = layers.LayerNormalization()(x)
        x = x + layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="gelu")(h))
    x = layers.Flatten()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(1)(x))


model = patch_transformer()
optimizer = keras.optimizers.AdamW(3e-4)
optimizer.build(model.trainable_variables)


def loss_fn(trainable, fixed, x, y):
    out, fixed = model.stateless_call(trainable, fixed, x, training=True)
    return jnp.mean(jnp.square(out[:, 0] - y)), fixed


@jax.jit
def train_step(trainable, fixed, slots, average, x, y):
    (loss, fixed), grads = jax.value_and_grad(loss_fn, has_aux=True)(trainable, fixed, x, y)
    trainable, slots = optimizer.stateless_apply(slots, grads, trainable)
    average = [0.98 * a + 0.02 * v for a, v in zip(average, trainable)]
    return loss, trainable, fixed, slots, average


@jax.jit
def evaluate(trainable, fixed, x, y):
    out, _ = model.stateless_call(trainable, fixed, x, training=False)
    return jnp.mean(jnp.abs(out[:, 0] - y))


x, y = gauges(4096, 1)
x_val, y_val = gauges(256, 2)
trainable = [v.value for v in model.trainable_variables]
fixed = [v.value for v in model.non_trainable_variables]
slots = [v.value for v in optimizer.variables]
average = [jnp.array(v) for v in trainable]
rng = np.random.default_rng(3)
step = 0
t0 = time.time()
for epoch in range(4):
    for bx, by in shuffled_batches(x, y, 64, rng):
        loss, trainable, fixed, slots, average = train_step(trainable, fixed, slots, average, bx, by)
        step += 1
        if step % 32 == 0:
            print("step %d loss %.4f" % (step, float(loss)))
    print("epoch %d held-out error %.4f" % (epoch + 1, float(evaluate(average, fixed, x_val, y_val))))
print("train time: %.2f s" % (time.time() - t0))
