import time

import keras
import numpy as np
import tensorflow as tf

images = np.random.default_rng(0).random((512, 32, 32, 3)).astype("float32")
labels = np.arange(512) % 10


def wait(batch):
    time.sleep(0.03)
    return batch


def prepare(x, y):
    waited = tf.numpy_function(wait, [x], tf.float32)
    waited.set_shape(x.shape)
    return waited, y


dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(16).map(prepare)
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = keras.optimizers.SGD()
loss = keras.losses.SparseCategoricalCrossentropy()


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        value = loss(y, model(x, training=True))
    optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
    return value


for _ in range(3):
    for x, y in dataset:
        step(x, y)
