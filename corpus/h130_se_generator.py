import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import time

import numpy as np
import keras
from keras import layers, ops
from keras.callbacks import (CSVLogger, EarlyStopping, LambdaCallback, LearningRateScheduler,
                             ModelCheckpoint, ReduceLROnPlateau, TerminateOnNaN)

keras.utils.set_random_seed(130)
rng = np.random.default_rng(130)
BATCH = 64
EPOCHS = 5
x_train = rng.integers(0, 255, (1920, 32, 32, 3), dtype=np.uint8)
y_train = rng.integers(0, 10, 1920)
x_val = rng.integers(0, 255, (128, 32, 32, 3), dtype=np.uint8)
y_val = rng.integers(0, 10, 128)


def my_generator(x, y, batch_size):
    """endless batches with flips and a bit of shift"""
    r = np.random.default_rng(3)
    while True:
        order = r.permutation(len(x))
        for i in range(0, len(x) - batch_size + 1, batch_size):
            idx = np.sort(order[i:i + batch_size])
            xb = x[idx].astype("float32") * np.float32(1 / 255.0)
            if r.random() < 0.5:
                xb = xb[:, :, ::-1]
            xb = np.roll(xb, r.integers(-2, 3), axis=1)
            yield xb, y[idx]


class SqueezeExcite(layers.Layer):
    def __init__(self, ratio=8, **kwargs):
        super().__init__(**kwargs)
        self.ratio = ratio

    def build(self, shape):
        c = shape[-1]
        self.squeeze = layers.Dense(c // self.ratio, activation="relu")
        self.excite = layers.Dense(c, activation="sigmoid")
        self.squeeze.build((shape[0], c))
        self.excite.build((shape[0], c // self.ratio))

    def call(self, x):
        s = ops.mean(x, axis=(1, 2))
        s = self.excite(self.squeeze(s))
        return x * s[:, None, None, :]


class BatchPrinter(keras.callbacks.Callback):
    def __init__(self, every=10):
        super().__init__()
        self.every = every
        self.history = []

    def on_train_batch_end(self, batch, logs=None):
        self.history.append(logs["loss"])
        if batch % self.every == 0:
            print("   batch %3d  loss %.4f" % (batch, np.mean(self.history[-self.every:])), flush=True)


def block(x, filters):
    y = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    y = layers.Conv2D(filters, 3, padding="same", activation="relu")(y)
    return SqueezeExcite()(y)


inp = keras.Input((32, 32, 3))
x = block(inp, 32)
x = layers.MaxPooling2D()(x)
x = block(x, 64)
x = layers.MaxPooling2D()(x)
x = block(x, 64)
x = layers.GlobalAveragePooling2D()(x)
model = keras.Model(inp, layers.Dense(10, activation="softmax")(x))
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy",
              metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(k=3, name="top3")])

out = tempfile.mkdtemp()
callbacks = [
    TerminateOnNaN(),
    EarlyStopping(monitor="val_loss", patience=10),
    ReduceLROnPlateau(monitor="val_loss", patience=4),
    LearningRateScheduler(lambda epoch, lr: lr * 0.95),
    ModelCheckpoint(os.path.join(out, "best.weights.h5"), save_best_only=True, save_weights_only=True),
    CSVLogger(os.path.join(out, "log.csv")),
    LambdaCallback(on_epoch_end=lambda epoch, logs: print("epoch", epoch, sorted(logs))),
    BatchPrinter(),
]
start = time.time()
model.fit(my_generator(x_train, y_train, BATCH), steps_per_epoch=len(x_train) // BATCH, epochs=EPOCHS,
          validation_data=(x_val.astype("float32") / 255, y_val), validation_batch_size=BATCH,
          callbacks=callbacks, verbose=2)
print("train time: %.2f s" % (time.time() - start))
