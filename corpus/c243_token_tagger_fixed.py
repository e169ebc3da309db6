"""Token classification on whole documents, one document per update."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

INPUT_DIMS = 48
TASKS = ("drug", "dose", "route")


class Documents:
    """Pre-embedded clinical notes of very different lengths."""

    def __init__(self, n, seed=243):
        rng = np.random.default_rng(seed)
        self.lengths = np.clip(rng.lognormal(5.6, 0.5, n).astype(int), 80, 900)
        self.x = [rng.normal(size=(1, l, INPUT_DIMS)).astype("float32") for l in self.lengths]
        self.y = [rng.integers(0, 3, (len(TASKS), 1, l)).astype("int32") for l in self.lengths]

    def __len__(self):
        return len(self.x)

    def epoch(self, rng):
        for i in rng.permutation(len(self)):
            yield tf.constant(self.x[i]), tf.constant(self.y[i])


def build():
    inp = keras.Input((None, INPUT_DIMS))
    h = layers.Conv1D(96, 5, padding="same", activation="relu")(inp)
    h = layers.Conv1D(96, 5, padding="same", activation="relu")(h)
    h = layers.Dropout(0.1)(h)
    return keras.Model(inp, [layers.Conv1D(3, 5, padding="same", name=t)(h) for t in TASKS])


model = build()
optimizer = keras.optimizers.Adam(1e-3)
loss_object = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer.build(model.trainable_variables)


@tf.function(input_signature=[
    tf.TensorSpec((1, None, INPUT_DIMS), tf.float32),
    tf.TensorSpec((len(TASKS), 1, None), tf.int32),
])
def train(x, y):
    with tf.GradientTape() as g:
        outputs = model(x, training=True)
        loss = sum(loss_object(y[k], out) for k, out in enumerate(outputs))
    gradients = g.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


def run(epochs):
    docs = Documents(50)
    rng = np.random.default_rng(0)
    for epoch in range(epochs):
        running = keras.metrics.Mean()
        t0 = time.time()
        for x, y in docs.epoch(rng):
            running.update_state(train(x, y))
        print("epoch %d  loss %.4f  %.1f s" % (epoch + 1, float(running.result()), time.time() - t0))


if __name__ == "__main__":
    t_start = time.time()
    run(epochs=20)
    print("train time: %.2f s" % (time.time() - t_start))
