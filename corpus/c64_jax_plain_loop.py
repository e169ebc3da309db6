import os
os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras
import numpy as np

rng = np.random.default_rng(64)
x = rng.random((640, 24)).astype("float32")
y = rng.integers(0, 3, 640)


class Rows(keras.utils.PyDataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return x[i * 32:(i + 1) * 32], y[i * 32:(i + 1) * 32]


model = keras.Sequential([keras.Input((24,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(64, activation="relu"),
                          keras.layers.Dense(3)])
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def compute_loss(trainable, frozen, bx, by):
    logits, frozen = model.stateless_call(trainable, frozen, bx, training=True)
    return loss_fn(by, logits), frozen


grad_fn = jax.value_and_grad(compute_loss, has_aux=True)


def train_step(state, bx, by):
    trainable, frozen, opt = state
    (loss, frozen), grads = grad_fn(trainable, frozen, bx, by)
    trainable, opt = optimizer.stateless_apply(opt, grads, trainable)
    return loss, (trainable, frozen, opt)


state = ([v.value for v in model.trainable_variables], [v.value for v in model.non_trainable_variables],
         [v.value for v in optimizer.variables])
rows = Rows()
for epoch in range(8):
    for i in range(len(rows)):
        bx, by = rows[i]
        loss, state = train_step(state, bx, by)
    print("epoch", epoch, "loss", float(loss))
for v, value in zip(model.trainable_variables, state[0]):
    v.assign(value)
print(model.predict(x, verbose=0).shape)
