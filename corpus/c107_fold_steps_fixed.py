import os
os.environ["KERAS_BACKEND"] = "jax"
import time

import jax
import keras
import numpy as np


def make_model():
    return keras.Sequential([
        keras.Input((24,)),
        keras.layers.Dense(96, activation="relu"),
        keras.layers.Dense(96, activation="relu"),
        keras.layers.Dense(1),
    ])


def train(model, optimizer, x, y, epochs, batch):
    trainable = [v.value for v in model.trainable_variables]
    fixed = [v.value for v in model.non_trainable_variables]
    state = [v.value for v in optimizer.variables]

    def compute(trainable, fixed, bx, by):
        predicted, fixed = model.stateless_call(trainable, fixed, bx, training=True)
        return keras.ops.mean(keras.ops.square(predicted - by)), fixed

    @jax.jit
    def step(trainable, fixed, state, bx, by):
        (loss, fixed), grads = jax.value_and_grad(compute, has_aux=True)(trainable, fixed, bx, by)
        trainable, state = optimizer.stateless_apply(state, grads, trainable)
        return loss, trainable, fixed, state

    for epoch in range(epochs):
        losses = []
        for start in range(0, len(x), batch):
            loss, trainable, fixed, state = step(trainable, fixed, state, x[start:start + batch], y[start:start + batch])
            losses.append(loss)
        print("epoch", epoch, "loss", float(np.mean([float(each) for each in losses])))
    for variable, value in zip(model.trainable_variables, trainable):
        variable.assign(value)


rng = np.random.default_rng(107)
x = rng.normal(size=(1280, 24)).astype("float32")
y = np.sin(x[:, :1]) * x[:, 1:2]
model = make_model()
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
start = time.time()
train(model, optimizer, x, y, epochs=24, batch=64)
print("train time: %.1f s" % (time.time() - start))
