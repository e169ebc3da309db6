import os
os.environ["KERAS_BACKEND"] = "jax"
import time
import numpy as np
import jax
import jax.numpy as jnp
import keras
from keras import layers

CLASSES, FEATURES, BATCH, EPOCHS, RHO = 10, 64, 256, 5, 0.05


def make_split(n, seed):
    proto = np.random.default_rng(72).normal(size=(CLASSES, FEATURES))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n).astype("int32")
    return (proto[y] + 3.0 * rng.normal(size=(n, FEATURES))).astype("float32"), y


def build():
    return keras.Sequential([
        keras.Input((FEATURES,)),
        layers.Dense(512, activation="relu"),
        layers.Dense(512, activation="relu"),
        layers.Dense(512, activation="relu"),
        layers.Dense(CLASSES),
    ])


class SAMTrainer:
    def __init__(self, model, optimizer, rho):
        self.model, self.optimizer, self.rho = model, optimizer, rho
        optimizer.build(model.trainable_variables)
        self.state = ([v.value for v in model.trainable_variables],
                      [v.value for v in model.non_trainable_variables],
                      [v.value for v in optimizer.variables])
        self.step = jax.jit(self._step, donate_argnums=0)
        self.correct = jax.jit(self._correct)

    def _loss(self, tv, ntv, x, y):
        logits, ntv = self.model.stateless_call(tv, ntv, x, training=True)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=-1)
        return -jnp.mean(picked), ntv

    def _step(self, state, x, y):
        tv, ntv, ov = state
        grad_fn = jax.value_and_grad(self._loss, has_aux=True)
        (loss, _), grads = grad_fn(tv, ntv, x, y)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in grads)) + 1e-12
        uphill = [w + self.rho * g / norm for w, g in zip(tv, grads)]
        (_, ntv), grads = grad_fn(uphill, ntv, x, y)
        tv, ov = self.optimizer.stateless_apply(ov, grads, tv)
        return loss, (tv, ntv, ov)

    def _correct(self, tv, ntv, x, y):
        logits, _ = self.model.stateless_call(tv, ntv, x, training=False)
        return jnp.sum(jnp.argmax(logits, axis=-1) == y)

    def fit(self, train, valid, epochs, batch):
        x, y = train
        rng = np.random.default_rng(0)
        for epoch in range(epochs):
            order = rng.permutation(len(x))
            losses = []
            for i in range(0, len(x), batch):
                idx = order[i:i + batch]
                loss, self.state = self.step(self.state, x[idx], y[idx])
                losses.append(loss)
            hits = int(self.correct(self.state[0], self.state[1], *valid))
            print("epoch %d  loss %.4f  val_acc %.3f" % (
                epoch, float(np.mean(jax.device_get(losses))), hits / len(valid[1])))
        for var, value in zip(self.model.trainable_variables, self.state[0]):
            var.assign(value)


keras.utils.set_random_seed(72)
steps = 20480 // BATCH * EPOCHS
schedule = keras.optimizers.schedules.CosineDecay(5e-2, decay_steps=steps)
trainer = SAMTrainer(build(), keras.optimizers.SGD(schedule, momentum=0.9), RHO)
train, valid = make_split(20480, 1), make_split(2048, 2)
t0 = time.time()
trainer.fit(train, valid, EPOCHS, BATCH)
print("train time: %.2f s" % (time.time() - t0))
