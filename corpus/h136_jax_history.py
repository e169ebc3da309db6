import os
os.environ["KERAS_BACKEND"] = "jax"
import json
import tempfile
import time
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(136)
rng = np.random.default_rng(136)


class BatchHistory(keras.callbacks.Callback):
    """Loss of every batch, written once at the end of an epoch."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.losses, self.accs = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        self.accs.append(float(logs["accuracy"]))
        if np.isnan(self.losses[-1]):
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        with open(self.path, "w") as f:
            json.dump({"loss": self.losses, "accuracy": self.accs}, f)


def residual_block(x, units, rate):
    h = layers.LayerNormalization()(x)
    h = layers.Dense(units, activation="gelu")(h)
    h = layers.Dropout(rate)(h)
    h = layers.Dense(x.shape[-1])(h)
    return layers.Add()([x, h])


n, d, classes = 16384, 256, 12
centers = rng.normal(size=(classes, d))
y = rng.integers(0, classes, n)
x = (0.15 * centers[y] + rng.normal(size=(n, d))).astype("float32")

inp = keras.Input((d,))
h = layers.Dense(768)(inp)
for _ in range(2):
    h = residual_block(h, 1536, 0.1)
out = layers.Dense(classes, activation="softmax")(h)
model = keras.Model(inp, out)
model.compile(optimizer=keras.optimizers.AdamW(3e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

history = BatchHistory(os.path.join(tempfile.mkdtemp(), "batches.json"))
t0 = time.time()
model.fit(x, y, batch_size=512, epochs=3, callbacks=[history], verbose=2)
t1 = time.time()
print("batches seen:", len(history.losses), "first/last loss:", history.losses[0], history.losses[-1])
print("train time: %.2f s" % (t1 - t0))
