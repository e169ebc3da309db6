import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import keras
import numpy as np
import tensorflow as tf
from keras import layers

rng = np.random.default_rng(123)
x = rng.random((4096, 28, 28, 1)).astype("float32")
y = rng.integers(0, 10, 4096)
train = tf.data.Dataset.from_tensor_slices((x[:3584], y[:3584])).shuffle(3584).batch(64, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
val = tf.data.Dataset.from_tensor_slices((x[3584:], y[3584:])).batch(128)
inputs = keras.Input((28, 28, 1))
h = layers.Conv2D(24, 3, activation="relu")(inputs)
h = layers.Conv2D(24, 3, strides=2, activation="relu")(h)
model = keras.Model(inputs, layers.Dense(10)(layers.Flatten()(h)))
opt = keras.optimizers.Adam()
opt.build(model.trainable_variables)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_acc = keras.metrics.SparseCategoricalAccuracy()
val_acc = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(bx, by):
    with tf.GradientTape() as tape:
        logits = model(bx, training=True)
        loss = loss_fn(by, logits)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
    train_acc.update_state(by, logits)
    return loss


@tf.function
def test_step(bx, by):
    val_acc.update_state(by, model(bx, training=False))


for epoch in range(4):
    start = time.time()
    for step, (bx, by) in enumerate(train):
        loss = train_step(bx, by)
        if step % 25 == 0:
            print("step %d: loss %.4f" % (step, float(loss)))
    for bx, by in val:
        test_step(bx, by)
    print("acc %.3f val %.3f (%.2f s)" % (float(train_acc.result()), float(val_acc.result()), time.time() - start))
    train_acc.reset_state()
    val_acc.reset_state()
