import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FRAMES, MELS, WORDS = 64, 40, 12
EPOCHS, BATCH = 6, 64


def spectrograms(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, WORDS, n)
    band = np.exp(-((np.arange(MELS) - 3 * y[:, None] - 2) ** 2) / 8.0)
    onset = rng.integers(0, 30, n)
    env = ((np.arange(FRAMES) > onset[:, None]) & (np.arange(FRAMES) < onset[:, None] + 20)).astype("float32")
    x = env[:, :, None] * band[:, None, :] + rng.normal(0, 0.5, (n, FRAMES, MELS))
    return x[..., None].astype("float32"), y.astype("int32")


def build():
    inp = keras.Input((FRAMES, MELS, 1))
    x = layers.Conv2D(24, (5, 3), padding="same", activation="relu")(inp)
    x = layers.MaxPooling2D()(x)
    for _ in range(2):
        x = layers.Conv2D(48, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(WORDS)(x))


x, y = spectrograms(1920, 1)
xv, yv = spectrograms(256, 2)
train_ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1920).batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
val_ds = tf.data.Dataset.from_tensor_slices((xv, yv)).batch(BATCH).prefetch(tf.data.AUTOTUNE)

model = build()
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
train_loss = keras.metrics.Mean()
val_acc = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(xb, yb):
    with tf.GradientTape() as tape:
        loss = loss_fn(yb, model(xb, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    train_loss.update_state(loss)


@tf.function
def val_step(xb, yb):
    val_acc.update_state(yb, model(xb, training=False))


t0 = time.time()
for epoch in range(EPOCHS):
    train_loss.reset_state()
    val_acc.reset_state()
    for xb, yb in train_ds:
        train_step(xb, yb)
    for xb, yb in val_ds:
        val_step(xb, yb)
    print("epoch %d loss %.4f val_acc %.3f" % (epoch + 1, float(train_loss.result()), float(val_acc.result())))
    model.save_weights("keyword.weights.h5")
print("train time: %.2f s" % (time.time() - t0))
