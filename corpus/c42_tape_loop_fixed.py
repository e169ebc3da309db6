import time
import numpy as np
import keras
from keras import layers

import tensorflow as tf

rng = np.random.default_rng(2)
x = rng.random((2560, 20, 8)).astype("float32")
y = rng.random((2560, 1)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(2560).batch(32)
model = keras.Sequential([keras.Input((20, 8)), layers.Conv1D(32, 3, activation="relu"), layers.Conv1D(32, 3),
                          layers.GlobalMaxPooling1D(), layers.Dense(1)])
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)


@tf.function
def train_step(features, target):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(features, training=True) - target))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


t0 = time.time()
for epoch in range(3):
    for features, target in data:
        loss = train_step(features, target)
    print("epoch", epoch, float(loss))
print("train time: %.2f s" % (time.time() - t0))
