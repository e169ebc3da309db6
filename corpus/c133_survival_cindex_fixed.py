"""DeepSurv-like risk model, concordance index watched while training."""
import os
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

rng = np.random.default_rng(41)
N, D, BATCH, EPOCHS = 24576, 60, 2048, 40

x = rng.normal(size=(N, D)).astype("float32")
risk = x[:, :8].sum(axis=1) * 0.3
time_to_event = rng.exponential(np.exp(-risk)).astype("float32")
event = (rng.random(N) < 0.7).astype("float32")
y = np.stack([time_to_event, event], axis=1)


def cox_loss(y_true, y_pred):
    order = tf.argsort(y_true[:, 0], direction="DESCENDING")
    e = tf.gather(y_true[:, 1], order)
    r = tf.gather(y_pred[:, 0], order)
    log_cum = tf.math.cumulative_logsumexp(r)
    return -tf.reduce_sum((r - log_cum) * e) / (tf.reduce_sum(e) + 1.0)


def concordance(y_true, y_pred):
    t, e, r = y_true[:, 0], y_true[:, 1], y_pred[:, 0]
    earlier = tf.cast(t[:, None] < t[None, :], tf.float32) * e[:, None]
    diff = r[:, None] - r[None, :]
    right = tf.cast(diff > 0, tf.float32) + 0.5 * tf.cast(tf.abs(diff) < 1e-8, tf.float32)
    return tf.reduce_sum(earlier * right) / (tf.reduce_sum(earlier) + 1e-8)


inputs = keras.Input((D,))
h = layers.Dense(128, activation="selu")(inputs)
h = layers.Dropout(0.2)(h)
h = layers.Dense(128, activation="selu")(h)
model = keras.Model(inputs, layers.Dense(1)(h))
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=cox_loss)

t0 = time.time()
model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2)
print("train time: %.2f s" % (time.time() - t0))
pred = model.predict(x[:BATCH], batch_size=BATCH, verbose=0)
print("c-index: %.4f" % float(concordance(tf.constant(y[:BATCH]), tf.constant(pred))))
