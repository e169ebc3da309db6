import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(123)
SIDE, KINDS = 48, 6
rng = np.random.default_rng(123)


def grains(count):
    """Rings of different radius and thickness under noise."""
    y = rng.integers(0, KINDS, count)
    yy, xx = np.mgrid[:SIDE, :SIDE]
    centre = rng.uniform(18, 30, (count, 2, 1, 1))
    r = np.hypot(yy - centre[:, 0], xx - centre[:, 1])
    ring = np.abs(r - (4 + 2 * y[:, None, None])) < 1.5
    x = ring[..., None] * 0.8 + rng.normal(0, 0.5, (count, SIDE, SIDE, 1))
    return x.astype("float32"), y.astype("int64")


def random_lighting(batch):
    gain = np.random.uniform(0.8, 1.2, (len(batch), 1, 1, 1)).astype("float32")
    return batch * gain


def augment(batch, label):
    out = tf.numpy_function(random_lighting, [batch], tf.float32)
    out.set_shape((None, SIDE, SIDE, 1))
    return out, label


class StepWatch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.seconds.append(time.perf_counter() - self.start)

    def on_epoch_end(self, epoch, logs=None):
        print("median step %.1f ms" % (1000 * np.median(self.seconds)))


def conv_net():
    inputs = keras.Input((SIDE, SIDE, 1))
    x = inputs
    for filters in (32, 64, 96):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    return keras.Model(inputs, layers.Dense(KINDS, activation="softmax")(layers.Dropout(0.3)(x)))


x_train, y_train = grains(768)
x_val, y_val = grains(96)
train = (tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(len(x_train)).batch(64)
         .map(augment).prefetch(tf.data.AUTOTUNE))
model = conv_net()
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
with tempfile.TemporaryDirectory() as folder:
    callbacks = [
        StepWatch(),
        keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
        keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.weights.h5"), save_weights_only=True, save_best_only=True),
    ]
    t0 = time.time()
    model.fit(train, validation_data=(x_val, y_val), epochs=5, callbacks=callbacks, verbose=2)
    print("train time: %.2f s" % (time.time() - t0))
